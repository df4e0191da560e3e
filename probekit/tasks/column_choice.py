"""Choose the columns of words, texts and labels of the user's own data, by name or by index."""

from collections.abc import Sequence

from probekit.base.kinds import Kind
from probekit.base.registry import choose
from probekit.errors import DataError, OptionError
from probekit.tasks.text_options import Choice

# Names that columns usually have, in any case of letters.
LISTS_OF_WORDS = ("tokens", "words")
WORDS = (*LISTS_OF_WORDS, "token", "word", "form", "text")
PAIRS = (
    ("sentence1", "sentence2"), ("sentence_1", "sentence_2"), ("premise", "hypothesis"),
    ("question1", "question2"), ("question", "sentence"), ("question", "answer"),
    ("query", "passage"), ("text", "text_pair"), ("text1", "text2"), ("text_a", "text_b"),
)  # fmt: skip
TEXTS = ("text", "sentence", "utterance", "document", "content")
LABELS = (
    "label", "labels", "class", "category", "target", "score", "rating", "stars", "sentiment",
    "intent", "gold_label", "similarity",
)  # fmt: skip
IDS = ("id", "idx", "index", "guid")
_PANDAS = ("unnamed: ", "__index_level_")
"""How pandas calls an index without a name when it reads it, and in Parquet files."""
USUAL = frozenset({*TEXTS, *LABELS, *IDS, *(name for pair in PAIRS for name in pair)})


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
    numbered = list(cells) == [str(place) for place in range(len(cells))]
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
    place = int(wanted)
    if not -len(names) <= place < len(names):
        raise OptionError(
            f"{option} {wanted}: {where} has {len(names)} columns; expected "
            f"{-len(names)} to {len(names) - 1}."
        )
    return place % len(names)


def choose_words(where: str, choice: Choice, names: Sequence[str], lists: Sequence[str]) -> str:
    """Return the column with the words: the one asked for, else the only one that could be it.

    Args:
        where: the file, for messages.
        choice: what the user asked for.
        names: all columns of the file.
        lists: those that could hold words; a usual name among them is preferred.

    Raises:
        OptionError: several could be it; the message lists them.
        UnknownNameError: no column has the name asked for.
        DataError: none could.
    """
    if choice.text is not None:
        return names[place_of(where, "--text", choice.text, names)]
    if not lists:
        raise DataError(f"{where} has no column with a list of words; expected one (tokens).")
    found = _only(lists, LISTS_OF_WORDS)
    if found is None:
        raise OptionError(
            f"{where}: which column holds the words? {', '.join(lists)}. Choose one with --text."
        )
    return found


def choose_texts(
    where: str, choice: Choice, names: Sequence[str], texts: Sequence[str]
) -> tuple[str, ...]:
    """Return the text column, or the two of a pair; a regression may have either.

    Args:
        where: the file, for messages.
        choice: what the user asked for; ``--text A,B`` names two columns.
        names: all columns of the file.
        texts: those that could hold text.

    Raises:
        OptionError: the choice is left open, or one text was chosen for a pair or the other way
            round.
        UnknownNameError: no column has the name asked for.
        DataError: no column could hold text.
    """
    kind = choice.of_kind
    if choice.text is not None:
        return _named_texts(where, kind, choice.text, names)
    if not texts:
        raise DataError(f"{where} has no column with text; expected one ({', '.join(TEXTS[:2])}).")
    pair = _usual_pair(where, names)
    if pair and 2 in kind.texts:
        return pair
    if 1 not in kind.texts:
        raise _no_pair(where, texts)
    if pair:
        raise OptionError(
            f"{where} has two text columns, {pair[0]} and {pair[1]}, and kind {kind.name} takes "
            "one. Read both with --kind pair, or choose one with --text."
        )
    found = _only(texts, TEXTS)
    if found is None:
        two = f" Two texts per example are given as --text {','.join(texts[:2])}."
        raise OptionError(
            f"{where}: which column holds the text? {', '.join(texts)}. Choose one with --text (by "
            f"the name in the header, or by index).{two if 2 in kind.texts else ''}"
        )
    return (found,)


def choose_label(
    where: str, choice: Choice, names: Sequence[str], candidates: Sequence[str], hint: str = ""
) -> str | None:
    """Return the label column, None where there is none, or none is to be read.

    Args:
        where: the file, for messages.
        choice: what the user asked for.
        names: all columns of the file.
        candidates: those that could hold labels.
        hint: what else the file could be where there are several, for the message.

    Raises:
        OptionError: several could be it; the message lists them.
        UnknownNameError: no column has the name asked for.
    """
    if choice.texts_alone:
        return None
    if choice.label is not None:
        of_words = choice.of_kind.per == "word"
        absent = not candidates if of_words else choice.optional and choice.label not in names
        return None if absent else names[place_of(where, "--label", choice.label, names)]
    candidates = [name for name in candidates if name != choice.group]
    if len(candidates) > 1:
        raise OptionError(
            f"{where} has several label columns: {', '.join(candidates)}. Choose one with "
            f"--label.{hint}"
        )
    return candidates[0] if candidates else None


def _is_index(name: str) -> bool:
    """Return whether ``name`` is an integer ("0", "-1")."""
    return name.lstrip("-").isascii() and name.lstrip("-").isdigit()


def _only(candidates: Sequence[str], usual: Sequence[str]) -> str | None:
    """Return the only candidate, or the only one with a usual name; None where it is open."""
    known = [name for name in candidates if name.lower() in usual]
    return (known or candidates)[0] if len(known) == 1 or len(candidates) == 1 else None


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
    found = [pair for pair in PAIRS if called.keys() >= set(pair)]
    if len(found) > 1:
        listed = "; ".join(map(",".join, found))
        raise OptionError(
            f"{where}: which columns hold the texts? {listed}. Choose with --text A,B."
        )
    return (called[found[0][0]], called[found[0][1]]) if found else None


def _no_pair(where: str, texts: Sequence[str]) -> OptionError:
    if len(texts) == 1:
        return OptionError(
            f"{where} has one text column, {texts[0]}, and kind pair takes two; use --kind "
            "sentence for one text per example."
        )
    return OptionError(
        f"{where}: which two columns hold the texts? {', '.join(texts)}. Choose with --text A,B."
    )
