"""Schemes of spans: what a BIO tag is, and tags in another form, recognised and turned into it.

A tag is O, or a mark with or without a type. In BIO (IOB2) the first word of a span is marked B and
the others I. The other schemes mark the last word as well (E or L), or the only one (S, U or W),
write M for I, or mark an end of a span only where it touches another one of its type (IOB1, IOE1).
Whatever the scheme, a span begins at a mark that begins one, after a mark that ends one, after O,
and where the type changes: so conlleval and seqeval read them.
"""

import itertools
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from probekit.base.notices import warn_once
from probekit.tasks.label_names import NO_LABEL
from probekit.tasks.sentences import Sentences

logger = logging.getLogger(__name__)

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
        f"{task}: the tags of column {column!r} are {reading.scheme}{form}; they are read as BIO "
        "(O, B-TYPE, I-TYPE).",
    )
    if reading.n_broken:
        warn_once(
            logger,
            f"{corpus.where}: {reading.n_broken} of {reading.n_spans} spans of column {column!r} "
            f"are not as {reading.scheme} writes them; read as seqeval does.",
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
        if (marks := _parse(tags, form)) and (reading := _reading(sentences, form, marks))
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


def _parse(tags: set[str], form: str) -> dict[str, Mark] | None:
    """Return what tags say if all are written in a form, and some mark a span."""
    matches = {tag: FORMS[form].fullmatch(tag) for tag in tags - _OUTSIDE}
    if not (matches and all(matches.values())):
        return None
    marks = {tag: (m["mark"].upper(), m["type"]) for tag, m in matches.items() if m}
    return dict.fromkeys(tags & _OUTSIDE) | marks


def _reading(
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
