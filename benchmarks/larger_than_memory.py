"""Claims 13 and 41: training on an entry four times larger than memory against the same in memory.

Each run is a process of its own. Over words (13) of mpnet-base on CoNLL-2003 train it trains three
epochs of p32, or one of dwatt, whose steps take long. Over tokens (41) of minilm-l6 on 50,000
sentences of SST-2, which lie in many small pieces, it trains one epoch of an attention. The limited
one is put into a control group of Linux (root is needed) that allows it a quarter of the entry,
page cache included and without swap, and finds the entry dropped from the page cache. The other one
may hold all rows in memory, and finds them in the page cache.

    python benchmarks/larger_than_memory.py --models MODELS --data DATA [--of tokens]
"""

import argparse
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measure import Claim, alternate, report
from subjects import MINILM, MPNET, data_path, extract_conll, model_path, parser, work_folder
from training_process import train_apart

from probekit import ExtractOptions, extract
from probekit.store.layout import ArraySpec

HEADS: Mapping[str, Mapping[str, Any]] = {
    "p32": {"lr": 2e-3, "epochs": 3},
    "dwatt": {"lr": 1e-3, "epochs": 1},
}
TOKENS = {"head": "mean", "token_head": "attention", "lr": 1e-2, "epochs": 1}
N_TEXTS = 50_000
TIMES, AIM = 4, 0.6
PLENTY = 3
"""Times the entry's size that the free side may use, for the rows of both splits."""

BLOCK = 2**23
"""Bytes that are read at a time."""

GROUPS = Path("/sys/fs/cgroup")
SPLITS = ["train", "dev"]


def main() -> None:
    """Measure and report."""
    options = parser(__doc__)
    options.add_argument("--of", choices=list(MEASURED), help="one kind of rows (default: both)")
    args = options.parse_args()
    with work_folder(args) as folder:
        kinds = [args.of] if args.of else list(MEASURED)
        report([claim for kind in kinds for claim in MEASURED[kind](args, folder / kind)], args)


def over_words(args: argparse.Namespace, cache: Path) -> list[Claim]:
    """Measure heads over words."""
    entries = extract_conll(args, cache, MPNET, splits=SPLITS)
    heads = {head: {"model": MPNET, "task": "conll", "head": head, **HEADS[head]} for head in HEADS}
    return measure(args, cache, entries[0].manifest.array("words"), heads, 13)


def over_tokens(args: argparse.Namespace, cache: Path) -> list[Claim]:
    """Measure a token head over the tokens of texts."""
    entries = extract(
        model_path(args, MINILM), "glue/sst2", data=data_path(args, "glue/SST-2"), cache=cache,
        splits=SPLITS, device=args.device,
        options=ExtractOptions(keep=("tokens",), layers="0:", limit=N_TEXTS),
    )  # fmt: skip
    heads = {"attention over tokens": {"model": MINILM, "task": "glue/sst2", **TOKENS}}
    return measure(args, cache, entries[0].manifest.array("tokens"), heads, 41)


def measure(
    args: argparse.Namespace,
    cache: Path,
    rows: ArraySpec,
    heads: Mapping[str, Mapping[str, Any]],
    number: int,
) -> list[Claim]:
    """Return a claim for each of some heads, by name, with its options.

    Args:
        args: of the command.
        cache: where the entries lie.
        rows: what the heads read.
        heads: what is trained.
        number: of the claims.
    """
    share = rows.nbytes / sum(path.stat().st_size for path in files(cache))
    limit = rows.nbytes // TIMES

    processor: dict[tuple[str, bool], list[float]] = defaultdict(list)

    def run(head: str, group: Path | None) -> Callable[[], float]:
        options = {"evals": 1, **heads[head]}

        def side() -> float:
            (drop if group else read)(cache)
            before = os.times()
            if group is None:
                memory = PLENTY * rows.nbytes
                taken = train_apart(cache, options, device=args.device, memory=memory)
            else:
                taken = train_apart(cache, options, device=args.device, begin=joining(group))
            after = os.times()
            processor[head, group is None].append(
                (after.children_user + after.children_system)
                - (before.children_user + before.children_system)
            )
            return taken.seconds

        return side

    def from_disk() -> float:
        drop(cache)
        start = time.perf_counter()
        read(cache)
        return time.perf_counter() - start

    claims = []
    with memory_group(limit) as group:
        for head, training in heads.items():
            sides = {"limited": run(head, group), "free": run(head, None), "disk": from_disk}
            timings = alternate(sides, args.rounds)
            ratio = timings.ratio("free", "limited")
            reading = training["epochs"] * share * timings.median("disk")
            used = [statistics.median(processor[head, free]) for free in (False, True)]
            claims.append(
                Claim(
                    number=number,
                    title=f"{head} in a quarter of the entry's size against all of it in memory, "
                    f"{training['epochs']} epoch{'s' * (training['epochs'] > 1)}",
                    aim=f"finishes; >= {AIM} x the speed",
                    found=f"finishes; {ratio} x",
                    reached=ratio.median >= AIM,
                    details=f"entry {rows.nbytes / 2**30:.2f} GiB, memory "
                    f"{limit / 2**30:.2f} GiB; {timings.median('limited'):.1f} s against "
                    f"{timings.median('free'):.1f} s; to read {training['epochs']} times the "
                    f"entry's bytes from the disk, one after the other, takes {reading:.1f} s; the "
                    f"whole processes take {used[0]:.1f} s and {used[1]:.1f} s of the processors",
                )
            )
    return claims


def joining(group: Path) -> Callable[[], None]:
    """Return what puts the process that calls it into a control group."""

    def join() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    return join


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


MEASURED = {"words": over_words, "tokens": over_tokens}


if __name__ == "__main__":
    main()
