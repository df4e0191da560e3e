"""Trackers: finished runs shown by a program of its own; the records file is whole without it.

To add a tracker to probekit, write one file with a `TrackerSpec` and its `Tracker`, and one line
in ``_OWN``.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from probekit.base.plugins import Registry
from probekit.base.registry import parse
from probekit.errors import reason_of
from probekit.results.record import Record
from probekit.results.summaries.scored import followed
from probekit.results.trackers.contract import Tracker, TrackerSpec, Value
from probekit.results.trackers.tensorboard_runs import TensorBoard
from probekit.results.trackers.wandb_runs import WandB

logger = logging.getLogger(__name__)

_OWN: Mapping[str, type[TrackerSpec]] = {"tensorboard": TensorBoard, "wandb": WandB}

TRACKERS = Registry("tracker", _OWN, admit="probekit.testing.other_checks:UNOPENED.admit")


def register_tracker(name: str, tracker: type[TrackerSpec], *, version: str | None = None) -> None:
    """Add a tracker of your own, for this process.

    Args:
        name: as ``--track`` takes it.
        tracker: a `TrackerSpec` of this name.
        version: what tells it from an earlier one; None is its source. No record keeps it.

    Raises:
        PluginError: the name is taken, or it breaks its contract.
    """
    TRACKERS.register(name, tracker, version=version)


_OPTIONS = (
    *("model", "task", "label", "head", "decoder", "depth", "normalize", "pooling", "init"),
    *("freeze", "protocol", "shots", "fraction", "seed", "fitter", "select", "l2", "epochs"),
    *("evals", "lr", "batch_size", "optimizer", "entry", "key"),
)


@dataclass
class Tracking:
    """A tracker that is told of finished runs, until it fails.

    Attributes:
        tracker: it; None once it has failed.
        name: as the user typed it.
        curves: whether it is shown learning curves.
    """

    tracker: Tracker | None
    name: str
    curves: bool

    @classmethod
    def of(cls, text: str, out: Path) -> Self:
        """Open a tracker, before anything is trained.

        Args:
            text: its name, with options: ``tensorboard:curves=true``.
            out: the records file.

        Raises:
            UnknownNameError: there is no such tracker.
            OptionError: an option that it does not have; or it cannot be used, and why.
            StorageError: its folder cannot be written.
        """
        spec = parse("tracker", text, TRACKERS)
        return cls(spec.open(out), text, spec.curves)

    def follow(self, record: Record, name: str) -> None:
        """Show a run that is recorded, unless it serves another one, as trials do.

        Args:
            record: the run.
            name: what tells it from others of its sweep.
        """
        serves = record.trial or record.left_out is not None
        if self.tracker is None or serves:
            return
        try:
            last = int(record.curve[-1][0]) if record.curve else 0
            self.tracker.start(name, record, options_of_run(record))
            scored = f"curve/{followed(record)} {record.metric}"
            for step, loss, score in record.curve if self.curves else ():
                # names of their own: trackers take the last point of a name for its summary, where
                # the score of a run is that of its best step
                self.tracker.log({"curve/train loss": loss, scored: score}, int(step))
            self.tracker.log(scores_of(record), last)
            self.tracker.finish(scores_of(record))
        except Exception as error:  # whatever a tracker raises, the run must not be lost
            self.tracker = None
            logger.warning(
                "--track %s failed (%s): this run and those after it are not tracked; all are "
                "recorded.",
                self.name,
                reason_of(error),
            )


def scores_of(record: Record) -> dict[str, float]:
    """Return all scores of a run, by split and metric, as ``dev/f1``."""
    test = {} if record.test_score is None else {f"test/{record.metric}": record.test_score}
    return {**record.scores, f"dev/{record.metric}": record.eval_score, **test}


def options_of_run(record: Record) -> dict[str, Value]:
    """Return the options of a run that are set, each as one value."""
    options = {name: getattr(record, name) for name in _OPTIONS}
    options |= {"layers": ",".join(map(str, record.layers)), **record.options}
    options |= {f"rate.{group}": rate for group, rate in record.rates.items()}
    plain = (str, int, float, bool)
    return {
        name: value if isinstance(value, plain) else str(value)
        for name, value in options.items()
        if value is not None
    }


__all__ = [
    "TRACKERS",
    "Tracker",
    "TrackerSpec",
    "Tracking",
    "options_of_run",
    "register_tracker",
    "scores_of",
]
