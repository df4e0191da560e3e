"""Hours of extraction and sweeps in one process, whose memory and open files must not grow.

python -m tests.faults.soak --minutes 60
"""

import argparse
import io
import os
import shutil
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path

import psutil

from tests.faults.world import KIND, OWN, TEXTS, warm, write_texts

GROWTH = 32 * 2**20
"""Bytes by which the last third of the time may be above the second."""


def main() -> None:
    """Repeat, print what it took, and fail where memory or open files grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    args = parser.parse_args()
    from probekit.cli.app import app

    warm()
    process, held = psutil.Process(), list[tuple[int, int]]()
    with tempfile.TemporaryDirectory(prefix="probekit-soak-") as folder:
        os.chdir(folder)
        write_texts(Path())
        end = time.monotonic() + 60 * args.minutes
        while time.monotonic() < end or len(held) < 3:
            for words in (
                ("extract", *TEXTS, *KIND, "--overwrite", *OWN),
                ("sweep", *TEXTS, "--head", "last,mean,concat", "--epochs", "2", *OWN),
                ("depth", *TEXTS, "--predictions", *OWN),
                ("plot", "depth", "runs", "-o", "depth.png"),
            ):
                with redirect_stdout(io.StringIO()):
                    app(["-q", *words], standalone_mode=False)
            shutil.rmtree("runs")
            held.append((process.memory_info().rss, process.num_fds()))
        os.chdir("/")
    third = len(held) // 3
    parts = [held[third : 2 * third], held[2 * third :]]
    (before, files), (after, left) = (map(max, zip(*part, strict=True)) for part in parts)
    flat = after - before <= GROWTH and left <= files
    said = f"{before / 2**20:,.0f} to {after / 2**20:,.0f} MiB, {files} to {left} open files"
    print(f"| soak | {len(held)} rounds in {args.minutes:g} min | {said} | {flat} |")
    sys.exit(int(not flat))


if __name__ == "__main__":
    main()
