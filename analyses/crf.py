"""What a CRF adds to each head, CoNLL-2003 at 8 and 128 shots: solved and searched, and published.

Converged: the linear decoder and the chain are both solved on light heads; on the large ones the
rate is searched for each decoder, transitions at their default of 0.1. Published: AdamW at one rate
for all parameters, transitions among them, which leaves these near their start. Dev chooses
strength, checkpoint and rate; test is reported; five seeds. Finished runs are skipped.

    make analyses MODELS=models DATA=data
    python analyses/crf.py MODEL [MODEL ...] --large MODEL --workers 2
"""

from collections.abc import Sequence
from dataclasses import replace

from shared import RESULTS, argument_parser, judged, runner, write

from probekit import Record, TrainSpec, product

NAME = "crf"
LIGHT = ("last", "mean", "p32", "attention-fusion")
LARGE = ("concat", "dwatt")
DECODERS = ("linear", "crf")
SHOTS = (8, 128)
SEEDS = range(5)
PUBLISHED = {**dict.fromkeys(LIGHT, 2e-3), **dict.fromkeys(LARGE, 5e-5)}

INTRODUCTION = f"""\
Test span F1 in percent, {len(SEEDS)} seeds. The last column is what the CRF adds to the linear
decoder of the same head, with its 95 % interval over seeds and sentences together, and in bold what
is sure after Holm's correction of all rows of the table at 5 %."""


def main() -> None:
    """Train what is missing, then write the tables."""
    parser = argument_parser(__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--large", nargs="*", default=[], metavar="MODEL")
    args = parser.parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    converged: list[Record] = []
    published: list[Record] = []
    for model in args.models:
        heads = (*LIGHT, *LARGE) if model in args.large else LIGHT
        for shots in SHOTS:
            base = TrainSpec(model=model, task="conll", head="last", shots=shots, select="dev")
            converged += run(converged_plan(base, heads))
            steps = replace(base, fit="adam", epochs=50, evals=5, as_published=True)
            published += run(
                [
                    replace(one, head=head, lr=PUBLISHED[head])
                    for head in heads
                    for one in product(steps, {"decoder": DECODERS, "seed": SEEDS})
                ]
            )
    write(
        NAME,
        [
            "# What a CRF adds, CoNLL-2003",
            INTRODUCTION,
            judged("Converged or searched", converged, "decoder=linear"),
            judged("As published", published, "decoder=linear"),
        ],
    )


def converged_plan(base: TrainSpec, heads: Sequence[str]) -> list[TrainSpec]:
    """Return solved runs of light heads, and searched ones of large heads, with both decoders."""
    both = {"decoder": DECODERS, "seed": SEEDS}
    light = [head for head in heads if head in LIGHT]
    steps = replace(base, fit="adam", epochs=50, evals=5, lr="search")
    large = [head for head in heads if head in LARGE]
    return [
        *product(base, {"head": light, **both}),
        *(product(steps, {"head": large, **both}) if large else []),
    ]


if __name__ == "__main__":
    main()
