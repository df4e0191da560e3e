"""Choose the text and label columns of the user's own sentences and pairs."""

from collections.abc import Sequence

from probekit.base.kinds import KindName
from probekit.errors import DataError, OptionError
from probekit.tasks.own.column_choice import Choice, only_label, place_of

# Names that text columns usually have, in any case of letters.
PAIRS = (
    ("sentence1", "sentence2"),
    ("sentence_1", "sentence_2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "answer"),
    ("query", "passage"),
    ("text", "text_pair"),
    ("text1", "text2"),
    ("text_a", "text_b"),
)
TEXTS = ("text", "sentence", "utterance", "document", "content")
LABELS = (
    "label",
    "labels",
    "class",
    "category",
    "target",
    "score",
    "rating",
    "stars",
    "sentiment",
    "intent",
    "gold_label",
    "similarity",
)
IDS = ("id", "idx", "index", "guid")
_PANDAS = ("unnamed: ", "__index_level_")
"""How pandas calls an index without a name when it reads it, and in Parquet files."""
USUAL = frozenset({*TEXTS, *LABELS, *IDS, *(name for pair in PAIRS for name in pair)})


def is_id(name: str) -> bool:
    """Say whether a column is called as ids and indexes are, which are no labels; or not at all."""
    return not name or name.lower() in IDS or name.lower().startswith(_PANDAS)


def choose_texts(
    where: str, kind: KindName, choice: Choice, names: Sequence[str], texts: Sequence[str]
) -> tuple[str, ...]:
    """Return the text column, or the two of a pair; a regression may have either.

    Args:
        where: the file, for messages.
        kind: sentence, pair, regression or language-modelling.
        choice: what the user asked for; ``--text A,B`` names two columns.
        names: all columns of the file.
        texts: those that could hold text.

    Raises:
        OptionError: the choice is left open, or one text was chosen for a pair or the other way
            round.
        UnknownNameError: no column has the name asked for.
        DataError: no column could hold text.
    """
    if choice.text is not None:
        return _named_texts(where, kind, choice.text, names)
    if not texts:
        raise DataError(f"{where} has no column with text; expected one ({', '.join(TEXTS[:2])}).")
    pair = _usual_pair(where, names)
    if kind in ("pair", "regression") and pair:
        return pair
    if kind == "pair":
        raise _no_pair(where, texts)
    if pair:
        raise OptionError(
            f"{where} has two text columns, {pair[0]} and {pair[1]}, and kind {kind} takes one. "
            "Read both with --kind pair, or choose one with --text."
        )
    known = [name for name in texts if name.lower() in TEXTS]
    if len(known) == 1 or len(texts) == 1:
        return ((known or list(texts))[0],)
    raise OptionError(
        f"{where}: which column holds the text? {', '.join(texts)}. Choose one with --text (by "
        "the name in the header, or by index)."
    )


def choose_label(
    where: str, choice: Choice, names: Sequence[str], candidates: Sequence[str]
) -> str | None:
    """Return the label column, None where there is none.

    Args:
        where: the file, for messages.
        choice: what the user asked for.
        names: all columns of the file.
        candidates: those that could hold labels.

    Raises:
        OptionError: several could be it; the message lists them.
        UnknownNameError: no column has the name asked for.
    """
    if choice.label is None:
        return only_label(where, candidates)
    if choice.optional and choice.label not in names:
        return None
    return names[place_of(where, "--label", choice.label, names)]


def _named_texts(where: str, kind: KindName, wanted: str, names: Sequence[str]) -> tuple[str, ...]:
    parts = [wanted] if wanted in names else [part.strip() for part in wanted.split(",")]
    chosen = tuple(names[place_of(where, "--text", part, names)] for part in parts)
    if kind == "pair" and len(chosen) != 2:
        raise OptionError(
            f"--text {wanted}: kind pair takes two text columns, --text A,B; found "
            f"{len(chosen)}. For one text per example use --kind sentence."
        )
    if kind in ("sentence", "language-modelling") and len(chosen) != 1:
        hint = " For two texts per example use --kind pair." if kind == "sentence" else ""
        raise OptionError(
            f"--text {wanted}: kind {kind} takes one text column, found {len(chosen)}.{hint}"
        )
    if len(chosen) > 2 or len(set(chosen)) != len(chosen):
        raise OptionError(f"--text {wanted}: expected one text column, or two different ones.")
    return chosen


def _usual_pair(where: str, names: Sequence[str]) -> tuple[str, str] | None:
    called = {name.lower(): name for name in names}
    found = [pair for pair in PAIRS if set(pair) <= set(called)]
    if len(found) > 1:
        listed = "; ".join(f"{first},{second}" for first, second in found)
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
