"""The splits of a model and task, as views with one label map."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Int64

from probekit.base.fingerprint import digest
from probekit.base.kinds import ARRAYS, KINDS, KindName
from probekit.base.layers import STREAM, ReadPoint
from probekit.base.markup import html_pairs, html_table, html_view
from probekit.base.notices import human_list
from probekit.base.numbers import bounds_of, numpy_generator
from probekit.base.registry import choose
from probekit.errors import OptionError
from probekit.features.duplicates import Wording, hashed_wordings, left_of_train
from probekit.features.made_rows import pooled_spans, pooled_texts, read_array
from probekit.features.rows import (
    CachedRows,
    EntryRows,
    LayerRows,
    RowDataset,
    labels_of,
    layer_rows,
    to_frame,
    word_places,
)
from probekit.features.sentence_groups import SentenceGroups, number_groups
from probekit.features.split_labels import LabelMap, SplitLabels, as_numbers
from probekit.features.view import FeatureView, Targets, choose_array, cut_passages
from probekit.probe.model_parts import KeptBackbone
from probekit.probe.normalization import RowFacts
from probekit.probe.token_heads.contract import TokenHeadSpec
from probekit.store import Entry
from probekit.store.feature_array import FeatureArray
from probekit.store.manifest import Manifest
from probekit.tasks import Task

if TYPE_CHECKING:
    import pandas

_SHOWN = 12  # classes that a notebook names


@dataclass(frozen=True, kw_only=True, eq=False)
class Splits:
    """The labelled splits of one model, task and label column.

    Attributes:
        task: the task.
        column: the label column.
        entries: the entry of each split that is there.
        labels: the labels of each split that has them.
        label_map: the classes: those of train, or of the saved head that runs go on from, if it
            knows all of train's and more; empty for a kind without classes.
        train_classes: the classes of the full train split.
        control: seed of the control labels that stand in for the real ones, if any.
        kind: what the column labels: words, texts, pairs of texts, ...
        metric: name of the metric that scores it.
        fit_on: the split that takes the place of train.
        groups: the group of each example of an entry, by labelled split; empty without groups.
        resampled: what intervals resample together, by labelled split: groups, else documents;
            those of which neither is known are left out.
        drop_duplicates: as for `open_features`.
        positives: as for `open_features`.
        token_head: what makes a row of the tokens of each text, or of the words of each span; None
            reads stored rows.
        point: where in each block rows were taken.
    """

    task: Task
    column: str
    entries: Mapping[str, Entry]
    labels: Mapping[str, SplitLabels] = field(repr=False)
    label_map: LabelMap
    train_classes: LabelMap
    kind: KindName
    metric: str
    control: int | None = None
    fit_on: str = "train"
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)
    resampled: Mapping[str, SentenceGroups] = field(default_factory=dict, repr=False)
    drop_duplicates: bool = False
    positives: float | None = None
    token_head: TokenHeadSpec | None = None
    point: ReadPoint = STREAM

    def _repr_html_(self) -> str:
        """Return what is predicted, and of every split how much there is, for a notebook."""
        of, names = self.manifest, self.label_map.names
        arrays = {
            name: array for entry in self.entries.values() for name, array in entry.arrays.items()
        }
        layers = sorted({layer for array in arrays.values() for layer in array.layers})
        pairs = {
            "labels": f"{self.column} ({self.kind}), scored by {self.metric}",
            **({"classes": f"{len(names):,}: {human_list(names, _SHOWN)}"} if names else {}),
            "rows": ", ".join(arrays),
            "layers": f"{layers[0]} to {layers[-1]} ({len(layers)}), {of.dim} wide, {of.dtype}",
        }
        if self.control is not None:
            pairs["control"] = f"random labels by word type, seed {self.control}"
        if self.fit_on != "train":
            pairs["train"] = f"is the split {self.fit_on}"
        rows = [
            [
                split,
                f"{len(entry.examples):,}",
                f"{self.n_rows(split):,}" if split in self.labels else "no labels",
                entry.path,
            ]
            for split, entry in self.entries.items()
        ]
        table = html_table(["split", "examples", "rows", "entry"], rows, [True, False, False, True])
        return html_view(html_pairs(pairs), table, title=f"{of.model} on {self.task.name}")

    @property
    def manifest(self) -> Manifest:
        """The manifest of the train split's entry."""
        return self.entries["train"].manifest

    @cached_property
    def _wordings(self) -> Mapping[str, Sequence[Wording]]:
        return {split: hashed_wordings(self.entries[split]) for split in self.labels}

    def wordings(
        self, split: str, examples: Int64[np.ndarray, " examples"] | None = None
    ) -> list[Wording]:
        """Return the texts of some examples of a view, hashed, each once; None: of all labelled."""
        places = self.owners(split)[self._labelled(split) if examples is None else examples]
        return [self._wordings[split][example] for example in np.unique(places)]

    def owners(self, split: str) -> Int64[np.ndarray, " examples"]:
        """Return the position in its entry of each example of a view: of passages, their text."""
        examples = self.entries[split].examples
        if KINDS[self.kind].per == "prediction":
            return cut_passages(bounds_of(examples.n_rows))[1]
        return np.arange(len(examples))

    def _labelled(self, split: str) -> Int64[np.ndarray, " labelled"]:
        """Return the positions of a view's examples, all but those without any label."""
        if not KINDS[self.kind].of_words:
            return np.arange(len(self.owners(split)))
        if (spans := self.labels[split].spans) is not None:
            return np.flatnonzero(np.diff(spans.bounds))
        # As in a view: labels before each word, then before each sentence; those of [0, 2, 2]
        # have two and none, so the second is left out.
        given, n_rows = self.labels[split].given, self.entries[split].examples.n_rows
        return np.flatnonzero(np.diff(bounds_of(given)[bounds_of(n_rows)]))

    @cached_property
    def drawable(self) -> Int64[np.ndarray, " examples"]:
        """Positions of the train examples that can be drawn: those with a label.

        Raises:
            OptionError: every one is left out as a duplicate.
        """
        left = self._labelled("train")
        if self.drop_duplicates:
            train = [self._wordings["train"][example] for example in self.owners("train")[left]]
            others = {split: self.wordings(split) for split in self.labels if split != "train"}
            left = left[left_of_train(train, others)]
        return left if self.positives is None else self._rebalanced(left, self.positives)

    def _rebalanced(
        self, texts: Int64[np.ndarray, " texts"], positives: float
    ) -> Int64[np.ndarray, " kept"]:
        """Return as many train texts as can be kept for a share of them to have the last class."""
        # 60 and 40 of two classes, of which a tenth is to be positive: 6.7 of 67 texts, so 60 and 7
        values, shares = np.array(self.labels["train"].values), (1 - positives, positives)
        order = numpy_generator(0, "positives").permutation(texts)
        by_class = [order[values[order] == name] for name in self.label_map.names]
        total = min(len(of) / share for of, share in zip(by_class, shares, strict=True))
        kept = zip(by_class, shares, strict=True)
        return np.sort(np.concatenate([of[: max(1, round(share * total))] for of, share in kept]))

    @cached_property
    def _numbered_groups(self) -> Mapping[str, Int64[np.ndarray, " examples"]]:
        """The number of the group of each example of an entry, by split; empty without groups."""
        texts = self._wordings if self.drop_duplicates else {}
        numbered = {
            split: number_groups(self.groups.get(split), texts.get(split)) for split in self.labels
        }
        return {split: numbers for split, numbers in numbered.items() if numbers is not None}

    def example_groups(self, split: str) -> Int64[np.ndarray, " examples"] | None:
        """Return the number of the group of each example of a view; None without groups."""
        numbers = self._numbered_groups.get(split)
        return None if numbers is None else numbers[self.owners(split)]

    @cached_property
    def cut_fingerprint(self) -> str | None:
        """The sha256 over groups, and what is left of train without duplicates; None of neither."""
        if self.drop_duplicates:
            kept = [part.tolist() for part in (self.drawable, *self._numbered_groups.values())]
            return digest([self.groups, kept])
        return digest(self.groups) if self.groups else None

    def n_rows(self, split: str) -> int:
        """Return how many rows of a labelled split are predicted: words, spans, texts, ..."""
        examples = self.entries[split].examples
        if (spans := self.labels[split].spans) is not None:
            return len(spans.places)
        return len(examples) if KINDS[self.kind].per == "text" else int(examples.n_rows.sum())

    @cached_property
    def dim(self) -> int:
        """Width of what a head reads of each layer: that of the states, or of rows made of them."""
        entry = self.entries["train"]
        # all arrays of a point are of one width
        named = [name for name in entry.arrays if ARRAYS[name].point in self.point.names]
        dim = read_array(entry, named[0], self.point).dim if named else self.manifest.dim
        return dim if self.token_head is None else self.token_head.row_width(dim)

    @property
    def n_outputs(self) -> int:
        """Numbers that a decoder gives per row: classes, 1 for a regression, or V."""
        if KINDS[self.kind].targets == "vocabulary":
            return int(self.manifest.model_info["vocab_size"])
        return 1 if KINDS[self.kind].targets == "numbers" else len(self.label_map)

    @property
    def missing_dev(self) -> str:
        """What to do where there is no dev split to score."""
        if "dev" not in self.task.splits:
            return f"{self.task.name} has no dev split: hold out a part of train, --hold-out 0.1."
        if self.fit_on == "dev":
            return "--fit-on dev leaves no dev split: hold out a part of it, --hold-out 0.1."
        state = "has no labels" if "dev" in self.entries else "is not in the cache"
        return (
            f"{self.task.name}: the dev split {state}. Extract it (--split dev), or hold out a "
            "part of train: --hold-out 0.1."
        )

    def view(
        self, split: str, *, pooling: str | None = None, valid_only: bool = False
    ) -> FeatureView:
        """Join the rows of a labelled split with its labels; words without a label have no row.

        Args:
            split: one of ``labels``.
            pooling: which row stands for a whole text (see ``choose_array``).
            valid_only: leave out words that the tokenizer deleted or a cut lost. They take no part
                in training; in scoring they count as any other word, with a row of zeros.

        Raises:
            DataError: the entry does not keep the rows, or a regression label is no number.
            OptionError: a pooling that does not fit the kind.
            UnknownNameError: there is no such split, or it has no labels.
        """
        choose(f"split with labels of {self.task.name}", split, self.labels)
        entry, labels = self.entries[split], self.labels[split]
        examples, manifest, per = entry.examples, entry.manifest, KINDS[self.kind].per
        array, rows, bounds, valid = self._rows(entry, labels, pooling)
        keep = valid if valid_only else np.ones(len(valid), bool)
        if per == "word":
            keep = keep & labels.given
        targets, unseen = self._targets(split, keep)
        # Two sentences of 3 and 2 words (bounds 0 3 5), the second word without a label:
        #
        #   keep             1 0 1 1 1
        #   bounds_of(keep)  0 1 1 2 3 4     how many rows are kept before each word, and in all
        #   offsets          0     2   4     of these, where a sentence begins: [0, 2) and [2, 4)
        offsets, ids = bounds_of(keep.astype(np.int64))[bounds], examples.ids
        positions = np.arange(len(ids))
        if per == "prediction":
            offsets, positions = cut_passages(offsets)
            ids = tuple(ids[position] for position in positions)
        return FeatureView(
            entry=entry,
            array=array,
            kind=self.kind,
            rows=rows[keep],
            offsets=offsets,
            targets=targets,
            labels=self.label_map,
            unseen=unseen,
            n_outputs=self.n_outputs,
            ids=ids,
            positions=positions,
            groups=self.example_groups(split),
            resampled=self.resampled.get(split),
            spans=labels.spans,
            facts=RowFacts(
                final_norm=KeptBackbone(entry.backbone).final_norm
                if self.dim == manifest.dim and self.point == STREAM
                else None,
                normed_layer=manifest.n_blocks
                if manifest.final_norm and self.point == STREAM
                else None,
            ),
        )

    def _rows(
        self, entry: Entry, labels: SplitLabels, pooling: str | None
    ) -> tuple[
        FeatureArray,
        Int64[np.ndarray, " rows"],
        Int64[np.ndarray, " bounds"],
        Bool[np.ndarray, " rows"],
    ]:
        """Return an array, its rows, where examples begin in these, and which rows are of any use.

        Errors are those of `view`.
        """
        examples = entry.examples
        if self.token_head is None:
            named = choose_array(entry, self.kind, pooling, self.point)
            array = read_array(entry, named, self.point)
            if KINDS[self.kind].per != "text":
                return array, examples.rows, bounds_of(examples.n_rows), examples.valid
            rows = examples.pooled_start.astype(np.int64)
            return array, rows, np.arange(len(rows) + 1), np.ones(len(rows), bool)
        if pooling is not None:
            raise OptionError(
                f"pooling {pooling!r} has no effect on spans, nor beside a token head."
            )
        if labels.spans is not None:
            made = pooled_spans(entry, self.token_head, labels.spans, self.point)
            return made, np.arange(made.rows), labels.spans.bounds, made.are_filled
        made = pooled_texts(entry, self.token_head, self.point)
        return made, np.arange(made.rows), np.arange(made.rows + 1), np.ones(made.rows, bool)

    def numpy(
        self, split: str, layer: int, *, pooling: str | None = None, valid_only: bool = False
    ) -> LayerRows:
        """Return the rows of one layer, their labels and their words: ``X, y, words``.

        Errors are those of `view` and of an array's ``read``.

        Args:
            split: one of ``labels``.
            layer: its number; 0 are the embeddings, and -1 is the model's last layer.
            pooling: as for `view`.
            valid_only: as for `view`.
        """
        return layer_rows(self.view(split, pooling=pooling, valid_only=valid_only), layer)

    def rows(
        self,
        split: str,
        layers: Sequence[int] | None = None,
        *,
        pooling: str | None = None,
        valid_only: bool = False,
    ) -> EntryRows:
        """Return the rows of several layers, unread, with labels and words: ``X, y, words``.

        ``X`` looks like an array (rows, layers, dim) and is read layer by layer as it is needed:
        what `probekit.sklearn.LayerProbe` fits, and scikit-learn's searches cut.

        Args and errors are those of `numpy`, but several layers; None is all that are stored.
        """
        view = self.view(split, pooling=pooling, valid_only=valid_only)
        return EntryRows(CachedRows.of(view, layers), labels_of(view), word_places(view))

    def row_groups(
        self, split: str, *, pooling: str | None = None, valid_only: bool = False
    ) -> Int64[np.ndarray, " rows"]:
        """Return the ``groups`` of scikit-learn's splitters, such as ``GroupKFold``.

        The number of the sentence that each row of `numpy` is of; where features were opened with
        ``group``, that of its group. Args and errors are those of `view`.
        """
        return self.view(split, pooling=pooling, valid_only=valid_only).row_groups

    def dataset(
        self,
        split: str,
        layers: Sequence[int] | None = None,
        *,
        pooling: str | None = None,
        valid_only: bool = False,
    ) -> RowDataset:
        """Return the rows as a ``torch.utils.data.Dataset``, for a training loop of one's own.

        Args and errors are those of `rows`.
        """
        return RowDataset(self.view(split, pooling=pooling, valid_only=valid_only), layers)

    def to_frame(
        self, split: str, *, pooling: str | None = None, valid_only: bool = False
    ) -> "pandas.DataFrame":
        """Return a table of ``id``, ``position``, ``word`` (or ``text``), ``label`` and ``row``.

        Args and errors are those of `view`; ``row`` is the place in the view's array.
        """
        return to_frame(self.view(split, pooling=pooling, valid_only=valid_only))

    def _targets(
        self, split: str, keep: Bool[np.ndarray, " all"]
    ) -> tuple[Targets, tuple[str, ...]]:
        """Return the target of each row that is kept, and the label names beyond the classes."""
        labels = self.labels[split]
        if KINDS[self.kind].targets == "vocabulary":
            return self.entries[split].examples.targets.astype(np.int64)[keep], ()
        if KINDS[self.kind].targets == "numbers":
            return as_numbers(labels.values, labels.where)[keep], ()
        if KINDS[self.kind].targets == "sets":
            return self.label_map.encode_sets(labels.values)
        return self.label_map.encode(list(itertools.compress(labels.values, keep)))
