"""Tables of records as commands print them, each with what stands below it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from probekit.cli.arguments import is_task
from probekit.cli.output import print_json, show
from probekit.errors import OptionError, RecordError
from probekit.store.layout import MANIFEST

if TYPE_CHECKING:
    from probekit.results import Record, Records
    from probekit.results.comparison import Verdicts
    from probekit.results.recorded_options import Options
    from probekit.results.summaries.best_options import BestOptions
    from probekit.results.summaries.layer_measures import LayerMeasure
    from probekit.results.summaries.scored import Scored
    from probekit.results.tables import Style

_OF_ENTRY = ("model", "task", "entry")


def print_records(
    records: "Sequence[Record]", *, json: bool = False, by_depth: bool = False
) -> None:
    """Print the scores of records, grouped over seeds, and what they are."""
    if json:
        print_json([record.to_json() for record in records])
        return
    show(depths_text(records) if by_depth else scores_text(records), nl=False)


@dataclass(frozen=True)
class TableOptions:
    """What is asked of a table of scores.

    Attributes:
        columns: the option whose values are columns, if it is a pivot.
        split: the split of a pivot's scores, and of verdicts.
        best_on: the split that chooses each head's options, if any does.
        verdicts: whether rows are compared with a reference.
        against: the reference; one that is given asks for verdicts.
        also: other scores that have columns.
    """

    columns: str | None = None
    split: str | None = None
    best_on: str | None = None
    verdicts: bool = False
    against: str | None = None
    also: Sequence[str] = ()


def asked_text(records: "Records", style: "Style", asked: TableOptions) -> str:
    """Return a table of scores as it was asked for, the baselines of heads beside them."""
    from probekit.results.comparison import verdicts
    from probekit.results.comparison.references import references
    from probekit.results.summaries.baseline_scores import beside_heads, rivals, without_baselines
    from probekit.results.summaries.best_options import best_options

    named = references(records, asked.against) if asked.against else []
    heads_named = bool(without_baselines(named)) or not named
    # a baseline is a row where it is the reference, and where columns are of an option
    kept = [*([] if heads_named else named), *(rivals(records) if asked.columns else ())]
    shown: Sequence[Record] = beside_heads(records, kept)
    best = best_options(shown, asked.best_on) if asked.best_on is not None else None
    shown = best.records if best else shown
    judged = None
    if asked.verdicts or asked.against:
        family = without_baselines(shown) if heads_named else shown
        judged = verdicts(family, asked.against, split=asked.split)
        _check_chosen(best, judged)
    if asked.columns is None:
        return scores_text(shown, style, asked.also, best=best, judged=judged)
    split = cast("Scored | None", asked.split)
    return pivot_text(shown, asked.columns, split, style, best=best, judged=judged)


def rows_as_config(records: "Records", cache: Path, best_on: str | None = None) -> str:
    """Return a config file that makes the runs of a row of a table again.

    Args:
        records: of the runs; baselines beside heads are left out, which come with them.
        cache: root of the cache, where the entries of the user's own data are found: what is read
            from them, and how, no record says.
        best_on: the split that chooses each head's options, if any does.

    Raises:
        RecordError: no record is left, several rows are, or no config can be written of one.
    """
    from probekit.results.recorded_options import rows_of_options
    from probekit.results.summaries.baseline_scores import without_baselines
    from probekit.results.summaries.best_options import best_options

    heads: Sequence[Record] = without_baselines(records) or records
    if not heads:
        raise RecordError("no records are there to write a config of.")
    if best_on is not None:
        heads = best_options(heads, best_on).records
    rows = rows_of_options(heads)
    if len(rows) > 1:
        names = {n for row in rows for n in row if any(row.get(n) != one.get(n) for one in rows)}
        raise RecordError(
            f"--as-config writes one row, and there are {len(rows)}, which differ in "
            f"{', '.join(sorted(names))}. Choose one with --where, or take the commands of "
            "`probekit report`."
        )
    return config_text(_at_its_entry(rows[0], cache))


def config_text(row: Mapping[str, Any]) -> str:
    """Return a TOML file of options: texts, numbers, truths and lists of them, by key."""
    lines = [f"{name} = {_toml_value(value)}" for name, value in row.items()]
    return "\n".join(["# probekit train --config FILE", *lines, ""])


def _toml_value(value: Any) -> str:
    """Return a value in TOML, whose texts are those of JSON, but for one control character."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, str):
        return dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return dumps(value)


def _at_its_entry(row: "Options", cache: Path) -> "Options":
    """Return options of a run on the user's own data with the path of its entry as MODEL.

    Raises:
        RecordError: the entry is not in the cache.
    """
    if is_task(row["task"]):
        return row
    key = row["entry"]
    folders = [path.parent for path in cache.glob(f"*/*/*-{key[:8]}/{MANIFEST}")]
    if not folders:
        raise RecordError(
            f"{row['task']} is data of your own, and a record does not say how it is read: give "
            f"the cache where entry {key[:8]} of {row['model']} lies, --cache DIR ({cache} has it "
            "not)."
        )
    return {"model": str(folders[0])} | {k: v for k, v in row.items() if k not in _OF_ENTRY}


