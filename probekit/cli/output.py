"""What commands print: tables or JSON lines on stdout, messages on stderr and in --log-file."""

import json as json_module
import logging
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from probekit.base.markup import spelled_out, spelled_out_lines
from probekit.errors import OptionError, StorageError

if TYPE_CHECKING:
    from probekit.extraction import Forecast
    from probekit.extraction.maintenance import RowErrors
    from probekit.results import Record
    from probekit.results.summaries.typeset import Table
    from probekit.store.entry import Entry

logger = logging.getLogger("probekit")

_EPOCHS = 50
"""Epochs that a forecast is given for: those of a run by default."""


class Spelled(logging.Formatter):
    """Names of strangers in messages move no cursor and set no title."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a message, their control characters spelled out."""
        return spelled_out_lines(super().format(record))


class Terminal(logging.StreamHandler[TextIO]):
    """Writes messages to stderr; a bar that is shown there stays below them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message."""
        from probekit.base.notices import above_bars

        with above_bars(self.stream):
            super().emit(record)


def start_messages(*, debug: bool, quiet: bool) -> None:
    """Send the messages of this process to stderr.

    Args:
        debug: also what helps to find a fault.
        quiet: only warnings and errors, and no bars.
    """
    terminal = Terminal(sys.stderr)
    terminal.setFormatter(Spelled("%(message)s"))
    terminal.setLevel(logging.DEBUG if debug else logging.WARNING if quiet else logging.INFO)
    logger.handlers = [terminal]
    logger.setLevel(terminal.level)
    logger.propagate = False
    # the one warns of a kernel that it can do without, the other of a font's weight
    for library in ("bitsandbytes", "matplotlib"):
        logging.getLogger(library).setLevel(logging.ERROR)


def log_to(file: Path) -> None:
    """Send all messages to a file as well, also those that ``--quiet`` keeps from stderr.

    Args:
        file: appended to, each line with its time; its folder is created.

    Raises:
        StorageError: it cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(file, encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"--log-file {file}: cannot be written ({error.strerror or error}); choose another."
        ) from error
    handler.setFormatter(Spelled("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    logger.addHandler(handler)
    logger.setLevel(min(logger.level, logging.INFO))


def end_messages() -> None:
    """Close the file."""
    for handler in logger.handlers[:]:
        if isinstance(handler, logging.FileHandler):
            logger.removeHandler(handler)
            handler.close()


def progress_wanted() -> bool:
    """Say whether progress should be shown: ``--quiet`` was not given."""
    return any(isinstance(h, Terminal) and h.level <= logging.INFO for h in logger.handlers)


def checked_default(path: Path, mark: bytes) -> Path:
    """Return a file that nobody named, to be written; it may replace one of probekit's own.

    Args:
        path: the file.
        mark: what all files of its kind hold that probekit wrote.

    Raises:
        OptionError: another file has that name.
    """
    if path.exists() and not (path.is_file() and mark in path.read_bytes()):
        raise OptionError(f"{path} is there, and probekit did not write it: give another with -o.")
    return path


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


def print_found(found: Any, table: "Table", *, json: bool) -> None:
    """Print what was measured as one JSON object, or as its table."""
    if json:
        print_json([found.to_json()])
    else:
        show(table.text(), nl=False)


def print_records(
    records: Sequence["Record"], *, json: bool = False, by_depth: bool = False
) -> None:
    """Print the scores of records, grouped over seeds, and what they are."""
    from probekit.results.tables import depth_table, score_table

    if json:
        print_json([record.to_json() for record in records])
    else:
        show((depth_table if by_depth else score_table)(records).text(), nl=False)


def print_entries(entries: Sequence["Entry"], *, json: bool = False) -> None:
    """Print where the entries lie and how large they are."""
    if json:
        manifests = [(entry.path, json_module.loads(entry.manifest.to_json())) for entry in entries]
        print_json([{"path": str(path), **manifest} for path, manifest in manifests])
        return
    for entry in entries:
        more = len(entry.parts) - 1
        show(f"{entry.path}{f' and {more:,} more parts' * (more > 0)}")


def print_forecast(forecasts: Sequence["Forecast"], *, json: bool = False) -> None:
    """Print what an extraction would take, and when it has paid for itself (``null``: never)."""
    from probekit.base.notices import human_bytes, short_time
    from probekit.extraction import break_even

    if json:
        epochs = break_even(forecasts)
        print_json([{**split.to_json(), "break_even_epochs": epochs} for split in forecasts])
    else:
        print_table(
            [
                {
                    "split": forecast.split,
                    "examples": f"{forecast.examples:,}",
                    "rows": [f"{count:,} {name}" for name, count in forecast.rows.items()],
                    "size": human_bytes(forecast.nbytes),
                    "extraction": _work(forecast),
                    "units": f"{forecast.units:,} of {short_time(forecast.unit_seconds)}",
                    "epoch with the model": short_time(forecast.rerun_seconds),
                    "epoch from the cache": short_time(forecast.read_seconds),
                }
                for forecast in forecasts
            ]
        )
        show(_verdict(forecasts))


def _work(forecast: "Forecast") -> str:
    """Return how long a split takes, and how much of it an unfinished extraction has dforecast."""
    from probekit.base.notices import short_time

    begun = f" ({forecast.begun:.0%} is there)" if forecast.begun else ""
    return "complete" if forecast.complete else f"{short_time(forecast.seconds)}{begun}"


def _verdict(forecasts: Sequence["Forecast"]) -> str:
    """Return when a cache has paid for itself, in a sentence."""
    from probekit.base.notices import short_time
    from probekit.extraction import break_even, training_split

    fitted, epochs = training_split(forecasts), break_even(forecasts)
    if all(forecast.complete for forecast in forecasts):
        return "All of it is in the cache already."
    if epochs is None:
        return (
            f"Caching would lose: an epoch over {fitted.split} takes longer to read "
            f"({short_time(fitted.read_seconds)}) than to compute "
            f"({short_time(fitted.rerun_seconds)}). Store less (--layers, --keep, --dtype int8), "
            "or choose a faster disk with --cache."
        )
    count = max(math.ceil(epochs), 1)
    with_cache = sum(forecast.seconds for forecast in forecasts) + _EPOCHS * fitted.read_seconds
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
