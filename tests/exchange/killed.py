"""A process that pulls or pushes slowly, to be killed."""

import tempfile
import time
from pathlib import Path

from probekit.exchange import remotes
from tests.exchange.conftest import pull, push

SECONDS = 0.005  # before each file or chunk


def pull_slowly(url: Path, cache: Path, scratch: Path) -> None:
    tempfile.tempdir = str(scratch)
    read = remotes.Folder.read

    def slow(self: remotes.Folder, *span: object) -> bytes:
        time.sleep(SECONDS)
        return read(self, *span)

    remotes.Folder.read = slow
    pull(url, cache)


def push_slowly(entry: object, url: Path) -> None:
    write = remotes.Folder.write

    def slow(self: remotes.Folder, *file: object) -> None:
        time.sleep(SECONDS)
        write(self, *file)

    remotes.Folder.write, remotes._REQUESTS = slow, 1
    push(entry, url)
