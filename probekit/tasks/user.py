"""The user's own data: a file, or a folder with one file per split."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from probekit.errors import DataError, MissingFileError, OptionError
from probekit.fingerprint import digest
from probekit.once import warn_once
from probekit.tasks.options import Choice
from probekit.tasks.schemes import looks_like_tags, read_scheme
from probekit.tasks.sentences import Sentences
from probekit.tasks.types import Kind, Metric, Task, slugify
from probekit.tasks.unlabelled import NO_LABEL, settle_labels
from probekit.tasks.user_columns import read_conll, read_conllu, read_table
from probekit.tasks.user_fields import read_jsonl, read_parquet
from probekit.tasks.user_texts import read_texts, read_txt

logger = logging.getLogger(__name__)

Reader = Callable[[Path, Choice], Sentences]

TAGGED: Mapping[str, Reader] = {
    ".conll": read_conll,
    ".conllu": read_conllu,
    ".jsonl": read_jsonl,
    ".parquet": read_parquet,
    ".csv": read_table,
    ".tsv": read_table,
}
TABLES = (".jsonl", ".parquet", ".csv", ".tsv")
READERS: Mapping[Kind, Mapping[str, Reader]] = {
    "tagging": TAGGED,
    "sentence": dict.fromkeys(TABLES, partial(read_texts, kind="sentence")),
    "pair": dict.fromkeys(TABLES, partial(read_texts, kind="pair")),
    "regression": dict.fromkeys(TABLES, partial(read_texts, kind="regression")),
    "language-modelling": {
        ".txt": read_txt,
        **dict.fromkeys(TABLES, partial(read_texts, kind="language-modelling")),
    },
}
SUFFIXES = frozenset(suffix for readers in READERS.values() for suffix in readers)
METRICS: Mapping[Kind, Metric] = {
    "sentence": "accuracy",
    "pair": "accuracy",
    "regression": "spearman",
    "language-modelling": "perplexity",
}
_SHOWN = 5
ALIASES = {
    "train": "train",
    "dev": "dev",
    "valid": "dev",
    "validation": "dev",
    "val": "dev",
    "testa": "dev",
    "test": "test",
    "testb": "test",
}


@dataclass(frozen=True, kw_only=True)
class UserFiles:
    """The source of a user's task: one file per split, all read with the same columns."""

    files: Mapping[str, Path]
    choice: Choice
    kind: Kind = "tagging"

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Read the file of ``split``, from ``data`` (a file or folder) if that is given.

        Raises:
            MissingFileError: ``data`` does not hold the split.
        """
        files = self.files if data is None else split_files(data, self.kind)
        if split not in files:
            raise MissingFileError(
                f"{data}: no file for split {split!r}, only {', '.join(files)}. Name the file "
                f"{split}{self.files[split].suffix}."
            )
        path = files[split]
        return READERS[self.kind][path.suffix.lower()](path, self.choice)


def user_task(
    name: str,
    *,
    kind: Kind = "tagging",
    text: str | None = None,
    label: str | None = None,
    skip_unlabelled: bool = False,
) -> Task:
    """Return the task that lies at a path.

    The columns are those of the first split (train, else dev, else test), and so is the metric of
    tagging: span F1 where the labels are tags of a scheme that ``schemes`` reads, or some are
    B-TYPE; any other column is scored by accuracy. Sentences and pairs are scored by accuracy,
    numbers by Spearman's rank correlation, language modelling by perplexity.

    Args:
        name: the path of a file or folder; a single file is the split that its name says
            ("dev.conll"), else "train".
        kind: what is labelled.
        text: the column with the words or the text, by name or index; two of a pair ("A,B").
        label: the label column, by name or index.
        skip_unlabelled: leave out the texts without a label (words without one are masked anyhow).

    Raises:
        MissingFileError: nothing lies there.
        DataError: the files do not hold what their format promises, or no file is a split.
        OptionError: several label columns and no ``label``, or a ``label`` for language modelling.
    """
    path = Path(name).expanduser()
    files = split_files(path, kind)
    modelling = kind == "language-modelling"
    if modelling and label not in (None, "token"):
        raise OptionError(
            f"--label {label}: language modelling predicts the text's own tokens; leave it out."
        )
    asked = Choice(text=text, label=label, skip_unlabelled=skip_unlabelled)
    source = UserFiles(files=files, choice=asked, kind=kind)
    first = source(next(iter(files)), None)
    columns = _columns(first)
    if kind == "tagging":
        first = settle_labels(first, columns)
        columns = _columns(first)
    if modelling:
        columns = ("token",)
    if label is not None and not columns:
        raise DataError(f"{first.where}: no labels in column {label!r}.")
    choice = replace(asked, label=next(iter(columns), label), optional=True)
    return Task(
        name=name,
        slug=user_slug(path),
        columns=columns,
        metrics={column: METRICS.get(kind) or _metric(first, column, name) for column in columns},
        splits=tuple(files),
        kind=kind,
        source=replace(source, choice=choice),
        any_scheme=True,
    )


def user_slug(path: Path) -> str:
    """Return the folder name of the user's own data: its name and a hash of its full path."""
    resolved = path.expanduser().resolve()
    return f"{slugify(resolved.stem)}-{digest(str(resolved))[:8]}"


def _columns(found: Sentences) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for one in found.sentences for column in one.labels))


def _metric(found: Sentences, column: str, task: str) -> Metric:
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


def split_files(path: Path, kind: Kind = "tagging") -> dict[str, Path]:
    """Return split to file, in the order train, dev, test.

    Raises:
        MissingFileError: nothing lies at ``path``.
        DataError: the kind is not read from such a file, no file is named after a split, or two
            are the same.
    """
    suffixes = READERS[kind]
    if path.is_file():
        if path.suffix.lower() not in suffixes:
            raise _unknown_format(path, kind)
        return {_split_of(path) or "train": path}
    if not path.is_dir():
        raise MissingFileError(f"{path}: no such file or folder.")
    found: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        split = _split_of(file) if file.suffix.lower() in suffixes else None
        if split in found:
            raise DataError(f"{path}: {found[split].name} and {file.name} are both {split!r}.")
        if split is not None:
            found[split] = file
    if not found:
        raise DataError(
            f"{path}: no file is named after a split; expected {', '.join(ALIASES)} with one of "
            f"{', '.join(suffixes)}."
        )
    return {split: found[split] for split in ("train", "dev", "test") if split in found}


def _unknown_format(path: Path, kind: Kind) -> DataError:
    suffix = path.suffix.lower()
    others = [other for other, readers in READERS.items() if suffix in readers]
    hint = f" For {suffix} use --kind {others[0]}." if others else ""
    return DataError(
        f"{path}: unknown format {path.suffix!r}; expected {', '.join(READERS[kind])} for kind "
        f"{kind}.{hint}"
    )


def _split_of(path: Path) -> str | None:
    """Return the split that a file's name says: "dev.conll", "en_ewt-ud-dev.conllu"."""
    return ALIASES.get(path.stem.rpartition("-ud-")[2].lower())
