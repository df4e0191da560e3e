"""What may be asked of Slurm, as ``--slurm partition=gpu,time=60`` or as a dict."""

from collections.abc import Mapping

from probekit.base.registry import nearest
from probekit.errors import OptionError

Values = Mapping[str, str | int]

TEXTS = (
    *("partition", "account", "qos", "mem", "mem_per_cpu", "mem_per_gpu", "gres", "constraint"),
    *("nodelist", "exclude", "exclusive", "dependency", "comment", "job_name", "mail_type"),
    *("mail_user", "wckey", "setup"),
)
NUMBERS = (
    *("time", "cpus_per_task", "cpus_per_gpu", "gpus_per_node", "gpus_per_task"),
    "signal_delay_s",
)
"""What submitit passes on to ``sbatch``, under its names; ``time`` is in minutes."""

OTHERS = {
    "array_parallelism": "--workers says how many run at once",
    "nodes": "a job is one process on one node",
    "ntasks_per_node": "a job is one process on one node",
    "num_gpus": "write gpus_per_task",
}
"""What submitit has besides, and what stands in its place."""


def parse_slurm(text: str) -> dict[str, str | int]:
    """Read ``partition=gpu,time=60``.

    A piece without ``=`` belongs to the value before it: ``exclude=node1,node2,time=60``.

    Raises:
        OptionError: it has another form, or as `check_slurm`.
    """
    found: dict[str, str | int] = {}
    name = ""
    for piece in text.split(","):
        before, equals, value = piece.partition("=")
        if not equals and name:
            found[name] = f"{found[name]},{piece}"
            continue
        name = before.strip().removeprefix("--").replace("-", "_")
        if not equals or not name:
            raise OptionError(f"--slurm {text!r}: expected NAME=VALUE, such as partition=gpu.")
        if name in found:
            raise OptionError(f"--slurm {text!r} names {name} twice.")
        found[name] = value.strip()
    return check_slurm(found)


def check_slurm(given: Values) -> dict[str, str | int]:
    """Return options with those that are whole numbers as such.

    Raises:
        OptionError: there is no such option, or its value is none that it can have.
    """
    found: dict[str, str | int] = {}
    for name, value in given.items():
        if name in OTHERS:
            raise OptionError(f"--slurm {name}: leave it out: {OTHERS[name]}.")
        if name not in (*TEXTS, *NUMBERS):
            raise OptionError(
                f"--slurm {name}: there is no such option.{nearest(name, (*TEXTS, *NUMBERS))} "
                f"Choose from: {', '.join(sorted((*TEXTS, *NUMBERS)))}. sbatch reads others from "
                "the environment, such as SBATCH_RESERVATION."
            )
        if name not in NUMBERS:
            found[name] = value
        elif str(value).isascii() and str(value).isdigit() and int(value) > 0:
            found[name] = int(value)
        else:
            minutes = " of minutes" if name == "time" else ""
            raise OptionError(
                f"--slurm {name}={value}: expected a whole number{minutes}, 1 or more."
            )
        if found[name] == "":
            raise OptionError(f"--slurm {name}= has no value.")
    return found
