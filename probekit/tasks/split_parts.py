"""Splits that are too large to be read at once: a part after the other."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from probekit.base.fingerprint import digest
from probekit.base.kinds import KINDS
from probekit.base.notices import hushed
from probekit.errors import DataError
from probekit.tasks.sentences import PartOf, Parts, Sentences, Split
from probekit.tasks.task import Task
from probekit.tasks.user_files import OwnCorpus

_MIX = (
    "Text as large as this is read in parts, each of which has to hold examples like those of the "
    "first: shuffle the rows, or leave these out of the files."
)


@dataclass(frozen=True)
class SplitParts:
    """A split of the user's own data that is read in parts.

    Attributes:
        task: the task.
        name: the split's name.
        parts: how it is cut.
        limit: how many of its examples are read; None is all.
    """

    task: Task
    name: str
    parts: Parts
    limit: int | None = None

    def text_fingerprint(self) -> str:
        """Return a hash of what is read, and how, which takes the place of a text's."""
        return self.parts.source if self.limit is None else digest([self.parts.source, self.limit])

    def read(self, is_wanted: Callable[[int], bool] = lambda number: True) -> Iterator[Split]:
        """Yield the parts in their order; of fewer examples than a part has, one plain split.

        Args:
            is_wanted: says of a number whether that part is read.

        Raises:
            DataError: a part does not hold what its format promises, or not what the first holds.
        """
        readers, left, number = self.parts.readers(), self.limit, 0
        labelled = self._labelled
        reader = next(readers, None)
        while reader is not None and left != 0:
            following = next(readers, None)
            if is_wanted(number) or left is not None:  # how many are left depends on all before
                split, labelled = self._read(reader, number, labelled)
                split = split.first(left)
                left = None if left is None else left - len(split.examples)
                last = following is None or left == 0
                if number == 0 and left == 0:
                    yield replace(split, limit=self.limit)
                elif is_wanted(number):
                    part = PartOf(self.text_fingerprint(), number, last, self.limit)
                    yield replace(split, limit=None, part=part)
            reader, number = following, number + 1

    def groups(self, column: str) -> dict[str, str]:
        """Return the group of each sentence by its id; errors are those of `Task.groups`."""
        groups: dict[str, str] = {}
        for number, reader in enumerate(self.parts.readers()):
            groups |= self.task.groups_of(reader(), column, self._ids(number))
        return groups

    @property
    def _labelled(self) -> set[str] | None:
        """The columns that are labelled in its first part; None where that is not read yet."""
        task = self.task
        is_read = self.name == task.splits[0] and KINDS[task.kind].per != "prediction"
        return {*task.columns} if is_read else None

    def _read(
        self, reader: Callable[[], Sentences], number: int, labelled: set[str] | None
    ) -> tuple[Split, set[str]]:
        """Return a part, and the columns that are labelled there, the same as in others.

        Raises:
            DataError: they are not the same, or there is no example.
        """
        with hushed() if number else nullcontext():  # what is said of the first is true of all
            corpus = reader()
            if not corpus.sentences:
                raise DataError(f"{corpus.where}: no example is left there. {_MIX}")
            split = self.task.split_of(corpus, self.name, self._ids(number))
        written = {column for sentence in corpus.sentences for column in sentence.labels}
        columns = {*split.labels} | (written - {*self.task.columns})
        for column in () if labelled is None else sorted(columns ^ labelled):
            have = "some have" if column in columns else "none has"
            raise DataError(
                f"{corpus.where}: {have} a label in column {column!r} there, unlike in the first "
                f"part of {self.name}. {_MIX}"
            )
        return split, columns

    def _ids(self, number: int) -> str:
        """Return what ids in a part begin with where the text gives none."""
        return f"{self.name}-{number:05}" if number else self.name


def read_split(
    task: Task, split: str, data: Path | None = None, limit: int | None = None
) -> Split | SplitParts:
    """Return a split, read; or, where it is too large for that, what reads it in parts.

    Args:
        task: the task.
        split: its name.
        data: as for `Task.read`.
        limit: how many of its examples are wanted; None is all.

    Raises:
        ProbekitError: as `Task.read` raises them.
    """
    corpus = task.corpus if data is None and split in task.splits else None
    parts = corpus.parts(split) if isinstance(corpus, OwnCorpus) else None
    if parts is None:
        return task.read(split, data).first(limit)
    whole = SplitParts(task, split, parts, limit)
    first = None if limit is None else next(whole.read())
    return whole if first is None or first.part is not None else first
