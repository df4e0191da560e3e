"""The report of some records: everything that they hold, on one page in one file."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from probekit.base.registry import choose
from probekit.base.replacing import replacing
from probekit.errors import MissingFileError, OptionError, RecordError, StorageError
from probekit.page.asked_facts import find_asked
from probekit.page.example_grids import example_grids
from probekit.page.layer_cells import layer_figures
from probekit.page.probe_depths import exit_figures, overthinking_figures
from probekit.page.rendering import render
from probekit.page.rerun_commands import rerun_commands
from probekit.page.score_curves import amount_figures, depth_figures
from probekit.page.score_tables import score_tables
from probekit.results.overthinking.estimates import Bootstrap
from probekit.results.record import Record
from probekit.results.summaries.scored import SCORE_OF, Scored
from probekit.results.summaries.wording import model_text
from probekit.version import __version__

logger = logging.getLogger(__name__)

SUFFIXES = (".html", ".htm")
EXAMPLES = 20_000
"""Sentences of a grid, at most: some 15 MB of page for 12 layers and sentences of 25 words."""


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What is shown of records.

    Attributes:
        title: of the page; None names models and tasks.
        note: what a reader should know first, a paragraph under the title: the question, the
            answer.
        against: the reference of the tables of scores: a head, or conditions; None is ``last``.
        split: test or dev; None is test where all of what is shown together have one, else dev.
        cache: root of the cache in which the records' entries are looked for.
        verify: compare the checksums of these entries, not their sizes alone.
        examples: sentences that a grid of predictions holds, evenly spaced; 0 leaves grids out.
        samples: bootstrap samples of all intervals over sentences.
        progress: show progress on stderr.
    """

    title: str | None = None
    note: str | None = None
    against: str | None = None
    split: Scored | None = None
    cache: Path = Path("cache")
    verify: bool = True
    examples: int = EXAMPLES
    samples: int = 2_000
    progress: bool = False

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OptionError: too few samples, or a negative number of examples.
            UnknownNameError: there is no such split.
        """
        Bootstrap(samples=self.samples)
        if self.split is not None:
            choose("split", self.split, SCORE_OF)
        if self.examples < 0:
            raise OptionError(
                f"--examples {self.examples}: give the most sentences that a grid may hold, or 0 "
                "for no grid."
            )


def write_report(
    records: Sequence[Record],
    out: str | Path = "report.html",
    options: ReportOptions | None = None,
) -> Path:
    """Write one HTML file that shows what records hold; it needs no server, network or Python.

    It holds what was asked and the commands that make it again, tables of scores, curves, layer
    weights, overthinking and early exit, and the predictions per example. What records do not hold
    is left out, and the page says what to run for it.

    Args:
        records: what `load_records` returned.
        out: the file, ``.html``; its folder must exist.
        options: what is shown of them.

    Returns:
        The file.

    Raises:
        RecordError: there are no records, or a mean over seeds would mix runs.
        OptionError: the file is not called ``.html``.
        MissingFileError: the folder does not exist.
        StorageError: the file cannot be written.
    """
    path = check_report(out)
    data = page_data(records, options or ReportOptions())
    try:
        with replacing(path) as fresh:
            fresh.write_bytes(render(data["title"], data))
    except OSError as error:
        raise StorageError(
            f"{path}: cannot write the report ({error.strerror}); choose another file with -o."
        ) from error
    return path


def check_report(out: str | Path) -> Path:
    """Check where a report is to be written, before anything is computed.

    Raises:
        OptionError: the file is not called ``.html``, or is a folder.
        MissingFileError: its folder does not exist.
    """
    path = Path(out)
    if path.suffix.lower() not in SUFFIXES or path.is_dir():
        what = "is a folder" if path.is_dir() else f"ends in {path.suffix or 'nothing'!r}"
        raise OptionError(f"{path}: a report is one HTML file, and this {what}; give FILE.html.")
    if not path.parent.is_dir():
        raise MissingFileError(
            f"{path}: the folder {path.parent} does not exist; create it, or choose another file."
        )
    return path


def page_data(records: Sequence[Record], options: ReportOptions) -> dict[str, Any]:
    """Return what the page shows, as JSON values.

    Raises:
        RecordError: there are no records, or a mean over seeds would mix runs.
    """
    own = [one for one in records if not one.trial and one.left_out is None]
    if not own:
        raise RecordError(
            "a report needs records of finished runs, and there are none here; run `probekit "
            "train`, `sweep` or `depth` first."
        )
    asked = find_asked(own, options.cache, verify=options.verify, progress=options.progress)
    again = rerun_commands(own, asked.sources, options.cache, asked.kinds)
    figures, absent = _figures(own, options)
    tables = score_tables(own, options.against, options.split, options.samples)
    grids, sentences, missing = _grids(own, options)
    return {
        "title": options.title or _title(own),
        "note": options.note or "",
        "version": __version__,
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "facts": [list(pair) for pair in asked.facts.items()],
        "entries": [entry.to_json() for entry in asked.entries],
        "commands": [*asked.commands, *again],
        "tables": [one.to_json() for one in tables],
        "figures": [one.to_json() for one in figures],
        "grids": grids,
        "sentences": sentences,
        "absent": [*absent, *missing],
    }


def _title(records: Sequence[Record]) -> str:
    models = list(dict.fromkeys(model_text(record.model) for record in records))
    tasks = list(dict.fromkeys(record.task for record in records))
    return f"{_counted(models, 'models')} on {_counted(tasks, 'tasks')}"


def _counted(names: Sequence[str], what: str) -> str:
    return ", ".join(names) if len(names) < 4 else f"{len(names)} {what}"


def _figures(own: Sequence[Record], options: ReportOptions) -> tuple[list[Any], list[str]]:
    """Return all pictures, and what could not be drawn and why."""
    asked, shown = (options.split, Bootstrap(samples=options.samples)), options.progress
    shares, no_shares = overthinking_figures(own, *asked, progress=shown)
    exits, no_exits = exit_figures(own, *asked, progress=shown)
    depths = list(depth_figures(own, options.split))
    if not depths:
        no_shares = ["depth curves: no head was probed at two depths or more; run `probekit depth` "
                     "of the same model and task."]  # fmt: skip
    figures = [*depths, *layer_figures(own), *amount_figures(own, options.split), *shares, *exits]
    return figures, list(dict.fromkeys([*no_shares, *no_exits]))


def _grids(
    records: Sequence[Record], options: ReportOptions
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """Return the grids, the sentences that they are of, each once, and what has no grid and why."""
    if not options.examples:
        return [], [], []
    found, missing = example_grids(records, options.split, progress=options.progress)
    grids: list[dict[str, Any]] = []
    sentences: list[dict[str, Any]] = []
    for one in found:
        grid, own = one.to_json(options.examples)
        if own not in sentences:
            sentences.append(own)
        grids.append(grid | {"sentences": sentences.index(own)})
    return grids, sentences, missing
