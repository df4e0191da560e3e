"""The contract of trackers as checks, and the door through which other people's come in."""

import tempfile
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from probekit.base.contract_checks import Check, check_class, demand, run_checks
from probekit.results.trackers.contract import Tracker, TrackerSpec


def describes_itself(tracker: type[TrackerSpec]) -> None:
    """It has a name, and a line for people."""
    demand(bool(tracker.name) and bool(tracker.summary), "its name or summary is empty")


def logs_curves_on_request(tracker: type[TrackerSpec]) -> None:
    """It is a dataclass whose options all have defaults, and curves are off."""
    demand(is_dataclass(tracker), "it is no dataclass")
    demand(tracker().curves is False, "it logs curves unless told not to")


def opens_before_any_run(tracker: type[TrackerSpec]) -> None:
    """Opened beside a records file that is not there yet, it is a `Tracker`."""
    with tempfile.TemporaryDirectory() as folder:
        opened = tracker().open(Path(folder) / "runs.jsonl")
        demand(isinstance(opened, Tracker), f"it is {type(opened).__name__}")


_UNOPENED: tuple[Check[type[TrackerSpec]], ...] = (describes_itself, logs_curves_on_request)

TRACKER_CHECKS = (*_UNOPENED, opens_before_any_run)
"""What holds for every tracker."""


def check_tracker(tracker: type[TrackerSpec]) -> None:
    """Check a tracker against its contract; it is opened, and shown no run.

    Raises:
        PluginError: it breaks the contract; the message has the promise and what it did.
    """
    run_checks("tracker", tracker, TRACKER_CHECKS)


def admit_tracker(name: str, tracker: Any, checked: bool) -> type[TrackerSpec]:
    """Return a tracker that is added, once it keeps what needs no opening.

    Whether it opens is found when it is used: what it shows runs to may not be there now.

    Raises:
        PluginError: it is none, is called otherwise, or breaks the contract.
    """
    check_class(tracker, TrackerSpec, name)
    if not checked:
        run_checks("tracker", tracker, _UNOPENED)
    return tracker
