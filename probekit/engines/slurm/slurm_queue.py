"""Slurm's queue: in which state jobs are, and how they are taken out of it."""

import logging
import subprocess
from collections.abc import Collection
from typing import NamedTuple

from probekit.base.notices import warn_once

logger = logging.getLogger(__name__)

LIVE = frozenset(
    {
        *("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING"),
        *("REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESIZING", "STAGE_OUT"),
        "RESV_DEL_HOLD",
    }
)
"""States of jobs that wait, run, or are to run again."""


class Standing(NamedTuple):
    """Where a job stands, in the words of ``squeue``: its state, and why it waits."""

    state: str
    reason: str = ""


GONE = Standing("GONE")
"""Where a job stands that Slurm does not remember."""

_UNKNOWN = "Invalid job id"
"""What Slurm says of a job that it does not remember."""

_SECONDS = 60.0
"""How long one of Slurm's commands may take."""


def job_standings(arrays: Collection[str]) -> dict[str, Standing] | None:
    """Return where every job stands that Slurm remembers of some arrays.

    Args:
        arrays: their numbers, or that of a job which is none.

    Returns:
        Standings by the job, an element of an array as ``12_3``; None where Slurm does not answer.
    """
    if not arrays:
        return {}
    command = [
        *("squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r"),
        f"--jobs={','.join(arrays)}",
    ]
    found = _run(command)
    if found is None or (found.returncode and _UNKNOWN not in found.stderr):
        why = "" if found is None else f" ({found.stderr.strip():.200})"
        warn_once(logger, "squeue does not answer%s: waiting for it", why)
        return None
    lines = (line.strip().split("|", 2) for line in found.stdout.splitlines())
    return {job: Standing(state, reason) for job, state, reason in lines}


def cancel_jobs(jobs: Collection[str]) -> None:
    """Take jobs out of the queue; those that run are asked to stop, and killed a while later."""
    if not jobs:
        return
    found = _run(["scancel", *jobs])
    if found is None or (found.returncode and _UNKNOWN not in found.stderr):
        why = "it does not answer" if found is None else found.stderr.strip()
        logger.warning("scancel failed (%s). Cancel them: scancel %s", why, " ".join(jobs))


def _run(command: list[str]) -> subprocess.CompletedProcess[str] | None:
    # of a group of its own, or Ctrl-C would end it too
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, start_new_session=True
        )
    except subprocess.TimeoutExpired:
        return None
