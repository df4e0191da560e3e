"""The user's own data: files of any format, or examples in memory, by the same rules."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self

from probekit.base.kinds import KINDS, Kind, KindName
from probekit.base.notices import warn_once
from probekit.errors import DataError, MissingFileError, OptionError, ProbekitError
from probekit.tasks.assemble import assemble, settle_labels
from probekit.tasks.formats import file_parts, text_lines
from probekit.tasks.formats.delimited import load_table
from probekit.tasks.formats.fields import Fields, load_parquet, load_saved
from probekit.tasks.formats.file_parts import File, Stamp
from probekit.tasks.formats.records import load_json, load_jsonl
from probekit.tasks.formats.text_lines import GZIP, RUNNING, SAVED, format_of, split_of
from probekit.tasks.formats.word_columns import columns_of, is_conllu
from probekit.tasks.kind_choice import kind_shown
from probekit.tasks.own_examples import read_conllu, read_fields, read_running
from probekit.tasks.schemes import (
    NO_LABEL,
    by_name,
    card_names,
    class_number,
    looks_like_tags,
    read_scheme,
)
from probekit.tasks.sentences import Corpus, Parts, Sentences
from probekit.tasks.spans import is_derived, source_columns, with_derived
from probekit.tasks.task import Choice, Task, slugify

logger = logging.getLogger(__name__)

_CONLLU = ".conllu"
_COLUMNS = (".conll", _CONLLU)
"""Formats of words in columns."""
_LOADERS: Mapping[str, Callable[[File, Choice], Fields]] = {
    ".jsonl": load_jsonl,
    ".parquet": lambda path, _: load_parquet(path),
    ".json": load_json,
    SAVED: lambda path, _: load_saved(path),
    ".csv": load_table,
    ".tsv": load_table,
    RUNNING: load_table,
}
"""Formats of one example per row or record; tables may have one word per row."""
_TABLES = (".csv", ".tsv", RUNNING)
FORMATS = frozenset({*_COLUMNS, *_LOADERS})
_PACKED = (".parquet", SAVED)
"""Formats that say themselves how their text is encoded."""

HASH = re.compile(r"-[0-9a-f]{8}\Z")
"""What follows the name in the folder name of the user's own data: of its text."""
_SHOWN_LABELS = 5


@dataclass(frozen=True, kw_only=True)
class OwnCorpus(Corpus):
    """The corpus of a task that the user describes by options: his files, or a Hub data set.

    Attributes:
        choice: how its text is read.
        splits: split to where it lies, in the order train, dev, test.
    """

    choice: Choice
    splits: Mapping[str, Any]

    def fields(self, split: str) -> Fields | None:
        """Return the columns of a split as a table of texts; None where it can only be words."""
        return None

    def parts(self, split: str) -> Parts | None:
        """Return the parts of a split that is too large to be read at once; None of others."""
        return None

    def first(self, split: str) -> Sentences:
        """Return the sentences of a split, or of its first part, which say how all are read."""
        parts = self.parts(split)
        return self(split, None) if parts is None else next(parts.readers())()

    def about_files(self) -> str:
        """Return in words which files are read by the end of their names, and which are not."""
        return ""


