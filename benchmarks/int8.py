"""Claim 14: an int8 entry against a float16 one: bytes, and F1 of what is trained on it.

minilm-l6 and smollm2-135m on CoNLL-2003, 64 shots from the first 4,000 sentences of train, 30
epochs, 5 seeds, scored on test (all of it, as of dev); a head with one seed sees the same sentences
on both sides, so differences are paired.

    python benchmarks/int8.py --models MODELS --data DATA
"""

import argparse
from dataclasses import replace
from pathlib import Path

from measure import Claim, report
from subjects import MINILM, SMOLLM, extract_conll, model_path, parser, work_folder

from probekit import ExtractOptions, Location, Record, TrainSpec, product, sweep
from probekit.results.summaries.interval import interval

HEADS = {"p32": 2e-3, "attention-fusion": 2e-3, "concat": 1e-3, "dwatt": 1e-3}
SEEDS, SENTENCES = range(5), 4_000
DTYPES = ("float16", "int8")
BYTES_AIM = 0.52


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    with work_folder(args) as folder:
        claims = [claim for name in (MINILM, SMOLLM) for claim in measure(args, folder, name)]
    report(claims, args)


def measure(args: argparse.Namespace, folder: Path, name: str) -> list[Claim]:
    """Return the claims of one model."""
    model = Path(model_path(args, name)).stem
    size, records = {}, {}
    for dtype in DTYPES:
        cache = folder / dtype
        options = ExtractOptions(dtype=dtype, keep=("words",), limit=SENTENCES)
        entries = extract_conll(args, cache, name, options=options)
        size[dtype] = sum(spec.nbytes for entry in entries for spec in entry.manifest.arrays)
        records[dtype] = train(args, model, cache, folder / f"{model}-{dtype}.jsonl")
    share = size["int8"] / size["float16"]
    return [
        Claim(
            number=14,
            title=f"bytes of an int8 entry over float16, {model}",
            aim=f"<= {BYTES_AIM}",
            found=f"{share:.3f}",
            reached=share <= BYTES_AIM,
        ),
        *(compare(model, head, *(records[dtype] for dtype in DTYPES)) for head in HEADS),
    ]


def train(args: argparse.Namespace, model: str, cache: Path, out: Path) -> list[Record]:
    """Return the records of every head and seed on one entry."""
    base = TrainSpec(model=model, task="conll", head="last", shots=64, epochs=30, evals=3)
    plan = [
        spec
        for head, rate in HEADS.items()
        for spec in product(replace(base, head=head, lr=rate), {"seed": SEEDS})
    ]
    return sweep(plan, out=out, location=Location(cache=cache), device=args.device)


def compare(model: str, head: str, half: list[Record], eighth: list[Record]) -> Claim:
    """Return what int8 does to the test score of a head."""
    one, two = (
        {r.seed: r.test_score for r in records if r.head == head} for records in (half, eighth)
    )
    found = interval(two[seed] - one[seed] for seed in SEEDS).scaled(100)
    mean = interval(one.values()).scaled(100).mean
    return Claim(
        number=14,
        title=f"test F1 with int8 less that with float16, {head}, {model}",
        aim="no difference beyond the interval",
        found=f"{found.mean:+.2f} ({found.low:+.2f} to {found.high:+.2f}) points",
        reached=found.low <= 0 <= found.high,
        details=f"float16: {mean:.1f}; 95 % interval over {len(SEEDS)} seeds",
    )


if __name__ == "__main__":
    main()
