"""Tables of records as commands print them, and the config of one of their rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from probekit.base.registry import option
from probekit.base.replacing import matching
from probekit.base.selection import SOLVED
from probekit.cli.output import print_json, show
from probekit.errors import OptionError, RecordError
from probekit.store.layout import MANIFEST

if TYPE_CHECKING:
    from probekit.results import Record
    from probekit.results.summaries.scored import Scored
    from probekit.results.summaries.typeset import Table

Options = Mapping[str, Any]
"""Options of the command line by name, with dashes as ``_``."""

_OF_ENTRY = ("model", "task", "entry")


def print_records(
    records: "Sequence[Record]", *, json: bool = False, by_depth: bool = False
) -> None:
    """Print the scores of records, grouped over seeds, and what they are."""
    from probekit.results.tables import depth_table, score_table

    if json:
        print_json([record.to_json() for record in records])
        return
    show((depth_table if by_depth else score_table)(records).text(), nl=False)


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


def rows_as_config(records: "Sequence[Record]", cache: Path, best_on: str | None = None) -> str:
    """Return a config file that makes the runs of a row of a table again.

    Args:
        records: of the runs; baselines beside heads are left out, which come with them.
        cache: root of the cache, where the entries of the user's own data are found: what is read
            from them, and how, no record says.
        best_on: the split that chooses each head's options, if any does.

    Raises:
        RecordError: no record is left, several rows are, or no config can be written of one.
    """
    from probekit.results.summaries.grouping import without_baselines
    from probekit.results.summaries.select import best_options

    heads: Sequence[Record] = without_baselines(records) or records
    if not heads:
        raise RecordError("no records are there to write a config of.")
    if best_on is not None:
        heads = best_options(heads, best_on).records
    rows = _rows_of_options(heads)
    if len(rows) > 1:
        names = {n for row in rows for n in row if any(row[n] != each.get(n) for each in rows)}
        raise RecordError(
            f"--as-config writes one row, and there are {len(rows)}, which differ in "
            f"{', '.join(sorted(names))}. Choose one with --where, or take the commands of "
            "`probekit report`."
        )
    return config_text(_at_its_entry(rows[0], cache))


def config_text(row: Mapping[str, Any]) -> str:
    """Return a TOML file of options: texts, numbers, truths and lists of them, by key."""
    lines = [
        f"{name} = {_toml_value(value)}"
        for name, value in row.items()
        if not isinstance(value, dict)
    ]
    for name, table in row.items():
        if isinstance(table, dict):
            lines += ["", f"[{name}]", *(f"{k} = {_toml_value(v)}" for k, v in table.items())]
    return "\n".join(["# probekit train --config FILE", *lines, ""])


def _toml_value(value: Any) -> str:
    """Return a value in TOML, whose texts are those of JSON, but for one control character."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, str):
        return dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return dumps(value)


def _at_its_entry(row: Options, cache: Path) -> Options:
    """Return options of a run on the user's own data with the path of its entry as MODEL.

    Raises:
        RecordError: the entry is not in the cache.
    """
    if _is_task(row["task"]):
        return row
    key = row["entry"]
    folders = [path.parent for path in matching(cache, f"*/*/*-{key[:8]}/{MANIFEST}")]
    if not folders:
        raise RecordError(
            f"{row['task']} is data of your own, and a record does not say how it is read: give "
            f"the cache where entry {key[:8]} of {row['model']} lies, --cache DIR ({cache} has it "
            "not)."
        )
    return {"model": str(folders[0])} | {k: v for k, v in row.items() if k not in _OF_ENTRY}


def _is_task(name: str) -> bool:
    """Say whether a name is that of a task that probekit knows."""
    from probekit.tasks import TASKS

    head, slash, _ = name.partition("/")
    return head in TASKS and bool(slash) == bool(TASKS[head].variant)


def _rows_of_options(records: "Sequence[Record]") -> list[dict[str, Any]]:
    """Return the options of every setting, with its ``seeds``: of each row of a table.

    Raises:
        RecordError: no command makes a record by itself, or it is of an earlier version.
    """
    rows: dict[str, dict[str, Any]] = {}
    for record in records:
        options = _options_of(record)
        seed = options.pop("seed")
        row = rows.setdefault(dumps(options, sort_keys=True), {**options, "seeds": []})
        if seed not in row["seeds"]:
            row["seeds"].append(seed)
    return list(rows.values())


def _options_of(record: "Record") -> dict[str, Any]:
    """Return the options whose run has the record's key, where its entry is in the cache."""
    from probekit.results.summaries.grouping import is_baseline

    name, stated = f"record {record.key[:8]} ({record.head})", record.stated()
    if is_baseline(record):
        raise RecordError(
            f"{name} is of a baseline, which `probekit train --baselines` makes beside a head; "
            "choose others with --where."
        )
    if record.trial or record.left_out is not None:
        raise RecordError(f"{name} serves another run; choose others with --where.")
    if record.init not in (None, SOLVED):
        raise RecordError(
            f"{name} started from a saved head ({record.init}), and records do not know its "
            "folder: no config can be written of it. Choose others with --where, or give "
            "--start DIR on the command line."
        )
    if stated is None:
        raise RecordError(
            f"record {record.key[:8]} is of an earlier version of probekit, which did not record "
            "every option; no config can be written of it."
        )
    return {"model": record.model, "task": record.task, "entry": record.entry, **stated}
