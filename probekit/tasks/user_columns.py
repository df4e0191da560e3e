"""The user's own files with one token per row: ``.conll``, ``.conllu``, ``.csv``, ``.tsv``."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from probekit.errors import DataError, OptionError
from probekit.tasks.blanks import trim, trim_names
from probekit.tasks.cells import Row, check_widths, is_filled, read_cells
from probekit.tasks.columns import read_blocks, width_of
from probekit.tasks.comments import drop_comments
from probekit.tasks.conllu import FIELDS, LABEL_FIELDS, parse_conllu
from probekit.tasks.options import Choice, names_header, only_label, place_of
from probekit.tasks.published import origin_of
from probekit.tasks.sentences import Sentence, Sentences

TEXT_HEADERS = ("word", "words", "token", "tokens", "form", "text")
MOST_WORDS = 500


def read_conll(path: Path, choice: Choice) -> Sentences:
    """Read a ``.conll`` file: the word is the first column and the label the last.

    Columns are named by their position ("0", "1", ...). A file of one column has no labels.
    """
    blocks = read_blocks(path)
    names = [str(place) for place in range(width_of(blocks))]
    if not names:
        return Sentences(sentences=(), where=str(path), origin=origin_of(path))
    word = place_of(str(path), "--text", choice.text or "0", names)
    label = None if len(names) == 1 else _label_place(str(path), choice, names, names[-1])
    sentences = tuple(
        Sentence(
            block.column(word),
            {} if label is None else {names[label]: block.column(label)},
            block.lines,
        )
        for block in blocks
    )
    return Sentences(sentences=sentences, where=str(path), origin=origin_of(path))


def _label_place(where: str, choice: Choice, names: Sequence[str], default: str) -> int:
    return place_of(where, "--label", choice.label or default, names)


def read_conllu(path: Path, choice: Choice) -> Sentences:
    """Read a ``.conllu`` file.

    Without ``--label`` the labels are UPOS, or if the file has none, the first of
    ``LABEL_FIELDS`` that it has.
    """
    where = str(path)
    word = FIELDS[place_of(where, "--text", choice.text or "form", FIELDS)]
    if choice.label is not None:
        label = FIELDS[place_of(where, "--label", choice.label, FIELDS)]
        return parse_conllu(path, (label,), word)
    found = parse_conllu(path, [field for field in LABEL_FIELDS if field != word], word)
    return replace(found, sentences=tuple(_first_label(sentence) for sentence in found.sentences))


def _first_label(sentence: Sentence) -> Sentence:
    return replace(sentence, labels=dict(list(sentence.labels.items())[:1]))


def read_table(path: Path, choice: Choice) -> Sentences:
    """Read a ``.csv`` or ``.tsv`` file with one token per row and empty rows between sentences.

    ``.csv`` cells may be quoted; ``.tsv`` cells are taken as they are, since a lone quotation
    mark is a common token. The first row is a header if ``--text`` or ``--label`` names one of
    its cells, or if one of its cells is a usual name for the words ("token"); else columns are
    named by their position.

    Raises:
        OptionError: several label columns and no ``--label``.
        DataError: rows of different widths, texts where words should be, or no empty rows in a
            file of over ``MOST_WORDS`` words (a column of sentence ids divides nothing).
    """
    rows = _without_comments(path, read_cells(path))
    filled = [row for row in rows if is_filled(row)]
    if not filled:
        return Sentences(sentences=(), where=str(path), origin=origin_of(path))
    header = [trim(cell) for cell in filled[0][1]]
    headed = _is_header(header, choice)
    if headed:
        trim_names(f"{path}, line {filled[0][0]}", header)
    names = header if headed else [str(place) for place in range(len(header))]
    body = rows
    if headed:  # no row of words; the first sentence begins behind it
        body = _without_comments(path, [(n, [] if n == filled[0][0] else own) for n, own in rows])
    check_widths(path, [filled[0], *filter(is_filled, body)])
    word = place_of(str(path), "--text", choice.text or _usual_text(names), names)
    label = _table_label(str(path), choice, names, word)
    sentences = tuple(_table_sentence(block, names, word, label) for block in _blocks(body))
    _check_words(path, sentences)
    _check_divided(path, sentences)
    return Sentences(sentences=sentences, where=str(path), origin=origin_of(path))


def _without_comments(path: Path, rows: Sequence[Row]) -> list[Row]:
    cells = [row[1] if is_filled(row) else () for row in rows]
    kept = drop_comments(path, [own[0] if own else "" for own in cells], cells)
    return [(number, list(own)) for (number, _), own in zip(rows, kept, strict=True)]


def _table_label(where: str, choice: Choice, names: Sequence[str], word: int) -> int | None:
    candidates = [name for place, name in enumerate(names) if place != word]
    if choice.label is None or not candidates:
        label = _only_label(where, candidates)
        return None if label is None else names.index(label)
    return place_of(where, "--label", choice.label, names)


def _only_label(where: str, candidates: Sequence[str]) -> str | None:
    """Return the one label column; a table with several may well be one of texts."""
    try:
        return only_label(where, candidates)
    except OptionError as error:
        raise OptionError(
            f"{error} It is read as words, one per row; where each row is a text with one label, "
            "give --kind sentence, pair or regression."
        ) from None


def _table_sentence(
    block: Sequence[Row], names: Sequence[str], word: int, label: int | None
) -> Sentence:
    words = tuple(cells[word].strip(" \t") for _, cells in block)
    labels = {} if label is None else {names[label]: tuple(cells[label] for _, cells in block)}
    return Sentence(words, labels, tuple(number for number, _ in block))


def _is_header(cells: Sequence[str], choice: Choice) -> bool:
    return names_header(choice, cells) or any(cell.lower() in TEXT_HEADERS for cell in cells)


def _usual_text(names: Sequence[str]) -> str:
    return next((name for name in names if name.lower() in TEXT_HEADERS), names[0])


def _check_words(path: Path, sentences: Sequence[Sentence]) -> None:
    """Refuse whole texts read as words: most cells of the word column hold blanks."""
    words = [word for sentence in sentences for word in sentence.words]
    texts = [word for word in words if " " in word.strip()]
    if len(texts) > len(words) / 2:
        raise DataError(
            f"{path}: the column of words holds texts, such as {texts[0][:60]!r}. For one label "
            "per text give --kind sentence (or pair, regression); for labels of words write one "
            "word per row."
        )


def _check_divided(path: Path, sentences: Sequence[Sentence]) -> None:
    """Refuse one sentence as long as a file: its empty rows were left out."""
    if len(sentences) == 1 and len(sentences[0].words) > MOST_WORDS:
        raise DataError(
            f"{path} reads as one sentence of {len(sentences[0].words)} words; sentences are "
            "divided by blank rows, not by a column of sentence ids. Put a blank row after each "
            "sentence, or convert the file to .jsonl or .conll."
        )


def _blocks(rows: Sequence[Row]) -> list[list[Row]]:
    blocks: list[list[Row]] = [[]]
    for row in rows:
        if is_filled(row):
            blocks[-1].append(row)
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]