@dataclass(frozen=True, kw_only=True)
class UserFiles(OwnCorpus):
    """Files per split, all read with the same columns.

    Attributes:
        path: the file or folder that the user named.
        splits: split to its files.
    """

    path: Path
    splits: Mapping[str, tuple[Path, ...]]

    @classmethod
    def at(cls, path: Path, choice: Choice) -> Self:
        """Return what lies at a path.

        Raises:
            MissingFileError: nothing lies there.
            DataError: the kind is not read from such a file, or no file is named after a split.
        """
        splits = text_lines.split_files(path, _formats_of(choice.of_kind))
        return cls(path=path, splits=splits, choice=choice)

    def fields(self, split: str) -> Fields | None:
        """Return the columns of a split's first file, but of formats of words in columns."""
        path = self._pieces(split, self.choice.kind or "sentence")[0][0]
        if (form := format_of(path)) not in _LOADERS or form == RUNNING:
            return None
        choice = replace(self.choice, kind="sentence")
        return _with_class_names(_LOADERS[form](path, choice), path)

    def parts(self, split: str) -> Parts | None:
        """Return the parts of a split whose files are large; None of others."""
        pieces = self._pieces(split, self.choice.of_kind.name)
        if len(pieces) == 1:
            return None
        files, choice = self.splits[split], self.choice
        return Parts(
            count=len(pieces),
            readers=lambda: (partial(read_own, piece, choice) for piece in pieces),
            told=lambda: [
                {**choice.given, "label": choice.label, "part": file_parts.PART_BYTES},
                [
                    [format_of(file), Stamp.of(file).hash, card_names(_card_of(file))]
                    for file in files
                ],
            ],
        )

    def first(self, split: str) -> Sentences:
        """Return the sentences of a split, or of its first part; errors are those of a call."""
        return read_own(self._pieces(split, self.choice.kind or "sentence")[0], self.choice)

    def _pieces(self, split: str, kind: str) -> list[tuple[File, ...]]:
        """Return the files of a split by parts, cut as those of a kind are."""
        files = self.splits[split]
        if sum(map(file_parts.size_of, files)) <= file_parts.AT_ONCE:
            return [files]
        choice = replace(self.choice, kind=kind)
        return file_parts.grouped([part for file in files for part in _cut(Stamp.of(file), choice)])

    def about_files(self) -> str:
        """Return in words which files are read by the end of their names, and which are not."""
        return text_lines.describe_files(self.path, self.splits, _formats_of(self.choice.of_kind))

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Read the files of ``split``, those of ``data`` (a file or folder) if that is given.

        Raises:
            MissingFileError: ``data`` does not hold the split.
        """
        files = self.splits if data is None else self.at(data, self.choice).splits
        if split not in files:
            raise MissingFileError(
                f"{data}: no file for split {split!r}, only for {', '.join(files)}. Name the file "
                f"{split}{self.splits[split][0].suffix}."
            )
        return read_own(files[split], self.choice)


@lru_cache(maxsize=4096)
def _cut(file: Stamp, choice: Choice) -> Sequence[File]:
    """Return the parts of a large file; the file where it can be read as a whole alone."""
    try:
        return _parts_of(file.path, choice)
    except ProbekitError:
        raise
    except (OSError, ValueError, KeyError):  # what reads it as a whole says what is wrong
        return [file.path]


def _parts_of(path: Path, choice: Choice) -> Sequence[File]:
    """Return the parts of a large file; errors are those of ``file_parts``."""
    form, kind = format_of(path), choice.of_kind
    if file_parts.size_of(path) <= file_parts.PART_BYTES or path.suffix.lower() == GZIP:
        return [path]
    if form in _PACKED:
        return file_parts.saved_parts(path) if form == SAVED else file_parts.parquet_parts(path)
    if text_lines.is_wide(path):
        return [path]
    if form == ".jsonl":
        return file_parts.line_parts(path)
    if form == RUNNING and kind.per == "prediction":
        return file_parts.paragraph_parts(path)
    if form in _TABLES and kind.per != "word":
        return file_parts.table_parts(
            path, lambda part: next(iter(load_table(part, choice).lines), 0) - 1
        )
    return [path]


def read_own(paths: Sequence[File], choice: Choice) -> Sentences:
    """Return the sentences of one split: of a file, or of all its shards.

    Raises:
        DataError: the kind is not read from such a file, or it does not hold what its format
            promises; for ``.txt`` the message says how running text is read.
        OptionError: the choice of columns is left open, or an option has nothing to say there.
    """
    parts: list[Sentences] = []
    for path in paths:
        parts.append(_read_file(path, choice))
        choice = replace(choice, sign=parts[-1].sign or choice.sign)
    return Sentences.joined(parts)


def _read_file(path: File, choice: Choice) -> Sentences:
    form, kind = format_of(path), choice.of_kind
    of_words, running = kind.per == "word", kind.per == "prediction" and form == RUNNING
    if form not in _formats_of(kind):
        others = [name for name, other in KINDS.items() if form in _formats_of(other)]
        hint = f" For {form} use --kind {others[0]}." if others else ""
        listed = ", ".join(form for form in _formats_of(kind) if form != SAVED)
        raise DataError(
            f"{path}: unknown format {(path.suffix or path.name)!r}; expected {listed} for kind "
            f"{kind.name}.{hint}"
        )
    in_columns = form in (*_TABLES, ".conll") and not running
    fitting = {
        "separator": in_columns,
        "sentences": in_columns and of_words,
    }
    choice.refuse(
        [name for name, fits in fitting.items() if not fits], f"{path}, of kind {kind.name}"
    )
    if running:
        return read_running(path, choice)
    if of_words and form in (*_COLUMNS, RUNNING):
        assert isinstance(path, Path), "words in columns are read as a whole"
        return _read_columns(path, form, choice)
    fields = _LOADERS[form](path, choice)
    # names of classes are of no use to numbers, and a table of words has names in its cells
    if kind.targets in ("classes", "sets") and not (of_words and form in _TABLES):
        fields = _with_class_names(fields, path)
    return read_fields(fields, choice)


def _read_columns(path: Path, form: str, choice: Choice) -> Sentences:
    """Read words in columns; a ``.txt`` file may be CoNLL-U, as copies of many corpora are called.

    With ``--separator`` columns are read as a table.
    """
    try:
        lines = text_lines.own_lines(path)
        if form == _CONLLU or (form == RUNNING and is_conllu(lines)):
            return read_conllu(path, lines, choice)
        tabled = choice.separator is not None
        fields = load_table(path, choice) if tabled else columns_of(path, lines)
        return read_fields(fields, choice)
    except DataError as error:
        if form != RUNNING:
            raise
        raise DataError(
            f"{path} is read as columns, one word per line. If it is running text, give --kind "
            f"language-modelling. {error}"
        ) from error


def _with_class_names(fields: Fields, path: File) -> Fields:
    """Return columns whose numbers have the names that the card of their data set gives to classes.

    Raises:
        DataError: a number is that of no class, or the name of another one.
    """
    card, named = _card_of(path), {}
    for column, classes in card_names(card).items():
        rows = []
        for number, row in enumerate(fields.values.get(column, ())):
            try:
                is_list = isinstance(row, list)
                items = [class_number(item, classes) for item in (row if is_list else [row])]
            except ValueError as error:
                raise fields.fault(
                    number, f"{error}. (The class names of column {column!r} are from {card}.)"
                ) from error
            rows.append(items if is_list else items[0])
        if rows:
            named[column] = by_name(rows, classes)
    return replace(fields, values={**fields.values, **named})


def _card_of(path: File) -> Path:
    """Return where the card of a file's data set lies, if it has one."""
    card = path.parent / "README.md"
    if not card.exists() and path.parent.name == "data":  # as repositories of the Hub have it
        return path.parent.with_name("README.md")
    return card


