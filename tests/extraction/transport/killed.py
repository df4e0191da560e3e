"""A process that pulls or pushes in small files, to be killed."""

import warnings
from pathlib import Path

import pytest

from probekit.extraction.transport import Pull, Push, transport_form
from tests.extraction.transport.conftest import REPO
from tests.hub_clients import redirect


def pull(url: str, home: Path, cache: Path) -> None:
    redirect(pytest.MonkeyPatch(), url, home)
    Pull.of(REPO, cache).apply()


def push(url: str, home: Path, entry: Path) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)
    redirect(pytest.MonkeyPatch(), url, home)
    transport_form.FILE_BYTES = 1
    Push.of([entry], REPO).apply()
