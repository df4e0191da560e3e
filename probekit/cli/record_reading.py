"""``probekit plot``, ``table`` and ``compare``: what records say, as figures and as text."""

from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from probekit.base.registry import choose, flag
from probekit.cli.arguments import FigureLook, split_list
from probekit.cli.output import checked_default, print_json, show
from probekit.cli.record_tables import (
    TableOptions,
    asked_table,
    rows_as_config,
)
from probekit.cli.spread import spread
from probekit.errors import OptionError, RecordError
from probekit.plots import PLOTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probekit.results import Records
    from probekit.results.summaries.scored import Scored

*_FIRST, _LAST = PLOTS
_TABLES = ("scores", "depth", "weights", "initial", "shares", "ablation")
_RUN_HELP = (
    "A records file; where it holds several settings, with conditions that leave one of them, "
    "such as #head=p32#shots=128 (or #head=p32,shots=128), or with #KEY of a record."
)

Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUNS...",
        help="Records files (runs/<model>/<task>.jsonl), or folders of them (runs/<model>).",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", help="Only records with this value, e.g. shots=128. Repeatable."),
]
Raw = Annotated[bool, typer.Option("--raw", help="weights: values before the softmax.")]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="FILE.png, .svg or .pdf; KIND.png if unset.")
]
Of = Annotated[
    str | None,
    typer.Option(
        "--of",
        help="weights: weights (the default), initial, shares, ablation: of each layer; learning: "
        "score (the default) or loss.",
    ),
]
PerSeed = Annotated[
    bool, typer.Option("--per-seed", help="weights: one strip per seed instead of their mean.")
]
Overlay = Annotated[
    str,
    typer.Option(
        "--overlay",
        help="depth: what the curves of a panel are: model, task, head (the default), or several "
        "of them.",
    ),
]
Relative = Annotated[
    bool, typer.Option("--relative", help="depth: layers divided by the number of blocks.")
]
Along = Annotated[
    str | None, typer.Option("--along", help="learning: step (the default), epoch or seconds.")
]
Split = Annotated[
    str | None,
    typer.Option(
        "--split",
        help="depth, fewshot, fraction, overthinking, exit: dev, or test (the default where all "
        "have one); classes: dev (the default) or test.",
    ),
]
Classes = Annotated[
    str, typer.Option("--classes", help="classes, attention: only these, separated by commas.")
]
TableSplit = Annotated[
    str | None,
    typer.Option(
        "--split",
        help="depth, --columns, --verdicts: dev, or test (the default where all have one).",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", help="A column per value of this option, such as shots."),
]
BestOn = Annotated[
    str | None,
    typer.Option("--best-on", help="dev: each head at the options that are best on dev."),
]
VerdictsWanted = Annotated[
    bool,
    typer.Option("--verdicts", help="Mark rows surely above or below --against (Holm, 5 %)."),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        help="The reference of --verdicts: a head (last), or conditions such as "
        "head=mean,normalize=none.",
    ),
]
Also = Annotated[
    str,
    typer.Option(
        "--also", help="scores: these too, on every split: loss,ece,brier,accuracy, test/loss."
    ),
]
TableStyle = Annotated[
    str,
    typer.Option(
        "--style",
        help="text, markdown, html, latex (booktabs), csv (plain numbers) or jsonl (scores as in "
        "the records).",
    ),
]


def read_records(runs: "Sequence[str | Path]", where: "Sequence[str] | None" = None) -> "Records":
    """Return the records of some files that meet all conditions, which a command works with.

    Raises:
        RecordError: the files hold none at all, or none meets the conditions.
        MissingFileError: a file does not exist.
    """
    from probekit.results import load_records, select

    records = load_records(runs)
    if not records:
        raise RecordError(
            f"{', '.join(map(str, runs))}: no record in there; run `probekit train`, `sweep` or "
            "`depth` first, which say the file that they write."
        )
    return select(records, where or [])


@spread
def plot(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"{', '.join(_FIRST)} or {_LAST}.")],
    runs: Runs,
    output: Output = None,
    where: Where = None,
    raw: Raw = False,
    of: Of = None,
    per_seed: PerSeed = False,
    overlay: Overlay = "",
    relative: Relative = False,
    along: Along = None,
    split: Split = None,
    classes: Classes = "",
    *,
    look: FigureLook,
) -> None:
    """Draw a figure of RUNS: layer weights, curves, or what became of single classes."""
    from probekit.plots.style import save_figure

    draw = choose("plot", kind, PLOTS)
    given: dict[str, Any] = {"raw": raw, "of": of, "per_seed": per_seed, "relative": relative}
    given |= {"along": along, "split": split}
    given |= {"overlay": split_list(overlay), "classes": split_list(classes)}
    options = {name: value for name, value in given.items() if value}
    for name in options:
        _check_option(kind, name, flag(name))
    path = output or checked_default(Path(f"{kind}.png"), b"Software\0probekit")
    records = read_records(runs, where)
    save_figure(draw(records, **options, look=look.parse()), path)
    show(str(path))


