"""The published tables of GLUE: TABs, no quoting, a header in all files but two of CoLA."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from probekit.errors import DataError
from probekit.tasks.corpora.published import origin_of
from probekit.tasks.formats.text_lines import read_lines
from probekit.tasks.numeric_labels import is_number, score_name
from probekit.tasks.sentences import Sentence, Sentences, plain_text

logger = logging.getLogger(__name__)

SCORES = (0.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class Table:
    """How the files of one GLUE task are laid out.

    Attributes:
        texts: the columns with the one or two texts.
        label: the column with the label.
        classes: the labels that there are; empty for the scores of STS-B.
        headless: the columns of train and dev files without a header; empty where all have one.
        broken: leave short rows out, with a message; QQP has six, the halves of rows that a line
            break cuts in two, and everybody leaves them out.
    """

    texts: tuple[str, ...]
    label: str
    classes: tuple[str, ...] = ()
    headless: tuple[str, ...] = ()
    broken: bool = False


def parse_glue(path: Path, *, table: Table) -> Sentences:
    """Read a GLUE table; a test file without the label's column has no labels.

    Raises:
        DataError: the header lacks a column, a row has another number of cells, or a label that
            the task does not have.
    """
    lines = read_lines(path)
    while lines and not lines[-1]:
        lines.pop()
    headed = not table.headless or _is_test(path)
    first = lines[0].split("\t") if lines else []
    header = first if headed else table.headless
    if lines:
        _check_header(path, header, table)
    rows = _rows(path, lines, header, table, int(headed))
    sentences = tuple(_sentence(path, number, cells, header, table) for number, cells in rows)
    return Sentences(sentences=sentences, where=str(path), origin=origin_of(path))


def _is_test(path: Path) -> bool:
    return "test" in path.stem


def _check_header(path: Path, header: Sequence[str], table: Table) -> None:
    # A train file without labels is another task's, or damaged; only test files are unlabelled.
    needed = table.texts if _is_test(path) else (*table.texts, table.label)
    missing = [name for name in needed if name not in header]
    if missing:
        raise DataError(
            f"{path}, line 1: expected a header with {', '.join(needed)}; {', '.join(missing)} "
            "missing. Is this the folder of another task?"
        )


def _rows(
    path: Path, lines: Sequence[str], header: Sequence[str], table: Table, skip: int
) -> list[tuple[int, list[str]]]:
    rows = [(number, line.split("\t")) for number, line in enumerate(lines, start=1)][skip:]
    uneven = [(number, cells) for number, cells in rows if len(cells) != len(header)]
    for number, cells in uneven:
        if not (table.broken and len(cells) < len(header)):
            raise DataError(
                f"{path}, line {number}: expected {len(header)} columns divided by TABs, "
                f"found {len(cells)}."
            )
    if uneven:
        logger.warning("%s: %d broken rows are left out.", path, len(uneven))
        rows = [row for row in rows if len(row[1]) == len(header)]
    return rows


def _sentence(
    path: Path, number: int, cells: Sequence[str], header: Sequence[str], table: Table
) -> Sentence:
    texts = tuple(cells[header.index(name)] for name in table.texts)
    if table.label not in header:
        return plain_text(texts, {}, number)
    label = cells[header.index(table.label)]
    _check_label(path, number, label, table.classes)
    name = label if table.classes else score_name(float(label))
    return plain_text(texts, {"label": name}, number)


def _check_label(path: Path, number: int, label: str, classes: Collection[str]) -> None:
    if classes and label not in classes:
        expected = ", ".join(classes)
        raise DataError(
            f"{path}, line {number}: unknown label {label!r}; expected {expected}. Is this the "
            "folder of another task?"
        )
    low, high = SCORES
    if not classes and not (is_number(label) and low <= float(label) <= high):
        raise DataError(
            f"{path}, line {number}: the score {label!r} is no number from {low:g} to {high:g}."
        )
