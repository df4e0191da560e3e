"""What every tracker promises: to say before training whether it can, then three calls a run."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from probekit.base.installation import install_extra
from probekit.base.replacing import workshop
from probekit.errors import OptionError, StorageError
from probekit.results.record import Record

Value = str | int | float | bool
"""An option of a run, as trackers show it."""


class Tracker(ABC):
    """Shows one run after another: `start`, then `log`, then `finish`."""

    @abstractmethod
    def start(self, name: str, record: Record, options: Mapping[str, Value]) -> None:
        """Begin a run.

        Args:
            name: what tells it from others of its sweep.
            record: the run; its key is the same whenever it is trained again.
            options: its options, by name.
        """

    @abstractmethod
    def log(self, values: Mapping[str, float], step: int) -> None:
        """Show numbers of the run.

        Args:
            values: by name, such as ``dev/f1``.
            step: of the training; 0 of a run that was solved.
        """

    @abstractmethod
    def finish(self, scores: Mapping[str, float]) -> None:
        """End the run.

        Args:
            scores: its summary: all of its scores.
        """


@dataclass(frozen=True, kw_only=True)
class TrackerSpec(ABC):
    """A tracker's name and options: a value that opens it.

    Attributes:
        curves: whether the learning curve of a run is logged as well, not its scores alone.
        name: key in ``TRACKERS``.
        summary: one line for people.
    """

    curves: bool = False

    name: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def open(self, out: Path) -> Tracker:
        """Return the tracker, ready for the first run.

        Args:
            out: the records file, beside which files lie by default.

        Raises:
            OptionError: its package is missing, or it cannot be used; and what to do.
            StorageError: its folder cannot be written.
        """


def prepare(name: str, folder: Path) -> Path:
    """Check that a tracker's package is installed, and create its folder.

    Raises:
        OptionError: the package is missing.
        StorageError: files cannot be written in the folder.
    """
    if find_spec(name) is None:
        raise OptionError(
            f"--track {name}: the package {name} is not installed. {install_extra(name)}"
        )
    try:
        with workshop(folder):
            return folder
    except OSError as error:
        raise StorageError(
            f"--track {name}: {folder} cannot be written ({error.strerror or error}). Choose "
            f"another: --track {name}:folder=DIR."
        ) from error