def _check_chosen(best: "BestOptions | None", judged: "Verdicts") -> None:
    """Refuse verdicts on the scores that did the choosing: the best of many looks better."""
    if best and judged.split == "dev":
        raise OptionError(
            "--best-on dev with verdicts on dev: what was chosen for its dev score is higher there "
            "by chance. Give records with test scores, or leave one of both out."
        )


def scores_text(
    records: "Sequence[Record]",
    style: "Style" = "text",
    also: Sequence[str] = (),
    *,
    best: "BestOptions | None" = None,
    judged: "Verdicts | None" = None,
) -> str:
    """Return the table of scores, and below it what they are; CSV and JSON lines stand alone.

    Args:
        records: of the rows.
        style: as for ``table``.
        also: other scores that have columns.
        best: what dev chose of each head, if it did.
        judged: verdicts against a reference, if there are any.
    """
    from probekit.results import tables

    rows = tables.summarise(records, also=also)
    rows = tables.with_chosen(rows, best) if best else rows
    rows = tables.with_verdicts(rows, judged) if judged else rows
    untested = any(row.test_score is None for row in rows)
    notes = tables.footnotes(records, style, more=_said(best, judged, untested))
    return _captioned(tables.table(rows, style, also), notes, tables.caption(rows), style)


def pivot_text(
    records: "Sequence[Record]",
    columns: str,
    split: "Scored | None" = None,
    style: "Style" = "text",
    *,
    best: "BestOptions | None" = None,
    judged: "Verdicts | None" = None,
) -> str:
    """Return the scores on a split with a column per value of an option, and what they are."""
    from probekit.results import tables
    from probekit.results.summaries.scored import shown

    records, split = shown(records, split)
    text = tables.pivot(records, columns, split=split, style=style, judged=judged, best=best)
    notes = tables.footnotes(records, style, more=_said(best, judged, split == "dev"))
    return _captioned(text, notes, f"{split}; {tables.caption(tables.summarise(records))}", style)


def _said(best: "BestOptions | None", judged: "Verdicts | None", on_dev: bool) -> list[str]:
    """Return the lines below a table about what was chosen, and what was compared."""
    return [*(best.lines(on_dev) if best else ()), *(judged.lines if judged else ())]


def depths_text(
    records: "Sequence[Record]", split: "Scored | None" = None, style: "Style" = "text"
) -> str:
    """Return the table of scores by depth, and below it what they are; JSON lines stand alone."""
    from probekit.results.comparison import best_depths
    from probekit.results.summaries.scored import SCORE_OF, shown
    from probekit.results.tables import caption, depth_table, footnotes, summarise

    records, split = shown([record for record in records if record.depth is not None], split)
    best = best_depths(records)
    text = depth_table(records, SCORE_OF[split], style, best)
    return _captioned(text, footnotes(records, style, best), caption(summarise(records)), style)


def weights_text(records: "Sequence[Record]", *, raw: bool = False, style: "Style" = "text") -> str:
    """Return the table of layer weights, and below it what they are; JSON lines stand alone."""
    from probekit.results.summaries.layer_measures import RAW_WEIGHTS, WEIGHTS

    return measure_text(records, RAW_WEIGHTS if raw else WEIGHTS, style)


def measure_text(
    records: "Sequence[Record]", measure: "LayerMeasure", style: "Style" = "text"
) -> str:
    """Return the table of a number of each layer, and below it what it is."""
    from probekit.results.tables import footnotes, measure_caption, measure_table

    text = measure_table(records, measure, style)
    held = measure.held(records)
    notes = footnotes(held, style, more=measure.distances(measure.columns(held)))
    return _captioned(text, notes, measure_caption(records, measure), style)


def _captioned(table: str, footnotes: str, caption: str, style: "Style") -> str:
    """Return a table with what is below it: first what it marks, then what its numbers are."""
    from probekit.base.markup import html_view, spelled_out_lines
    from probekit.results.summaries.text_layout import markdown_text
    from probekit.results.summaries.typeset import BARE, latex_float

    if style in BARE:
        return table
    footnotes, caption = map(spelled_out_lines, (footnotes, caption))
    if style == "markdown":
        footnotes, caption = map(markdown_text, (footnotes, caption))
    if style == "html":
        return html_view(table, notes=[*footnotes.splitlines(), caption]) + "\n"
    if style == "latex":
        return latex_float(table, footnotes, caption)
    paragraph = "\n" if footnotes and style == "markdown" else ""
    return f"{table}\n{footnotes}{paragraph}{caption}\n"
