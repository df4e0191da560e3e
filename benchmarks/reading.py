"""Claim 12: reading an epoch from a Zarr entry against the same bytes from a plain memory map.

minilm-l6 on CoNLL-2003 train: every row once, in the order of training, in large runs.
Theirs: one file, (layers, rows, D), mapped with NumPy; rows are taken layer by layer by torch, with
as many threads, into memory of the same kind (huge pages). Both from the page cache. And one layer
of the entry against all of them: the cost should follow the bytes. And what a process pays once for
comparing each chunk with its checksum, against an epoch of training by the lightest head.

    python benchmarks/reading.py --models MODELS --data DATA
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from epochs import Cached
from measure import Claim, Timings, alternate, report, timed
from subjects import MINILM, extract_conll, parser, work_folder

from probekit import Location, open_features
from probekit.base.tensors import empty_buffer
from probekit.features import FeatureView
from probekit.train.stream import BUFFER_ROWS, epoch_order

AIM = 0.8
PROPORTION = 1.5
"""How far the share of the time may be from the share of the bytes."""

SHARE = 0.03
"""Of an epoch, what comparing may cost."""


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    with work_folder(args) as folder:
        report(measure(args, folder), args)


def measure(args: argparse.Namespace, folder: Path) -> list[Claim]:
    """Return the claims."""
    cache = folder / "cache"
    extract_conll(args, cache, splits=["train"])
    view = open_features(MINILM, "conll", None, Location(cache=cache)).view("train")
    layers, groups = view.array.layers, list(training_groups(view))
    mapped = plain_copy(view, folder / "plain.npy")
    ours = view.array.read(groups[0], layers).permute(1, 0, 2)
    assert torch.equal(ours, mapped[:, groups[0]])
    sides = {
        "entry": timed(lambda: read_entry(view, layers, groups)),
        "map": timed(lambda: read_map(mapped, groups)),
        "layer": timed(lambda: read_entry(view, layers[-1:], groups)),
        "compare": timed(lambda: compare_again(view, groups)),
        "epoch": Cached("mean", view, torch.device(args.device), 3 * args.rounds).epoch,
    }
    return claims(alternate(sides, args.rounds), mapped.nbytes, len(layers))


def compare_again(view: FeatureView, groups: Sequence[torch.Tensor]) -> None:
    """Read all rows as a process does that has not read them before."""
    view.array._first._compared.clear()
    read_entry(view, view.array.layers, groups)


def plain_copy(view: FeatureView, file: Path) -> torch.Tensor:
    """Write all rows of a split into one file, and return it mapped: (layers, rows, D)."""
    rows = view.array.read(slice(None), view.array.layers)
    np.save(file, rows.permute(1, 0, 2).contiguous().numpy())
    return torch.from_numpy(np.load(file, mmap_mode="c"))  # torch warns of what is read-only


def read_entry(view: FeatureView, layers: Sequence[int], groups: Sequence[torch.Tensor]) -> None:
    """Read some layers of all rows."""
    for group in groups:
        view.array.read(group, layers)


def read_map(mapped: torch.Tensor, groups: Sequence[torch.Tensor]) -> None:
    """Read all layers of all rows, layer by layer."""
    for group in groups:
        out = empty_buffer((len(mapped), len(group), mapped.shape[2]), mapped.dtype)
        for place, layer in zip(out, mapped, strict=True):
            torch.index_select(layer, 0, group, out=place)


def claims(timings: Timings, size: int, layers: int) -> list[Claim]:
    """Return the claims about an entry of ``size`` bytes."""
    speed = timings.ratio("map", "entry")
    one = timings.ratio("layer", "entry", scale=layers)
    compare = timings.median("compare")
    once = (compare - timings.median("entry")) / timings.median("epoch")
    return [
        Claim(
            number=12,
            title=f"reading all {layers} layers of an entry against a memory map, {MINILM}",
            aim=f">= {AIM:g} x the speed",
            found=f"{speed} x",
            reached=speed.median >= AIM,
            details=f"{size / 2**20:,.0f} MiB in {timings.median('entry'):.2f} s, "
            f"{size / timings.median('entry') / 1e9:.1f} GB/s; map "
            f"{size / timings.median('map') / 1e9:.1f} GB/s",
        ),
        Claim(
            number=12,
            title=f"one layer of {layers}: its share of the time over its share of the bytes",
            aim=f"in proportion: <= {PROPORTION:g}",
            found=str(one),
            reached=one.median <= PROPORTION,
        ),
        Claim(
            number=12,
            title=f"comparing all chunks on first read, of an epoch of `mean`, {MINILM}",
            aim=f"<= {SHARE:.0%}",
            found=f"{once:.1%}",
            reached=once <= SHARE,
            details=f"{compare:.2f} s of reading with, {timings.median('entry'):.2f} s without; "
            f"an epoch {timings.median('epoch'):.2f} s",
        ),
    ]


def training_groups(view: FeatureView) -> Iterator[torch.Tensor]:
    """Yield the rows of one epoch in the order of training, as runs that are read at once."""
    order = epoch_order(view.lengths, seed=0, epoch=0)
    rows = view.rows[view.places(order)]
    for start in range(0, len(rows), BUFFER_ROWS):
        yield torch.from_numpy(np.unique(rows[start : start + BUFFER_ROWS]))


if __name__ == "__main__":
    main()
