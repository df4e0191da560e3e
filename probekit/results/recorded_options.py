"""From a record back to the options that make it again: the inverse of `run_words.described`.

Like `option_groups` it imports no torch, since a table of records is made without it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from probekit.base.registry import as_typed
from probekit.errors import RecordError
from probekit.results import Record

Options = Mapping[str, Any]
"""Options of the command line by name, with dashes as ``_``."""

_PROTOCOL = re.compile(
    r"(few-shot|zero-shot|fraction|full)(, fitted on (?P<fit_on>.+?))?"
    r"(, hold-out (?P<hold_out>[^ ]+)( by (?P<group>.+))?)?"
)
_OPTIMIZER = re.compile(
    r"Adam(W, weight decay (?P<weight_decay>[^,]+))?, (?P<schedule>linear decay|constant rate)"
    r"(, warm-up (?P<warmup>.+))?"
)
_SELECT = re.compile(r"(?P<select>[^ ]+)( by (?P<group>.+))?")
_CONTROL = re.compile(r"(?P<label>.+?)( \(control (?P<control>\d+)\))?")
_AS_WRITTEN = ("depth", "normalize", "pooling", "shots", "fraction", "l2", "epochs", "batch_size")
_BY_STEPS = "adam"


def recorded_options(record: Record) -> dict[str, Any]:
    """Return the options whose run has the record's key, where its entry is in the cache.

    Args:
        record: of a run of its own.

    Raises:
        RecordError: it is of a baseline, of a run that serves another one, or of one that started
            from a saved head, whose folder no record holds.
    """
    _check(record)
    protocol = _parts(_PROTOCOL, record.protocol, record, "protocol")
    label = _parts(_CONTROL, record.label, record, "label")
    select = {} if record.select is None else _parts(_SELECT, record.select, record, "select")
    if "folds" in record.diagnosis:  # the default, of which the draw allowed less
        select.pop("select", None)
    found: dict[str, Any] = {
        **{"model": record.model, "task": record.task, "entry": record.entry},
        "label": None if label["label"] == "None" else label["label"],
        "control": _number(label.get("control")),
        "head": _plug_in("head", record.head, record),
        "decoder": _plug_in("decoder", record.decoder, record),
        "layers": ",".join(map(str, record.layers)),
        **{name: getattr(record, name) for name in _AS_WRITTEN},
        "fit": record.fitter,
        **{**protocol, "hold_out": _number(protocol.get("hold_out"))},
        **select,
        **(_descent(record) if record.fitter == _BY_STEPS else {}),
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
    if record.fitter == "none" or record.protocol.startswith("online code"):
        raise RecordError(
            f"{what} is of a baseline, which `probekit train --baselines` makes beside a head; "
            "choose others with --where."
        )
    if record.trial or record.left_out is not None or record.resample is not None:
        raise RecordError(f"{what} serves another run; choose others with --where.")
    if record.init is not None:
        raise RecordError(
            f"{what} started from a saved head ({record.init}), and records do not know its "
            "folder: no config can be written of it. Choose others with --where, or give "
            "--init-from or --fusion-from on the command line."
        )


def _parts(form: re.Pattern[str], text: str, record: Record, name: str) -> dict[str, Any]:
    if not (found := form.fullmatch(text)):
        raise RecordError(
            f"record {record.key[:8]}: its {name} {text!r} is of another version of probekit; no "
            "config can be written of it."
        )
    return {key: value for key, value in found.groupdict().items() if value is not None}


def _plug_in(kind: str, name: str, record: Record) -> str:
    """Return a head or decoder with its settings, as it is typed."""
    prefix = f"{kind}."
    settings = {
        key.removeprefix(prefix): value
        for key, value in record.options.items()
        if key.startswith(prefix)
    }
    return as_typed(name, settings)


def _descent(record: Record) -> dict[str, Any]:
    found = _parts(_OPTIMIZER, record.optimizer, record, "optimizer")
    rates = [f"{name}={rate!r}" for name, rate in record.rates.items()]
    return {
        "optimizer": "adam" if record.optimizer.startswith("Adam,") else "adamw",
        "weight_decay": _number(found.get("weight_decay")),
        "schedule": found["schedule"].partition(" ")[0],
        "warmup": _number(found.get("warmup")),
        "lr": ",".join([repr(record.lr), *rates]) if rates else record.lr,
        "evals": record.evals,
    }


def _number(text: str | None) -> int | float | None:
    return None if text is None else int(text) if text.isdecimal() else float(text)
