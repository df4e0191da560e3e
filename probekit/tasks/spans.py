"""Labelled spans of words, and pairs of them, in the form in which label files keep them.

A target is written ``3:5 PER``: the words 3 and 4 (from 0) and their label. A pair has both spans,
``3:4,1:2 nsubj``. A sentence has any number of targets.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from probekit.base.registry import choose
from probekit.errors import DataError, OptionError
from probekit.tasks.column_choice import choose_columns
from probekit.tasks.formats.fields import Fields
from probekit.tasks.schemes import NO_LABEL, class_text, iob1_to_bio
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.task import Choice, Task

Places = tuple[tuple[int, int], ...]
"""The first word of each span of a target, and one past its last."""

TARGETS = "targets"
"""The column of targets in edge-probing JSON."""

_BLANKS = re.compile("[ \t]+")
_DERIVED = re.compile(r"(arcs|spans):(.+)")
_INDEX = re.compile(r"target[ _-]?(index|idx|position)", re.IGNORECASE)


def source_columns(column: str) -> tuple[str, ...]:
    """Return the label columns that a column is read from: itself, or those behind a derived one.

    ``spans:ner`` are the spans of the tags ``ner``; ``arcs:deprel`` pairs each word with its head,
    under the word's label in ``deprel``.
    """
    derived = _DERIVED.fullmatch(column)
    if derived is None:
        return (column,)
    return (derived[2], "head") if derived[1] == "arcs" else (derived[2],)


def is_derived(column: str | None) -> bool:
    """Say whether a column is derived from others."""
    return column is not None and _DERIVED.fullmatch(column) is not None


def with_derived(task: Task, column: str | None) -> Task:
    """Return a task with a derived column first; as it is for a column of its own, and for None.

    Raises:
        UnknownNameError: the task lacks a column that it is derived from.
        OptionError: spans of a column that holds no BIO tags.
    """
    if column is None or not is_derived(column):
        return task
    columns = source_columns(column)
    for name in columns:
        choose(f"label column of {task.name} (for --label {column})", name, task.kinds)
    if column.startswith("spans:") and task.metrics[columns[0]] != "span-f1":
        raise OptionError(f"--label {column}: {columns[0]!r} of {task.name} holds no BIO tags.")
    return replace(
        task,
        metrics={column: "accuracy", **task.metrics},
        kinds={**task.kinds, column: "span"},
    )


def derive_targets(column: str, *rows: Sequence[str]) -> list[str]:
    """Return the targets of a sentence, given its labels in the columns of ``source_columns``."""
    if column.startswith("spans:"):
        return _spans_of_tags(rows[0])
    labels, heads = rows
    numbered = zip(labels, map(head_number, heads), strict=True)
    return [
        format_target(((word, word + 1), (head - 1, head)), label)
        for word, (label, head) in enumerate(numbered)
        if label != NO_LABEL and head
    ]


def head_number(head: str) -> int | None:
    """Return the number of a word's head, from 1, or 0 for the root; None where it has none."""
    return int(head) if head.isascii() and head.isdigit() else None


def _spans_of_tags(tags: Sequence[str]) -> list[str]:
    """Return the spans of BIO tags."""
    bio, targets, start = [*iob1_to_bio(tags), "O"], [], None
    for word, tag in enumerate(bio):
        if start is not None and not tag.startswith("I"):
            targets.append(format_target(((start, word),), bio[start].partition("-")[2] or "span"))
            start = None
        if tag.startswith("B"):
            start = word
    return targets


def format_target(places: Places, label: str) -> str:
    """Return a target as text."""
    return f"{','.join(f'{start}:{stop}' for start, stop in places)} {label}"


def parse_target(target: str) -> tuple[Places, str]:
    """Return the spans and the label of what ``format_target`` wrote."""
    spans, _, label = target.partition(" ")
    ends = (span.partition(":") for span in spans.split(","))
    return tuple((int(start), int(stop)) for start, _, stop in ends), label


