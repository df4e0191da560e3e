"""The labels of a split, as stored, read afresh or random, and what they are as numbers."""

import itertools
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64

from probekit.base.fingerprint import digest, digest_stream
from probekit.base.kinds import KINDS, KindName
from probekit.base.notices import human_list, warn_once
from probekit.base.numbers import bounds_of, derive, numpy_generator
from probekit.base.registry import choose
from probekit.errors import DataError, OptionError
from probekit.store import Entry
from probekit.store.labels import labels_for, read_newest
from probekit.tasks import Example, Split
from probekit.tasks.schemes import NO_LABEL, is_number
from probekit.tasks.spans import (
    derive_targets,
    head_number,
    is_derived,
    parse_target,
    source_columns,
)

logger = logging.getLogger(__name__)

_SHOWN = 5  # unseen names in a warning


@dataclass(frozen=True, eq=False)
class TargetSpans:
    """What the targets of a column of spans are of.

    Attributes:
        places: of each target the first word of its span, and one past its last; of a pair those
            of both.
        bounds: example i has the targets ``bounds[i]`` to ``bounds[i + 1]`` (excluded).
    """

    places: Int64[np.ndarray, "targets sides 2"]
    bounds: Int64[np.ndarray, " bounds"]

    @classmethod
    def of(
        cls, targets: Sequence[Sequence[str]], n_words: Int64[np.ndarray, " examples"], where: str
    ) -> tuple[Self, list[str]]:
        """Return the spans of the targets of each example, and the label of each target.

        Raises:
            DataError: a target lies outside its sentence, or pairs are among single spans.
        """
        read = [[parse_target(target) for target in of_example] for of_example in targets]
        flat = [target for of_example in read for target in of_example]
        sides = {len(places) for places, _ in flat}
        if len(sides) > 1:
            raise DataError(f"{where}: pairs of spans among single spans.")
        places = np.array([places for places, _ in flat], np.int64).reshape(
            len(flat), max(sides, default=1), 2
        )
        counts = np.array([*map(len, read)], np.int64)
        if flat and (places[..., 1].max(1) > np.repeat(n_words, counts)).any():
            raise DataError(f"{where}: a span lies outside its sentence; extract the text again.")
        return cls(places, bounds_of(counts)), [label for _, label in flat]


@dataclass(frozen=True)
class SplitLabels:
    """The labels of one column in the order of an entry's examples.

    Attributes:
        values: label names, one per word, span or text (``NO_LABEL`` for a word without), or of
            sets of labels all of a text, sorted; numbers as text for a regression; none for
            language modelling, whose targets lie in the entry.
        fingerprint: sha256 over ids and labels, whatever they were read from.
        where: split, column and origin, for messages.
        spans: what the labels of a column of spans are of.
    """

    values: Sequence[Any]
    fingerprint: str
    where: str
    spans: TargetSpans | None = None

    @property
    def given(self) -> Bool[np.ndarray, " rows"]:
        """Which rows have a label."""
        return np.fromiter((value != NO_LABEL for value in self.values), bool, len(self.values))


Labels = Mapping[str, Sequence[str]]
"""The labels of a column by the id of the example."""


def load_labels(
    entry: Entry, column: str, split: Split | None = None, kind: KindName = "tagging"
) -> SplitLabels:
    """Return the labels of an entry's examples.

    Args:
        entry: the entry.
        column: the label column.
        kind: what the column labels: each word, or the text as a whole.
        split: the freshly read split to take them from; ``None`` takes the newest version that is
            stored for the entry's text.

    Raises:
        DataError: no labels are stored, or they do not fit the entry's examples.
        UnknownNameError: the split has no such column.
    """
    examples = entry.examples
    where = f"{entry.manifest.task} {entry.manifest.split}, labels {column!r}"
    if KINDS[kind].targets == "vocabulary":
        return SplitLabels([], digest_stream([examples.targets.astype("<i4").tobytes()]), where)
    of_column = _read_stored if split is None else partial(_read_fresh, split=split)
    names = source_columns(column)
    labels, origin = of_column(entry, names[0], where)
    where += f" from {origin}"
    if is_derived(column):
        others = [of_column(entry, name, where)[0] for name in names[1:]]
        labels = _derived(column, labels, others, where)
    if KINDS[kind].per == "text" and KINDS[kind].targets != "sets":
        counts = np.ones(len(examples), np.int64)
    elif KINDS[kind].per == "word":
        counts = examples.n_rows.astype(np.int64)
    else:  # as many as there are
        counts = np.array([len(labels.get(name, ())) for name in examples.ids], np.int64)
    joined = join_labels(examples.ids, counts.tolist(), labels, where=where)
    bounds = list(itertools.pairwise(bounds_of(counts).tolist()))
    fingerprint = digest_stream(
        "\x1f".join([name, *joined[start:stop]]).encode()
        for name, (start, stop) in zip(examples.ids, bounds, strict=True)
    )
    sets = [tuple(joined[start:stop]) for start, stop in bounds]
    if KINDS[kind].per == "span":
        spans, joined = TargetSpans.of(sets, examples.n_rows.astype(np.int64), where)
        return SplitLabels(joined, fingerprint, where, spans)
    return SplitLabels(sets if KINDS[kind].targets == "sets" else joined, fingerprint, where)


