"""P-32 inside a model that is trained too, as its paper has it (Tables 2 to 4, 6; Figures 2, 3).

The last layer and `p32` under LoRA (the paper: QLoRA of 7B models; BERT in full): of a shallow
encoder on five tasks, at several depths, and, with an average of all layers beside, on shares of
STS-B; of a decoder of 30 blocks on shares of the smallest task and of STS-B, there of rows as they
are and standardised; under QLoRA, of its original weights, which a GGUF file is not, on 500 pairs
of STS-B. The gain is regressed on the number of training examples and on the length of inputs
(section 5.4). Finished runs are skipped.

The plan, of one core: the encoder 2 heads and 3 seeds of RTE and STS-B, of half of MRPC and CoLA
and of 2,000 sentences of SST-2 (1 to 5 minutes a run), an hour and a half; an average and two
shares of STS-B, 25 minutes; two depths of five tasks, one seed, 10 minutes; the decoder one seed
of three heads, an hour and a half; under QLoRA two heads, 10 minutes.

    probekit extract WEIGHTS glue/stsb --split train,dev --limit 500 --layers=-1
    python analyses/p32_finetuned.py ENCODER DECODER --quantized WEIGHTS --workers 2
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from scipy.stats import linregress
from shared import RESULTS, argument_parser, judged, markdown, runner, write
from subjects import subject

from probekit import (
    Location,
    Record,
    TrainSpec,
    open_features,
    plot_depth,
    plot_fraction,
    plot_weights,
    product,
    save_figure,
)

NAME = "p32_finetuned"
HEADS = ("last", "p32")
MIXTURES = (*HEADS, "mean")
TASKS = {"glue/rte": None, "glue/mrpc": 0.5, "glue/stsb": None, "glue/cola": 0.5, "glue/sst2": 0.2}
"""Each with the share of what is extracted that its runs read."""

FIRST = "glue/rte"
SHARED = "glue/stsb"
SHARES = (0.05, 0.2)
DEPTHS = (1, 3)
SEEDS = range(3)
EPOCHS = 2
METHOD = "lora:targets=linear"

INTRODUCTION = f"""\
Each task's metric on dev, times 100, after {EPOCHS} epochs under LoRA beside all linear layers;
{len(SEEDS)} seeds (the decoder and depths: one). The last column is the difference to the reference
with its 95 % interval, over seeds and sentences together where seeds differ, in bold what is sure
at 5 % after Holm's correction of all rows of the table."""


def main() -> None:
    """Train what is missing, then write the tables and the figures."""
    parser = argument_parser(__doc__)
    parser.add_argument("encoder")
    parser.add_argument("decoder", nargs="?", help="left out if none is named")
    parser.add_argument("--quantized", metavar="WEIGHTS", help="the decoder's, for QLoRA")
    args = parser.parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    whole: list[Record] = []
    deep: list[Record] = []
    for task in TASKS:
        base = tuned(args.encoder, task)
        whole += run(product(base, {"head": HEADS, "seed": SEEDS}))
        deep += run(product(base, {"depth": DEPTHS}))
    shares = {"fraction": SHARES, "head": MIXTURES, "seed": SEEDS}
    drawn = run(product(tuned(args.encoder, SHARED), shares))
    drawn += run(product(tuned(args.encoder, SHARED, head="mean"), {"seed": SEEDS}))
    causal: list[Record] = []
    if args.decoder is not None:
        first, raw = (tuned(args.decoder, one, fraction=SHARES[-1]) for one in (FIRST, SHARED))
        for some in (first, raw, replace(raw, normalize="standardize")):
            causal += run(product(some, {"head": MIXTURES}))
    if args.quantized is not None:
        some = tuned(args.quantized, SHARED, method="qlora")
        causal += run(product(some, {"head": HEADS}))
    by = ("fraction", "method", "normalize")
    every = [*whole, *drawn, *causal]
    mixtures = [record for record in every if record.head != "last"]
    write(
        NAME,
        [
            "# P-32 in a model that is trained",
            INTRODUCTION,
            judged("Against the last layer", every, "last", by=by),
            judged("Mixtures against an average", mixtures, "mean", by=by),
            gains(whole, Location(cache=args.cache)),
        ],
    )
    shared = [*drawn, *(record for record in whole if record.task == SHARED)]
    save_figure(plot_fraction(shared), RESULTS / f"{NAME}_shares.png")
    firsts = [one for one in whole if one.head == "last" and one.seed == SEEDS[0]]
    deep += [replace(one, depth=one.layers[-1]) for one in firsts]
    save_figure(plot_depth(deep), RESULTS / f"{NAME}_depth.png")
    mixing = [record for record in whole if record.head == "p32"]
    save_figure(plot_weights(mixing, raw=True), RESULTS / f"{NAME}_weights.png")


def tuned(model: str, task: str, **options: Any) -> TrainSpec:
    """Return a run of the last layer whose model learns, with other options beside."""
    steps = {"method": METHOD, "epochs": EPOCHS, "evals": EPOCHS, "fraction": TASKS[task]}
    return subject(model, task, **{**steps, **options})


def gains(records: Sequence[Record], location: Location) -> str:
    """Return what `p32` gains on the last layer of each task, regressed on its size and length."""
    sizes, lengths, gained, lines = [], [], [], []
    for task in TASKS:
        own = [record for record in records if record.task == task]
        scores = {
            head: fmean(100 * one.eval_score for one in own if one.head == head) for head in HEADS
        }
        view = open_features(own[0].model, task, location=location).view("train")
        sizes.append(own[0].seen["examples"])
        lengths.append(fmean(len(" ".join(texts(one)).split()) for one in view.texts))
        gained.append(scores["p32"] - scores["last"])
        lines.append([task, f"{sizes[-1]:,}", f"{lengths[-1]:.1f}", f"{gained[-1]:+.1f}"])
    fits = {"examples": linregress(sizes, gained), "words": linregress(lengths, gained)}
    said = [
        f"By {name}: slope {fit.slope:.3g}, R² {fit.rvalue**2:.2f}, p {fit.pvalue:.2f}."
        for name, fit in fits.items()
    ]
    table = markdown(["task", "examples", "words", "`p32` less `last`"], lines)
    return f"## The gain by size and length\n\n{table}\n\n{' '.join(said)}"


def texts(one: str | Sequence[str]) -> Sequence[str]:
    """Return the one or two texts of an example."""
    return [one] if isinstance(one, str) else one


if __name__ == "__main__":
    main()
