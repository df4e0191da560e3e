"""Read the labels of an entry's split, and join them with its rows."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int, Int64

from probekit.base.fingerprint import digest_stream
from probekit.base.kinds import KINDS
from probekit.base.numbers.ragged import bounds_of
from probekit.base.registry import choose
from probekit.errors import DataError
from probekit.features.label_map import LabelMap, as_numbers, join_labels
from probekit.features.label_rows import choose_array, cut_pieces, example_rows
from probekit.features.view import FeatureView
from probekit.probe.model_parts.final_norm import FILE as FINAL_NORM_FILE
from probekit.probe.model_parts.final_norm import FinalNorm
from probekit.probe.normalization import RowFacts
from probekit.store import Entry
from probekit.store.labels import LabelSet, labels_for, read_labels
from probekit.tasks import Example, KindName, Split
from probekit.tasks.own.unlabelled import NO_LABEL


@dataclass(frozen=True)
class SplitLabels:
    """The labels of one column in the order of an entry's examples.

    Attributes:
        values: label names, one per word or one per text (``NO_LABEL`` for a word without);
            numbers as text for a regression; none for language modelling, whose targets lie in the
            entry.
        fingerprint: sha256 over ids and labels, whatever they were read from.
        where: split, column and origin, for messages.
    """

    values: Sequence[str]
    fingerprint: str
    where: str

    @property
    def given(self) -> Bool[np.ndarray, " rows"]:
        """Which rows have a label."""
        return np.fromiter((value != NO_LABEL for value in self.values), bool, len(self.values))


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
    if kind == "language-modelling":
        return SplitLabels([], digest_stream([examples.targets.astype("<i4").tobytes()]), where)
    counts = label_counts(entry, kind)
    if split is not None:
        where += f" from {split.origin}"
        if not split.labels:
            raise DataError(
                f"{where}: this split has none, and no head can be fitted without. Choose another "
                "one with --fit-on, or give labels that it has with --data DIR."
            )
        values = choose("label column", column, split.labels)
        _check_text(entry, split, where)
        labels: Mapping[str, Sequence[str]] = {
            example.id: found for example, found in zip(split.examples, values, strict=True)
        }
    else:
        stored = _stored_labels(entry, column, where)
        where += f" from {stored.file.path.name}"
        labels = dict(zip(stored.ids, stored.values, strict=True))
    joined = join_labels(examples.ids, counts.tolist(), labels, where=where)
    return SplitLabels(joined, _fingerprint(examples.ids, counts, joined), where)


def label_counts(entry: Entry, kind: KindName) -> Int[np.ndarray, " examples"]:
    """Return how many labels each example has: one per word or predicted subword, or one."""
    one = np.ones(len(entry.examples), np.int64)
    return one if KINDS[kind].per == "text" else entry.examples.n_rows


def _stored_labels(entry: Entry, column: str, where: str) -> LabelSet:
    """Return the newest labels that are stored for an entry's text."""
    files = labels_for(entry, column)
    if not files:
        raise DataError(
            f"{where}: none are stored beside {entry.path}, and no head can be fitted without. "
            "Give the folder with the label files, --data DIR, or choose another split, --fit-on."
        )
    return read_labels(files[0].path)


def view_of(
    entry: Entry,
    labels: SplitLabels,
    label_map: LabelMap,
    *,
    kind: KindName = "tagging",
    pooling: str | None = None,
    valid_only: bool = False,
) -> FeatureView:
    """Join an entry's rows with labels; words without a label have no row.

    Args:
        entry: the entry.
        labels: of its examples.
        label_map: the classes; empty for a kind without classes.
        kind: what is predicted.
        pooling: which row stands for a whole text (see ``choose_array``).
        valid_only: leave out words that the tokenizer deleted or a cut lost. They take no part in
            training; in scoring they count as any other word, with a row of zeros.

    Raises:
        DataError: the entry does not keep the rows, or a regression label is no number.
        OptionError: a pooling that does not fit the kind.
    """
    manifest = entry.manifest
    name = choose_array(entry, kind, pooling)
    rows, bounds, valid = example_rows(entry, name)
    keep = valid if valid_only else np.ones(len(valid), bool)
    if kind == "tagging":
        keep = keep & labels.given
    targets, unseen = _targets(entry, labels, label_map, kind, keep)
    offsets, ids = bounds_of(keep.astype(np.int64))[bounds], entry.examples.ids
    positions = np.arange(len(ids))
    if kind == "language-modelling":
        offsets, positions = cut_pieces(offsets)
        ids = tuple(ids[position] for position in positions)
    return FeatureView(
        entry=entry,
        array=entry.arrays[name],
        kind=kind,
        rows=rows[keep],
        offsets=offsets,
        targets=targets,
        labels=label_map,
        unseen=unseen,
        n_outputs=count_outputs(entry, label_map, kind),
        ids=ids,
        positions=positions,
        facts=RowFacts(
            final_norm=FinalNorm.from_file(entry.backbone / FINAL_NORM_FILE),
            normed_layer=manifest.n_blocks if manifest.final_norm else None,
        ),
    )


def _targets(
    entry: Entry,
    labels: SplitLabels,
    label_map: LabelMap,
    kind: KindName,
    keep: Bool[np.ndarray, " all"],
) -> tuple[Int64[np.ndarray, " rows"] | Float64[np.ndarray, " rows"], tuple[str, ...]]:
    """Return the target of each row that is kept, and the label names that the map lacks."""
    if kind == "language-modelling":
        return entry.examples.targets.astype(np.int64)[keep], ()
    if kind == "regression":
        return as_numbers(labels.values, labels.where)[keep], ()
    return label_map.encode(list(itertools.compress(labels.values, keep)))


def count_outputs(entry: Entry, label_map: LabelMap, kind: KindName) -> int:
    """Return how many numbers a decoder gives per row: classes, 1 for a regression, or V."""
    if kind == "language-modelling":
        return int(entry.manifest.model_info["vocab_size"])
    return 1 if kind == "regression" else len(label_map)


def _fingerprint(
    ids: Sequence[str], counts: Int[np.ndarray, " examples"], labels: Sequence[str]
) -> str:
    bounds = itertools.pairwise(bounds_of(counts).tolist())
    return digest_stream(
        "\x1f".join([name, *labels[start:stop]]).encode()
        for name, (start, stop) in zip(ids, bounds, strict=True)
    )


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
        place = next(n for n, word in enumerate(cached) if example.words[n] != word)
        raise DataError(
            f"{where}: word {place + 1} of example {example.id!r} is {example.words[place]!r}, but "
            f"{cached[place]!r} in the cache; give the labels of the same text, or extract again."
        )
