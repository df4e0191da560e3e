"""Splits that are too large to be read at once: a part after the other."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from probekit.base.fingerprint import digest
from probekit.base.notices import hushed
from probekit.tasks.sentences import PartOf, Sentences, Split
from probekit.tasks.task import Task
from probekit.tasks.user_files import OwnCorpus, Parts


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
            DataError: a part does not hold what its format promises.
        """
        readers, left, number = self.parts.readers(), self.limit, 0
        reader = next(readers, None)
        while reader is not None and left != 0:
            following = next(readers, None)
            if is_wanted(number) or left is not None:  # how many are left depends on all before
                split = self._read(reader, number).first(left)
                left = None if left is None else left - len(split.examples)
                last = following is None or left == 0
                if number == 0 and left == 0:
                    yield replace(split, limit=self.limit)
                elif is_wanted(number):
                    part = PartOf(self.text_fingerprint(), number, last)
                    yield replace(split, limit=self.limit, part=part)
            reader, number = following, number + 1

    def _read(self, reader: Callable[[], Sentences], number: int) -> Split:
        if number == 0:
            return self.task.split_of(reader(), self.name)
        with hushed():  # what is said of the first part is true of all
            return self.task.split_of(reader(), self.name, f"{self.name}-{number:05}")


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
