"""``probekit plot``, ``table``, ``compare``, ``overthinking``, ``exit``: what records say."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from probekit.base.registry import Panel, choose, flag, option
from probekit.cli import arguments
from probekit.cli.arguments import FigureLook, Json
from probekit.cli.output import checked_default, print_json, show
from probekit.cli.spread import spread
from probekit.errors import OptionError, RecordError
from probekit.plots import PLOTS

if TYPE_CHECKING:
    from probekit.results import Record
    from probekit.results.summaries.scored import Scored
    from probekit.results.summaries.typeset import Table

*_FIRST, _LAST = PLOTS
_RAW = "raw"
"""The weights before the softmax, as a value of ``--of``."""

_TABLES = ("scores", "depth", "suite", "weights", _RAW, "initial", "shares", "ablation")

Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUNS",
        help="Records files (runs/<model>/<task>.jsonl), or folders of them (runs/<model>).",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", help="Only records with this value, e.g. shots=128. Repeatable."),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        help="The metric that is shown: auroc, brier, accuracy, ...; that of the runs if unset.",
    ),
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="FILE.png, .svg or .pdf; KIND.png if unset.")
]
TableStyle = Annotated[
    str,
    typer.Option(
        "--style",
        help="text, markdown, html, latex (booktabs), csv (plain numbers) or jsonl (scores as in "
        "the records).",
    ),
]


@dataclass(frozen=True, kw_only=True)
class FigureOptions:
    """What a figure shows; each option is of some kinds of figures."""

    split: str | None = option(
        None,
        "depth, points, fewshot, fraction, overthinking, exit: dev, or test (the default where all "
        "have one); classes: dev (the default) or test.",
    )
    of: str | None = option(
        None,
        "weights: weights (the default), raw (before the softmax), initial, shares, ablation: of "
        "each layer; learning: score (the default) or loss.",
    )
    overlay: tuple[str, ...] | None = option(
        None,
        "depth: what the curves of a panel are: model, task, head (the default), or several of "
        "them.",
    )
    relative: bool = option(False, "depth: layers divided by the number of blocks.")
    classes: tuple[str, ...] | None = option(
        None, "classes, attention: only these, separated by commas."
    )
    along: str | None = option(None, "learning: step (the default), epoch or seconds.", Panel.SHOWN)

    def of_kind(self, kind: str) -> dict[str, Any]:
        """Return the options that were typed, for a kind of figure.

        Raises:
            OptionError: one is none of the figure's; the message names those that have it.
        """
        typed = {name: value for name, value in vars(self).items() if value}
        for name in typed:
            having = [each for each, draw in PLOTS.items() if name in signature(draw).parameters]
            if kind not in having:
                raise OptionError(
                    f"plot {kind} takes no {flag(name)}. Leave it out; it works with "
                    f"{', '.join(having)}."
                )
        if kind == "weights" and self.of == _RAW:
            typed |= {"of": "weights", "raw": True}
        return typed


def read_records(
    runs: "Sequence[str | Path]",
    where: "Sequence[str] | None" = None,
    metric: str | None = None,
) -> "Sequence[Record]":
    """Return the records of some files that meet all conditions, which a command works with.

    Args:
        runs: the files.
        where: the conditions.
        metric: in which scores are shown; None is that of the runs.

    Raises:
        RecordError: the files hold none at all, or none meets the conditions.
        MissingFileError: a file does not exist.
    """
    from probekit.results import load_records, scored_by, select

    records = load_records(runs)
    if not records:
        raise RecordError(
            f"no records in {', '.join(map(str, runs))}. Run `probekit train`, `sweep` or `depth` "
            "first: each says which file it writes."
        )
    return scored_by(select(records, where or []), metric)


@spread
def plot(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"{', '.join(_FIRST)} or {_LAST}.")],
    runs: Runs,
    output: Output = None,
    where: Where = None,
    metric: Metric = None,
    *,
    options: FigureOptions,
    look: FigureLook,
) -> None:
    """Draw a figure of RUNS: layer weights, curves, or what became of single classes."""
    from probekit.plots.style import save_figure

    draw = choose("plot", kind, PLOTS)
    typed = options.of_kind(kind)
    path = output or checked_default(Path(f"{kind}.png"), b"Software\0probekit")
    records = read_records(runs, where, metric)
    save_figure(draw(records, **typed, look=look.parse()), path)
    show(str(path))


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What is asked of a table."""

    split: str | None = option(
        None, "depth, --columns, --verdicts: dev, or test (the default where all have one)."
    )
    columns: str | None = option(None, "A column per value of this option, such as shots.")
    best_on: str | None = option(None, "dev: each head at the options that are best on dev.")
    verdicts: bool = option(False, "Mark rows surely above or below --against (Holm, 5 %).")
    against: str | None = option(
        None,
        "The reference of --verdicts: a head (last), or conditions such as "
        "head=mean,normalize=none.",
    )
    also: tuple[str, ...] | None = option(
        None, "scores: these too, on every split: loss,ece,brier,accuracy, test/loss."
    )


