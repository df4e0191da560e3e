"""Choose the columns of words, texts and labels of the user's own data, by name or by index."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from probekit.base.kinds import Kind
from probekit.base.registry import choose
from probekit.errors import DataError, OptionError
from probekit.tasks.formats.fields import Fields
from probekit.tasks.schemes import class_text, is_number
from probekit.tasks.task import Choice

# Names that columns usually have, in any case of letters.
LISTS_OF_WORDS = ("tokens", "words")
WORDS = (*LISTS_OF_WORDS, "token", "word", "form", "text")
PAIRS = (
    ("sentence1", "sentence2"), ("sentence_1", "sentence_2"), ("premise", "hypothesis"),
    ("question1", "question2"), ("question", "sentence"), ("question", "answer"),
    ("query", "passage"), ("text", "text_pair"), ("text1", "text2"), ("text_a", "text_b"),
)  # fmt: skip
TEXTS = (
    *("text", "sentence", "utterance", "document", "content"),
    *("messages", "conversation", "conversations"),
)
LABELS = (
    "label", "labels", "class", "category", "target", "score", "rating", "stars", "sentiment",
    "intent", "gold_label", "similarity",
)  # fmt: skip
IDS = ("id", "idx", "index", "guid")
_PANDAS = ("unnamed: ", "__index_level_")
"""How pandas calls an index without a name when it reads it, and in Parquet files."""
USUAL = frozenset({*TEXTS, *LABELS, *IDS, *(name for pair in PAIRS for name in pair)})

NONE = "none"
"""Says that a table has no sentence ids, whatever a column looks like."""

# Names without blanks and signs, in small letters: "Sentence #" is "sentence".
_OF_SENTENCES = {"sentence", "sent", "sid"} | {
    f"{what}{how}"
    for what in ("sentence", "sent")
    for how in ("id", "ids", "idx", "index", "no", "nr", "num", "number", "key")
}
_OF_TEXTS = {"doc", "document", "docid", "documentid", "docidx", "docno", "articleid", "textid"}


class Columns(NamedTuple):
    """The columns that are read.

    Attributes:
        texts: that of the words, that of the text, or the two of a pair.
        label: that of the labels; None where there is none, or none is to be read.
        ids: of a file with a word per line, those at whose changes a sentence ends.
    """

    texts: tuple[str, ...]
    label: str | None
    ids: tuple[str, ...] = ()

    def taken(self, choice: Choice) -> str:
        """Return in words what is read that the user did not name."""
        noun = {"word": "words", "text": "texts"}.get(choice.of_kind.per, "text")
        named = " and ".join(map(repr, self.texts))
        labels = "no labels" if self.label is None else f"labels from {self.label!r}"
        unsaid = [
            "" if choice.text else f"{noun} from {named}",
            "" if choice.label or choice.of_kind.per == "prediction" else labels,
        ]
        return ", ".join(filter(None, unsaid))


def choose_columns(fields: Fields, choice: Choice) -> Columns:
    """Return the columns of words or texts, and of labels: those asked for, else the only ones.

    In a file with a word per line, the column of words is one that is called so, or the first. Of
    records it is one that holds lists. Texts are strings that are not called as labels or ids are.

    Raises:
        OptionError: several columns could be it (the message lists them), or the choice does not
            fit the kind.
        UnknownNameError: no column has the name asked for.
        DataError: no column could hold words, or text.
    """
    names = list(fields.values)
    if choice.of_kind.per == "word":
        return _of_lines(fields, choice) if fields.starts else _of_lists(fields, choice)
    texts = choose_texts(fields, choice)
    if choice.of_kind.per != "text":
        return Columns(texts, None)
    others = {name: fields.values[name] for name in names if name not in texts}
    free = [name for name, values in others.items() if _may_label(name, values)]
    if choice.of_kind.targets == "sets":
        free = [name for name in others if _may_hold_sets(name, others[name])] or free
    for name in names if not (free or choice.label or choice.texts_alone) else ():
        values = fields.values[name] if name.lower() in LABELS else ()
        if odd := next(filter(_is_no_class, values), None):
            expected = (
                "a class is a text or a number. For several labels per text give --kind "
                "multilabel, or use a column for each label and choose one with --label."
            )
            if choice.of_kind.targets == "sets":
                expected = 'each row needs a list of labels, ["a", "b"], or a text such as a;b.'
            raise fields.fault(
                values.index(odd), f"column {name!r} holds {str(odd)[:60]}, but {expected}"
            )
    return Columns(texts, _choose_label(fields.where, choice, names, free))


def _of_lists(fields: Fields, choice: Choice) -> Columns:
    """Return the columns of records with a list of words and one of labels each."""
    names, lists = list(fields.values), list_columns(fields)
    if choice.kind is None:
        check_lists(fields, choice)
    if choice.text is not None:
        word = names[place_of(fields.where, "--text", choice.text, names)]
    elif not lists:
        raise DataError(f"{fields.where} has no column of lists of words, such as tokens.")
    elif (only := _only(lists, LISTS_OF_WORDS)) is None:
        raise OptionError(
            f"{fields.where}: which column holds the words? {', '.join(lists)}. Give --text."
        )
    else:
        word = only
    free = [name for name in lists if name != word]
    return Columns((word,), _choose_label(fields.where, choice, names, free))


def check_lists(fields: Fields, choice: Choice) -> None:
    """Refuse one column of lists beside texts, unless it is called or named as words: which is it.

    Raises:
        OptionError: it may hold words, or the labels of the texts.
    """
    lists, texts = list_columns(fields), _prose_columns(fields, choice)
    unsaid = choice.text is None and len(lists) == 1 and lists[0].lower() not in LISTS_OF_WORDS
    if unsaid and texts:
        raise OptionError(
            f"{fields.where}: no --kind was given. If {lists[0]!r} holds the labels of the texts "
            f"in {texts[0]!r}, give --kind multilabel; if it holds words, give --text {lists[0]}."
        )


def _of_lines(fields: Fields, choice: Choice) -> Columns:
    """Return the columns of a file with a word per line; its format may say which one has labels.

    Else the label is in the only column that is no word, no id, and not empty.
    """
    names = list(fields.values)
    usual = next((name for name in names if name.lower() in WORDS), names[0])
    word = names[place_of(fields.where, "--text", choice.text or usual, names)]
    ids = _sentence_columns(fields, choice, word)
    if fields.label is not None and choice.label is None:
        label = fields.label if fields.label != word and not choice.texts_alone else None
        return Columns((word,), label, ids)
    free = [name for name in names if name not in (word, *ids) and any(fields.values[name])]
    if choice.label is None:
        free = [name for name in free if not is_id(name)]
    return Columns((word,), _choose_label(fields.where, choice, names, free), ids)


def _sentence_columns(fields: Fields, choice: Choice, word: str) -> tuple[str, ...]:
    """Return the columns at whose changes a sentence ends; none where there are no ids.

    They are what ``--sentences`` names ("none" for none), else columns called so ("sentence_id",
    "Sentence #"), with those of document ids, since sentences may be counted from 0 in each. A
    column called "id" or so is one if it says the same of two rows that follow each other.

    Raises:
        UnknownNameError: ``--sentences`` names no column.
    """
    names = list(fields.values)
    if choice.sentences == NONE and NONE not in names:
        return ()
    if choice.sentences is not None:
        return (names[place_of(fields.where, "--sentences", choice.sentences, names)],)
    plain = {name: re.sub(r"[\W_]", "", name).lower() for name in names}
    of_sentences = [name for name in names if plain[name] in _OF_SENTENCES and name != word]
    if of_sentences:
        return (*of_sentences, *(name for name in names if plain[name] in _OF_TEXTS))
    ids = [name for name in names if is_id(name) and name != word]
    return tuple(
        name for name in ids if any(a == b != "" for a, b in pairwise(fields.values[name]))
    )


def list_columns(fields: Fields) -> list[str]:
    """Return the columns of records that could hold words, or labels of words."""
    return [name for name, values in fields.values.items() if _is_list_column(name, values)]


def _is_list_column(name: str, values: Sequence[Any]) -> bool:
    """Return whether a column holds lists of strings, whole numbers, or truths.

    One that is empty in every row holds none, unless it is called as words are. What else stands
    among strings and whole numbers is a fault that is told with its line, and no reason to look
    elsewhere.
    """
    filled = [value for value in values if value is not None]
    if not all(isinstance(value, list) for value in filled):
        return False
    flat = [item for value in filled for item in value]
    some = any(filled) or (bool(filled) and name.lower() in LISTS_OF_WORDS)
    plain = sum(isinstance(item, str | int) for item in flat)
    return some and (2 * plain > len(flat) or all(isinstance(tag_text(item), str) for item in flat))


def tag_text(value: Any) -> Any:
    """Return a tag in a list as text; what can be none stays as it is."""
    if value is None or value != value:  # marks of none, in text as in JSON
        return "null"
    return class_text(value)


def _prose_columns(fields: Fields, choice: Choice) -> list[str]:
    """Return the columns of strings that are not called as labels or ids are."""
    names = list(fields.values)
    label = choice.label
    known_by = names if choice.texts_alone else [*names, *map(str, range(-len(names), len(names)))]
    if label is not None and label in known_by:
        label = names[place_of(fields.where, "--label", label, names)]
    return [
        name
        for name, values in fields.values.items()
        if not (name.lower() in LABELS or is_id(name) or name == label) and _is_prose(values)
    ]


def _is_prose(values: Sequence[Any]) -> bool:
    filled = [value for value in values if value not in (None, "")]
    strings = bool(filled) and all(isinstance(value, str) for value in filled)
    return strings and not all(is_number(value) for value in filled)


def _may_label(name: str, values: Sequence[Any]) -> bool:
    filled = [value for value in map(one_class, values) if value not in (None, "")]
    plain = all(isinstance(value, str | int | float) for value in filled)
    return not is_id(name) and bool(filled) and plain


def _may_hold_sets(name: str, values: Sequence[Any]) -> bool:
    """Say whether a column holds lists of labels; those of a split may all be empty."""
    filled = [value for value in values if value is not None]
    lists = bool(filled) and all(isinstance(value, list) for value in filled)
    return (
        lists
        and name.lower() not in LISTS_OF_WORDS
        and all(isinstance(item, str | int | float) for value in filled for item in value)
    )


def _is_no_class(value: Any) -> bool:
    value = one_class(value)
    return value is not None and not isinstance(value, str | int | float)


def one_class(value: Any) -> Any:
    """Return what a list of one holds, None of an empty one: a text has one class."""
    if not isinstance(value, list) or len(value) > 1:
        return value
    return value[0] if value else None


def is_id(name: str) -> bool:
    """Say whether a column is called as ids and indexes are, which are no labels; or not at all."""
    return not name or name.lower() in IDS or name.lower().startswith(_PANDAS)


def names_header(choice: Choice, cells: Sequence[str]) -> bool:
    """Say whether the user's choice names a cell of a table's first row, which is a header then.

    A number is a position, even where a cell of the first example is the same number, unless the
    row numbers its columns.
    """
    texts = (choice.text or "").split(",")
    asked = {choice.label, choice.sentences, choice.text, *texts} - {None, ""}
    numbered = list(cells) == [str(number) for number in range(len(cells))]
    return any(name in cells for name in asked if name and (numbered or not _is_index(name)))


def place_of(where: str, option: str, wanted: str, names: Sequence[str]) -> int:
    """Return the position of the column that ``wanted`` names.

    Args:
        where: the file, for messages.
        option: "--text" or "--label", for messages.
        wanted: a name, or a position counted from 0 (from the end if negative).
        names: the file's columns.

    Raises:
        UnknownNameError: no column has that name.
        OptionError: the position is outside the file's columns.
    """
    if wanted in names:
        return names.index(wanted)
    if not _is_index(wanted):
        choose(f"{option} column of {where}", wanted, dict.fromkeys(names))
    position = int(wanted)
    if not -len(names) <= position < len(names):
        raise OptionError(
            f"{option} {wanted}: {where} has {len(names)} columns; expected "
            f"{-len(names)} to {len(names) - 1}."
        )
    return position % len(names)


def _is_index(name: str) -> bool:
    """Return whether ``name`` is an integer ("0", "-1")."""
    return name.lstrip("-").isascii() and name.lstrip("-").isdigit()


def _choose_label(
    where: str, choice: Choice, names: Sequence[str], candidates: Sequence[str]
) -> str | None:
    """Return the label column, None where there is none, or none is to be read.

    Args:
        where: the file, for messages.
        choice: what the user asked for.
        names: all columns of the file.
        candidates: those that could hold labels.
    """
    if choice.texts_alone:
        return None
    if choice.label is not None:
        of_words = choice.of_kind.per == "word"
        absent = not candidates if of_words else choice.optional and choice.label not in names
        return None if absent else names[place_of(where, "--label", choice.label, names)]
    candidates = [name for name in candidates if name != choice.group]
    if len(candidates) > 1:
        joined = " Put all labels of a text in one column, such as a;b."
        raise OptionError(
            f"{where} has several label columns: {', '.join(candidates)}. Choose one with --label."
            f"{joined if choice.of_kind.targets == 'sets' else ''}"
        )
    return candidates[0] if candidates else None


def choose_texts(fields: Fields, choice: Choice) -> tuple[str, ...]:
    """Return the text column, or the two of a pair; a regression may have either.

    ``--text A,B`` names two columns. Errors are those of `choose_columns`.
    """
    where, kind, names = fields.where, choice.of_kind, list(fields.values)
    if choice.text is not None:
        return _named_texts(where, kind, choice.text, names)
    texts = _prose_columns(fields, choice)
    if not texts:
        raise DataError(f"{where} has no text column, such as {' or '.join(TEXTS[:2])}.")
    pair = _usual_pair(where, names)
    if pair and 2 in kind.texts:
        return pair
    if 1 not in kind.texts:
        if len(texts) == 1:
            raise OptionError(
                f"{where} has only one text column, {texts[0]}, but kind pair takes two; use "
                "--kind sentence for one text per example."
            )
        raise OptionError(
            f"{where}: which two columns hold the texts? {', '.join(texts)}. Give --text A,B."
        )
    if pair:
        raise OptionError(
            f"{where} has two text columns, {pair[0]} and {pair[1]}, but kind {kind.name} takes "
            "one. Read both with --kind pair, or choose one with --text."
        )
    only = _only(texts, TEXTS)
    if only is None:
        two = f" For two texts per example give --text {','.join(texts[:2])}."
        raise OptionError(
            f"{where}: which column holds the text? {', '.join(texts)}. Choose one with --text (by "
            f"the name in the header, or by index).{two if 2 in kind.texts else ''}"
        )
    return (only,)


def _only(candidates: Sequence[str], usual: Sequence[str]) -> str | None:
    """Return the only candidate, or the only one with a usual name; None where it is open."""
    called_so = [name for name in candidates if name.lower() in usual]
    return (called_so or candidates)[0] if len(called_so) == 1 or len(candidates) == 1 else None


def _named_texts(where: str, kind: Kind, wanted: str, names: Sequence[str]) -> tuple[str, ...]:
    parts = [wanted] if wanted in names else [part.strip() for part in wanted.split(",")]
    chosen = tuple(names[place_of(where, "--text", part, names)] for part in parts)
    if kind.texts == (2,) and len(chosen) != 2:
        raise OptionError(
            f"--text {wanted}: kind {kind.name} takes two text columns, --text A,B; found "
            f"{len(chosen)}. For one text per example use --kind sentence."
        )
    if kind.texts == (1,) and len(chosen) != 1:
        hint = " For two texts per example use --kind pair." if kind.per == "text" else ""
        raise OptionError(
            f"--text {wanted}: kind {kind.name} takes one text column, found {len(chosen)}.{hint}"
        )
    if len(chosen) > 2 or len(set(chosen)) != len(chosen):
        raise OptionError(f"--text {wanted}: expected one text column, or two different ones.")
    return chosen


def _usual_pair(where: str, names: Sequence[str]) -> tuple[str, str] | None:
    called = {name.lower(): name for name in names}
    pairs = [pair for pair in PAIRS if called.keys() >= set(pair)]
    if len(pairs) > 1:
        listed = "; ".join(map(",".join, pairs))
        raise OptionError(f"{where}: which columns hold the texts? {listed}. Give --text A,B.")
    return (called[pairs[0][0]], called[pairs[0][1]]) if pairs else None