def _formats_of(kind: Kind) -> tuple[str, ...]:
    return (*(_COLUMNS if kind.per == "word" else ()), *_LOADERS)


def own_task(name: str, slug: str, corpus: OwnCorpus, *, by_text: bool = False) -> Task:
    """Return the task that the user describes by options.

    The columns are those of the first split (train, else dev, else test), and so is the metric of
    tagging: span F1 where the labels are tags of a scheme that ``schemes`` reads, or some are
    B-TYPE; any other column is scored by accuracy. Those of other kinds are in ``KINDS``.

    Args:
        name: as the user types it.
        slug: the name of its folder in a cache.
        corpus: reads it, with the options as they were typed.
        by_text: a hash of its text follows in the folder's name.

    Raises:
        DataError: the files do not hold what their format promises.
        OptionError: several label columns and no ``label``, or a ``label`` for language modelling.
    """
    split, typed = next(iter(corpus.splits)), corpus.choice
    if typed.of_kind.per == "prediction" and typed.label not in (None, "token"):
        raise OptionError(
            f"--label {typed.label}: language modelling predicts the text's tokens; leave it out."
        )
    label = typed.label
    if label is not None and len(source_columns(label)) == 1:
        # of several, CoNLL-U has both, and its reader is told
        (label,) = source_columns(label)
        corpus = replace(corpus, choice=replace(typed, label=label))
    corpus, first = _read_first(corpus, split, name)
    kind = corpus.choice.of_kind
    if kind.per == "word":
        first = settle_labels(first, _label_columns(first))
    columns = ("token",) if kind.per == "prediction" else _label_columns(first)
    if label is not None and not columns:
        raise DataError(f"{first.where}: no labels in column {label!r}.")
    named = label if is_derived(label) else next(iter(columns), label)
    choice = replace(corpus.choice, label=named, optional=True, sign=first.sign)
    of_text: KindName = "tagging" if kind.per == "span" else kind.name
    text = assemble(name, split, first, kind=of_text, kinds={}).text_fingerprint()
    read_as = "" if typed.kind else f"read as --kind {kind.name}"
    divided = f"labels separated by {first.sign!r}" if first.sign else ""
    bare = sum(() in sentence.labels.values() for sentence in first.sentences)
    without = f"{bare:,} of {len(first.sentences):,} texts have no label" if bare else ""
    taken = ", ".join(filter(None, (first.taken, divided, without)))
    taken = ": ".join(filter(None, (read_as, taken)))
    notes = (f"{first.where}: {taken}" if taken else "", corpus.about_files())
    task = Task(
        name=name,
        slug=f"{slug}-{text[:8]}" if by_text else slug,
        metrics={column: kind.metric or _metric(first, column, name) for column in columns},
        splits=tuple(corpus.splits),
        kind=of_text,
        kinds=dict.fromkeys(columns, kind.name),
        corpus=replace(corpus, choice=choice),
        any_scheme=True,
        notes=tuple(filter(None, notes)),
    )
    return with_derived(task, typed.label)


