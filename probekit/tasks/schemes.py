"""Labels by name: classes, numbers, marks of none; and schemes of spans, turned into BIO.

A tag is O, or a mark with or without a type. In BIO (IOB2) the first word of a span is marked B and
the others I. The other schemes mark the last word as well (E or L), or the only one (S, U or W),
write M for I, or mark an end of a span only where it touches another one of its type (IOB1, IOE1).
Whatever the scheme, a span begins at a mark that begins one, after a mark that ends one, after O,
and where the type changes: so conlleval and seqeval read them.
"""

import itertools
import logging
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probekit.base.fingerprint import parse_json
from probekit.base.notices import warn_once
from probekit.errors import reason_of
from probekit.tasks.sentences import Sentences

logger = logging.getLogger(__name__)

NO_LABEL = ""
"""The label of a word that has none: it is neither fitted on nor scored."""

NUMBERS = frozenset({-1, -100})
"""Numbers that stand for no label in unlabelled splits and in losses."""

MARKS = frozenset(
    {"_", "n/a", "nan", "<na>", "#n/a", "null", *map(str, NUMBERS), *(f"{n}.0" for n in NUMBERS)}
)
"""Marks of treebanks and of tables in lower case, and those numbers, as tables write floats too."""

DASH = "-"
"""A mark too, but where other labels are signs it is one of them ("+" and "-", "." and "-")."""

_UNSEEN = "\ufeff\u200b\u2060"
"""Characters that no editor shows and ``str.strip`` leaves: byte order mark, zero-width ones."""


def trim(cell: str) -> str:
    """Return a label, or the name of a column, without what surrounds it unseen.

    That is white space of every kind (no-break spaces, line ends) and marks without width. Words
    and texts are never trimmed so: a no-break space may be one.
    """
    shorter = cell.strip().strip(_UNSEEN)
    return cell if shorter == cell else trim(shorter)


def class_text(value: Any) -> Any:
    """Return a class as text; what can be none stays as it is.

    Whole numbers become floats where a column has gaps.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return value


def marks_among(labels: Iterable[str]) -> set[str]:
    """Return those of the labels of a column that say that there is none."""
    names = set(labels)
    marks = {name for name in names if name.lower() in MARKS}
    signs = {name for name in names - marks if not any(map(str.isalnum, name))} - {DASH, NO_LABEL}
    return marks if signs or DASH not in names else marks | {DASH}


LARGEST = 3.4028234663852886e38
"""Of the numbers that are labels: data sets and loaders have them in float32."""


def is_number(label: str) -> bool:
    """Return whether a label reads as a number that float32 has room for."""
    try:
        return "_" not in label and abs(float(label)) <= LARGEST
    except ValueError:
        return False


def score_name(value: float) -> str:
    """Return a score by the one name that it has in a table of text ("3.8") and on the Hub.

    The Hub stores float32. The name is the shortest decimal that means the same float32, with at
    least three digits after the point: 3.8 and 3.799999952316284 are both "3.800".
    """
    rounded = _float32(value)
    near = (f"{rounded:.{digits}f}" for digits in range(3, 10))
    return next((name for name in near if _float32(float(name)) == rounded), repr(rounded))


def _float32(value: float) -> float:
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return float(rounded)


_INNER = ("dtype", "sequence", "list")
"""What a data set's card calls the kind of a feature, or of what its lists hold."""
_CLASS_NUMBER = re.compile(r"-?[0-9]{1,9}(\.0)?")


def by_name(rows: Sequence[Any], names: Sequence[str] | None) -> Sequence[Any]:
    """Return the numbers of classes, or lists of them, by name; without names the rows themselves.

    A text that has no label has None. A number that stands for no label stays among the labels of
    words, where ``marks_among`` finds it; a column that has no other is one of None.
    """
    if names is None:
        return rows

    def name(value: Any) -> Any:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return names[value] if whole and 0 <= value < len(names) else value

    items = [item for row in rows for item in (row if isinstance(row, list) else [row])]
    if items and all(item in _NONE for item in items):
        return [None] * len(rows)
    return [
        [*map(name, row)] if isinstance(row, list) else None if row in _NONE else name(row)
        for row in rows
    ]


_NONE = (None, *NUMBERS)  # no set: what is compared with them may be of any type


