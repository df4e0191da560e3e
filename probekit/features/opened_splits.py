"""Opening the splits of a model and task: their entries, labels, classes and groups."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from probekit.base.kinds import KINDS, KindName
from probekit.base.layers import ReadPoint
from probekit.base.registry import PathName, parse
from probekit.errors import DataError, OptionError
from probekit.features.location import Location, find_split_entries
from probekit.features.sentence_groups import SentenceGroups, load_documents, split_groups
from probekit.features.split_labels import (
    LabelMap,
    SplitLabels,
    control_labels,
    label_names,
    load_labels,
    noisy_labels,
    warn_unseen,
)
from probekit.features.splits import Splits
from probekit.probe.token_heads import TOKEN_HEADS
from probekit.probe.token_heads.contract import TokenHeadSpec
from probekit.probe.token_heads.pools import MeanTokens
from probekit.store import Entry
from probekit.store.labels import labels_for
from probekit.tasks import Split, Task, is_own
from probekit.tasks.schemes import NO_LABEL
from probekit.tasks.spans import source_columns


def open_features(
    model: PathName | Entry | Sequence[Entry],
    task: PathName | None = None,
    label: str | None = None,
    location: Location | None = None,
    *,
    control: int | None = None,
    fit_on: str = "train",
    group: str | None = None,
    drop_duplicates: bool = False,
    label_noise: float | None = None,
    positives: float | None = None,
    token_head: str | None = None,
    point: str | None = None,
    classes: Sequence[str] = (),
) -> Splits:
    """Find the entries of a model and task, and read their labels.

    The split to fit on must be there with labels; the others may be absent, and have no labels.

    Args:
        model: the backbone, as in ``probekit extract``; or entries of one model and task, one per
            split, as `extract` returns them.
        task: name of the task, or the path of the user's own data; None with entries.
        label: label column; ``None`` is the task's default.
        location: where entries and labels lie; ``None`` is the folder ``cache``.
        control: replace the labels by control labels of this seed (``control_labels``).
        fit_on: the split that takes the place of train, and has none of its own then.
        group: column of what sentences have in common, such as their prompt or document; or
            ``phrases``, of texts that hold one another.
        drop_duplicates: runs draw no train example with a text of another labelled split, and
            examples with a text in common are one group.
        label_noise: share of train's labels that are replaced by another class.
        positives: of texts of two classes, share of train's that have the last one; others of the
            other class are not drawn.
        token_head: what makes a row of the tokens of each text, which the entries keep, such as
            ``max`` or ``rolling-max:window=5``; ``None`` reads stored rows of whole texts. Of
            spans it reads the words, and ``None`` is their mean.
        point: where in each block rows were taken: ``attn_out``, ``mlp_out``, ``mlp_act``, ``z``,
            or one attention head of it, ``z:head=3``; None is the residual stream.
        classes: label names of a saved head that runs go on from; they are the classes if they
            hold all of train's.

    Raises:
        EntryNotFoundError: no entry of train, or several match.
        OptionError: control labels for a column that does not label words; entries that do not
            belong together; a token head for labels of words.
        DataError: train has no labels in that column, or labels and rows do not fit; or a split
            has no groups.
        UnknownNameError: no such task or column.
    """
    location = Location() if location is None else location
    made_by = None if token_head is None else parse("token head", token_head, TOKEN_HEADS)
    read = ReadPoint.parse(point)
    about, entries = find_split_entries(
        model, task, label, location, fit_on, tokens=made_by is not None, point=read
    )
    column = about.columns[0]  # the one asked for, by the name that an index stands for
    kind = about.kinds[column]
    labels, resampled = _read_labels(entries, about, kind, column, location)
    made_by = _row_maker(made_by, kind, labels)
    train_classes, label_map = _classes(labels, kind, classes)
    _check_shares(kind, label_map, label_noise, positives)
    if control is not None:
        labels = control_labels(entries, labels, kind, seed=control)
    if label_noise is not None:
        labels["train"] = noisy_labels(labels["train"], label_noise)
    groups: Mapping[str, Sequence[str]] = {}
    if group is not None:
        named = {split: entries[split] for split in labels}
        groups = split_groups(named, about, group, location)
        resampled = {split: SentenceGroups(group, names) for split, names in groups.items()}
    return Splits(
        groups=groups,
        resampled=resampled,
        drop_duplicates=drop_duplicates,
        positives=positives,
        token_head=made_by,
        point=read,
        task=about,
        column=column,
        entries=entries,
        labels=labels,
        label_map=label_map,
        train_classes=train_classes,
        kind=kind,
        metric=about.metrics[column] if control is None else "accuracy",
        control=control,
        fit_on=fit_on,
    )


def _classes(
    labels: Mapping[str, SplitLabels], kind: KindName, saved: Sequence[str]
) -> tuple[LabelMap, LabelMap]:
    """Return train's classes, and those of a saved head if it has them all; warn of other labels.

    There are none of numbers and of a vocabulary.

    Raises:
        DataError: no text has a label, of labels that are sets.
    """
    if KINDS[kind].targets not in ("classes", "sets"):
        return LabelMap(()), LabelMap(())
    names = set(label_names(labels["train"].values)) - {NO_LABEL}  # what has none has no class
    if not names and KINDS[kind].targets == "sets":
        raise DataError(f"{labels['train'].where}: no text has a label to learn.")
    of_train = LabelMap(tuple(sorted(names)))
    label_map = LabelMap(tuple(saved)) if names and names <= set(saved) else of_train
    if label_map.names:
        for of_split in labels.values():  # here, and not in every view, so that it is said once
            warn_unseen(label_names(of_split.values), label_map, of_split.where)
    return of_train, label_map


def _check_shares(
    kind: KindName, classes: LabelMap, label_noise: float | None, positives: float | None
) -> None:
    """Refuse shares of noise and of positives that cannot be had; errors as of `open_features`."""
    for name, share in (("label_noise", label_noise), ("positives", positives)):
        if share is not None and not 0 < share < 1:
            raise OptionError(f"{name} must be a number between 0 and 1; found {share!r}.")
    if label_noise is not None and KINDS[kind].targets != "classes":
        raise OptionError(f"--label-noise replaces classes, and these labels are {kind}.")
    of_two = KINDS[kind].per == "text" and len(classes) == 2
    if positives is not None and not of_two:
        raise OptionError(
            f"--positives is for texts of two classes, and these labels ({kind}) have "
            f"{len(classes)}."
        )


def _read_labels(
    entries: Mapping[str, Entry], task: Task, kind: KindName, column: str, location: Location
) -> tuple[dict[str, SplitLabels], dict[str, SentenceGroups]]:
    """Return the labels of each split that has any, and the documents of these that are known.

    Raises:
        DataError: train has none.
    """
    labels: dict[str, SplitLabels] = {}
    documents: dict[str, SentenceGroups] = {}
    names = source_columns(column)
    for split, entry in entries.items():
        fresh = _fresh(entry, task, kind, location)
        stored = (
            all(labels_for(entry, name) for name in names)
            if fresh is None
            else fresh.labels.keys() >= set(names)
        )
        if not (stored or split == "train" or KINDS[kind].targets == "vocabulary"):
            continue
        of_split = load_labels(entry, column, fresh, kind)
        if of_split.spans is not None and not len(of_split.spans.places):
            if split == "train":
                raise DataError(f"{of_split.where}: no span has a label.")
            continue
        labels[split] = of_split
        if (known := load_documents(entry, fresh)) is not None:
            documents[split] = known
    return labels, documents


def _row_maker(
    asked: TokenHeadSpec | None, kind: KindName, labels: Mapping[str, SplitLabels]
) -> TokenHeadSpec | None:
    """Return what makes rows of tokens or words; of spans their mean unless told otherwise.

    Raises:
        OptionError: labels of words; or it joins what is single, or would fuse the layers of pairs
            last.
        DataError: labels are of pairs in one split, and of single spans in another.
    """
    per = KINDS[kind].per
    if asked is None and per == "span":
        asked = MeanTokens()
    if asked is None:
        return None
    if per not in ("text", "span"):
        raise OptionError(
            f"--token-head {asked.name} makes one row of a whole text, or of a span, and these "
            f"labels ({kind}) have rows of their own. Leave it out."
        )
    sides = {of.spans.places.shape[1] for of in labels.values() if of.spans is not None}
    if len(sides) > 1:
        raise DataError("one split has pairs of spans, and another single spans.")
    if sides == {2}:
        if asked.order == "layers-first":
            raise OptionError("order=layers-first reads single spans; these labels are of pairs.")
        return replace(asked, pair=asked.pair or "concat")
    if asked.pair is not None:
        raise OptionError(
            f"pair={asked.pair} joins the two spans of a pair, and these labels are not of "
            "pairs. Leave it out."
        )
    return asked


def _fresh(entry: Entry, task: Task, kind: KindName, location: Location) -> Split | None:
    """Return the split of an entry as its files are now; None where what is stored counts.

    The user's own file says what its labels are now; the stored ones may be out of date.
    """
    split = entry.manifest.split
    at_hand = location.data is not None or (is_own(task) and split in task.splits)
    in_parts = len(entry.parts) > 1  # whose labels are those that were stored with them
    if in_parts or not at_hand or KINDS[kind].targets == "vocabulary":
        return None
    return task.read(split, None if location.data is None else Path(location.data))