def _read_fresh(entry: Entry, column: str, where: str, split: Split) -> tuple[Labels, str]:
    """Return the labels of a split that was read afresh, and where they are from."""
    if not split.labels:
        raise DataError(
            f"{where} from {split.origin}: this split has no labels, so no head can be fitted on "
            "it. Choose another split with --fit-on, or give labels with --data DIR."
        )
    values = choose("label column", column, split.labels)
    _check_text(entry, split, f"{where} from {split.origin}")
    ids = [example.id for example in split.examples]
    return dict(zip(ids, values, strict=True)), split.origin


def _read_stored(entry: Entry, column: str, where: str) -> tuple[Labels, str]:
    """Return the newest labels beside an entry, and the name of their file."""
    stored = read_newest(entry, labels_for(entry, column))
    if stored is None:
        raise DataError(
            f"{where}: none are stored beside {entry.path}, so no head can be fitted on it. Give "
            "the folder with the label files, --data DIR, or choose another split, --fit-on."
        )
    return dict(zip(stored.ids, stored.values, strict=True)), stored.file.path.name


def _derived(column: str, first: Labels, others: Sequence[Labels], where: str) -> Labels:
    """Return the targets that columns of words make.

    Raises:
        DataError: a sentence has more labels in one column than in another.
    """
    rows = {name: [labels, *(of.get(name, ()) for of in others)] for name, labels in first.items()}
    for name, of_example in rows.items():
        if len({*map(len, of_example)}) > 1:
            raise DataError(
                f"{where}: example {name!r} has unlike numbers of labels in the columns "
                f"{', '.join(source_columns(column))}; extract the text again."
            )
        words, heads = len(of_example[0]), of_example[1] if others else ()
        wrong = next((head for head in heads if (head_number(head) or 0) > words), None)
        if wrong is not None:
            raise DataError(
                f"{where}: example {name!r} has {words} words, and one of them has the head "
                f"{wrong}; correct the file, and extract it again."
            )
    return {name: derive_targets(column, *of_example) for name, of_example in rows.items()}


def join_labels(
    ids: Sequence[str], counts: Sequence[int], labels: Mapping[str, Sequence[str]], *, where: str
) -> list[str]:
    """Return the labels one after another, in the order of the split's examples.

    Args:
        ids: id of each example of the split.
        counts: labels that each example should have: one per word, or one.
        labels: labels by example id; it may hold more examples than the split.
        where: what the labels belong to, for messages: split, column and origin.

    Raises:
        DataError: an example has no labels, or another number of them.
    """
    joined: list[str] = []
    for name, expected in zip(ids, counts, strict=True):
        of_example = labels.get(name)
        if of_example is None:
            raise DataError(
                f"{where}: no labels for example {name!r} ({len(labels)} examples are labelled, "
                f"the cached split holds {len(ids)}); give the label files of the same split."
            )
        if len(of_example) != expected:
            raise DataError(
                f"{where}: example {name!r} needs {expected} labels for what is in the cache, but "
                f"has {len(of_example)}; correct the label file, or extract the new text again."
            )
        joined.extend(of_example)
    return joined


def _check_text(entry: Entry, split: Split, where: str) -> None:
    """Refuse labels of another text (how many labels there are is checked with the labels)."""
    fresh = {example.id: example for example in split.examples}
    for position, name in enumerate(entry.examples.ids):
        example = fresh.get(name)
        if example is None:
            continue
        _check_words(example, entry.examples.words(position), where)
        if entry.examples.has("text"):
            cached = entry.examples.texts[position]
            if cached != (example.text, example.text_pair):
                raise DataError(
                    f"{where}: the text of example {name!r} is {example.text!r}, but "
                    f"{cached[0]!r} in the cache; give the labels of the same text, or extract "
                    "again."
                )


def _check_words(example: Example, cached: Sequence[str], where: str) -> None:
    if len(example.words) == len(cached) and tuple(example.words) != tuple(cached):
        index = next(n for n, word in enumerate(cached) if example.words[n] != word)
        raise DataError(
            f"{where}: word {index + 1} of example {example.id!r} is {example.words[index]!r}, but "
            f"{cached[index]!r} in the cache; give the labels of the same text, or extract again."
        )


