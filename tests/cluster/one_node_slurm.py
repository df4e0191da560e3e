"""Slurm for real on this machine: one node of two CPUs, all of its files in one folder."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")

_CONFIG = """
ClusterName=one-node
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobRequeue=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
KillWait=10
MinJobAge=300
SchedulerParameters=sched_min_interval=200000,bf_interval=1
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=gpu Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes={host} MaxTime=INFINITE State=UP PriorityTier=10
"""

_SECONDS = 60.0
"""How long the cluster may take to answer."""


def why_not() -> str:
    """Return why there can be no cluster here; nothing where there can be one."""
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"Slurm is not installed: there is no {missing[0]}"
    return "" if os.geteuid() == 0 else "only root can start Slurm's node"


@contextmanager
def one_node_slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Run a cluster while the context is open.

    Args:
        folder: an empty folder, on a path that is short enough for a socket.

    Yields:
        The environment variables by which Slurm's commands find it.
    """
    folder.chmod(0o755)  # munge wants its socket to be reachable for all
    for name in ("state", "spool"):
        (folder / name).mkdir()
    controller_port, node_port = _free_ports(2)
    host = socket.gethostname().partition(".")[0]
    config = folder / "slurm.conf"
    config.write_text(
        _CONFIG.format(
            host=host, folder=folder, controller_port=controller_port, node_port=node_port
        )
    )
    found = {"SLURM_CONF": str(config)}
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    munge = [
        *("munged", "--foreground", "--force", f"--key-file={key}"),
        *(f"--socket={folder}/munge.socket", f"--pid-file={folder}/munge.pid"),
        *(f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munge.log"),
    ]
    with ExitStack() as stack:
        stack.enter_context(_daemon(munge, folder / "munged.out", found))
        _until((folder / "munge.socket").exists, "munged", folder)
        stack.enter_context(_daemon(["slurmctld", "-D", "-i"], folder / "slurmctld.out", found))
        stack.enter_context(_daemon(["slurmd", "-D", "-N", host], folder / "slurmd.out", found))
        _until(lambda: _answers(found), "srun", folder)
        yield found


def _answers(variables: dict[str, str]) -> bool:
    asked = subprocess.run(
        ["sinfo", "--noheader", "--format=%t"], env=os.environ | variables, capture_output=True,
        text=True,
    )  # fmt: skip
    return asked.stdout.strip() == "idle"


@contextmanager
def _daemon(command: Sequence[str], out: Path, variables: dict[str, str]) -> Iterator[None]:
    with out.open("w") as file:
        process = subprocess.Popen(
            command, env=os.environ | variables, stdout=file, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _until(condition: Callable[[], bool], what: str, folder: Path) -> None:
    end = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > end:
            logs = "\n".join(
                f"{path.name}:\n{path.read_text()[-2000:]}"
                for path in sorted(folder.glob("*.log")) + sorted(folder.glob("*.out"))
            )
            raise RuntimeError(f"{what} does not answer after {_SECONDS:.0f} s\n{logs}")
        time.sleep(0.1)
