"""Trackers: finished runs shown by a program of its own, beside the records file.

To add a tracker to probekit, write one file with a `TrackerSpec` and its `Tracker`, and one line
in ``_OWN``.
"""

from collections.abc import Mapping

from probekit.base.plugins import Registry
from probekit.results.trackers.contract import Tracker, TrackerSpec
from probekit.results.trackers.tensorboard_runs import TensorBoard
from probekit.results.trackers.wandb_runs import WandB

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


__all__ = ["TRACKERS", "Tracker", "TrackerSpec", "register_tracker"]
