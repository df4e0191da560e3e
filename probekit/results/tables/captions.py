"""What stands below a table: what its marks mean and what is wrong, then what its numbers are."""

from collections.abc import Mapping, Sequence
from typing import Any

from probekit.results.comparison import BestDepth
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import notes
from probekit.results.summaries.layer_measures import RAW_WEIGHTS, WEIGHTS, LayerMeasure
from probekit.results.summaries.typeset import Style
from probekit.results.summaries.wording import metric_text, option_text
from probekit.results.tables.scores import ScoreRow, summarise


def caption(rows: Sequence[ScoreRow]) -> str:
    """Return one line that says what the scores of a table are, and what all its rows share."""
    names = {metric_text(row.metric) for row in rows}
    return f"{_shared_text(rows)}{' or '.join(sorted(names))}; {_over_seeds(rows)}"


def weights_caption(records: Sequence[Record], raw: bool = False) -> str:
    """Return one line that says what the weights of a table are.

    Args:
        records: as for ``weights_table``.
        raw: weights before the softmax.
    """
    return measure_caption(records, RAW_WEIGHTS if raw else WEIGHTS)


def measure_caption(records: Sequence[Record], measure: LayerMeasure) -> str:
    """Return one line that says what the numbers of a table with a row per layer are.

    Args:
        records: as for ``measure_table``.
        measure: which number.
    """
    held = measure.held(records)
    rows = summarise([*held, *measure.lost(records, held)])
    return f"{_shared_text(rows)}{measure.text(held)}; {_over_seeds(rows)}"


def _over_seeds(rows: Sequence[ScoreRow]) -> str:
    diverged = sum(row.diverged for row in rows)
    note = f" {diverged} of {sum(row.n for row in rows)} runs diverged." if diverged else ""
    if all(row.n == 1 for row in rows):
        return f"one seed, hence no interval.{note}"
    scores = [score for row in rows for score in (row.eval_score, row.test_score)]
    if all(score is None or score.half is None for score in scores):
        return f"no seed differs from another, hence no interval over seeds.{note}"
    return f"mean ± half width of the 95 % interval over seeds (Student's t).{note}"


def _shared_text(rows: Sequence[ScoreRow]) -> str:
    """Return task, label, decoder and pooling where all rows share them, with a colon."""
    task, label, decoder, pooling = (
        _shared(name, rows) for name in ("task", "label", "decoder", "pooling")
    )
    named = bool(task and label) and not label[0].isdigit()  # a column of a user's file: 2
    # runs on control labels have a label such as ``ner (control 0)``
    control = all(" (control " in str(row.options.get("label")) for row in rows)
    parts = [
        f"{task} {label}" if named else task,
        f"label {label}" if label and not named else None,
        "control labels, random by word type" if rows and control else None,
        decoder and f"decoder {decoder}",
        pooling and option_text("pooling", pooling),
    ]
    text = ", ".join(part for part in parts if part)
    return f"{text}: " if text else ""


def _shared(name: str, rows: Sequence[ScoreRow]) -> Any:
    """Return the value of an option that all rows share, if any; a guess has no decoder."""
    values = {row.options.get(name) for row in rows}
    if name == "decoder" and len(values) > 1:
        values.discard("none")
    return values.pop() if len(values) == 1 else None


def footnotes(
    records: Sequence[Record],
    style: Style = "text",
    best: Mapping[str, BestDepth] | None = None,
    more: Sequence[str] = (),
) -> str:
    """Return what stands under a table: a line for every curve's best depth, and the troubles.

    Args:
        records: all that the table is made of.
        style: ``text``, or ``markdown``, where every line is a paragraph.
        best: the best depths that the table marks; None for a table without depths.
        more: lines to be said besides, the first.

    Returns:
        Whole lines, or nothing.
    """
    best = best or {}
    named = [one.text if len(best) == 1 else f"{name}: {one.text}" for name, one in best.items()]
    lines = [f"{line}\n" for line in (*more, *named, *notes(records))]
    if style != "markdown":
        return "".join(lines)
    # marks that Markdown would take for a list or a stroke
    return "\n".join(lines).replace("*", r"\*").replace("~", r"\~")
