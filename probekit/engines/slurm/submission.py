"""Jobs on their way to Slurm: submitit writes their files into a folder, and calls ``sbatch``."""

import io
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from probekit.engines.slurm.slurm_task import SlurmTask
from probekit.errors import OptionError, install_extra

MINUTES = 60
"""Time limit of a job, unless it is given."""


@dataclass(frozen=True)
class Submission:
    """How jobs are submitted.

    Attributes:
        folder: what takes their files; on a path that nodes see as well.
        parameters: of the jobs, as submitit calls them.
        returns: how often submitit puts a job back whose time is over.
    """

    folder: Path
    parameters: Mapping[str, Any]
    returns: int

    def submit(
        self, tasks: Sequence[SlurmTask], *, at_once: int = 1, after: Sequence[str] = ()
    ) -> list[str]:
        """Submit tasks as one array, and return what Slurm calls each.

        Args:
            tasks: what to run.
            at_once: how many of them may run at once.
            after: jobs that must have ended before, in whatever way.

        Raises:
            OptionError: Slurm refuses them.
        """
        from submitit import SlurmExecutor
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        asked = {
            "job_name": "probekit",
            "time": MINUTES,
            **self.parameters,
            "nodes": 1,
            "ntasks_per_node": 1,
            "array_parallelism": at_once,
            "additional_parameters": {"requeue": True},
        }
        if "setup" in asked:
            asked["setup"] = [asked["setup"]]
        if "cpus_per_task" in asked:  # srun does not take it from the job any more
            asked["srun_args"] = [f"--cpus-per-task={asked['cpus_per_task']}"]
        if after:
            asked["dependency"] = f"afterany:{':'.join(after)}"
        executor = SlurmExecutor(self.folder, max_num_timeout=self.returns)
        try:
            # submitit prints what it raises as well
            with _outside_of_jobs(), redirect_stderr(io.StringIO()):
                executor.update_parameters(**asked)
                return [job.job_id for job in executor.submit_array(tasks)]
        except (FailedJobError, FailedSubmissionError) as error:
            raise OptionError(f"Slurm does not take the jobs: {_said(error)}") from error


def check_submitting() -> None:
    """Refuse to go on where nothing can be submitted.

    Raises:
        OptionError: submitit is not installed, or Slurm's commands are not here.
    """
    if find_spec("submitit") is None:
        raise OptionError(
            f"--engine slurm: the package submitit is not installed. {install_extra('slurm')}"
        )
    if lacking := [name for name in ("sbatch", "srun", "squeue") if shutil.which(name) is None]:
        raise OptionError(
            f"--engine slurm: there is no {lacking[0]} here. Run this on a machine of the cluster "
            "from which jobs are submitted."
        )


@contextmanager
def _outside_of_jobs() -> Iterator[None]:
    """Hide what a job that submits others would hand down to them, but not where Slurm is."""
    from submitit.helpers import clean_env, environment_variables

    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "SLURM_CONF" or name.startswith("SBATCH_")
    }
    with clean_env(), environment_variables(**kept):
        yield


def _said(error: Exception) -> str:
    """Return what ``sbatch`` said, in one line."""
    text = " ".join(str(error).replace("sbatch: error:", "").split())
    return text if text.endswith(".") else f"{text}."
