"""The Slurm engine: what is asked of it, and a run from the folder of its files to their end."""

import logging
import secrets
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from probekit.base.plugins import carried
from probekit.engines.contract import Job, Report
from probekit.engines.slurm.array_run import ArrayRun
from probekit.engines.slurm.job_news import Inbox
from probekit.engines.slurm.slurm_options import check_slurm, parse_slurm
from probekit.engines.slurm.slurm_task import SlurmTask
from probekit.engines.slurm.submission import Submission, check_submitting
from probekit.errors import OptionError, StorageError

logger = logging.getLogger(__name__)

FILES = ".slurm"
"""The folder, beside what jobs write, of the files of all runs."""


@dataclass(frozen=True, kw_only=True)
class SlurmEngine:
    """Runs jobs as an array of Slurm's, ``workers`` of them at once.

    Jobs go on when this process is killed. What a preemption, a time limit or a node's end has
    killed runs again.

    Attributes:
        parameters: of each job, by the names of submitit: ``{"partition": "gpu", "time": 60}``;
            see `slurm_options`. A job has an hour, unless ``time`` gives it other minutes.
        gpus_per_worker: GPUs of each job, a whole number.
        most: how often a job is submitted again, or put back into the queue at the end of its time.
            How often Slurm puts back what it has preempted is its own business.
        folder: what jobs write into; None is the folder that this process is in.
        afterwards: runs when all jobs have ended and this process is gone by then.

    Raises:
        OptionError: an option is none of Slurm's, or cannot be used.
    """

    parameters: Mapping[str, str | int] = field(default_factory=dict)
    gpus_per_worker: float | None = None
    most: int = 3
    folder: Path | None = None
    afterwards: Job | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        check_slurm(self.parameters)
        gpus = self.gpus_per_worker
        if gpus is None:
            return
        if gpus != int(gpus) or gpus < 0:
            raise OptionError(
                f"--gpus-per-worker {gpus:g}: Slurm gives whole GPUs. Write 1 or more, or leave it "
                "out."
            )
        if "gpus_per_task" in self.parameters:
            raise OptionError("--gpus-per-worker and --slurm gpus_per_task say the same: give one.")

    @classmethod
    def asked(cls, text: str | None, gpus_per_worker: float | None = None) -> "SlurmEngine":
        """Return the engine of ``--slurm partition=gpu,time=60``; errors are those of the class."""
        parameters = {} if text is None else parse_slurm(text)
        return cls(parameters=parameters, gpus_per_worker=gpus_per_worker)

    def ready_for(self, folder: Path, afterwards: Job | None = None) -> "SlurmEngine":
        """Return this engine for jobs that write into a folder: see `RemoteEngine`.

        Raises:
            OptionError: nothing can be submitted from here.
        """
        check_submitting()
        return replace(self, folder=folder, afterwards=afterwards)

    def __call__(
        self, jobs: Sequence[Job], *, workers: int, report: Report
    ) -> Generator[tuple[int, Any], None, None]:
        """Run jobs (see ``Engine``), and leave no file of Slurm's if all is well.

        Raises:
            OptionError: ``workers`` is less than one, or nothing can be submitted, or Slurm refuses
                the jobs.
            StorageError: the folder of their files cannot be made.
            EngineError: a job died of itself, was cancelled, or was killed too often.
        """
        if workers < 1:
            raise OptionError(f"--workers must be at least 1; found {workers}.")
        check_submitting()
        if not jobs:
            return
        folder = self._new_folder()
        run = self._run(jobs, workers, folder)
        try:
            run.start()
        except BaseException:
            run.cancel()
            _remove(folder)
            raise
        try:
            yield from run.follow(report)
        except KeyboardInterrupt:
            yield from run.hand_over(report)
            _remove(folder)
            raise
        except BaseException:  # a job has failed, or nobody wants the others any more
            run.cancel()
            logger.info("what jobs of Slurm's wrote is kept in %s", folder)
            raise
        if run.end():
            _remove(folder)

    def _run(self, jobs: Sequence[Job], workers: int, folder: Path) -> ArrayRun:
        news, last = folder / "news", folder / "afterwards"
        news.mkdir()
        last.mkdir()
        added, level = carried(), logging.getLogger("probekit").getEffectiveLevel()
        parameters = check_slurm(self.parameters)
        if self.gpus_per_worker:
            parameters["gpus_per_task"] = int(self.gpus_per_worker)
        closing = self.afterwards
        return ArrayRun(
            submission=Submission(folder, parameters, self.most),
            tasks=[SlurmTask(job, place, news, added, level) for place, job in enumerate(jobs)],
            workers=workers,
            afterwards=None if closing is None else SlurmTask(closing, 0, last, added, level),
            most=self.most,
            inbox=Inbox(news),
        )

    def _new_folder(self) -> Path:
        """Make the folder for the files of one run; only its owner may read what is in it."""
        name = f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        folder = (self.folder or Path()).resolve() / FILES / name
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise StorageError(
                f"{folder}: cannot be made ({error.strerror or error}); the engine keeps the files "
                "of its jobs there."
            ) from error
        return folder


def _remove(folder: Path) -> None:
    """Remove the files of a run, and the folder of all runs if it was the only one."""
    shutil.rmtree(folder, ignore_errors=True)  # a log that is still open may come back
    with suppress(OSError):  # there are others
        folder.parent.rmdir()
