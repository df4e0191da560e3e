"""Pages of one file: the report of some records, and texts as heads or layers read them."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from probekit.base.registry import PathName, choose
from probekit.base.replacing import replacing
from probekit.errors import MissingFileError, OptionError, ProbekitError, RecordError, StorageError
from probekit.page.example_grids import packed_grids
from probekit.page.page_figures import page_figures, task_title
from probekit.page.rerun_commands import ENTRY_COLUMNS, find_asked, rerun_commands
from probekit.results import tables
from probekit.results.comparison import verdicts
from probekit.results.comparison.resampling import Bootstrap
from probekit.results.layer_scores import TextPredictions
from probekit.results.record import Record
from probekit.results.summaries.grouping import beside_heads, full_depth, grouped, without_baselines
from probekit.results.summaries.scored import SCORE_OF, Scored, scored_by
from probekit.results.summaries.typeset import NOTHING
from probekit.results.summaries.wording import OPTIONS, layer_text, model_text
from probekit.tasks.suites import SUITES
from probekit.version import __version__

SUFFIXES = (".html", ".htm")
EXAMPLES = 20_000
"""Sentences of a grid, at most: some 15 MB of page for 12 layers and sentences of 25 words."""

_SAME = ("task", "label", "metric")
_HOW = {name.replace("_", " ") for name, option in OPTIONS.items() if option.how}
"""Headings of how heads were trained: they come last, so that the scores are seen first."""

_STATIC = files("probekit.page") / "static"
_SCRIPTS = ("page.js", "judges.js", "examples.js")
_SECTIONS = {
    "depth": "Depth curves",
    "weights": "Layers",
    "amount": "Few examples",
    "overthinking": "Overthinking",
    "exit": "Early exit",
}
"""The parts of the page that hold pictures."""

_HARMLESS = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
"""What ends a script element, or begins a comment in one, written as JSON may write it."""


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
        examples: sentences that a grid of predictions holds, evenly spaced; 0 leaves grids out.
        samples: bootstrap samples of all intervals over sentences.
        progress: show progress on stderr.
    """

    title: str | None = None
    note: str | None = None
    against: str | None = None
    split: Scored | None = None
    cache: Path = Path("cache")
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
    out: PathName = "report.html",
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
    return _write(path, render(page_data(records, options or ReportOptions())))


def check_report(out: PathName) -> Path:
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
    """Return what the page shows, by the names that its template uses.

    Raises:
        RecordError: there are no records, or a mean over seeds would mix runs.
    """
    shown = [record for record in records if not record.trial and record.left_out is None]
    if not shown:
        raise RecordError(
            "a report needs records of finished runs, and there are none here; run `probekit "
            "train`, `sweep` or `depth` first."
        )
    progress = options.progress
    asked = find_asked(shown, options.cache)
    again = rerun_commands(shown, asked.sources, options.cache)
    figures, failed = page_figures(shown, options.split, options.samples, progress=progress)
    scores = list(score_tables(shown, options.against, options.split, options.samples))
    examples, missing = packed_grids(shown, options.split, options.examples, progress=progress)
    return {
        "title": options.title or _title(shown),
        "note": options.note or "",
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "facts": asked.facts,
        "entries": asked.entries,
        "commands": [*asked.commands, *again],
        "tables": scores,
        "figures": figures,
        "examples": examples,
        "absent": [*dict.fromkeys(failed), *missing],
    }


def _title(records: Sequence[Record]) -> str:
    models = dict.fromkeys(model_text(record.model) for record in records)
    named = {"models": models, "tasks": dict.fromkeys(record.task for record in records)}
    return " on ".join(
        ", ".join(names) if len(names) < 4 else f"{len(names)} {what}"
        for what, names in named.items()
    )


@dataclass(frozen=True, kw_only=True)
class ScoreTable:
    """One table of scores.

    Attributes:
        title: whose scores.
        headings: of its columns.
        words: which of them hold words, which stand left.
        rows: its cells as text.
        notes: what marks mean, what is wrong, and what the numbers are.
        csv: all of it as plain numbers.
    """

    title: str
    headings: Sequence[str]
    words: Sequence[bool]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    csv: str


def score_tables(
    records: Sequence[Record], against: str | None, split: str | None, samples: int
) -> Iterator[ScoreTable]:
    """Yield means over tasks, and a table per task: of all layers, or of depths where all are.

    Args:
        records: any.
        against: what rows are compared with: a head, or conditions; None is ``last``, of heads on
            all layers alone: what depths differ by is said of their curves.
        split: of the comparison with the reference; None is test where all have one, else dev.
        samples: bootstrap samples of that comparison.
    """
    yield from _over_tasks(records)
    for group in grouped(records, _SAME).values():
        shown = beside_heads(full_depth(group))
        of_depths = against is None and any(record.depth is not None for record in shown)
        verdict, why_not = None, ""
        if not of_depths and len(grouped(shown, tuple(OPTIONS))) > 1:
            heads = without_baselines(shown)
            try:
                verdict = verdicts(heads, against, split=split, samples=samples)
            except ProbekitError as error:
                why_not = f"no row is compared with a reference: {error}"
        table = tables.score_table(shown, judged=verdict)
        first = group[0]
        title = f"{first.task}, {first.label}" if first.label else task_title(first)
        yield _as_shown(title, table, why_not)


