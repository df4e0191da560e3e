"""The user's own data: a file, or a folder with a file, or shards, per split."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self

from probekit.base.kinds import KINDS, KindName
from probekit.base.messages.once import warn_once
from probekit.errors import DataError, MissingFileError, OptionError
from probekit.tasks.assemble import assemble
from probekit.tasks.formats.extensions import stem_of
from probekit.tasks.own.column_choice import Choice
from probekit.tasks.own.own_formats import READERS, read_own
from probekit.tasks.own.split_files import split_files, split_of
from probekit.tasks.own.unlabelled import NO_LABEL, settle_labels
from probekit.tasks.schemes import looks_like_tags, read_scheme
from probekit.tasks.sentences import Sentences, Source
from probekit.tasks.task import Task, slugify

logger = logging.getLogger(__name__)

HASH = re.compile(r"-[0-9a-f]{8}\Z")
"""What follows the name in the folder name of the user's own data: of its text."""
_SHOWN = 5


class OwnSource(Source, Protocol):
    """The source of a task that the user describes by options: his files, or a Hub data set."""

    @property
    def kind(self) -> KindName:
        """What is labelled."""
        ...

    @property
    def choice(self) -> Choice:
        """How its text is read."""
        ...

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that there are, in the order train, dev, test."""
        ...

    def choosing(self, choice: Choice) -> Self:
        """Return the source with another choice."""
        ...


@dataclass(frozen=True, kw_only=True)
class UserFiles:
    """The source of a user's task: files per split, all read with the same columns."""

    files: Mapping[str, tuple[Path, ...]]
    choice: Choice
    kind: KindName = "tagging"

    @classmethod
    def at(cls, path: Path, choice: Choice, kind: KindName) -> Self:
        """Return what lies at a path.

        Raises:
            MissingFileError: nothing lies there.
            DataError: the kind is not read from such a file, or no file is named after a split.
        """
        files = split_files(path, READERS[kind])
        return cls(files=files, choice=choice, kind=kind)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that there are, in the order train, dev, test."""
        return tuple(self.files)

    def choosing(self, choice: Choice) -> Self:
        """Return the same files, read with another choice."""
        return replace(self, choice=choice)

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Read the files of ``split``, from ``data`` (a file or folder) if that is given.

        Raises:
            MissingFileError: ``data`` does not hold the split.
        """
        files = self.files if data is None else split_files(data, READERS[self.kind])
        if split not in files:
            raise MissingFileError(
                f"{data}: no file for split {split!r}, only {', '.join(files)}. Name the file "
                f"{split}{self.files[split][0].suffix}."
            )
        return read_own(files[split], self.choice, self.kind)


def user_task(name: str, choice: Choice, kind: KindName = "tagging") -> Task:
    """Return the task that lies at a path; see ``own_task``.

    Args:
        name: the path of a file or folder; a single file is the split that its name says
            ("dev.conll"), else "train".
        choice: what the user typed of it.
        kind: what is labelled.

    Raises:
        MissingFileError: nothing lies there.
    """
    path = Path(name).expanduser()
    return own_task(name, own_name(path), UserFiles.at(path, choice, kind), by_text=True)


def own_task(name: str, slug: str, source: OwnSource, *, by_text: bool = False) -> Task:
    """Return the task that the user describes by options.

    The columns are those of the first split (train, else dev, else test), and so is the metric of
    tagging: span F1 where the labels are tags of a scheme that ``schemes`` reads, or some are
    B-TYPE; any other column is scored by accuracy. Sentences and pairs are scored by accuracy,
    numbers by Spearman's rank correlation, language modelling by perplexity.

    Args:
        name: as the user types it.
        slug: the name of its folder in a cache.
        source: reads it, with the options as they were typed.
        by_text: a hash of its text follows in the folder's name.

    Raises:
        DataError: the files do not hold what their format promises.
        OptionError: several label columns and no ``label``, or a ``label`` for language modelling.
    """
    kind, label = source.kind, source.choice.label
    modelling = kind == "language-modelling"
    if modelling and label not in (None, "token"):
        raise OptionError(
            f"--label {label}: language modelling predicts the text's own tokens; leave it out."
        )
    first = source(source.splits[0], None)
    columns = _columns(first)
    if kind == "tagging":
        first = settle_labels(first, columns)
        columns = _columns(first)
    if modelling:
        columns = ("token",)
    if label is not None and not columns:
        raise DataError(f"{first.where}: no labels in column {label!r}.")
    choice = replace(source.choice, label=next(iter(columns), label), optional=True)
    text = assemble(name, source.splits[0], first, kind=kind, kinds={}).text_fingerprint()
    return Task(
        name=name,
        slug=f"{slug}-{text[:8]}" if by_text else slug,
        columns=columns,
        metrics={column: KINDS[kind].metric or _metric(first, column, name) for column in columns},
        splits=source.splits,
        kind=kind,
        source=source.choosing(choice),
        any_scheme=True,
    )


def own_name(path: Path) -> str:
    """Return what the folders of the user's own data begin with: its name, not that of a split.

    A hash of the text follows, so that data that was moved or renamed is known again.
    """
    path = path.expanduser().resolve()
    if not path.is_file():
        return slugify(path.name)
    return slugify(path.parent.name if split_of(stem_of(path)) else stem_of(path))


def _columns(found: Sentences) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for one in found.sentences for column in one.labels))


def _metric(found: Sentences, column: str, task: str) -> str:
    """Return what scores labels of words; say it where they only look like tags of spans."""
    sentences = [sentence.labels.get(column, ()) for sentence in found.sentences]
    labels = {label for own in sentences for label in own}
    begun = any(label.startswith("B-") and len(label) > 2 for label in labels)
    if begun or read_scheme(sentences) is not None:
        return "span-f1"
    if looks_like_tags(labels):
        warn_once(
            logger,
            "%s: labels of column %r look like tags of spans (%s), but are not all of one scheme; "
            "they are scored by accuracy. For span F1 write O, B-TYPE and I-TYPE.",
            task,
            column,
            ", ".join(sorted(labels - {NO_LABEL})[:_SHOWN]),
        )
    return "accuracy"
