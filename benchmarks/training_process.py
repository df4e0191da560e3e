"""Train a head once in a process of its own, which imports what `probekit train` imports.

Other benchmarks start it. It prints the seconds of the sweep, from opening the cache to the record,
and the highest resident memory of the process in bytes (Linux).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from machine import resident

from probekit import Location, TrainSpec, sweep
from probekit.train import member


class Outcome(NamedTuple):
    """What a training process took."""

    seconds: float
    peak: int


def train_apart(
    cache: Path,
    options: Mapping[str, Any],
    *,
    device: str,
    memory: int | None = None,
    multiple: int = member.MULTIPLE,
    environment: Mapping[str, str] | None = None,
    begin: Callable[[], None] | None = None,
) -> Outcome:
    """Train once.

    Args:
        cache: where the entries lie.
        options: of `TrainSpec`.
        device: what computes.
        memory: bytes that rows may take; half of what is free if not given.
        multiple: what the number of rows of a step is filled up to.
        environment: variables besides those of this process.
        begin: called in the new process before anything else.
    """
    command = [sys.executable, __file__, str(cache), json.dumps(options), "--device", device]
    command += ["--multiple", str(multiple)]
    command += [] if memory is None else ["--memory", str(memory)]
    done = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        preexec_fn=begin,
    )
    seconds, peak = done.stdout.split()
    return Outcome(float(seconds), int(peak))


def main() -> None:
    """Train and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("options", type=json.loads)
    parser.add_argument("--device")
    parser.add_argument("--memory", type=int)
    parser.add_argument("--multiple", type=int)
    args = parser.parse_args()
    member.MULTIPLE = args.multiple
    start = time.perf_counter()
    sweep(
        [TrainSpec(**args.options)],
        out=args.cache / f"records-{os.getpid()}.jsonl",
        location=Location(cache=args.cache),
        device=args.device,
        memory=args.memory,
    )
    print(time.perf_counter() - start, resident("VmHWM"))


if __name__ == "__main__":
    main()