@spread
def table(
    runs: Runs,
    of: Annotated[
        str,
        typer.Option(
            "--of",
            help="scores; or with a row per layer: depth, suite (means over tasks), weights, raw "
            "(before the softmax), initial (before training), shares (of the logits), ablation "
            "(the loss without a layer).",
        ),
    ] = "scores",
    where: Where = None,
    metric: Metric = None,
    *,
    asked: TableOptions,
    style: TableStyle = "text",
) -> None:
    """Print what RUNS hold: means over seeds with 95 % intervals. Nothing is trained."""
    from probekit.results.summaries.layer_measures import MEASURES, RAW_WEIGHTS
    from probekit.results.tables import STYLES, depth_table, measure_table, suite_table

    choose("table", of, dict.fromkeys(_TABLES))
    _check_typed(of, asked)
    layout = choose("table style", style, STYLES)
    records = read_records(runs, where, metric)
    if measure := {**MEASURES, _RAW: RAW_WEIGHTS}.get(of):
        shown = measure_table(records, measure)
    elif of in ("depth", "suite"):
        tabulate = depth_table if of == "depth" else suite_table
        shown = tabulate(records, cast("Scored | None", asked.split))
    else:
        shown = asked_table(records, asked)
    show(shown.text(layout), nl=False)


def _check_typed(of: str, asked: TableOptions) -> None:
    """Refuse options that were typed for another table.

    Raises:
        OptionError: a table of this kind has no such option.
    """
    typed = [name for name, value in vars(asked).items() if value not in (None, False, ())]
    of_scores = {"columns", "best_on", "verdicts", "against", "also"}
    if asked.columns is not None:
        of_scores.remove("also")
    if {"columns", "verdicts", "against"} & set(typed):
        of_scores.add("split")
    taken = {"scores": of_scores, "depth": {"split"}, "suite": {"split"}}
    for name in typed:
        if name not in taken.get(of, ()):
            raise OptionError(f"table --of {of} takes no {flag(name)}. Leave it out.")


