"""From a record back to the options that make it again: the inverse of `run_words.described`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from probekit.base.registry import as_typed
from probekit.base.selection import SOLVED
from probekit.errors import RecordError
from probekit.results.record import Record
from probekit.results.summaries.grouping import BASELINES

Options = Mapping[str, Any]
"""Options of the command line by name, with dashes as ``_``."""

_FORMS = {
    "label": re.compile(r"(?P<label>.+?)( \(control (?P<control>\d+)\))?"),
    "protocol": re.compile(
        r"(few-shot|zero-shot|fraction|full)(, fitted on (?P<fit_on>.+?))?"
        r"(, hold-out (?P<hold_out>[^ ,]+)( by (?P<group>.+?))?)?"
        r"(?P<drop_duplicates>, without duplicates)?"
    ),
    "select": re.compile(r"(?P<select>[^ ]+)( by (?P<group>.+))?"),
    "optimizer": re.compile(
        r"(?P<optimizer>AdamW?)(, weight decay (?P<weight_decay>[^,]+))?, "
        r"(?P<schedule>linear|constant) \w+(, warm-up (?P<warmup>.+))?"
    ),
}
"""Texts of a record, and the options that they state."""

_AS_WRITTEN = ("method", "normalize", "pooling", "l2", "epochs", "batch_size", "batch_tokens")
_OF_DRAW = ("depth", "shots", "fraction")
_NUMBERS = ("control", "hold_out", "weight_decay", "warmup")
_BY_STEPS = "adam"


def is_baseline(record: Record) -> bool:
    """Say whether ``train --baselines`` makes a record beside that of a head."""
    guessed = record.head in BASELINES or record.fitter == "none"
    return guessed or record.protocol.startswith("online code")


def stated_options(record: Record) -> tuple[dict[str, Any], list[str]]:
    """Return the options that a record states, but for layers and what was drawn.

    Returns:
        The options by name, and the names of the texts that are of another version of probekit, of
        which there are none.
    """
    texts = {name: getattr(record, name) for name in ("label", "protocol", "select")}
    by_steps = record.fitter == _BY_STEPS
    if by_steps:
        texts["optimizer"] = record.optimizer
    found: dict[str, Any] = {name: getattr(record, name) for name in _AS_WRITTEN}
    found |= {part: _typed(part, record) for part in ("head", "decoder")}
    found |= {"fit": record.fitter} | (_rates(record) if by_steps else {})
    found["start"] = SOLVED if record.init == SOLVED else None
    unread = []
    for name, text in texts.items():
        stated = None if text is None else _FORMS[name].fullmatch(text)
        if stated:
            found |= {key: one for key, one in stated.groupdict().items() if one is not None}
        elif text is not None:
            unread.append(name)
    found |= {name: _number(found[name]) for name in _NUMBERS if name in found}
    if "optimizer" in found:
        found["optimizer"] = found["optimizer"].lower()
    if "drop_duplicates" in found:
        found["drop_duplicates"] = True
    if found.get("label") == "None":
        del found["label"]
    if "folds" in record.diagnosis:  # the default, of which the draw allowed less
        found.pop("select", None)
    return {name: value for name, value in found.items() if value is not None}, unread


def recorded_options(record: Record) -> dict[str, Any]:
    """Return the options whose run has the record's key, where its entry is in the cache.

    Args:
        record: of a run of its own.

    Raises:
        RecordError: it is of a baseline, of a run that serves another one, or of one that started
            from a saved head, whose folder no record holds.
    """
    _check(record)
    stated, unread = stated_options(record)
    if unread:
        text = getattr(record, unread[0])
        raise RecordError(
            f"record {record.key[:8]}: its {unread[0]} {text!r} is of another version of probekit; "
            "no config can be written of it."
        )
    of_draw = {name: getattr(record, name) for name in _OF_DRAW}
    found = {
        **{"model": record.model, "task": record.task, "entry": record.entry},
        **{"layers": ",".join(map(str, record.layers)), **of_draw, **stated},
    }
    return {name: value for name, value in found.items() if value is not None}


def rows_of_options(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the options of every setting, with its ``seeds``: of each row of a table.

    Raises:
        RecordError: as `recorded_options`.
    """
    rows: list[dict[str, Any]] = []
    for record in records:
        options = recorded_options(record)
        for row in rows:
            if {**row, "seeds": None} == {**options, "seeds": None}:
                if record.seed not in row["seeds"]:
                    row["seeds"].append(record.seed)
                break
        else:
            rows.append({**options, "seeds": [record.seed]})
    return rows


def _check(record: Record) -> None:
    """Refuse what no command makes by itself.

    Raises:
        RecordError: it says why.
    """
    what = f"record {record.key[:8]} ({record.head})"
    if is_baseline(record):
        raise RecordError(
            f"{what} is of a baseline, which `probekit train --baselines` makes beside a head; "
            "choose others with --where."
        )
    if record.trial or record.left_out is not None:
        raise RecordError(f"{what} serves another run; choose others with --where.")
    if record.init not in (None, SOLVED):
        raise RecordError(
            f"{what} started from a saved head ({record.init}), and records do not know its "
            "folder: no config can be written of it. Choose others with --where, or give "
            "--init-from or --fusion-from on the command line."
        )


def _typed(part: str, record: Record) -> str:
    """Return a head or decoder with its settings, as it is typed."""
    prefix = f"{part}."
    settings = {
        key.removeprefix(prefix): value
        for key, value in record.options.items()
        if key.startswith(prefix)
    }
    return as_typed(getattr(record, part), settings)


def _rates(record: Record) -> dict[str, Any]:
    rates = [f"{name}={rate!r}" for name, rate in record.rates.items()]
    return {
        "lr": ",".join([repr(record.lr), *rates]) if rates else record.lr,
        "evals": record.evals,
    }


def _number(text: str) -> int | float:
    return int(text) if text.isdecimal() else float(text)
