"""Fixtures for tasks from the Hub."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`datasets` without its progress bars, as the terminal has them."""
    import datasets

    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()
