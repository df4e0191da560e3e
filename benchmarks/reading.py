"""Claim 12: reading an epoch from a Zarr entry against the same bytes from a plain memory map.

minilm-l6 on CoNLL-2003 train: every row once, in the order of training, a few thousand at a time.
Theirs: one file, (layers, rows, D), mapped with NumPy; rows are taken layer by layer by torch, with
as many threads. Both from the page cache. And one layer of the entry against all of them: the cost
should follow the bytes.

    python benchmarks/reading.py --models MODELS --data DATA
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from measure import Claim, alternate, report, timed
from subjects import MINILM, data_path, model_path, parser, work_folder

from probekit import Location, extract, open_features
from probekit.train.order import BUFFER_ROWS, epoch_order

AIM = 0.8
PROPORTION = 1.5
"""How far the share of the time may be from the share of the bytes."""


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    with work_folder(args) as folder:
        report(measure(args, folder), args)


def measure(args: argparse.Namespace, folder: Path) -> list[Claim]:
    """Return both claims."""
    cache = folder / "cache"
    extract(
        model_path(args, MINILM),
        "conll",
        data=data_path(args, "conll2003"),
        splits=["train"],
        device=args.device,
        cache=cache,
    )
    view = open_features(MINILM, "conll", None, Location(cache=cache)).view("train")
    array, layers = view.array, view.array.layers
    groups = list(training_groups(view))
    plain = folder / "plain.npy"
    stored = array.read(slice(None), layers).permute(1, 0, 2).contiguous()
    np.save(plain, stored.numpy())
    mapped = torch.from_numpy(
        np.load(plain, mmap_mode="c")
    )  # "r" is read-only, which torch warns of
    for group in groups[:1]:
        ours = array.read(torch.from_numpy(group), layers).permute(1, 0, 2)
        assert torch.equal(ours, mapped[:, torch.from_numpy(group)])

    def entry(wanted: tuple[int, ...]) -> None:
        for group in groups:
            array.read(torch.from_numpy(group), wanted)

    def memory_map() -> None:
        for group in groups:
            rows = torch.from_numpy(group)
            out = torch.empty((len(mapped), len(group), mapped.shape[2]), dtype=mapped.dtype)
            for place, layer in zip(out, mapped, strict=True):
                torch.index_select(layer, 0, rows, out=place)

    timings = alternate(
        {
            "entry": timed(lambda: entry(layers)),
            "map": timed(memory_map),
            "layer": timed(lambda: entry(layers[-1:])),
        },
        args.rounds,
    )
    size = stored.nbytes
    speed = timings.ratio("map", "entry")
    one = timings.ratio("layer", "entry", scale=len(layers))
    return [
        Claim(
            number=12,
            title=f"reading all {len(layers)} layers of an entry against a memory map, {MINILM}",
            aim=f">= {AIM:g} x the speed",
            found=f"{speed} x",
            reached=speed.median >= AIM,
            details=f"{size / 2**20:,.0f} MiB in {timings.median('entry'):.2f} s, "
            f"{size / timings.median('entry') / 1e9:.1f} GB/s; map "
            f"{size / timings.median('map') / 1e9:.1f} GB/s",
        ),
        Claim(
            number=12,
            title=f"one layer of {len(layers)}: its share of the time over its share of the bytes",
            aim=f"in proportion: <= {PROPORTION:g}",
            found=str(one),
            reached=one.median <= PROPORTION,
        ),
    ]


def training_groups(view):
    """Yield the rows of one epoch in the order of training, as runs that are read at once."""
    order = epoch_order(view.lengths, seed=0, epoch=0)
    rows = view.rows[view.places(order)]
    for start in range(0, len(rows), BUFFER_ROWS):
        yield np.unique(rows[start : start + BUFFER_ROWS])


if __name__ == "__main__":
    main()
