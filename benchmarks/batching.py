"""What a batch costs beyond its tokens, and what cutting batches by that cost is worth.

Forward passes over the sentence lengths of CoNLL-2003 dev (ids of one word, which cost the same),
in batches as extraction cuts them, in batches that are filled up, and in batches of one length.
And the overhead of a batch, as a number of tokens, from a straight line through the seconds of
batches of 128 to 4,096 tokens: extraction counts 64 at this budget.

    python benchmarks/batching.py minilm-l6 --models MODELS --data DATA
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from measure import Claim, alternate, report, timed
from sessions import conll_session
from subjects import MINILM, MPNET, parser, work_folder

from probekit.backbone import Backbone
from probekit.data.batches import batches_by_length

NUMBER = 16
BATCH_TOKENS = 4096
WIDTH, SIZES = 32, (128, 256, 512, 1024, 2048, 4096)
REPEATS = 3


def main() -> None:
    """Measure and report."""
    options = parser(__doc__)
    options.add_argument("model", choices=[MINILM, MPNET])
    options.add_argument("--limit", type=int, help="first sentences only")
    args = options.parse_args()
    with work_folder(args) as cache:
        session, split = conll_session(args, args.model, "dev", limit=args.limit, cache=cache)
        report([measure(session.backbone, session.plan(split), args)], args)


def measure(backbone: Backbone, plan, args) -> Claim:
    """Return the ratios and the overhead."""
    windows = plan.encoded.example_windows
    units = [
        plan.encoded.window_lengths[windows[unit.start] : windows[unit.stop]] for unit in plan.units
    ]
    ways: dict[str, Callable] = {"ours": cut, "full": fill, "one length": split_by_length}
    batches = {name: [b for unit in units for b in way(unit)] for name, way in ways.items()}
    sides = {name: timed(lambda own=own: forward(backbone, own)) for name, own in batches.items()}
    sizes = {size: [np.full(size // WIDTH, WIDTH)] * REPEATS for size in SIZES}
    singles = {
        str(size): timed(lambda own=own: forward(backbone, own)) for size, own in sizes.items()
    }
    timings = alternate(sides | singles, args.rounds)
    seconds = [timings.median(str(size)) / REPEATS for size in SIZES]
    per_token, per_batch = np.polyfit(SIZES, seconds, 1)
    padding = ", ".join(
        f"{name} {padded_share(own):.1%} in {len(own)}" for name, own in batches.items()
    )
    return Claim(
        number=NUMBER,
        title=f"batches cut by cost against full ones, forward pass, {args.model}",
        aim="> 1 x",
        found=f"{timings.ratio('full', 'ours')} x; against batches of one length "
        f"{timings.ratio('one length', 'ours')} x",
        reached=timings.ratio("full", "ours").median > 1,
        details=f"padding: {padding} batches; a batch costs {per_batch / per_token:.0f} tokens "
        "beyond its own",
    )


def forward(backbone: Backbone, batches: Sequence[np.ndarray]) -> None:
    """Run the model over batches of windows of given lengths."""
    for lengths in batches:
        ids = torch.full((len(lengths), int(lengths.max())), 100)
        states = backbone.layers(ids, torch.from_numpy(lengths), [backbone.info.n_blocks])
    states[0][0, 0, 0].item()


def cut(lengths: np.ndarray) -> list[np.ndarray]:
    """Return the lengths of extraction's batches."""
    return [lengths[batch].astype(np.int64) for batch in batches_by_length(lengths, BATCH_TOKENS)]


def fill(lengths: np.ndarray) -> list[np.ndarray]:
    """Return the lengths of batches that hold as much as they may."""
    descending, start, batches = -np.sort(-lengths.astype(np.int64)), 0, []
    while start < len(descending):
        stop = start + max(BATCH_TOKENS // int(descending[start]), 1)
        batches.append(descending[start:stop])
        start = stop
    return batches


def split_by_length(lengths: np.ndarray) -> list[np.ndarray]:
    """Return the lengths of batches that need no padding."""
    same = [lengths[lengths == length] for length in np.unique(lengths)]
    return [batch for group in same for batch in fill(group)]


def padded_share(batches: Sequence[np.ndarray]) -> float:
    """Return which share of the computed tokens is padding."""
    computed = sum(len(lengths) * int(lengths.max()) for lengths in batches)
    return 1 - sum(int(lengths.sum()) for lengths in batches) / computed


if __name__ == "__main__":
    main()
