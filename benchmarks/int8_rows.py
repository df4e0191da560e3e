"""Claim 19: int8 rows in memory, decoded or as they are stored, against rows read from the disk.

All layers of minilm-l6 on CoNLL-2003 dev, an int8 entry: the batches of one epoch, 16 sentences
each, in float32. Held decoded, rows take four times as much memory as held as they are stored;
what is streamed comes from the page cache, in runs of 32 MiB, and is decoded as well. On a GPU
rows are never held decoded, and that claim is left out.

    python benchmarks/int8_rows.py --models MODELS --data DATA
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from measure import Claim, alternate, at_least, report, timed
from subjects import MINILM, extract_conll, parser, work_folder

from probekit import ExtractOptions, Location, open_features
from probekit.features import FeatureView
from probekit.train.source import Source
from probekit.train.stream import batches, resident_bytes

NUMBER, SENTENCES = 19, 16
AHEAD = 64 * 2**20
"""Memory for what is read ahead: two runs, of which one is in use."""


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    with work_folder(args) as folder:
        report(measure(args, folder), args)


def measure(args: argparse.Namespace, folder: Path) -> list[Claim]:
    """Return the claims."""
    options = ExtractOptions(dtype="int8", keep=("words",))
    extract_conll(args, folder, splits=["dev"], options=options)
    splits = open_features(MINILM, "conll", None, Location(cache=folder), fit_on="dev")
    view = splits.view("train")  # what takes its place
    device, layers = torch.device(args.device), view.array.layers
    sides = {
        "streamed": epoch(Source(view, layers, device=device, resident=False)),
        "stored": epoch(Source(view, layers, device=device, resident=True)),
    }
    if device.type == "cpu":
        sides["decoded"] = epoch(Source(view, layers, device=device, resident=True, decoded=True))
    timings = alternate({name: timed(side) for name, side in sides.items()}, args.rounds)
    seconds = ", ".join(f"{timings.median(name):.2f} s {name}" for name in sides)
    details = f"{len(view):,} rows of {len(layers)} layers: {seconds}; {in_memory(view)}"
    title = "an epoch's batches of int8 rows, "
    claims = [
        at_least(
            NUMBER,
            f"{title}held as stored against streamed",
            timings.ratio("streamed", "stored"),
            0.9,
            details,
        )
    ]
    if "decoded" in sides:
        ratio = timings.ratio("stored", "decoded")
        claims.append(at_least(NUMBER, f"{title}held decoded against as stored", ratio, 2, ""))
    return claims


def epoch(source: Source) -> Callable[[], None]:
    """Return what gathers the batches of one epoch."""

    def run() -> None:
        steps = batches(source.view.lengths, seed=0, epochs=1, batch_size=SENTENCES)
        for inputs in source.batches(steps, memory=AHEAD):
            last = inputs.z
        last[0, 0, 0].item()

    return run


def in_memory(view: FeatureView) -> str:
    """Return what the rows take in memory, in words."""
    sizes = resident_bytes(view, len(view.array.layers))
    stored, decoded = (f"{size / 2**20:.0f} MiB" for size in sizes)
    return f"{stored} in memory as stored, {decoded} decoded"


if __name__ == "__main__":
    main()
