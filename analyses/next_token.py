"""Where a decoder settles on the next token of WikiText-2, by three lenses.

A token is settled at a layer if the layer's most probable token is the last layer's there and at
all later layers. The same rows of test are read by the logit lens, by a tuned lens and by a
Jacobian lens. There is no train file in the local data, so the lenses are fitted on dev.

The plan, of one core: two minutes of extraction, ten of the tuned lens, an hour of the Jacobian
lens, which resumes where it stopped.

    python analyses/next_token.py MODEL --data FOLDER
"""

import argparse
from collections.abc import Mapping

import matplotlib
from matplotlib.figure import Figure
from shared import RESULTS, argument_parser, markdown, write

from probekit import ExtractOptions, Location, extract, lens, save_figure
from probekit.plots.curves import curve_styles, layer_axis
from probekit.plots.panels import PANEL_HEIGHT, put_legend
from probekit.plots.style import COLUMN_WIDTH, RC, fit, new_figure
from probekit.results.layer_scores import LayerPrediction, LensScores

NAME = "next_token"
TASK = "wikitext2"
LENGTH = 128
"""Tokens of a text: the published fits of Jacobian lenses have as many."""

ROWS = 4_000
POSITIONS = 1_000
"""Positions that the Jacobian lens is fitted on: nine texts."""

INTRODUCTION = """\
Test articles of WikiText-2, {rows:,} predictions of {of_rows:,}, {over}. *Settled*: the most
probable token is the last layer's at this layer and all later ones. *Divergence*: KL(last layer,
this layer), in nats. Intervals are 95 % (bootstrap). The tuned lens is fitted on {fitted:,}
predictions of dev, the Jacobian lens on {positions:,} positions of dev."""


def main() -> None:
    """Extract and fit what is missing, then write the table and the figure."""
    args = argument_parser(__doc__, "model", data=True).parse_args()
    extract(
        args.model,
        TASK,
        splits=["dev", "test"],
        data=args.data / TASK,
        cache=args.cache,
        options=ExtractOptions(every=8, max_length=LENGTH),
    )
    found = {name: scored(args, name) for name in ("logit", "tuned", "jacobian")}
    first = next(iter(found.values()))
    about = {name: getattr(first, name) for name in ("rows", "of_rows", "over")}
    write(
        NAME,
        [
            f"# Where the next token is decided, {first.model}",
            INTRODUCTION.format(**about, fitted=ROWS, positions=POSITIONS),
            table(found),
        ],
    )
    save_figure(figure(found), RESULTS / f"{NAME}.png")


def scored(args: argparse.Namespace, name: str) -> LensScores:
    """Return what every layer predicts through a lens; a Jacobian lens that was fitted is read."""
    folder = args.cache / f"lens-{name}"
    options = {"location": Location(cache=args.cache), "fit_on": "dev", "progress": True}
    if name == "jacobian":  # fitted on fewer rows than are scored
        lens(args.model, TASK, lens=name, layers="-1", rows=POSITIONS, save=folder, **options)
        return lens(args.model, TASK, lens=str(folder), rows=ROWS, **options)
    return lens(args.model, TASK, lens=name, rows=ROWS, **options)


def table(found: Mapping[str, LensScores]) -> str:
    """Return what is settled and the divergence, a line per layer and two columns per lens."""
    of_layers = {name: {one.layer: one for one in of.layers} for name, of in found.items()}
    header = ["layer", *(f"{name}, {what}" for name in found for what in ("settled", "divergence"))]
    layers = sorted(set().union(*of_layers.values()))
    lines = [
        [str(layer), *(cell for own in of_layers.values() for cell in cells(own.get(layer)))]
        for layer in layers
    ]
    return markdown(header, lines)


def cells(one: LayerPrediction | None) -> tuple[str, str]:
    """Return the two numbers of a layer, which a lens may not read."""
    return ("-", "-") if one is None else (one.settled.text(100), one.divergence.text(decimals=2))


def figure(found: Mapping[str, LensScores]) -> Figure:
    """Draw the share of predictions that are settled, by layer and lens, with its interval."""
    with matplotlib.rc_context(RC):
        drawn = new_figure(COLUMN_WIDTH, PANEL_HEIGHT)
        axes = drawn.subplots()
        handles, styles = [], curve_styles([*found])
        for name, of in found.items():
            layers = [one.layer for one in of.layers]
            shares = [one.settled for one in of.layers]
            style = styles[name].line_options()
            line = axes.plot(layers, [100 * one.value for one in shares], label=name, **style)
            low, high = ([100 * getattr(one, end) for one in shares] for end in ("low", "high"))
            axes.fill_between(layers, low, high, color=line[0].get_color(), alpha=0.2, lw=0)
            handles += line
        layer_axis(axes, layers)
        axes.set(ylabel="predictions settled (%)", ylim=(0, 100))
        axes.grid(axis="y")
        put_legend(drawn, handles, [], "95 % intervals")
        fit(drawn, [axes], PANEL_HEIGHT, "height")
    return drawn


if __name__ == "__main__":
    main()
