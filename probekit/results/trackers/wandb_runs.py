"""Weights & Biases: one run there per run here, under the same key."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from probekit.errors import OptionError, reason_of
from probekit.results.record import Record
from probekit.results.trackers.contract import Tracker, TrackerSpec, Value, prepare

_ID_DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class WandB(TrackerSpec):
    """Summary, options and (on request) the curve of each run; a run trained again goes on.

    Attributes:
        project: where runs go.
        mode: ``offline`` writes files for ``wandb sync``; None is what ``WANDB_MODE`` says, else
            online.
        folder: of the local files; that of the records file if None.
    """

    project: str = "probekit"
    mode: Literal["online", "offline"] | None = None
    folder: str | None = None

    name: ClassVar[str] = "wandb"
    summary: ClassVar[str] = "Weights & Biases, online or offline"

    def open(self, out: Path) -> "WandBRuns":
        """Log in, where runs go online.

        Raises:
            OptionError: the package wandb is missing, or nobody is logged in.
            StorageError: the folder cannot be written.
        """
        mode = self.mode or os.environ.get("WANDB_MODE") or "online"
        folder = prepare(self.name, out.parent if self.folder is None else Path(self.folder))
        if mode == "online":
            import wandb

            try:
                logged_in = wandb.login()
            except Exception as error:  # its own classes change from version to version
                raise OptionError(f"--track wandb: {reason_of(error)}. {_REMEDY}") from error
            if not logged_in:
                raise OptionError(f"--track wandb: you are not logged in. {_REMEDY}")
        return WandBRuns(self.project, mode, folder)


_REMEDY = "Run `wandb login` first, or keep the runs here: --track wandb:mode=offline."


class WandBRuns(Tracker):
    """Tracker of `WandB`."""

    def __init__(self, project: str, mode: str, folder: Path) -> None:
        """Keep where runs go."""
        self._project, self._folder = project, folder
        self._mode: Any = mode  # wandb itself says what it does not know
        self._run: Any = None

    def start(self, name: str, record: Record, options: Mapping[str, Value]) -> None:
        """Begin a run, under the record's key."""
        import wandb

        self._run = wandb.init(
            project=self._project,
            name=name,
            group=f"{record.model} {record.task}",
            id=record.key[:_ID_DIGITS],
            config=dict(options),
            mode=self._mode,
            dir=str(self._folder),
            resume="allow" if self._mode == "online" else None,
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off"),
        )

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add a point of the run's history."""
        self._run.log(dict(values), step=step)

    def finish(self, scores: Mapping[str, float]) -> None:
        """Write the summary, and wait until all is sent or written."""
        self._run.summary.update(dict(scores))
        self._run.finish()
        self._run = None
