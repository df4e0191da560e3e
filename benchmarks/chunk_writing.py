"""Claim 23: chunks written past the page cache, with XXH3, against through it, with sha256.

What the writer's threads take of the processors is taken from the model, so the processor's
seconds are compared, user and system together; the details tell the seconds on the clock, and what
the first reading takes afterwards: from the disk, or from the page cache. Random bytes in files of
4 MiB, each awaited, as extraction writes a Zarr entry.

    python benchmarks/chunk_writing.py
"""

import argparse
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
from measure import Claim, Side, alternate, report
from subjects import parser, work_folder

from probekit.base.tensors import empty_buffer
from probekit.store.files import WholeFiles, checksum

NUMBER = 23
SIZE, COUNT = 4 * 2**20, 256
AIM = 2.0

Write = Callable[[Path, memoryview], object]


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    with work_folder(args) as folder:
        report([measure(args, folder)], args)


def measure(args: argparse.Namespace, folder: Path) -> Claim:
    """Return the claim."""
    chunks = empty_buffer((COUNT, SIZE), torch.uint8).numpy()  # from the beginning of a page
    chunks[:] = np.random.default_rng(0).integers(0, 256, (COUNT, SIZE), dtype=np.uint8)
    files = WholeFiles()

    def ours(file: Path, data: memoryview) -> None:
        files.write(file, data)
        checksum(data)

    def plain(file: Path, data: memoryview) -> None:
        with file.open("wb", buffering=0) as sink:
            assert sink.write(data) == len(data)
            os.fsync(sink.fileno())
        hashlib.sha256(data).hexdigest()

    clock: dict[str, list[float]] = {"ours": [], "plain": []}
    reading: dict[str, list[float]] = {"ours": [], "plain": []}

    def side(name: str, write: Write) -> Side:
        def run() -> float:
            for file in folder.iterdir():
                file.unlink()
            start, before = time.perf_counter(), os.times()
            for number, chunk in enumerate(chunks):
                write(folder / str(number), chunk.data)
            after = os.times()
            clock[name].append(time.perf_counter() - start)
            start = time.perf_counter()
            for file in folder.iterdir():
                file.read_bytes()
            reading[name].append(time.perf_counter() - start)
            return after.user + after.system - before.user - before.system

        return run

    timings = alternate({"ours": side("ours", ours), "plain": side("plain", plain)}, args.rounds)
    ratio = timings.ratio("plain", "ours")
    told = "; ".join(
        f"{what}: {timings.median(name):.2f} of the processor, {median(clock[name]):.2f} on the "
        f"clock, and {median(reading[name]):.2f} to read them first"
        for name, what in {"ours": "past the cache", "plain": "through it"}.items()
    )
    return Claim(
        number=NUMBER,
        title="processor time of writing chunks past the page cache with XXH3, against through it "
        "with sha256",
        aim=f">= {AIM:g} x less",
        found=f"{ratio} x less",
        reached=ratio.median >= AIM,
        details=f"seconds for {SIZE * COUNT / 2**30:g} GiB: {told}",
    )


if __name__ == "__main__":
    main()
