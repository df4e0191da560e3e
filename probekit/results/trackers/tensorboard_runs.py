"""TensorBoard: one folder of event files per run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from probekit.results.record import Record
from probekit.results.trackers.contract import Tracker, TrackerSpec, Value, prepare

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


@dataclass(frozen=True, kw_only=True)
class TensorBoard(TrackerSpec):
    """Scalars of each run, and its options with the scores as hyper-parameters.

    Attributes:
        folder: of all runs; ``<records file>-tensorboard`` if None.
    """

    folder: str | None = None

    name: ClassVar[str] = "tensorboard"
    summary: ClassVar[str] = "event files, one folder a run: tensorboard --logdir FOLDER"

    def open(self, out: Path) -> "TensorBoardRuns":
        """Create the folder.

        Raises:
            OptionError: the package tensorboard is missing.
            StorageError: the folder cannot be written.
        """
        folder = out.with_name(f"{out.stem}-tensorboard") if self.folder is None else self.folder
        return TensorBoardRuns(prepare(self.name, Path(folder)))


class TensorBoardRuns(Tracker):
    """Tracker of `TensorBoard`."""

    def __init__(self, folder: Path) -> None:
        """Keep the folder of all runs."""
        self._folder = folder
        self._writer: SummaryWriter | None = None
        self._options: dict[str, Value] = {}

    def start(self, name: str, record: Record, options: Mapping[str, Value]) -> None:
        """Open the event file of a run; that of an earlier try stays beside it."""
        from torch.utils.tensorboard import SummaryWriter

        plain = re.sub(r"[^A-Za-z0-9.=+-]+", "-", name).strip("-")
        self._writer = SummaryWriter(str(self._folder / f"{plain}-{record.key[:8]}"))
        self._options = dict(options)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write scalars."""
        assert self._writer is not None
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def finish(self, scores: Mapping[str, float]) -> None:
        """Write options and scores as a row of the table of hyper-parameters; close the file."""
        assert self._writer is not None
        self._writer.add_hparams(self._options, dict(scores), run_name=".")
        self._writer.close()
        self._writer = None
