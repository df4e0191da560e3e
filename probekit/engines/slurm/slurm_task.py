"""What one element of an array runs: a job, told of by its news, that Slurm may interrupt.

submitit is what starts it, and puts it back into the queue at the end of its time.
"""

import logging
import os
import signal
import socket
import sys
import traceback
from contextlib import closing
from dataclasses import dataclass
from logging.handlers import QueueHandler
from pathlib import Path
from types import FrameType
from typing import Any

from probekit.base.machine.hardware import usable_cores
from probekit.base.plugins import take_over
from probekit.engines.contract import Job
from probekit.engines.slurm.job_news import Begun, Ended, Interrupted, Outbox, Result
from probekit.errors import EngineError

_LIMIT = signal.SIGUSR2
"""What submitit lets Slurm send some time before a job's time is over, or it is preempted."""


@dataclass(frozen=True)
class SlurmTask:
    """Runs a job where Slurm has started it.

    Attributes:
        job: the job.
        position: its place among the others.
        news: the folder that takes what it tells.
        added: the plug-ins that were registered in the process that submits it.
        level: of the messages that it tells.
    """

    job: Job
    position: int
    news: Path
    added: bytes | None
    level: int

    def checkpoint(self) -> Any:
        """Return what submitit is to run when the job is put back: the same, which resumes."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def __call__(self) -> None:
        """Run the job and tell its results; its error is told, and raised for Slurm's books."""
        import torch

        torch.set_num_threads(allocated_cpus())
        outbox = Outbox(self.news, self.position)
        handlers = [QueueHandler(outbox), logging.StreamHandler()]  # type: ignore[arg-type]
        logging.basicConfig(level=self.level, format="%(message)s", handlers=handlers)
        logging.getLogger("submitit").propagate = False  # it has handlers of its own
        outbox.put(Begun(_name(), socket.gethostname(), int(_variable("RESTART_COUNT") or 0)))
        stops = _Stops()
        try:
            if self.added is not None:
                take_over(self.added)
            with closing(self.job(outbox.put)) as results:
                for result in results:
                    outbox.put(Result(result))
        except KeyboardInterrupt:
            outbox.put(Interrupted())
            stops.leave(outbox)
        except Exception as error:
            error.add_note(f"In job {_name()} on {socket.gethostname()}:\n{traceback.format_exc()}")
            outbox.put(Ended(_carried(error)))
            raise
        outbox.put(Ended())


class _Stops:
    """What interrupts a job: SIGTERM, and the end of its time, which puts it back as well."""

    def __init__(self) -> None:
        """Take the place of submitit's handlers, which would drop what the job has finished."""
        self._back_to_queue: Any = signal.getsignal(_LIMIT)
        self._at_limit = False
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(_LIMIT, self._note_limit)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def _note_limit(self, number: int, frame: FrameType | None) -> None:
        self._at_limit = True
        signal.raise_signal(signal.SIGTERM)  # which waits while a record is written

    def leave(self, outbox: Outbox) -> None:
        """End this process, back in the queue if its time was over."""
        from submitit.core.utils import UncompletedJobError

        if not self._at_limit:
            sys.exit(128 + signal.SIGTERM)
        try:
            self._back_to_queue(_LIMIT, None)
        except UncompletedJobError:
            error = EngineError(
                f"Slurm job {_name()} has come to the end of its time too often. What is finished "
                "is kept: run the command again with more time, such as --slurm time=240, or more "
                "--workers."
            )
            outbox.put(Ended(error))
            raise


def allocated_cpus() -> int:
    """Return how many CPUs Slurm has given to this process."""
    asked = _variable("CPUS_PER_TASK") or _variable("CPUS_ON_NODE")
    return int(asked) if asked else usable_cores()


def _variable(name: str) -> str | None:
    return os.environ.get(f"SLURM_{name}")


def _name() -> str:
    array, element = _variable("ARRAY_JOB_ID"), _variable("ARRAY_TASK_ID")
    return f"{array}_{element}" if array else _variable("JOB_ID") or "none of Slurm's"


def _carried(error: Exception) -> Exception:
    """Return an error that can be told: itself, or what it says where it cannot be pickled."""
    import cloudpickle

    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:  # whatever the class of another library does
        return EngineError(f"{type(error).__name__}: {error}")
    return error