def asked_table(records: "Sequence[Record]", asked: TableOptions) -> "Table":
    """Return a table of scores as it was asked for, the baselines of heads beside them."""
    from probekit.results.comparison import verdicts
    from probekit.results.comparison.runs import references
    from probekit.results.summaries.grouping import beside_heads, rivals, without_baselines
    from probekit.results.summaries.select import best_options
    from probekit.results.tables import pivot, score_table

    named = references(records, asked.against) if asked.against else []
    heads_named = bool(without_baselines(named)) or not named
    # a baseline is a row where it is the reference, and where columns are of an option
    baselines = [*([] if heads_named else named), *(rivals(records) if asked.columns else ())]
    shown: Sequence[Record] = beside_heads(records, baselines)
    best = best_options(shown, asked.best_on) if asked.best_on is not None else None
    shown = best.records if best else shown
    judged = None
    if asked.verdicts or asked.against:
        family = without_baselines(shown) if heads_named else shown
        judged = verdicts(family, asked.against, split=asked.split)
        if best and judged.split == "dev":
            raise OptionError(
                "--best-on dev with verdicts on dev: what was chosen for its dev score is higher "
                "there by chance. Give records with test scores, or leave one of both out."
            )
    if asked.columns is None:
        return score_table(shown, asked.also or (), best=best, judged=judged)
    split = cast("Scored | None", asked.split)
    return pivot(shown, asked.columns, split=split, best=best, judged=judged)


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN_A RUN_B",
            help="A records file; where it holds several settings, with conditions that leave one "
            "of them, such as #head=p32#shots=128 (or #head=p32,shots=128), or with #KEY of a "
            "record. With --all: files.",
        ),
    ],
    every: Annotated[
        bool,
        typer.Option("--all", help="Compare every two settings of RUNS; verdicts after Holm."),
    ] = False,
    where: Where = None,
    metric: Metric = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split", help="test (the default where all have one), dev, or dev-mm of MNLI."
        ),
    ] = None,
    style: TableStyle = "text",
    json: Json = False,
) -> None:
    """Compare runs that kept their --predictions, over sentences and over seeds.

    For example: probekit compare conll.jsonl#head=dwatt conll.jsonl#head=last --where shots=128

    or, every two heads: probekit compare --all conll.jsonl --where shots=128
    """
    from probekit.results import comparison
    from probekit.results.tables import STYLES

    layout = choose("table style", style, STYLES)
    if layout != "text" and (json or not every):
        raise OptionError("--style needs --all and goes without --json.")
    if every:
        records = read_records(runs, where)
        pairs = comparison.compare_all(records, metric=metric, split=split)
        table = comparison.pairs_table(pairs)
        show(table.text("jsonl" if json else layout), nl=False)
        return
    if len(runs) != 2:
        raise OptionError(
            f"compare takes two runs, RUN_A and RUN_B; found {len(runs)}. To compare every two "
            "settings of any number of files, give --all."
        )
    a, b = (comparison.choose_run(run, where or []) for run in runs)
    compared = comparison.compare(a, b, metric=metric, split=split)
    if json:
        print_json([asdict(compared)])
    else:
        show(comparison.comparison_table(compared).text(), nl=False)


@dataclass(frozen=True, kw_only=True)
class Probes:
    """Which probes are looked at, and on which split."""

    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            help="Only records with this value, e.g. head=mean (without it head=last). Repeatable.",
        ),
    ] = None
    split: str | None = option(
        None, "test or dev.", show_default="test where there are labels, else dev"
    )
    json: arguments.Json = False

    def records(self, runs: Sequence[Path]) -> "Sequence[Record]":
        """Return the records of the probes; an unknown split is refused first."""
        from probekit.results.summaries.scored import SCORE_OF
        from probekit.results.summaries.select import condition_names

        if self.split is not None:
            choose("split", self.split, SCORE_OF)
        where = self.where or []
        usual = [] if "head" in condition_names(where) else ["head=last"]
        return read_records(runs, [*usual, *where])


@spread
def overthinking(
    runs: Runs,
    *,
    probes: Probes,
) -> None:
    """Count what earlier depths had right and the last has wrong, against chance.

    RUNS are what `probekit depth` recorded. `probekit report` shows the words themselves, and
    `probekit plot overthinking` draws the shares.
    """
    from probekit.results import overthinking as results
    from probekit.results.overthinking.measure import overthinking_text

    records = probes.records(runs)
    counted = results.overthinking(records, split=probes.split)
    if probes.json:
        print_json([{"kind": "overthinking", **asdict(probe)} for probe in counted])
    else:
        show(overthinking_text(counted) + _notes_text(records), nl=False)


@spread
def exit_early(
    runs: Runs,
    *,
    probes: Probes,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance",
            help="Score that may be lost where thresholds are chosen; 0.01 is one point of 100.",
        ),
    ] = 0.01,
) -> None:
    """Let sentences leave early at the probe of a depth: score against layers used.

    RUNS are what `probekit depth` recorded. `probekit plot exit` draws it.
    """
    from probekit.results.overthinking import early_exit
    from probekit.results.overthinking.early_exit import check_tolerance, exit_text

    check_tolerance(tolerance)
    records = probes.records(runs)
    curves = early_exit(records, split=probes.split, tolerance=tolerance)
    if probes.json:
        print_json([asdict(curve) for curve in curves])
    else:
        show(exit_text(curves) + _notes_text(records), nl=False)


def _notes_text(records: Sequence["Record"]) -> str:
    """Return what is wrong with the probes, as below a table."""
    from probekit.results.summaries.diagnosis import notes

    return "".join(f"\n{line}\n" for line in notes(records))