def _over_tasks(records: Sequence[Record]) -> Iterator[ScoreTable]:
    """Yield means over tasks, where several have depths, and scores that can be averaged."""
    if len({record.task for record in records if record.depth is not None}) < 2:
        return
    suite = SUITES.get(records[0].task.partition("/")[0])
    for metric in dict.fromkeys((None if suite is None else suite.metric, None)):
        try:
            table = tables.suite_table(scored_by(records, metric))
        except ProbekitError:
            continue  # no run has that score, or tasks have several metrics
        yield _as_shown("Mean over tasks", table)
        return


def _as_shown(title: str, table: tables.Table, why_not: str = "") -> ScoreTable:
    """Return a table with what the page shows of it."""
    columns = [column for column in table.columns if {c.strip() for c in column.cells} != {NOTHING}]
    columns.sort(key=lambda column: column.heading in _HOW)
    cells = [[cell.strip() for cell in column.cells] for column in columns]
    return ScoreTable(
        title=title,
        headings=[column.heading for column in columns],
        words=[column.words for column in columns],
        rows=[*zip(*cells, strict=True)],
        notes=[why_not, *table.notes, table.caption],
        csv=table.text("csv"),
    )


def render(data: Mapping[str, Any]) -> bytes:
    """Return the page of what `page_data` returned; texts in it are shown as text."""
    scripts = [static_text(name) for name in _SCRIPTS]
    shown = {
        "sections": _SECTIONS,
        "entry_columns": ENTRY_COLUMNS,
        "scripts": scripts,
        "hashes": [script_hash(script) for script in scripts],
        "json": script_json(data["examples"]),
    }
    # half of a surrogate pair, which JSON may hold and UTF-8 not, becomes an escape of JSON
    return _page("report.html.j2", **data, **shown).encode("utf-8", errors="backslashreplace")


def _page(template: str, **content: Any) -> str:
    """Return a page of a template, with all text escaped and the style that pages share."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # slow to import

    pages = Environment(
        loader=FunctionLoader(static_text), autoescape=True, undefined=StrictUndefined
    )
    pages.filters["named"] = layer_text
    pages.filters["shown"] = lambda token: repr(token)[1:-1] if token.strip(" ") else "␣"
    content = {"version": __version__, "style": static_text("report.css"), **content}
    return pages.get_template(template).render(content)


def _write(path: Path, page: bytes) -> Path:
    try:
        with replacing(path) as fresh:
            fresh.write_bytes(page)
    except OSError as error:
        raise StorageError(
            f"{path}: cannot write the page ({error.strerror}); choose another file."
        ) from error
    return path


def script_json(data: Mapping[str, Any]) -> str:
    """Return JSON that may stand in a script element: no text in it can end that element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_HARMLESS)


def script_hash(script: str) -> str:
    """Return what a content security policy calls an inline script that may run."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def static_text(name: str) -> str:
    """Return a file of the page's own."""
    return _STATIC.joinpath(name).read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class ColouredText:
    """A text as heads read it.

    Attributes:
        label: the label whose probability the colours are.
        rows: by the name of each head, its tokens with these probabilities.
    """

    label: str
    rows: Mapping[str, Sequence[tuple[str, float]]]


def write_token_page(out: Path, title: str, texts: Sequence[ColouredText]) -> None:
    """Write the page; texts in it are shown as text.

    Args:
        out: the file, which `check_report` accepts.
        title: of the page.
        texts: in their order.

    Raises:
        StorageError: the file cannot be written.
    """
    page = _page("tokens.html.j2", title=title, texts=texts)
    _write(out, page.encode("utf-8", errors="replace"))


def write_lens_page(out: Path, found: TextPredictions) -> None:
    """Write what each layer predicts at each position: a row per layer, the last one on top.

    Args:
        out: the file, which `check_report` accepts.
        found: what `lens_of_text` returned.

    Raises:
        StorageError: the file cannot be written.
    """
    rows = list(zip(*found.positions, strict=True))[::-1]
    title = f"{found.model}, {found.lens} lens"
    page = _page("lens.html.j2", title=title, found=found, rows=rows)
    _write(out, page.encode("utf-8", errors="replace"))
