"""Read the labels of an entry's split, and join them with its rows."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import safe_open

from probekit.errors import DataError, EntryError
from probekit.features.labels import LabelMap, join_labels
from probekit.features.view import FeatureView
from probekit.fingerprint import digest_stream
from probekit.heads.normalization import FinalNorm
from probekit.ragged import bounds_of
from probekit.registry import choose
from probekit.store import Entry
from probekit.store.labels import LabelSet, labels_for, read_labels
from probekit.tasks import Split

ARRAY = "words"
_FINAL_NORM = "final_norm.safetensors"


@dataclass(frozen=True)
class SplitLabels:
    """The labels of one column, one per word of an entry's examples, in their order.

    Attributes:
        values: label names.
        fingerprint: sha256 over ids and labels, whatever they were read from.
        where: split, column and origin, for messages.
    """

    values: Sequence[str]
    fingerprint: str
    where: str


def load_labels(entry: Entry, column: str, split: Split | None = None) -> SplitLabels:
    """Return the labels of an entry's examples.

    Args:
        entry: the entry.
        column: the label column.
        split: the freshly read split to take them from; ``None`` takes the newest version stored
            beside the entry that labels its examples (the others belong to another extraction,
            with ``--limit`` or of a changed text).

    Raises:
        DataError: no labels are stored, or they do not fit the entry's examples.
        UnknownNameError: the split has no such column.
    """
    examples = entry.examples
    where = f"{entry.manifest.task} {entry.manifest.split}, labels {column!r}"
    if split is not None:
        where += f" from {split.origin}"
        values = choose("label column", column, split.labels)
        _check_words(entry, split, where)
        labels: Mapping[str, Sequence[str]] = {
            example.id: found for example, found in zip(split.examples, values, strict=True)
        }
    else:
        stored = _stored_labels(entry, column, where)
        where += f" from {stored.file.path.name}"
        labels = dict(zip(stored.ids, stored.values, strict=True))
    joined = join_labels(examples.ids, examples.n_rows.tolist(), labels, where=where)
    return SplitLabels(joined, _fingerprint(entry, joined), where)


def _stored_labels(entry: Entry, column: str, where: str) -> LabelSet:
    """Return the newest labels beside an entry that fit its examples; if none fit, the newest."""
    files = labels_for(entry, column)
    if not files:
        raise DataError(
            f"{where}: none are stored beside {entry.path}. Give the folder with the label files: "
            "--data DIR."
        )
    versions = (read_labels(file.path) for file in files)
    fitting = (labels for labels in versions if _fits(entry, labels))
    return next(fitting, None) or read_labels(files[0].path)


def _fits(entry: Entry, labels: LabelSet) -> bool:
    """Say whether labels hold as many labels for each example as it has words."""
    counts = {name: len(found) for name, found in zip(labels.ids, labels.values, strict=True)}
    expected = zip(entry.examples.ids, entry.examples.n_rows.tolist(), strict=True)
    return all(counts.get(name) == words for name, words in expected)


def view_of(
    entry: Entry, labels: SplitLabels, label_map: LabelMap, *, valid_only: bool
) -> FeatureView:
    """Join an entry's word rows with labels.

    Args:
        entry: the entry.
        labels: of its examples.
        label_map: the classes.
        valid_only: leave out words that the tokenizer deleted or a cut lost. They take no part in
            training; in scoring they count as any other word, with a row of zeros.

    Raises:
        EntryError: the entry keeps no word rows.
    """
    array = entry.arrays[ARRAY]
    examples = entry.examples
    classes, unseen = label_map.encode(labels.values)
    keep = examples.valid if valid_only else np.ones(len(classes), bool)
    offsets = bounds_of(keep.astype(np.int64))[bounds_of(examples.n_rows)]
    return FeatureView(
        array=array,
        rows=examples.rows[keep],
        offsets=offsets,
        targets=classes[keep],
        labels=label_map,
        unseen=unseen,
        ids=examples.ids,
        final_norm=read_final_norm(entry.backbone),
        normed_layer=entry.manifest.n_blocks if entry.manifest.final_norm else None,
    )


def read_final_norm(folder: Path) -> FinalNorm | None:
    """Return the model's final norm as an entry keeps it in ``backbone/``, if it has one.

    Raises:
        EntryError: the file is damaged.
    """
    path = folder / _FINAL_NORM
    if not path.is_file():
        return None
    try:
        with safe_open(path, "pt") as file:
            about = file.metadata()
            return FinalNorm(
                kind=about["kind"],
                eps=float(about["eps"]),
                weight=file.get_tensor("weight"),
                bias=file.get_tensor("bias"),
            )
    except Exception as error:  # safetensors raises its own type for every kind of damage
        raise EntryError(
            f"{path} cannot be read ({error}). Extract the entry again with --overwrite."
        ) from None


def _fingerprint(entry: Entry, labels: Sequence[str]) -> str:
    bounds = bounds_of(entry.examples.n_rows).tolist()
    return digest_stream(
        "\x1f".join([name, *labels[start:stop]]).encode()
        for name, (start, stop) in zip(entry.examples.ids, itertools.pairwise(bounds), strict=True)
    )


def _check_words(entry: Entry, split: Split, where: str) -> None:
    """Refuse labels of another text (counts are checked with the labels)."""
    words = {example.id: example.words for example in split.examples}
    cached = entry.examples.table["words"].to_pylist()
    for name, expected in zip(entry.examples.ids, cached, strict=True):
        found = words.get(name, ())
        if len(found) == len(expected) and list(found) != expected:
            place = next(n for n, word in enumerate(expected) if found[n] != word)
            raise DataError(
                f"{where}: word {place + 1} of example {name!r} is {found[place]!r}, but "
                f"{expected[place]!r} in the cache; give the labels of the same text, or extract "
                "again."
            )
