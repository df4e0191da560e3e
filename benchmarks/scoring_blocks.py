"""Scoring blocks that the C library's allocator keeps against larger ones, for a deep model.

All 31 layers of SmolLM2-135M on the first 1,000 sentences of CoNLL-2003 dev: one pass over the
rows in memory, in float32 and standardised, as dev scoring begins. Ours: blocks of at most 24 MiB.
Theirs: half a million values per layer, which is 62 MiB here.

    python benchmarks/scoring_blocks.py --models MODELS --data DATA
"""

import argparse
from pathlib import Path

import torch
from measure import Claim, alternate, report, timed
from sessions import conll_session
from subjects import SMOLLM, parser, work_folder

from probekit import Location, open_features
from probekit.train import source as source_module
from probekit.train.source import Source

NUMBER, SENTENCES, LARGE = 18, 1_000, 2**40


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    with work_folder(args) as folder:
        report([measure(args, folder)], args)


def measure(args: argparse.Namespace, folder: Path) -> Claim:
    """Return the claim."""
    session, split = conll_session(args, SMOLLM, "dev", limit=SENTENCES, cache=folder)
    entry = session.extract(split)
    place = Location(cache=folder)
    splits = open_features(entry.manifest.model, "conll", None, place, fit_on="dev")
    view = splits.view("train")  # what takes its place
    device = torch.device(args.device)
    source = Source(view, view.array.layers, device=device, resident=True)
    normalization = source.fitted("standardize")

    def score() -> None:
        for inputs in source.blocks():
            last = normalization(inputs.z.transpose(0, 1)).transpose(0, 1)
        last[0, 0, 0].item()

    fitting = source_module._BLOCK_BYTES

    def score_large() -> None:
        source_module._BLOCK_BYTES = LARGE
        try:
            score()
        finally:
            source_module._BLOCK_BYTES = fitting

    timings = alternate({"ours": timed(score), "large": timed(score_large)}, args.rounds)
    ratio = timings.ratio("large", "ours")
    return Claim(
        number=NUMBER,
        title="scoring blocks of 24 MiB against half a million values per layer, SmolLM2-135M",
        aim="> 1 x",
        found=f"{ratio} x",
        reached=ratio.median > 1,
        details=f"{len(view):,} rows of {len(view.array.layers)} layers, read and standardised: "
        f"{timings.median('ours'):.2f} s against {timings.median('large'):.2f} s",
    )


if __name__ == "__main__":
    main()
