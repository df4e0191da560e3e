"""Claim 6: peak memory of extraction beyond the loaded model, on ever more sentences.

mpnet-base on the first 1,000, the first 4,000 and all 14,041 sentences of CoNLL-2003 train, each in
a process of its own: the highest resident memory during extraction less that of the process with
the model loaded and run once (Linux). Two units of work lie in memory at once, one with the model
and one with the writer; 1,000 sentences do not fill both.

    python benchmarks/extraction_memory.py --models MODELS --data DATA
"""

import argparse
import subprocess
import sys
from pathlib import Path

import torch
from machine import resident
from measure import Claim, report
from sessions import conll_session
from subjects import MPNET, parser, work_folder

SIZES = (1_000, 4_000, 14_041)
AIM, FLAT = 1e9, 1.25
CLEAR = Path("/proc/self/clear_refs")


def main() -> None:
    """Measure and report, or be the process that extracts."""
    options = parser(__doc__)
    options.add_argument("--extract", type=int, help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.extract is not None:
        print(extract(args))
        return
    peaks = {}
    for size in SIZES:
        with work_folder(args) as folder:
            peaks[size] = peak(args, size, folder)
    small, middle, large = (peaks[size] for size in SIZES)
    claim = Claim(
        number=6,
        title="peak memory of extraction beyond the loaded model, mpnet-base",
        aim="<= 1.0 GB; flat",
        found=", ".join(
            f"{peak / 1e9:.2f} GB for {size:,} sentences" for size, peak in peaks.items()
        ),
        reached=large <= AIM and large <= FLAT * small,
        details=f"from {SIZES[0]:,} to {SIZES[-1]:,} sentences {large / small:.2f} x, from "
        f"{SIZES[1]:,} on {large / middle:.2f} x; called flat up to {FLAT} x; the first "
        f"{SIZES[0]:,} do not fill two units",
    )
    report([claim], args)


def peak(args: argparse.Namespace, size: int, folder: Path) -> int:
    """Return the peak of a process that extracts some sentences."""
    command = [sys.executable, __file__, "--extract", str(size), "--work", str(folder)]
    command += ["--models", str(args.models), "--data", str(args.data), "--device", args.device]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return int(done.stdout)


def extract(args: argparse.Namespace) -> int:
    """Extract some sentences; return the bytes beyond the loaded model."""
    session, split = conll_session(args, MPNET, "train", limit=args.extract, cache=args.work)
    backbone = session.backbone
    backbone.layers(torch.zeros(1, 8, dtype=torch.long), torch.tensor([8]))
    CLEAR.write_text("5")  # the peak starts again from what is resident now
    before = resident("VmRSS")
    session.extract(split)
    return resident("VmHWM") - before


if __name__ == "__main__":
    main()
