"""Next-token perplexity on WikiText-2 by depth of SmolLM2-135M: what each layer already predicts.

Three readings of the same rows, scored on test. The logit lens: layer n, the model's final norm and
its frozen output head; nothing is trained. A trained transform: dense, GELU and LayerNorm between
layer n and the frozen output head, drawn anew. Fusion: heads over all layers, in front of the
frozen output head. Rates of what is trained are searched on two other seeds; beside them stand
fusion heads at the rates of their papers, which train no frozen decoder. There is no train file
in the local data, so dev is fitted on, and a tenth of it, held out, chooses rate and checkpoint.
One seed. Finished runs are skipped.

    probekit extract smollm2.gguf wikitext2 --data DATA --split dev,test --every 8
    python analyses/wikitext_depth.py MODEL
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from shared import PUBLISHED, RESULTS, argument_parser, markdown, runner, with_rates, write

from probekit import Location, Record, TrainSpec, open_features, product, save_figure
from probekit.plots.curves import curve_styles, layer_axis
from probekit.plots.panels import PANEL_HEIGHT, hollow_entries, put_legend
from probekit.plots.style import COLUMN_WIDTH, RC, fit, new_figure
from probekit.results.summaries.diagnosis import marks
from probekit.train.sweeps.specs import depths

NAME = "wikitext_depth"
TASK = "wikitext2"
EVERY = 10
TRANSFORM = "vocabulary:transform=new"
TRAINED: Mapping[str, Any] = {"epochs": 2, "batch_size": 4, "evals": 2}
LENS: Mapping[str, Any] = {"epochs": 1, "fraction": 0.01, "evals": 1}
FUSIONS = ("p32", "attention-fusion", "concat", "dwatt")

TICKS = (3, 5, 10, 20, 50, 100)

INTRODUCTION = f"""\
Perplexity per predicted token of the test articles (lower is better) over the model's own tokens,
and its logarithm, the loss in nats. "Logit lens" has no trained value. The transform and the fusion
heads see the WikiText-2 dev articles {TRAINED["epochs"]} times, {TRAINED["batch_size"] * 64}
predictions per step: a few hundred steps, little for what starts from nothing. Read them as upper
bounds, the transform of the last layer first of all. Fusion reads every layer under the final norm
as well. Rates were searched in half decades; published ones are 2e-3 and, of `concat` and `dwatt`,
5e-5. One seed."""


def main() -> None:
    """Train what is missing, then write the tables and the figure."""
    args = argument_parser(__doc__, "model").parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args)
    location = Location(cache=args.cache)
    n_blocks = open_features(args.model, TASK, None, location, fit_on="dev").manifest.n_blocks
    base = TrainSpec(
        model=args.model,
        task=TASK,
        head="last",
        decoder="vocabulary",
        normalize="final-norm",
        fit_on="dev",
        hold_out=0.1,
        **LENS,
    )
    by_depth = {"depth": depths(n_blocks, EVERY)}
    lens = run(product(base, by_depth))
    steps = replace(base, fraction=None, **TRAINED)
    published = run(with_rates(replace(steps, as_published=True), FUSIONS, {}, PUBLISHED))
    longer = replace(steps, lr="search")
    transformed = run(product(replace(longer, decoder=TRANSFORM), by_depth))
    fused = run(product(longer, {"head": FUSIONS}))
    write(
        NAME,
        [
            f"# WikiText-2 perplexity by depth, {lens[0].model}",
            INTRODUCTION,
            f"## One layer\n\n{layer_table(lens, transformed)}",
            f"## All layers, frozen output head\n\n{fusion_table(lens[-1], fused, published)}",
        ],
    )
    save_figure(
        figure({"logit lens": lens, "trained transform": transformed}), RESULTS / f"{NAME}.png"
    )


def layer_table(lens: Sequence[Record], transformed: Sequence[Record]) -> str:
    """Return the perplexity at each depth, as it is and with a trained transform."""
    lines = [
        [f"{one.depth}", text(one.test_score), text(other.test_score)]
        for one, other in zip(lens, transformed, strict=True)
    ]
    return markdown(["layer", "logit lens", "trained transform"], lines)


def figure(curves: Mapping[str, Sequence[Record]]) -> Figure:
    """Draw the test loss in nats by depth: perplexities of the first layers fit no axis."""
    with matplotlib.rc_context(RC):
        drawn = new_figure(COLUMN_WIDTH, PANEL_HEIGHT)
        axes = drawn.subplots()
        handles, styles = [], curve_styles([*curves])
        for name, records in curves.items():
            style = styles[name]
            losses = {one.depth or 0: math.log(one.test_score or math.nan) for one in records}
            handles += axes.plot([*losses], [*losses.values()], label=name, **style.line_options())
            troubled = [one.depth or 0 for one in records if marks([one])]
            axes.plot(troubled, [losses[at] for at in troubled], **style.hollow_options())
            layer_axis(axes, [*losses])
        axes.set(ylabel="test loss (nats)", yscale="log")
        axes.set_yticks(TICKS, labels=map(str, TICKS))
        axes.yaxis.minorticks_off()
        axes.grid(axis="y")
        hollow = hollow_entries([record for records in curves.values() for record in records])
        put_legend(drawn, handles, hollow, "one seed")
        fit(drawn, [axes], PANEL_HEIGHT, "height")
    return drawn


def fusion_table(last: Record, fused: Sequence[Record], published: Sequence[Record]) -> str:
    """Return the perplexity of the last layer and of every fusion head, with its parameters."""
    lines = [
        [
            f"`{one.head}`",
            text(one.test_score),
            text(other.test_score),
            f"{one.n_params:,}",
            heaviest(one),
        ]
        for one, other in zip((last, *fused), (last, *published), strict=True)
    ]
    header = ["head", "perplexity", "at published rates", "parameters", "heaviest layers"]
    return markdown(header, lines)


def text(perplexity: float | None) -> str:
    """Return a perplexity with as many digits as matter, and its logarithm, the loss in nats."""
    assert perplexity is not None, "test was extracted"
    shown = f"{perplexity:.1f}" if perplexity < 1e4 else f"{perplexity:.1e}"
    return f"{shown} ({math.log(perplexity):.2f})"


def heaviest(record: Record) -> str:
    """Return the three layers of the largest weight."""
    layers = sorted(record.weights, key=lambda layer: -record.weights[layer])[:3]
    return ", ".join(f"{layer}: {record.weights[layer]:.2f}" for layer in layers) or "-"


if __name__ == "__main__":
    main()
