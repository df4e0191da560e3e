"""The user's own data: a file, or a folder with one file per split."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from probekit.errors import DataError, MissingFileError
from probekit.fingerprint import digest
from probekit.tasks.bio import is_tag
from probekit.tasks.options import Choice
from probekit.tasks.sentences import Sentences
from probekit.tasks.types import Metric, Task, slugify
from probekit.tasks.user_columns import read_conll, read_conllu, read_table
from probekit.tasks.user_fields import read_jsonl, read_parquet

READERS: Mapping[str, Callable[[Path, Choice], Sentences]] = {
    ".conll": read_conll,
    ".conllu": read_conllu,
    ".jsonl": read_jsonl,
    ".parquet": read_parquet,
    ".csv": read_table,
    ".tsv": read_table,
}
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

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Read the file of ``split``, from ``data`` (a file or folder) if that is given.

        Raises:
            MissingFileError: ``data`` does not hold the split.
        """
        files = self.files if data is None else split_files(data)
        if split not in files:
            raise MissingFileError(
                f"{data}: no file for split {split!r}, only {', '.join(files)}. Name the file "
                f"{split}{self.files[split].suffix}."
            )
        path = files[split]
        return READERS[path.suffix.lower()](path, self.choice)


def user_task(name: str, *, text: str | None = None, label: str | None = None) -> Task:
    """Return the task that lies at a path.

    The columns are those of the first split (train, else dev, else test), and so is the metric: a
    column with a B- tag holds entities (span F1), and so does one with O and I- tags alone (IOB1);
    any other is scored by accuracy.

    Args:
        name: the path of a file or folder; a single file is the split that its name says
            ("dev.conll"), else "train".
        text: the column with the words, by name or index.
        label: the label column, by name or index.

    Raises:
        MissingFileError: nothing lies there.
        DataError: the files do not hold what their format promises, or no file is a split.
        OptionError: several label columns and no ``label``.
    """
    path = Path(name).expanduser()
    files = split_files(path)
    choice = Choice(text=text, label=label)
    first = UserFiles(files=files, choice=choice)(next(iter(files)), None)
    columns = tuple(dict.fromkeys(c for sentence in first.sentences for c in sentence.labels))
    if label is not None and not columns:
        raise DataError(f"{first.where}: no labels in column {label!r}.")
    return Task(
        name=name,
        slug=user_slug(path),
        columns=columns,
        metrics={column: _metric(first, column) for column in columns},
        splits=tuple(files),
        source=UserFiles(files=files, choice=Choice(text=text, label=next(iter(columns), label))),
    )


def user_slug(path: Path) -> str:
    """Return the folder name of the user's own data: its name and a hash of its full path."""
    resolved = path.expanduser().resolve()
    return f"{slugify(resolved.stem)}-{digest(str(resolved))[:8]}"


def _metric(found: Sentences, column: str) -> Metric:
    tags = {tag for sentence in found.sentences for tag in sentence.labels.get(column, ())}
    entities = tags - {"O"}
    begun = any(tag.startswith("B-") and len(tag) > 2 for tag in entities)
    return "span-f1" if begun or (entities and all(map(is_tag, entities))) else "accuracy"


def split_files(path: Path) -> dict[str, Path]:
    """Return split to file, in the order train, dev, test.

    Raises:
        MissingFileError: nothing lies at ``path``.
        DataError: the format is unknown, no file is named after a split, or two are the same.
    """
    if path.is_file():
        if path.suffix.lower() not in READERS:
            raise DataError(
                f"{path}: unknown format {path.suffix!r}; expected {', '.join(READERS)}."
            )
        return {_split_of(path) or "train": path}
    if not path.is_dir():
        raise MissingFileError(f"{path}: no such file or folder.")
    found: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        split = _split_of(file) if file.suffix.lower() in READERS else None
        if split in found:
            raise DataError(f"{path}: {found[split].name} and {file.name} are both {split!r}.")
        if split is not None:
            found[split] = file
    if not found:
        raise DataError(
            f"{path}: no file is named after a split; expected {', '.join(ALIASES)} with one of "
            f"{', '.join(READERS)}."
        )
    return {split: found[split] for split in ("train", "dev", "test") if split in found}


def _split_of(path: Path) -> str | None:
    """Return the split that a file's name says: "dev.conll", "en_ewt-ud-dev.conllu"."""
    return ALIASES.get(path.stem.rpartition("-ud-")[2].lower())
