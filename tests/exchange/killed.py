"""A process that pulls or pushes slowly, to be killed."""

import time
from pathlib import Path

from probekit.exchange import url_places
from tests.exchange.conftest import pull, push

SECONDS = 0.005  # before each file or chunk


def pull_slowly(url: Path, cache: Path) -> None:
    read = url_places.Folder.read

    def slow(self: url_places.Folder, *span: object) -> bytes:
        time.sleep(SECONDS)
        return read(self, *span)

    url_places.Folder.read = slow
    pull(url, cache)


def push_slowly(entry: object, url: Path) -> None:
    write = url_places.Folder.write

    def slow(self: url_places.Folder, *file: object) -> None:
        time.sleep(SECONDS)
        write(self, *file)

    url_places.Folder.write, url_places._REQUESTS = slow, 1
    push(entry, url)
