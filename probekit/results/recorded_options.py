"""From a record back to the options that make it again: the inverse of `run_words.described`."""

from collections.abc import Mapping, Sequence
from typing import Any

from probekit.base.selection import SOLVED
from probekit.errors import RecordError
from probekit.results.record import Record
from probekit.results.summaries.grouping import BASELINES

Options = Mapping[str, Any]
"""Options of the command line by name, with dashes as ``_``."""


def is_baseline(record: Record) -> bool:
    """Say whether ``train --baselines`` makes a record beside that of a head."""
    guessed = record.head in BASELINES or record.fitter == "none"
    return guessed or record.protocol.startswith("online code")


def stated_options(record: Record) -> dict[str, Any] | None:
    """Return the options of a run as they are typed; None of one of an earlier version.

    Args:
        record: of a run of its own.
    """
    if not record.spec:
        return None
    stated = {name: value for name, value in record.spec.items() if value is not False}
    if rates := stated.pop("rates", ()):
        stated["lr"] = ",".join([f"{stated['lr']}", *(f"{name}={rate}" for name, rate in rates)])
    if "folds" in record.diagnosis:  # the default, of which the draw allowed less
        stated.pop("select", None)
    return stated


def recorded_options(record: Record) -> dict[str, Any]:
    """Return the options whose run has the record's key, where its entry is in the cache.

    Args:
        record: of a run of its own.

    Raises:
        RecordError: it is of a baseline, of a run that serves another one, of one that started
            from a saved head, whose folder no record holds, or of an earlier version.
    """
    _check(record)
    stated = stated_options(record)
    if stated is None:
        raise RecordError(
            f"record {record.key[:8]} is of an earlier version of probekit, which did not record "
            "every option; no config can be written of it."
        )
    return {"model": record.model, "task": record.task, "entry": record.entry, **stated}


def rows_of_options(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the options of every setting, with its ``seeds``: of each row of a table.

    Raises:
        RecordError: as `recorded_options`.
    """
    rows: list[dict[str, Any]] = []
    for record in records:
        options = recorded_options(record)
        seed = options.pop("seed")
        for row in rows:
            if {**row, "seeds": None} == {**options, "seeds": None}:
                if seed not in row["seeds"]:
                    row["seeds"].append(seed)
                break
        else:
            rows.append({**options, "seeds": [seed]})
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
