"""What commands print: tables or JSON lines on stdout; bars and messages stay on stderr."""

import json as json_module
import logging
import math
from collections.abc import Mapping, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from probekit.base.markup import spelled_out, spelled_out_lines
from probekit.cli.messages import Terminal, logger
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.extraction import Forecast
    from probekit.extraction.maintenance import RowErrors
    from probekit.store.entry import Entry

_EPOCHS = 50
"""Epochs that a forecast is given for: those of a run by default."""


def progress_wanted() -> bool:
    """Say whether progress should be shown: ``--quiet`` was not given."""
    return any(isinstance(one, Terminal) and one.level <= logging.INFO for one in logger.handlers)


def checked_default(path: Path, mark: bytes) -> Path:
    """Return a file that nobody named, to be written; it may replace one of probekit's own.

    Args:
        path: the file.
        mark: what all files of its kind hold that probekit wrote.

    Raises:
        OptionError: another file has that name.
    """
    if path.exists() and not (path.is_file() and _holds(path, mark)):
        raise OptionError(f"{path} is there, and probekit did not write it: give another with -o.")
    return path


def _holds(path: Path, mark: bytes) -> bool:
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return False
        with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            return content.find(mark) >= 0


def show(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print lines, in which names and texts of anybody's may hold what a terminal would obey."""
    typer.echo(spelled_out_lines(text), err=err, nl=nl)


def print_json(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print one JSON object per line."""
    for row in rows:
        typer.echo(json_module.dumps(row, ensure_ascii=False))


def print_table(rows: Sequence[Mapping[str, Any]], *, json: bool = False) -> None:
    """Print rows as aligned columns, or as JSON lines."""
    if json:
        print_json(rows)
        return
    if not rows:
        return
    header = list(rows[0])
    cells = [header, *([_cell(row[name]) for name in header] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    for line in cells:
        show("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    return spelled_out(", ".join(map(str, value)) if isinstance(value, list) else str(value))


def print_entries(entries: Sequence["Entry"], *, json: bool = False) -> None:
    """Print where the entries lie and how large they are."""
    if json:
        manifests = [(entry.path, json_module.loads(entry.manifest.to_json())) for entry in entries]
        print_json([{"path": str(path), **manifest} for path, manifest in manifests])
        return
    for entry in entries:
        show(str(entry.path))


def print_forecast(forecasts: Sequence["Forecast"], *, json: bool = False) -> None:
    """Print what an extraction would take, and when it has paid for itself (``null``: never)."""
    from probekit.base.notices import human_bytes, short_time
    from probekit.extraction import break_even

    if json:
        epochs = break_even(forecasts)
        print_json([{**one.to_json(), "break_even_epochs": epochs} for one in forecasts])
    else:
        print_table(
            [
                {
                    "split": one.split,
                    "examples": f"{one.examples:,}",
                    "rows": [f"{count:,} {name}" for name, count in one.rows.items()],
                    "size": human_bytes(one.nbytes),
                    "extraction": _work(one),
                    "units": f"{one.units:,} of {short_time(one.unit_seconds)}",
                    "epoch with the model": short_time(one.rerun_seconds),
                    "epoch from the cache": short_time(one.read_seconds),
                }
                for one in forecasts
            ]
        )
        show(_verdict(forecasts))


def _work(one: "Forecast") -> str:
    """Return how long a split takes, and how much of it an unfinished extraction has done."""
    from probekit.base.notices import short_time

    begun = f" ({one.begun:.0%} is there)" if one.begun else ""
    return "complete" if one.complete else f"{short_time(one.seconds)}{begun}"


def _verdict(forecasts: Sequence["Forecast"]) -> str:
    """Return when a cache has paid for itself, in a sentence."""
    from probekit.base.notices import short_time
    from probekit.extraction import break_even, training_split

    fitted, epochs = training_split(forecasts), break_even(forecasts)
    if all(one.complete for one in forecasts):
        return "All of it is in the cache already."
    if epochs is None:
        return (
            f"Caching would lose: an epoch over {fitted.split} takes longer to read "
            f"({short_time(fitted.read_seconds)}) than to compute "
            f"({short_time(fitted.rerun_seconds)}). Store less (--layers, --keep, --dtype int8), "
            "or choose a faster disk with --cache."
        )
    count = max(math.ceil(epochs), 1)
    with_cache = sum(one.seconds for one in forecasts) + _EPOCHS * fitted.read_seconds
    return (
        f"The cache has paid for itself after {count:,} epoch{'s' * (count > 1)} of one head over "
        f"{fitted.split}. {_EPOCHS} epochs: {short_time(with_cache)} with the cache, extraction "
        f"included, {short_time(_EPOCHS * fitted.rerun_seconds)} without; the head's own time "
        "comes on top of both."
    )


def print_pairs(pairs: Mapping[str, Any]) -> None:
    """Print names and values, one pair per line."""
    width = max(map(len, pairs))
    for name, value in pairs.items():
        show(f"{spelled_out(name).ljust(width)}  {_cell(value)}")


def print_row_errors(report: "RowErrors", *, json: bool = False) -> None:
    """Print the row errors of every layer and the verdict."""
    from probekit.extraction.maintenance import TAIL

    if json:
        print_json([report.to_json()])
        return
    print_table(
        [
            {
                "layer": f"{layer} = emb" if layer == 0 else str(layer),
                "median error": f"{median:.2e}",
                "99th percentile": f"{p99:.2e}",
            }
            for layer, median, p99 in zip(report.layers, report.median, report.p99, strict=True)
        ]
    )
    verdict = "within" if report.passed else "NOT within"
    show(
        f"{report.rows} rows against {report.reference}: {verdict} tolerance "
        f"(median {report.tolerance:.0e}, 99th percentile {TAIL * report.tolerance:.0e})"
    )
