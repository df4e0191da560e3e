"""The user's own files with one token per row: columns, CoNLL-U, tables."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from probekit.errors import DataError, OptionError
from probekit.tasks.corpora.published import origin_of
from probekit.tasks.formats.cells import Row, check_widths, is_filled, read_cells
from probekit.tasks.formats.comments import drop_comments
from probekit.tasks.formats.conllu import FIELDS, LABEL_FIELDS, parse_conllu
from probekit.tasks.formats.encodings import own_lines
from probekit.tasks.formats.headers import header_names, is_header
from probekit.tasks.formats.sentence_ids import check_undivided, divide, sentence_columns
from probekit.tasks.formats.word_columns import Block, read_blocks, width_of
from probekit.tasks.own.column_choice import WORDS, Choice, only_label, place_of
from probekit.tasks.own.text_columns import is_id
from probekit.tasks.sentences import Sentence, Sentences

MOST_WORDS = 500


def read_conll(path: Path, choice: Choice) -> Sentences:
    """Read a ``.conll`` file: the word is the first column and the label the last.

    Columns are named by their position ("0", "1", ...). A file of one column has no labels. With
    ``--separator`` it is read as a table.

    Raises:
        OptionError: the choice of columns does not fit.
        DataError: rows of different widths, or one sentence with a column of sentence ids.
    """
    if choice.separator is not None:
        return read_table(path, choice)
    where = str(path)
    blocks = read_blocks(path, own_lines(path, choice))
    names = [str(place) for place in range(width_of(blocks))]
    if not names:
        return Sentences(sentences=(), where=where, origin=origin_of(path))
    word = place_of(where, "--text", choice.text or "0", names)
    label = _conll_label(where, choice, names)
    ids = [] if choice.sentences is None else sentence_columns(where, choice, names, (), word)
    rows = [row for block in blocks for row in [*_rows(block), (0, [])]]
    return _sentences(path, choice, names, rows, ids, word, label)


def _rows(block: Block) -> list[Row]:
    return [(line, list(cells)) for line, cells in zip(block.lines, block.rows, strict=True)]


def read_columns(path: Path, choice: Choice) -> Sentences:
    """Read a ``.txt`` file as columns, which the copies of many corpora are called.

    Raises:
        DataError: as for ``read_conll``; the message says how running text is read.
    """
    try:
        conllu = _is_conllu(own_lines(path, choice))
        return read_conllu(path, choice) if conllu else read_conll(path, choice)
    except DataError as error:
        raise DataError(
            f"{error} It is read as columns, a word per line; where it is running text, give "
            "--kind language-modelling."
        ) from error


def _is_conllu(lines: Sequence[str]) -> bool:
    """Say whether the first row has the ten cells of CoNLL-U, of which the first counts words."""
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    cells = first.split("\t")
    return len(cells) == len(FIELDS) and cells[0].partition("-")[0] == "1"


def _conll_label(where: str, choice: Choice, names: Sequence[str]) -> int | None:
    if len(names) == 1:
        return None
    wanted = None if choice.texts_alone else choice.label
    return place_of(where, "--label", wanted or names[-1], names)


def read_conllu(path: Path, choice: Choice) -> Sentences:
    """Read a ``.conllu`` file.

    Without ``--label`` the labels are UPOS, or if the file has none, the first of
    ``LABEL_FIELDS`` that it has.
    """
    where, lines = str(path), own_lines(path, choice)
    word = FIELDS[place_of(where, "--text", choice.text or "form", FIELDS)]
    if choice.label is not None and not choice.texts_alone:
        label = FIELDS[place_of(where, "--label", choice.label, FIELDS)]
        return parse_conllu(path, (label,), word, lines)
    found = parse_conllu(path, [field for field in LABEL_FIELDS if field != word], word, lines)
    return replace(found, sentences=tuple(_first_label(sentence) for sentence in found.sentences))


def _first_label(sentence: Sentence) -> Sentence:
    return replace(sentence, labels=dict(list(sentence.labels.items())[:1]))


def read_table(path: Path, choice: Choice) -> Sentences:
    """Read a ``.csv`` or ``.tsv`` file with one token per row.

    Empty rows divide sentences, and so does a column of sentence ids. ``.csv`` cells may be
    quoted; ``.tsv`` cells are taken as they are, since a lone quotation mark is a common token.
    The first row is a header if an option names one of its cells, or if one of its cells is a
    usual name for the words ("token"); else columns are named by their position.

    Raises:
        OptionError: several label columns and no ``--label``.
        DataError: rows of different widths, texts where words should be, or one sentence with a
            column that looks like sentence ids, or of over ``MOST_WORDS`` words.
    """
    where = str(path)
    rows = _without_comments(path, read_cells(path, choice))
    filled = [row for row in rows if is_filled(row)]
    if not filled:
        return Sentences(sentences=(), where=where, origin=origin_of(path))
    headed, body = is_header(filled, choice, WORDS), rows
    if headed:  # no row of words; the first sentence begins behind it
        body = _without_comments(path, [(n, [] if n == filled[0][0] else own) for n, own in rows])
    filled = [filled[0], *(row for row in body if is_filled(row) and row is not filled[0])]
    check_widths(path, filled)
    names = header_names(path, filled) if headed else [str(n) for n in range(len(filled[0][1]))]
    word = place_of(where, "--text", choice.text or _usual_text(names), names)
    ids = sentence_columns(where, choice, names, body, word)
    label = _table_label(where, choice, names, (word, *ids))
    found = _sentences(path, choice, names, body, ids, word, label)
    sentences = tuple(map(_trimmed, found.sentences))
    _check_words(path, sentences)
    _check_length(path, sentences)
    return replace(found, sentences=sentences)


def _sentences(
    path: Path,
    choice: Choice,
    names: Sequence[str],
    rows: Sequence[Row],
    ids: Sequence[int],
    word: int,
    label: int | None,
) -> Sentences:
    """Return rows of words as sentences, without the labels where texts alone are read."""
    where = str(path)
    divided = divide(rows, ids)
    _check_undivided(where, choice, names, divided, (word, label, *ids))
    kept = None if choice.texts_alone else label
    sentences = tuple(_table_sentence(block, names, word, kept) for block in divided)
    return Sentences(sentences=sentences, where=where, origin=origin_of(path))


def _without_comments(path: Path, rows: Sequence[Row]) -> list[Row]:
    cells = [row[1] if is_filled(row) else () for row in rows]
    kept = drop_comments(path, [own[0] if own else "" for own in cells], cells)
    return [(number, list(own)) for (number, _), own in zip(rows, kept, strict=True)]


def _table_label(
    where: str, choice: Choice, names: Sequence[str], taken: Sequence[int]
) -> int | None:
    """Return the label column: the one asked for, else the only one that is no word and no id."""
    if choice.texts_alone:
        return None
    free = [name for place, name in enumerate(names) if place not in taken]
    if choice.label is None or not free:
        label = _only_label(where, [name for name in free if not is_id(name)])
        return None if label is None else names.index(label)
    return place_of(where, "--label", choice.label, names)


def _check_undivided(
    where: str,
    choice: Choice,
    names: Sequence[str],
    divided: Sequence[Sequence[Row]],
    taken: Sequence[int | None],
) -> None:
    """Refuse what reads as one sentence beside a column of ids, unless it is said to have none."""
    if len(divided) == 1 and choice.sentences is None:
        labels = [place for place, name in enumerate(names) if name == choice.label]
        check_undivided(where, names, divided[0], (*taken, *labels))


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
    words = tuple(cells[word] for _, cells in block)
    labels = {} if label is None else {names[label]: tuple(cells[label] for _, cells in block)}
    return Sentence(words, labels, tuple(number for number, _ in block))


def _trimmed(sentence: Sentence) -> Sentence:
    return replace(sentence, words=tuple(word.strip(" \t") for word in sentence.words))


def _usual_text(names: Sequence[str]) -> str:
    return next((name for name in names if name.lower() in WORDS), names[0])


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


def _check_length(path: Path, sentences: Sequence[Sentence]) -> None:
    """Refuse one sentence as long as a file: its empty rows were left out."""
    if len(sentences) == 1 and len(sentences[0].words) > MOST_WORDS:
        raise DataError(
            f"{path} reads as one sentence of {len(sentences[0].words)} words; sentences are "
            "divided by blank rows, or by a column of sentence ids (--sentences). Put a blank row "
            "after each sentence, or convert the file to .jsonl or .conll."
        )