def control_labels(
    entries: Mapping[str, Entry], labels: Mapping[str, SplitLabels], kind: KindName, *, seed: int
) -> dict[str, SplitLabels]:
    """Replace every label by one drawn for the word's type, whatever its context.

    A probe that does well on these random but consistent labels, which only memory can learn,
    would do well on anything; what it scores above them is its selectivity (Hewitt & Liang 2019,
    section 2). A type (the word as it is written) has one label in all splits, drawn from how often
    labels occur in train, by the seed and the word alone. A word without a label gets none.

    Args:
        entries: the entry of each labelled split.
        labels: the real labels, by split.
        kind: what they label.
        seed: decides the draw.

    Raises:
        OptionError: labels of whole texts, whose types do not recur.
    """
    if KINDS[kind].per != "word":
        raise OptionError(
            "a control task gives every word type a random label, so it needs labels of words, "
            f"and these are of kind {kind}."
        )
    counts = sorted(Counter(filter(None, labels["train"].values)).items())
    names = [name for name, _ in counts]
    bounds = np.cumsum([count for _, count in counts])
    control = {}
    for split, real in labels.items():
        types = entries[split].examples.flat("words").tolist()
        # Labels O, ORG and PER that occur 6, 1 and 3 times have bounds 6 7 10: a word whose number
        # is 0 to 5 gets O, 6 ORG, 7 to 9 PER. The number is a function of seed and word alone.
        numbers = {word: derive(seed, "control", word) % int(bounds[-1]) for word in set(types)}
        drawn = {
            word: names[int(np.searchsorted(bounds, number, "right"))]
            for word, number in numbers.items()
        }
        has_label = zip(types, real.given.tolist(), strict=True)
        values = [drawn[word] if given else NO_LABEL for word, given in has_label]
        about = digest([real.fingerprint, "control", seed])
        control[split] = SplitLabels(values, about, f"{real.where} (control)")
    return control


def noisy_labels(labels: SplitLabels, share: float) -> SplitLabels:
    """Return labels of which a share are replaced by another class each.

    Which ones is the same for every seed, and a larger share has those of a smaller one.
    """
    names = sorted(set(labels.values) - {NO_LABEL})
    numbers = {name: number for number, name in enumerate(names)}
    given, generator = np.flatnonzero(labels.given), numpy_generator(0, "label noise")
    order, values = generator.permutation(given), list(labels.values)
    shifts, count = generator.integers(1, max(len(names), 2), len(given)), round(share * len(given))
    for row, shift in zip(order[:count].tolist(), shifts[:count].tolist(), strict=True):
        values[row] = names[(numbers[values[row]] + shift) % len(names)]
    fingerprint = digest([labels.fingerprint, "noise", share])
    return replace(
        labels, values=values, fingerprint=fingerprint, where=f"{labels.where} (with noise)"
    )


@dataclass(frozen=True)
class LabelMap:
    """The classes of a label column, as a rule the sorted label names of the full train split.

    Attributes:
        names: label name of each class.
    """

    names: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of classes."""
        return len(self.names)

    def encode(self, labels: Sequence[str]) -> tuple[Int64[np.ndarray, " rows"], tuple[str, ...]]:
        """Turn label names into class numbers.

        A name that the map lacks gets a number from ``len(self)`` on, which no head predicts, so
        that it counts as an error.

        Returns:
            The class of each label, and the names beyond the map's own in the order of their
            numbers.
        """
        # Classes LOC, PER; labels PER, MISC, LOC: MISC is 2, the first number beyond the classes.
        known = {name: number for number, name in enumerate(self.names)}
        unseen = tuple(sorted(set(labels) - known.keys()))
        known.update({name: number for number, name in enumerate(unseen, start=len(self))})
        return np.fromiter((known[name] for name in labels), np.int64, len(labels)), unseen

    def encode_sets(
        self, sets: Sequence[Sequence[str]]
    ) -> tuple[Int8[np.ndarray, "rows labels"], tuple[str, ...]]:
        """Turn the labels of each row into a column per name: 1 where the row has it, else 0.

        Returns:
            The columns of the map's own names, then of those beyond; and the latter.
        """
        numbers, unseen = self.encode(list(itertools.chain.from_iterable(sets)))
        columns = np.zeros((len(sets), len(self) + len(unseen)), np.int8)
        columns[np.repeat(np.arange(len(sets)), [*map(len, sets)]), numbers] = 1
        return columns, unseen


def as_numbers(labels: Sequence[str], where: str) -> Float64[np.ndarray, " rows"]:
    """Return the labels of a regression as numbers.

    Raises:
        DataError: one of them is no number that float32 has room for.
    """
    wrong = next((label for label in labels if not is_number(label)), None)
    if wrong is not None:
        raise DataError(
            f"{where}: {wrong!r} is not a number of at most 3.4e38, and a regression needs "
            "numbers. For classes extract the text again with --kind sentence or pair."
        )
    return np.array([float(label) for label in labels], np.float64)


def label_names(values: Sequence[Any]) -> list[str]:
    """Return the label names of a split one after another, of sets of labels as well."""
    return [name for value in values for name in ([value] if isinstance(value, str) else value)]


def warn_unseen(labels: Sequence[str], label_map: LabelMap, where: str) -> None:
    """Log how many rows carry a label that neither train nor a saved head knows."""
    known = {*label_map.names, NO_LABEL}
    unseen = [name for name in labels if name not in known]
    if unseen:
        text = "%s: rows with a label that train does not have: %d (%s); each counts as an error."
        warn_once(logger, text, where, len(unseen), human_list(sorted(set(unseen)), _SHOWN))