def has_targets(fields: Fields) -> bool:
    """Say whether columns are edge-probing JSON, with objects as ``targets``."""
    rows = fields.values.get(TARGETS, ())
    return any(isinstance(each, dict) for row in rows for each in _listed(row))


def _listed(row: Any) -> list[Any]:
    """Return the targets of a row, one that stands without a list as well."""
    return row if isinstance(row, list) else [] if row is None else [row]


def read_targets(fields: Fields, choice: Choice) -> Sentences:
    """Return sentences with labelled spans: edge-probing JSON, or texts with a target's index.

    Words are what blanks divide. A column that is called like ``target index`` has the number of
    the labelled word, from 0. Targets without a label are left out.

    Raises:
        DataError: a target that is not of its sentence, has no spans or several labels, or is of a
            pair among single spans; or columns with neither targets nor an index.
        OptionError, UnknownNameError: the choice of columns is left open, or names none.
    """
    index = next(filter(_INDEX.fullmatch, fields.values), None)
    listed = TARGETS in fields.values and (index is None or has_targets(fields))
    if not listed and index is None and not choice.optional:
        raise DataError(
            f"{fields.where}: kind span reads JSON records of a text and its 'targets' (span1, "
            "span2, label), or a table with a text, a 'target index' and a label; found the "
            f"columns {', '.join(fields.values)}."
        )
    left = {name: cells for name, cells in fields.values.items() if name not in (TARGETS, index)}
    asked = replace(choice, kind="sentence", optional=listed or choice.optional)
    columns = choose_columns(replace(fields, values=left), asked)
    sentences, sides = [], set()
    for n, line in enumerate(fields.lines):
        words = _BLANKS.split(str(fields.values[columns.texts[0]][n] or "").strip(" \t"))
        given: list[Any] = []
        if listed:
            given = _listed(fields.values[TARGETS][n])
        elif index is not None:
            given = [_indexed(fields, n, index, columns.label)]
        targets = [target for each in given if (target := _target(fields, n, each, len(words)))]
        sides |= {target.partition(" ")[0].count(",") for target in targets}
        if len(sides) > 1:
            raise fields.fault(n, "a pair of spans among single spans; put them in separate files.")
        named = {columns.label or "label": tuple(targets)} if listed or index is not None else {}
        lines, id = (line,) * len(words), fields.id_of(n)
        sentences.append(Sentence(tuple(words), named, lines, id, groups=fields.groups_of(n)))
    return fields.sentences(sentences)


def _indexed(fields: Fields, n: int, index: str, label: str | None) -> dict[str, Any]:
    """Return the target of a row with the number of a word."""
    value = fields.values[index][n]
    try:
        word = int(str(value))
    except ValueError:
        raise fields.fault(n, f"{value!r} in column {index!r} is not a word index.") from None
    return {"span1": [word, word + 1], "label": label and fields.values[label][n]}


def _target(fields: Fields, n: int, given: Any, n_words: int) -> str | None:
    """Return a target as text; None of one without a label."""
    if not isinstance(given, dict) or given.get("span1") is None:
        raise fields.fault(n, f"the target {str(given)[:60]} has no 'span1'.")
    label = given.get("label")
    if isinstance(label, list):
        if len(label) > 1:
            raise fields.fault(n, f"the target has several labels, {label}; kind span allows one.")
        label = label[0] if label else None
    label = class_text(label)
    if label is None or label == "":
        return None
    spans = [given[name] for name in ("span1", "span2") if given.get(name) is not None]
    for span in spans:
        of_two = isinstance(span, list) and len(span) == 2 and set(map(type, span)) == {int}
        if not of_two or not 0 <= span[0] < span[1] <= n_words:
            raise fields.fault(
                n,
                f"the span {span!r} is not of this sentence of {n_words} words; a span is its "
                "first word, counted from 0, and one past its last.",
            )
    return format_target(tuple((start, stop) for start, stop in spans), str(label).strip())