def names_of(feature: Any) -> Sequence[str] | None:
    """Return the names of a ClassLabel of ``datasets``, or of a list of them; None for others."""
    return getattr(getattr(feature, "feature", feature), "names", None)


def written_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return the label names that ``datasets`` wrote into a Parquet file, by column.

    Raises:
        ValueError, TypeError, AttributeError, LookupError: something else is written there.
    """
    info = parse_json(metadata.get(b"huggingface", b"{}")).get("info", {})
    classes = {}
    for name, feature in info.get("features", {}).items():
        inner = feature.get("feature", feature) if isinstance(feature, dict) else feature[0]
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and inner.get("names"):
            classes[name] = names = inner["names"]
            if not (isinstance(names, list) and all(isinstance(text, str) for text in names)):
                raise TypeError(f"the classes of {name!r} are not a list of names")
    return classes


def class_number(item: Any, classes: Sequence[str]) -> Any:
    """Return the number of a class, though written as text or as a float; what is none stays.

    Raises:
        ValueError: it is text that may be the number of one class and the name of another, or the
            number of no class.
    """
    text = class_text(item)
    if not isinstance(text, str) or not _CLASS_NUMBER.fullmatch(trim(text)):
        return item
    text, number = trim(text), int(float(text))
    if isinstance(item, str) and text in classes:
        if 0 <= number < len(classes) and classes[number] != text:
            raise ValueError(
                f"{text} is the name of one class and the number of another; write names in the "
                "column, or rename the classes in the card"
            )
        return item
    if number not in NUMBERS and not 0 <= number < len(classes):
        raise ValueError(
            f"{number} is not a class of the card, which names 0 to {len(classes) - 1}; add the "
            "missing names there"
        )
    return number


def card_names(card: Path) -> dict[str, list[str]]:
    """Return the names of classes by column that the card of a data set gives.

    Args:
        card: the file, ``README.md``, with ``dataset_info`` in front; it need not be there. Of what
            cannot be read there, a message tells.
    """
    if not card.is_file():
        return {}
    import yaml  # type: ignore[import-untyped]
    from huggingface_hub import metadata_load

    classes: dict[str, list[str]] = {}
    try:
        front = card.read_text("utf-8").partition("\n---")[0]
        tokens = yaml.scan(front) if front.startswith("---") else ()
        if any(isinstance(token, yaml.AliasToken) for token in tokens):
            raise ValueError("it has YAML aliases, which may expand to any size")
        info = (metadata_load(card) or {}).get("dataset_info", [])
        configs = info if isinstance(info, list) else [info]
        usual = [config for config in configs if config.get("config_name") == "default"]
        for feature in (feature for config in usual or configs for feature in config["features"]):
            inner = next((feature[key] for key in _INNER if key in feature), None)
            if isinstance(inner, dict) and "class_label" in inner:
                names = _feature_names(feature["name"], inner["class_label"]["names"])
                if names and classes.setdefault(feature["name"], names) != names:
                    raise ValueError(f"its configurations differ in {feature['name']!r}")
    except Exception as error:  # whatever a hand-written file makes of its reader
        warn_once(logger, f"{card}: the class names there cannot be read ({reason_of(error)}).")
        return {}
    return classes


def _feature_names(column: str, names: Any) -> list[str]:
    """Return the names that a card gives to the classes of a column: a list, or 0: O, 1: B-PER."""
    if not isinstance(names, list):
        numbers = sorted(names, key=int)
        if list(map(int, numbers)) != list(range(len(numbers))):
            raise ValueError(f"classes of {column!r} are numbered {', '.join(map(str, numbers))}")
        names = [names[number] for number in numbers]
    for name in names:
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise ValueError(f"the class {name!r} of {column!r} is not text: put it in quotes")
    trimmed = [trim(str(name)) for name in names]
    if len(set(trimmed)) < len(trimmed):
        raise ValueError(f"two classes of {column!r} have the same name")
    if marks := [name for name in trimmed if name.lower() in MARKS - {"_"}]:
        raise ValueError(f"the class {marks[0]!r} of {column!r} would be read as a missing label")
    return trimmed


SCHEMES = {
    "BIO": "BI*",
    "IOB1": "BI*|I+",
    "IOE": "I*E|I+",
    "IOBES": "S|BI*E",
    "BILOU": "U|BI*L",
    "BMES": "S|BM*E",
    "BMEWO": "W|BM*E",
}
"""What the marks of one span may be, by scheme."""

MOST_BROKEN = 0.1
"""Share of spans that may not be as their scheme writes them (annotators err); where marks are B
and I alone all may, since there is one way to read them."""

Mark = tuple[str, str] | None
"""Mark and type ("" for the nameless one) of a word; None outside of all spans."""

BIO_TAG = re.compile(r"O|[BI]-.+", re.DOTALL)
"""O, B-TYPE or I-TYPE."""

_USUAL = re.compile("[BI]-")
_BEGIN, _END, _OUTSIDE = "BSUW", "ESLUW", {"O", "o"}
_MARK = "(?P<mark>[BIESLUMW])"


def _forms() -> dict[str, re.Pattern[str]]:
    """Return how a tag may be written: type behind the mark, before it, or none."""
    forms = {"B": f"{_MARK}(?P<type>)"}
    for sign in "-_:/|. ":
        divider = re.escape(sign)
        forms[f"B{sign}TYPE"] = f"{_MARK}{divider}(?P<type>.+)"
        forms[f"TYPE{sign}B"] = f"(?P<type>.+){divider}{_MARK}"
    return {form: re.compile(text, re.DOTALL | re.IGNORECASE) for form, text in forms.items()}


FORMS: Mapping[str, re.Pattern[str]] = _forms()


@dataclass(frozen=True)
class Reading:
    """The tags of a column, read.

    Attributes:
        scheme: name of the scheme.
        form: how the tags are written, a name of ``FORMS``.
        marks: what each tag says.
        n_spans: spans in all.
        n_broken: spans that are not as the scheme writes them.
    """

    scheme: str
    form: str
    marks: Mapping[str, Mark]
    n_spans: int
    n_broken: int

    def to_bio(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Return the tags of one sentence in BIO; a word without a label ("") has none."""
        bio, before = [], None
        for tag in tags:
            this = self.marks[tag] if tag else None
            if this is None:
                bio.append("O" if tag else "")
            else:
                prefix = "B" if _opens(before, this) else "I"
                bio.append(f"{prefix}-{this[1]}" if this[1] else prefix)
            before = this if tag else before
        return tuple(bio)


