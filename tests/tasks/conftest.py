"""Fixtures for tasks from the Hub."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub_server import HubServer


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`datasets` without its progress bars, as the terminal has them."""
    import datasets

    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


@pytest.fixture
def serve(quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., HubServer]:
    """Return what serves folders as repositories, with faults: ``org__name="gated-403"``."""

    def served(repos: dict[str, Path], **faults: str) -> HubServer:
        named = {name.replace("__", "/"): fault for name, fault in faults.items()}
        server = HubServer(repos, named)
        server.redirect(monkeypatch, tmp_path / "home")
        return server

    return served