def _read_first(corpus: OwnCorpus, split: str, name: str) -> tuple[OwnCorpus, Sentences]:
    """Read the first split: as the kind that was typed, else as tagging, else as what it shows.

    Args:
        corpus: reads it.
        split: the split.
        name: the data as the user typed it, for the message.

    Raises:
        DataError, OptionError: it cannot be read so; where no kind was typed, and columns do not
            show that they hold words, the message begins with that.
        UnknownNameError: no column has the name that was typed.
    """
    typed, columns = corpus.choice, partial(corpus.fields, split)
    try:
        return corpus, corpus.first(split)
    except (DataError, OptionError) as error:
        if (kind := typed.kind or kind_shown(columns, typed)) == typed.of_kind.name:
            raise
        unread = error
    if kind is not None:
        corpus = replace(corpus, choice=replace(typed, kind=kind))
        try:
            return corpus, corpus.first(split)
        except (DataError, OptionError) as error:
            unread = error
    read_as = f"its columns look like --kind {kind}"
    if kind is None:
        read_as = (
            "it is read as tagging (labels of words). For texts with labels give --kind sentence, "
            "multilabel, pair or regression, for texts alone language-modelling"
        )
    raise type(unread)(f"{name}: no --kind was given, and {read_as}. {unread}") from None


def own_name(path: Path) -> str:
    """Return what the folders of the user's own data begin with: its name, not that of a split.

    A hash of the text follows, so that data that was moved or renamed is known again.
    """
    path = path.expanduser().resolve()
    stem = text_lines.stem_of(path) if path.is_file() else path.name
    return slugify(path.parent.name if path.is_file() and split_of(stem) else stem)


def _label_columns(corpus: Sentences) -> tuple[str, ...]:
    columns = (column for sentence in corpus.sentences for column in sentence.labels)
    return tuple(dict.fromkeys(columns))


def _metric(corpus: Sentences, column: str, task: str) -> str:
    """Return what scores labels of words; say it where they only look like tags of spans."""
    sentences = corpus.labels(column).values()
    labels = {label for row in sentences for label in row}
    begun = any(label.startswith("B-") and len(label) > 2 for label in labels)
    if begun or read_scheme(sentences) is not None:
        return "span-f1"
    if looks_like_tags(labels):
        listed = ", ".join(sorted(labels - {NO_LABEL})[:_SHOWN_LABELS])
        warn_once(
            logger,
            f"{task}: labels of column {column!r} look like span tags ({listed}) but do not all "
            "follow one scheme, so they are scored by accuracy. For span F1 write O, B-TYPE, "
            "I-TYPE.",
        )
    return "accuracy"