def bio_names(*types: str) -> tuple[str, ...]:
    """Return the tags of some types in the order of the Hub's features: O, B-X, I-X, B-Y, I-Y."""
    return ("O", *(f"{mark}-{name}" for name in types for mark in "BI"))


def iob1_to_bio(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of one sentence with every entity opened by B-.

    In IOB1, the scheme of the CoNLL-2003 files, an entity opens with I-, and B- only divides two of
    one type that touch. An I-TYPE that follows neither B-TYPE nor I-TYPE of the same type opens an
    entity and becomes B-TYPE; all other tags stay. BIO tags come back unchanged.
    """
    # O O      I-PER I-PER I-LOC B-LOC      becomes
    # O O      B-PER I-PER B-LOC B-LOC
    return tuple(
        f"B-{tag[2:]}" if tag[:2] == "I-" and before[2:] != tag[2:] else tag
        for before, tag in itertools.pairwise(("O", *tags))
    )


def turn_to_bio(corpus: Sentences, column: str, task: str) -> Sentences:
    """Return sentences with the tags of a column in BIO; as they are where no scheme fits them.

    What is turned is said, once for all splits of a task.

    Args:
        corpus: what a reader found.
        column: the label column.
        task: the task's name, for the message.
    """
    tags = corpus.labels(column)
    reading = read_scheme(tags.values())
    labels = {label for row in tags.values() for label in row} - {NO_LABEL}
    if labels <= _OUTSIDE:  # a split without spans is in any scheme
        reading = Reading("BIO", "B-TYPE", dict.fromkeys(labels), 0, 0)
    if reading is None:
        return corpus
    turned = {n: reading.to_bio(row) for n, row in tags.items()}
    if turned == tags:
        return corpus
    form = {"B-TYPE": "", "B": ", without types"}.get(reading.form, f", written {reading.form}")
    warn_once(
        logger,
        f"{task}: the tags of column {column!r} are {reading.scheme}{form}; they are converted to "
        "BIO (O, B-TYPE, I-TYPE).",
    )
    if reading.n_broken:
        warn_once(
            logger,
            f"{corpus.where}: {reading.n_broken} of {reading.n_spans} spans of column {column!r} "
            f"do not follow {reading.scheme}; they are read as seqeval reads them.",
        )
    return corpus.with_labels(column, turned)


def read_scheme(sentences: Collection[Sequence[str]]) -> Reading | None:
    """Return how the tags of a column mark spans; None if they do not, or not in one way alone.

    Args:
        sentences: the tags of each; "" for a word without a label.
    """
    tags = {tag for sentence in sentences for tag in sentence} - {NO_LABEL}
    readings = [
        reading
        for form in FORMS
        if (marks := _parse_tags(tags, form)) and (reading := _best_reading(sentences, form, marks))
    ]
    usual = [
        reading for reading in readings if reading.form == "B-TYPE" and any(map(_USUAL.match, tags))
    ]
    chosen = usual or readings
    return chosen[0] if len(chosen) == 1 else None


def looks_like_tags(labels: Collection[str]) -> bool:
    """Say whether labels may be meant as tags of spans: half of them, or single letters and O."""
    inside = set(labels) - _OUTSIDE - {NO_LABEL}
    bare = bool(_OUTSIDE & set(labels)) and all(map(FORMS["B"].fullmatch, inside))
    matches = (pattern.fullmatch(tag) for tag in inside for pattern in FORMS.values())
    typed = {
        match.string for match in matches if match and match["type"] and match["mark"] in "BIbi"
    }
    return bool(inside) and (bare or 2 * len(typed) >= len(inside))


def _parse_tags(tags: set[str], form: str) -> dict[str, Mark] | None:
    """Return what tags say if all are written in a form, and some mark a span."""
    matches = {tag: FORMS[form].fullmatch(tag) for tag in tags - _OUTSIDE}
    if not (matches and all(matches.values())):
        return None
    marks = {tag: (m["mark"].upper(), m["type"]) for tag, m in matches.items() if m}
    return dict.fromkeys(tags & _OUTSIDE) | marks


def _best_reading(
    sentences: Collection[Sequence[str]], form: str, marks: Mapping[str, Mark]
) -> Reading | None:
    """Return the scheme that fits tags best, if one does."""
    letters = {mark[0] for mark in marks.values() if mark}
    outside = None in marks.values()
    usual = form == "B-TYPE"
    if not ("B" in letters or ("I" in letters and (outside or usual)) or (outside and usual)):
        return None
    rows = ([marks[tag] for tag in sentence if tag] for sentence in sentences)
    spans = [span for row in rows for span in _spans(row)]
    counts = {
        name: sum(not re.fullmatch(pattern, span) for span in spans)
        for name, pattern in SCHEMES.items()
        if letters <= set(pattern)
    }
    if not counts:
        return None
    scheme = min(counts, key=lambda name: counts[name])
    allowed = 1.0 if letters <= set("BI") else MOST_BROKEN
    if form == "B" and not outside:  # two classes may well be called B and I
        allowed, scheme = 0.0, "BIO" if letters <= set("BI") else scheme
    if counts[scheme] > allowed * len(spans):
        return None
    return Reading(scheme, form, marks, len(spans), counts[scheme])


def _spans(marks: Sequence[Mark]) -> Iterator[str]:
    """Yield the marks of each span of a sentence."""
    # IOBES        S-PER O B-LOC I-LOC E-LOC S-LOC     yields S, BIE, S
    # BIO          B-PER O B-LOC I-LOC I-LOC B-LOC     yields B, BII, B
    # IOB1         I-PER O I-LOC I-LOC I-LOC B-LOC     yields I, III, B
    # no scheme    B-PER O B-LOC I-PER                 yields B, B, I: the type changes
    span = ""
    for before, this in itertools.pairwise([None, *marks, None]):
        if this is None or _opens(before, this):
            if span:
                yield span
            span = ""
        span += this[0] if this else ""


def _opens(before: Mark, this: tuple[str, str]) -> bool:
    """Say whether a span begins at a word, given the word before it."""
    return before is None or this[0] in _BEGIN or before[0] in _END or before[1] != this[1]
