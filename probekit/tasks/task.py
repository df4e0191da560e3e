"""A task: a text set with its labels, splits and metrics; and how the user says to read his own."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from probekit.base.kinds import KINDS, Kind, KindName
from probekit.base.registry import choose, flag
from probekit.errors import DataError, OptionError
from probekit.tasks.assemble import assemble, name_example, settle_labels
from probekit.tasks.schemes import turn_to_bio
from probekit.tasks.sentences import Corpus, Sentences, Split


@dataclass(frozen=True, kw_only=True)
class Task:
    """A text set with its label columns, splits and metrics.

    Attributes:
        name: as the user types it ("wikiann/de", "data/mine.conll").
        metrics: label column to the metric that scores it, the default column first; empty for
            unlabelled text.
        splits: the names of its splits.
        corpus: finds and reads one split.
        kind: the kind of its text: words for tagging, whole texts for the others.
        slug: the name as a folder's name.
        kinds: column to its kind, for columns whose kind is not the text's (a label per sentence
            of words); filled up to all columns.
        any_scheme: whether tags of spans may come in any scheme, and are turned into BIO.
        columns: the label columns, the default first.
        notes: what was taken of the user's own data without being named, and which files were not
            read, for people.
    """

    name: str
    metrics: Mapping[str, str]
    splits: tuple[str, ...]
    corpus: Corpus = field(repr=False)
    kind: KindName = "tagging"
    slug: str = ""
    kinds: Mapping[str, KindName] = field(default_factory=dict)
    any_scheme: bool = False
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    columns: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # not above: it loads numpy, and importing `probekit.tasks` loads no library
        from probekit.metrics import METRICS

        for metric in self.metrics.values():
            choose("metric", metric, METRICS)
        if not self.slug:
            object.__setattr__(self, "slug", slugify(self.name))
        kinds = {column: self.kinds.get(column, self.kind) for column in self.metrics}
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "columns", tuple(self.metrics))

    def read(self, split: str, data: Path | None = None) -> Split:
        """Read one split.

        Args:
            split: one of ``splits``.
            data: the folder with the published files; None reads from the Hub (or from where the
                user's own files lie).

        Raises:
            UnknownNameError: there is no such split.
            MissingFileError: the folder or the split's file is not there.
            DataError: the file does not hold what its format promises.
            HubError: no Hub repository gave the data.
            OptionError: the task needs a folder and none was given.
        """
        choose(f"split of {self.name}", split, dict.fromkeys(self.splits))
        return self.split_of(self.corpus(split, data), split)

    def split_of(self, corpus: Sentences, split: str, ids: str | None = None) -> Split:
        """Return the split, or the part of one, that sentences are.

        Args:
            corpus: its sentences.
            split: its name.
            ids: what ids begin with where the corpus gives none; the name if None.

        Raises:
            DataError: they do not hold what their format promises.
        """
        spans = [column for column, metric in self.metrics.items() if metric == "span-f1"]
        of_words = [column for column, kind in self.kinds.items() if KINDS[kind].per == "word"]
        corpus = settle_labels(corpus, of_words)
        if self.any_scheme:
            for column in spans:
                corpus = turn_to_bio(corpus, column, self.name)
        return assemble(
            self.name, split, corpus, kind=self.kind, kinds=self.kinds, spans=spans, ids=ids
        )

    def groups(self, split: str, column: str, data: Path | None = None) -> dict[str, str]:
        """Read which sentences of a split belong together.

        Args:
            split: one of ``splits``.
            column: of the user's own rows, a comment of CoNLL-U, or ``document``.
            data: as for `read`.

        Returns:
            The group of each sentence, by its id.

        Raises:
            UnknownNameError: there is no such column.
            DataError: there is no column at all, or a sentence has no value in it.
            MissingFileError, HubError: as for `read`.
        """
        return self.groups_of(self.corpus(split, data), column, split)

    def groups_of(self, corpus: Sentences, column: str, ids: str) -> dict[str, str]:
        """Return the group of each of some sentences by its id; errors are those of `groups`.

        Args:
            corpus: the sentences.
            column: as for `groups`.
            ids: what ids begin with where the corpus gives none.
        """
        known = {name: None for sentence in corpus.sentences for name in sentence.groups}
        if not known:
            raise DataError(
                f"{corpus.where}: nothing there says which sentences belong together, and --group "
                f"{column} needs it in every split. Give files that have it (--data DIR), or "
                "leave --group out."
            )
        choose(f"column of {corpus.where} (--group)", column, known)
        groups = {}
        for number, sentence in enumerate(corpus.sentences):
            if not (group := sentence.groups.get(column)):
                raise corpus.fault(
                    sentence,
                    f"the group column {column!r} is empty here; fill it in, or leave --group out.",
                )
            groups[name_example(sentence, ids, number)] = group
        return groups


@dataclass(frozen=True, kw_only=True)
class Family:
    """A task, or a family of tasks that differ in what follows the slash.

    Attributes:
        build: makes the task; a family's takes what follows the slash.
        summary: what the text is, in a few words.
        variant: what follows the slash ("LANG"); empty for a single task.
        example: a variant that exists.
        variants: all of them, where the family is closed; empty where any name may follow.
        listed: returns those of a folder with published files, or of the Hub (None), where they
            can be listed.
    """

    build: Callable[..., Task]
    summary: str
    variant: str = ""
    example: str = ""
    variants: tuple[str, ...] = ()
    listed: Callable[[Path | None], Sequence[str]] | None = None

    def sample(self) -> Task:
        """Return the task, or the example of the family."""
        return self.build(self.example) if self.variant else self.build()

    def tasks(self) -> tuple[Task, ...]:
        """Return all tasks of a closed family; else the sample alone."""
        return tuple(map(self.build, self.variants)) or (self.sample(),)


def slugify(name: str) -> str:
    """Return ``name`` as a file name: ASCII letters, digits, ".", "_" and "-" ("wikiann-de")."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "task"


_SKIP = "skip_"


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How the user's own data is read; None leaves it to what the files show.

    Attributes:
        kind: what is labelled (``--kind``); tagging if None.
        text: the text column by name or index, two of them for a pair as "A,B" (``--text``).
        separator: what divides the columns of a table: one character, or its name
            (``--separator``).
        sentences: the column of sentence ids in a table of words, by name or index
            (``--sentences``).
        skip_unlabelled: leave out the texts without a label in a file where others have one
            (``--skip unlabelled``).
        skip_blank: leave out the rows without text (``--skip blank``).
    """

    kind: str | None = None
    text: str | None = None
    separator: str | None = None
    sentences: str | None = None
    skip_unlabelled: bool = False
    skip_blank: bool = False

    @property
    def of_kind(self) -> Kind:
        """What is labelled, typed or not."""
        return KINDS[self.kind or "tagging"]

    @property
    def given(self) -> dict[str, Any]:
        """What was typed, by the names above."""
        values = {field.name: getattr(self, field.name) for field in fields(TextOptions)}
        return {name: value for name, value in values.items() if value}

    def or_as(self, read: Mapping[str, Any]) -> "TextOptions":
        """Return the options that were typed, and the others as an entry keeps them.

        Args:
            read: by name, of anybody's entry; other names are left out.
        """
        known = {field.name for field in fields(TextOptions)}
        kept = {name: value for name, value in read.items() if name in known}
        return TextOptions(**kept | self.given)

    def fits(self, read: Mapping[str, Any]) -> bool:
        """Say whether what was typed is no other way of reading than an entry keeps."""
        usual = {"kind": "tagging"}
        given = self.given.items()
        return all(read.get(name, usual.get(name, value)) == value for name, value in given)

    @property
    def typed(self) -> list[str]:
        """The words of the command line that say the same."""
        words = [word for n, v in self.given.items() if v is not True for word in (flag(n), v)]
        skipped = ",".join(n.removeprefix(_SKIP) for n, v in self.given.items() if v is True)
        return [*words, "--skip", skipped] if skipped else words

    def refuse(self, names: Collection[str], where: str) -> None:
        """Refuse options that say nothing about what is read.

        Args:
            names: those options, by the names above.
            where: what is read, for the message.

        Raises:
            OptionError: one of them was typed.
        """
        for name in self.given:
            if name in names:
                typed = f"--skip {name.removeprefix(_SKIP)}" if _SKIP in name else flag(name)
                raise OptionError(f"{typed} does not apply to {where}; leave it out.")


@dataclass(frozen=True, kw_only=True)
class Choice(TextOptions):
    """How one file is read: what the user typed, and his label column.

    Attributes:
        label: the label column, by name or index.
        optional: a file of sentences without the label column is one without labels.
        texts_alone: labels are not read; ``label`` says which column is no text.
        group: the column of groups (``--group``), which holds no labels.
        sign: what divided the labels of a cell in the files before; "" where nothing did.
    """

    label: str | None = None
    optional: bool = False
    texts_alone: bool = False
    group: str | None = None
    sign: str = ""
