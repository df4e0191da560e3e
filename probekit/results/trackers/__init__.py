"""Trackers: finished runs shown by a program of its own, beside the records file.

To add a tracker, write one file with a `TrackerSpec` and its `Tracker`, and one line in
``TRACKERS``.
"""

from probekit.results.trackers.contract import Tracker, TrackerSpec
from probekit.results.trackers.tensorboard_runs import TensorBoard
from probekit.results.trackers.wandb_runs import WandB

TRACKERS: dict[str, type[TrackerSpec]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
}

__all__ = ["TRACKERS", "Tracker", "TrackerSpec"]
