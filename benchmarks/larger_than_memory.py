"""Claim 13: training on an entry four times larger than memory against the same in memory.

mpnet-base on CoNLL-2003 train. Each run is a process of its own that trains three epochs of p32 or
one of dwatt, whose steps take long; the limited one is put into a control group of Linux (root is
needed) that allows it a quarter of the entry, page cache included and without swap, and finds the
entry dropped from the page cache. The other one may hold all rows in memory, and finds them in the
page cache.

    python benchmarks/larger_than_memory.py --models MODELS --data DATA
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measure import Claim, alternate, report
from subjects import MPNET, data_path, model_path, parser, work_folder

from probekit import Location, TrainSpec, extract, sweep

HEADS: Mapping[str, Mapping[str, Any]] = {
    "p32": {"lr": 2e-3, "epochs": 3},
    "dwatt": {"lr": 1e-3, "epochs": 1},
}
TIMES, AIM = 4, 0.6
PLENTY = 3
"""Times the entry's size that the free side may use, for the rows of both splits."""

BLOCK = 2**23
"""Bytes that are read at a time."""

GROUPS = Path("/sys/fs/cgroup")


def main() -> None:
    """Measure and report, or be the process that trains."""
    options = parser(__doc__)
    options.add_argument("--train", choices=HEADS, help=argparse.SUPPRESS)
    options.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.train is not None:
        train(args)
        return
    with work_folder(args) as folder:
        report(measure(args, folder), args)


def train(args: argparse.Namespace) -> None:
    """Train and print the seconds, reading included."""
    spec = TrainSpec(model=MPNET, task="conll", head=args.train, evals=1, **HEADS[args.train])
    start = time.perf_counter()
    sweep(
        [spec],
        out=args.work / f"{args.train}-{os.getpid()}.jsonl",
        location=Location(cache=args.work / "cache"),
        device=args.device,
        memory=args.memory,
    )
    print(time.perf_counter() - start)


def measure(args: argparse.Namespace, folder: Path) -> list[Claim]:
    """Return a claim per head."""
    entries = extract(
        model_path(args, MPNET),
        "conll",
        data=data_path(args, "conll2003"),
        splits=["train", "dev"],
        device=args.device,
        cache=folder / "cache",
    )
    words = next(spec for spec in entries[0].manifest.arrays if spec.name == "words")
    limit = words.nbytes // TIMES

    def run(head: str, group: Path | None) -> Callable[[], float]:
        def side() -> float:
            if group is None:
                read(folder)
                return trained(args, folder, head, memory=PLENTY * words.nbytes)
            drop(folder)
            return trained(args, folder, head, group=group)

        return side

    def from_disk() -> float:
        drop(folder)
        start = time.perf_counter()
        read(folder)
        return time.perf_counter() - start

    claims = []
    with memory_group(limit) as group:
        for head, training in HEADS.items():
            sides = {"limited": run(head, group), "free": run(head, None), "disk": from_disk}
            timings = alternate(sides, args.rounds)
            ratio = timings.ratio("free", "limited")
            claims.append(
                Claim(
                    number=13,
                    title=f"{head} in a quarter of the entry's size against all of it in memory, "
                    f"{training['epochs']} epoch{'s' * (training['epochs'] > 1)}",
                    aim=f"finishes; >= {AIM} x the speed",
                    found=f"finishes; {ratio} x",
                    reached=ratio.median >= AIM,
                    details=f"entry {words.nbytes / 2**30:.2f} GiB, memory "
                    f"{limit / 2**30:.2f} GiB; {timings.median('limited'):.1f} s against "
                    f"{timings.median('free'):.1f} s; to read all files once from the disk takes "
                    f"{timings.median('disk'):.1f} s",
                )
            )
    return claims


def trained(
    args: argparse.Namespace,
    folder: Path,
    head: str,
    *,
    group: Path | None = None,
    memory: int | None = None,
) -> float:
    """Return the seconds of training in a process of its own.

    Args:
        args: the options.
        folder: of the entry.
        head: what to train.
        group: the control group to train in.
        memory: bytes that training may use; half of what is free if not given.
    """
    command = [sys.executable, __file__, "--train", head, "--work", str(folder)]
    command += [] if memory is None else ["--memory", str(memory)]

    def enter() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    done = subprocess.run(
        [*command, "--device", args.device],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=enter,
    )
    return float(done.stdout)


def drop(folder: Path) -> None:
    """Drop all files of a folder from the page cache."""
    for file in files(folder):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(folder: Path) -> None:
    """Read all files of a folder, which are in the page cache then."""
    for file in files(folder):
        with file.open("rb", buffering=0) as opened:
            while opened.read(BLOCK):
                pass


def files(folder: Path) -> list[Path]:
    """Return all files of a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


@contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """Make a control group with a memory limit, version 1 or 2 of the kernel's interface."""
    first = (GROUPS / "memory").is_dir()
    group = GROUPS / ("memory" if first else "") / f"probekit-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        sys.exit(f"cannot make a control group ({error}); this benchmark needs root on Linux.")
    try:
        name = "memory.limit_in_bytes" if first else "memory.max"
        (group / name).write_text(str(limit))
        (group / ("memory.swappiness" if first else "memory.swap.max")).write_text("0")
        yield group
    finally:
        group.rmdir()


if __name__ == "__main__":
    main()