def _check_option(kind: str, parameter: str, option: str) -> None:
    """Refuse an option of other figures than this one.

    Raises:
        OptionError: it is no parameter of the figure's function; the message names those that have
            it.
    """
    having = [name for name, draw in PLOTS.items() if parameter in signature(draw).parameters]
    if kind not in having:
        raise OptionError(
            f"{option}: plot {kind} has no such option; these have: {', '.join(having)}. "
            "Leave it out."
        )


def table(
    runs: Runs,
    of: Annotated[
        str,
        typer.Option(
            "--of",
            help="scores; or with a row per layer: depth, weights, initial (before training), "
            "shares (of the logits), ablation (the loss without a layer).",
        ),
    ] = "scores",
    where: Where = None,
    split: TableSplit = None,
    raw: Raw = False,
    columns: Columns = None,
    best_on: BestOn = None,
    verdicts: VerdictsWanted = False,
    against: Against = None,
    also: Also = "",
    style: TableStyle = "text",
    as_config: Annotated[
        bool,
        typer.Option(
            "--as-config",
            help="Print the options of these rows instead, for `probekit train --config FILE`.",
        ),
    ] = False,
    cache: Annotated[
        Path,
        typer.Option("--cache", help="--as-config: where the entries of your own data lie."),
    ] = Path("cache"),
) -> None:
    """Print what RUNS hold: means over seeds with 95 % intervals. Nothing is trained."""
    from probekit.results.summaries.layer_measures import MEASURES, RAW_WEIGHTS
    from probekit.results.tables import STYLES, depth_table, measure_table

    choose("table", of, dict.fromkeys(_TABLES))
    of_scores = columns is not None or verdicts or against is not None
    for option, given, owned in (
        ("--split", split is not None, of == "depth" or (of == "scores" and of_scores)),
        ("--raw", raw, of == "weights"),
        ("--columns", columns is not None, of == "scores"),
        ("--best-on", best_on is not None, of == "scores"),
        ("--verdicts", verdicts, of == "scores"),
        ("--against", against is not None, of == "scores"),
        ("--also", bool(also), of == "scores" and columns is None),
    ):
        if given and not owned:
            raise OptionError(f"{option}: a table of {of} has no such option; leave it out.")
    layout = choose("table style", style, STYLES)
    records = read_records(runs, where)
    if as_config:
        _check_options_alone(
            of=of != "scores", columns=columns, style=style != "text", split=split,
            verdicts=verdicts, against=against, also=also,
        )  # fmt: skip
        show(rows_as_config(records, cache, best_on), nl=False)
        return
    if of in MEASURES:
        found = measure_table(records, RAW_WEIGHTS if raw else MEASURES[of])
    elif of == "depth":
        found = depth_table(records, cast("Scored | None", split))
    else:
        asked = TableOptions(columns, split, best_on, verdicts, against, split_list(also))
        found = asked_table(records, asked)
    show(found.text(layout), nl=False)


def _check_options_alone(**given: Any) -> None:
    """Refuse options of a table where the options of its rows are wanted."""
    if others := [name for name, one in given.items() if one]:
        raise OptionError(f"--as-config writes options, not a table: leave --{others[0]} out.")


def compare(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN_A RUN_B", help=f"{_RUN_HELP} With --all: files.")
    ],
    every: Annotated[
        bool,
        typer.Option("--all", help="Compare every two settings of RUNS; verdicts after Holm."),
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            help="loss, ece, brier, accuracy, ...",
            show_default="the metric of the runs",
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            help="test (the default where all have one), dev, or dev-mm of MNLI.",
        ),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", help="Bootstrap samples.")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="Of the bootstrap.")] = 0,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="For all: only this value, e.g. shots=128. Repeatable."),
    ] = None,
    style: TableStyle = "text",
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per comparison.")
    ] = False,
) -> None:
    """Compare runs that kept their --predictions, over sentences and over seeds.

    For example: probekit compare conll.jsonl#head=dwatt conll.jsonl#head=last --where shots=128

    or, every two heads: probekit compare --all conll.jsonl --where shots=128
    """
    from probekit.results import comparison
    from probekit.results.tables import STYLES

    layout = choose("table style", style, STYLES)
    if layout != "text" and (json or not every):
        raise OptionError("--style is of --all, without --json; leave it out.")
    if every:
        records = read_records(runs, where)
        pairs = comparison.compare_all(
            records, split=split, metric=metric, samples=samples, seed=seed
        )
        table = comparison.pairs_table(pairs, samples)
        show(table.text("jsonl" if json else layout), nl=False)
        return
    if len(runs) != 2:
        raise OptionError(
            f"compare takes two runs, RUN_A and RUN_B; found {len(runs)}. With --all it compares "
            "every two settings of as many files as there are."
        )
    a, b = (comparison.choose_run(run, where or []) for run in runs)
    found = comparison.compare(a, b, split=split, metric=metric, samples=samples, seed=seed)
    if json:
        print_json([asdict(found)])
    else:
        show(comparison.comparison_table(found).text(), nl=False)
