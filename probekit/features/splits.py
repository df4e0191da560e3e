"""The splits of a model and task, as views with one label map."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from probekit.errors import DataError
from probekit.features.labels import LabelMap, warn_unseen
from probekit.features.location import Location
from probekit.features.reading import SplitLabels, load_labels, view_of
from probekit.features.view import FeatureView
from probekit.store import Entry, find_entries
from probekit.store.labels import labels_for
from probekit.store.layout import list_entries, model_slug
from probekit.tasks import Task, get_task, is_own

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, kw_only=True, eq=False)
class Splits:
    """The labelled splits of one model, task and label column.

    Attributes:
        task: the task.
        column: the label column.
        entries: the entry of each split that is there.
        labels: the labels of each split that has them.
        label_map: the classes, from the full train split.
    """

    task: Task
    column: str
    entries: Mapping[str, Entry]
    labels: Mapping[str, SplitLabels] = field(repr=False)
    label_map: LabelMap

    @property
    def metric(self) -> str:
        """Name of the metric that scores the column."""
        return self.task.metrics[self.column]

    @property
    def n_blocks(self) -> int:
        """L, the blocks of the backbone."""
        return self.entries["train"].manifest.n_blocks

    @property
    def keys(self) -> dict[str, str]:
        """Key of the entry of each labelled split."""
        return {split: self.entries[split].manifest.key for split in self.labels}

    @property
    def missing_dev(self) -> str:
        """What to do where there is no dev split to score."""
        if "dev" not in self.task.splits:
            return (
                f"{self.task.name} has no dev split: keep a part of train for it, --hold-out 0.1."
            )
        state = "has no labels" if "dev" in self.entries else "is not in the cache"
        return (
            f"{self.task.name}: the dev split {state}. Extract it (--split dev), or keep a part "
            "of train for it: --hold-out 0.1."
        )

    def view(self, split: str, *, valid_only: bool = False) -> FeatureView:
        """Return the view of a labelled split (see ``view_of``)."""
        return view_of(
            self.entries[split], self.labels[split], self.label_map, valid_only=valid_only
        )


def open_features(
    model: str, task: str, label: str | None = None, location: Location | None = None
) -> Splits:
    """Find the entries of a model and task, and read their labels.

    Train must be there with labels; dev and test may be absent, and have no labels.

    Args:
        model: the backbone, as in ``probekit extract``.
        task: name of the task, or the path of the user's own data.
        label: label column; ``None`` is the task's default.
        location: where entries and labels lie; ``None`` is the folder ``cache``.

    Raises:
        EntryNotFoundError: no entry of train, or several match.
        DataError: train has no labels in that column, or labels and rows do not fit.
        UnknownNameError: no such task or column.
    """
    location = Location() if location is None else location
    about = get_task(task, kind=location.kind, text=location.text, label=label)
    if not about.columns:
        raise DataError(f"task {about.name!r} has no labels to train on.")
    column = about.columns[0]  # the one asked for, by the name that an index stands for
    entries = _entries(model, about, location)
    labels = {}
    for split, entry in entries.items():
        found = _labels(entry, about, column, location)
        if found is not None:
            labels[split] = found
    label_map = LabelMap.from_labels([labels["train"].values])
    for found in labels.values():  # here, and not in every view, so that it is said once
        warn_unseen(found.values, label_map, found.where)
    return Splits(
        task=about,
        column=column,
        entries=entries,
        labels=labels,
        label_map=label_map,
    )


def _entries(model: str, task: Task, location: Location) -> dict[str, Entry]:
    here = (model_slug(model), task.slug)
    present = {
        folder.split
        for folder in list_entries(location.cache)
        if (folder.model, folder.task) == here
    }
    wanted = [split for split in SPLITS if split in present or split == "train"]
    return {split: _entry(model, task, split, location) for split in wanted}


def _entry(model: str, task: Task, split: str, location: Location) -> Entry:
    return find_entries(
        location.cache, model, task.name, split, location.entry, task_slug=task.slug
    )


def _labels(entry: Entry, task: Task, column: str, location: Location) -> SplitLabels | None:
    split = entry.manifest.split
    if location.data is not None or (is_own(task) and not labels_for(entry, column)):
        fresh = task.read(split, location.data)
        if column not in fresh.labels and split != "train":
            return None
        return load_labels(entry, column, fresh)
    if split != "train" and not labels_for(entry, column):
        return None
    return load_labels(entry, column)
