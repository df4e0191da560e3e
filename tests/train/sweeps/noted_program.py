"""``probekit`` as a process that notes which runs it trains, and may be killed at one of them.

Arguments: a file for the keys of the runs; at which group to die (0: never); the bytes that a
sweep may use; then the words of a command.
"""

import os
import signal
import sys

from probekit.cli import main
from probekit.train.sweeps import run, worker

_, notes, last, memory, *words = sys.argv
fit, groups = worker.fit_runs, []


def noted(runs, *given, **options):
    """Note the runs before they are trained."""
    groups.append(runs)
    with open(notes, "a") as file:
        file.writelines(f"{run.options.key}\n" for run in runs)
    if len(groups) == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
    return fit(runs, *given, **options)


worker.fit_runs = noted
run.default_memory = lambda device: int(memory)
sys.argv = ["probekit", *words]
main()
