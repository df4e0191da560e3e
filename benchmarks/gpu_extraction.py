"""Claims 35 and 36: what extraction reaches on an accelerator: subwords, bytes to disk, overhead.

Sides, one after the other in every round, on the same sentences (CoNLL-2003 train):

- extraction: every layer of every word and the last layer of every subword, checksums, a sealed
  entry on the disk, in float16;
- the same in int8, which is half the bytes;
- the forward pass alone on extraction's own batches, made before, nothing kept.

The overhead is what extraction takes beyond the forward pass, as a share of it. Where the disk is
the limit, int8 lowers it and the bytes per second stay.

    python benchmarks/gpu_extraction.py large-random --models MODELS --data DATA --device cuda
"""

import shutil
from collections.abc import Callable

from measure import Claim, Timings, alternate, report, timed
from sessions import all_batches, conll_session, run_forward
from subjects import DECODER, LARGE, MINILM, parser, work_folder

from probekit.extraction.opening import Session
from probekit.extraction.plan import Plan
from probekit.tasks import Split

NUMBERS = {LARGE: 35, DECODER: 36, MINILM: 35}
BATCH_TOKENS = 16_384
SIDES = {"float16": "extraction", "int8": "extraction in int8"}


def main() -> None:
    """Measure and report."""
    options = parser(__doc__)
    options.add_argument("model", choices=list(NUMBERS))
    options.add_argument("--limit", type=int, help="first sentences only")
    args = options.parse_args()
    with work_folder(args) as folder:
        plans, sides = {}, {}
        for dtype, name in SIDES.items():
            how = {"limit": args.limit, "dtype": dtype, "batch_tokens": BATCH_TOKENS}
            session, split = conll_session(args, args.model, "train", cache=folder / dtype, **how)
            plans[dtype], sides[name] = session.plan(split), _writing(session, split)
        backbone = session.backbone  # the last one's; that of both would be there twice
        batches = all_batches(backbone, plans["int8"])
        sides["forward"] = timed(lambda: run_forward(backbone, batches))
        timings = alternate(sides, args.rounds)
        report([claim(args.model, plans, timings)], args)


def _writing(session: Session, split: Split) -> Callable[[], float]:
    """Return what writes an entry and tells the seconds, without those of deleting the last one."""

    def run() -> float:
        shutil.rmtree(session.target.cache, ignore_errors=True)
        return timed(lambda: session.extract(split))()

    return run


def claim(model: str, plans: dict[str, Plan], timings: Timings) -> Claim:
    """Return what was found of a model."""
    tokens = plans["float16"].tokens
    said = []
    for dtype, name in SIDES.items():
        seconds = timings.median(name)
        overhead = timings.ratio(name, "forward").median - 1
        said.append(
            f"{dtype} {tokens / seconds:,.0f} subwords/s, "
            f"{plans[dtype].nbytes / seconds / 1e9:.2f} GB/s, overhead {overhead:.1%}"
        )
    return Claim(
        number=NUMBERS[model],
        title=f"extraction on an accelerator, {model}",
        aim="none: beside DMI-Lib's overhead of 0.4 to 6.8 %",
        found="; ".join(said),
        reached=None,
        details=f"{tokens:,} subwords in batches of {BATCH_TOKENS:,}, "
        f"{len(plans['float16'].layers)} layers; forward pass alone "
        f"{tokens / timings.median('forward'):,.0f} subwords/s",
    )


if __name__ == "__main__":
    main()
