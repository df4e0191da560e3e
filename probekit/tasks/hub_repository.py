"""Data sets of the Hugging Face Hub: published tasks, and any one as the user's own data."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from probekit.base.kinds import HUB_SPLITS, SPLITS
from probekit.base.registry import choose
from probekit.errors import DataError, HubError, MissingFileError, OptionError, reason_of
from probekit.tasks.formats import file_parts
from probekit.tasks.formats.fields import Fields, dataset_fields
from probekit.tasks.formats.text_lines import split_of
from probekit.tasks.own_examples import read_fields
from probekit.tasks.schemes import DASH, MARKS, NUMBERS, score_name
from probekit.tasks.sentences import Parts, Sentence, Sentences, plain_text
from probekit.tasks.task import Choice, Task, slugify
from probekit.tasks.user_files import OwnCorpus, UserFiles, own_task

logger = logging.getLogger(__name__)

PROBE_SECONDS = 10.0
UNLABELLED = frozenset({*NUMBERS, *MARKS, DASH, None})
"""Labels that say that there is none, where a column has no other."""


class UnreachableError(Exception):
    """Nothing answers at the Hub's address, so no other repository will either."""


@dataclass(frozen=True, kw_only=True)
class HubRepository:
    """A Hub repository that holds a task as files that ``datasets`` reads without a script.

    Attributes:
        repo: "org/name".
        labels: label column to the repository's feature.
        words: the feature with the list of words.
        texts: the feature with the text, or the two of a pair, instead of ``words``.
        config: the repository's configuration, or None for its only one.
        revision: branch, tag or commit; None is the main branch.
        ids: features that hold the examples' own ids; the first that is there is used.
        names: label column to published label names, for a repository that stores numbers and
            has lost their names.
        renamed: label column to the Hub's label names, each with the one that is used here.
        splits: split to the repository's name for it.
    """

    repo: str
    labels: Mapping[str, str]
    words: str = "tokens"
    texts: tuple[str, ...] = ()
    config: str | None = None
    revision: str | None = None
    ids: Sequence[str] = ()
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    renamed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=lambda: HUB_SPLITS)

    def __str__(self) -> str:
        """Return "org/name@revision (config)" as messages name it."""
        revision = f"@{self.revision}" if self.revision else ""
        return f"{self.repo}{revision}" + (f" ({self.config})" if self.config else "")


def read_hub(task: str, split: str, repositories: Sequence[HubRepository]) -> Sentences:
    """Return ``split`` from the first repository that loads.

    They are tried in order, each once. A Hub that does not answer at all ends the search
    after one attempt of at most ten seconds.

    Raises:
        HubError: none loaded; the message says what was tried and why each failed.
    """
    failures = []
    for repository in repositories:
        try:
            fields = load_split(repository.splits[split], repository)
            return fields.sentences(_sentences(fields, repository))
        except UnreachableError as error:
            failures.append(f"{repository}: {error}")
            break
        except Exception as error:
            # Whatever goes wrong inside `datasets` must not keep the next repository from being
            # tried; the message keeps the reason.
            logger.debug("could not load %s", repository, exc_info=True)
            failures.append(f"{repository}: {reason_of(error)}")
    raise HubError(
        f"could not load split {split!r} of {task} from the Hub. Tried {'; '.join(failures)}. "
        "Give the published files (--data DIR), or set HF_HUB_OFFLINE=1 to use an earlier "
        "download."
    )


def load_split(split: str, repository: HubRepository) -> Fields:
    """Return the columns of a split; numbers of a ClassLabel become their names.

    Args:
        split: as the repository calls it.
        repository: holds it.

    Raises:
        UnreachableError: nothing answers.
        Exception: whatever goes wrong inside ``datasets``.
    """
    import datasets

    revision = commit_of(repository)
    dataset = datasets.load_dataset(
        repository.repo, repository.config, split=split, revision=revision or repository.revision
    )
    if revision is None:  # of a copy in the local cache, whose folder is called after its commit
        files = dataset.cache_files
        revision = Path(files[0]["filename"]).parent.name if files else "unknown"
    config = repository.config or dataset.config_name
    where = f"hub:{repository.repo}@{revision} ({config})"
    return dataset_fields(dataset, where, where)


def stream_split(split: str, repository: HubRepository) -> Iterator[Fields]:
    """Yield the columns of rows that follow one another, as many as one part has, while they come.

    Args and errors are those of `load_split`.
    """
    import datasets

    revision = commit_of(repository) or repository.revision
    stream = datasets.load_dataset(
        repository.repo, repository.config, split=split, revision=revision, streaming=True
    )
    where = _where(repository)
    rows: list[dict[str, Any]] = []
    nbytes = 0
    for row in stream:
        rows.append(row)
        nbytes += len(str(row))
        if nbytes >= file_parts.PART_BYTES:
            yield _streamed(rows, stream, where)
            rows, nbytes = [], 0
    if rows:
        yield _streamed(rows, stream, where)


def _streamed(rows: Sequence[Mapping[str, Any]], stream: Any, where: str) -> Fields:
    import datasets

    return dataset_fields(datasets.Dataset.from_list(list(rows), stream.features), where, where)


def _where(repository: HubRepository) -> str:
    """Return what messages and manifests call a repository as it is now.

    Raises:
        UnreachableError: nothing answers.
    """
    revision = commit_of(repository) or repository.revision
    return f"hub:{repository.repo}@{revision} ({repository.config or 'default'})"


def list_configurations(repository: HubRepository) -> list[str]:
    """Return the names of a repository's configurations.

    Raises:
        HubError: they cannot be listed.
    """
    import datasets

    try:
        revision = commit_of(repository) or repository.revision
        return list(datasets.get_dataset_config_names(repository.repo, revision=revision))
    except Exception as error:
        reason = str(error) if isinstance(error, UnreachableError) else reason_of(error)
        raise HubError(f"cannot list the configurations of {repository.repo}: {reason}.") from error


def commit_of(repository: HubRepository) -> str | None:
    """Return the commit that a repository's revision means now; None when offline.

    Asking first pins one revision for every later request, and it is the one request that
    ``huggingface_hub`` does not repeat for half a minute when nothing answers.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        revision = repository.revision
        about = HfApi().dataset_info(repository.repo, revision=revision, timeout=PROBE_SECONDS)
    except OfflineModeIsEnabled:
        return None
    except Exception as error:
        # The base class of every "no answer" of the HTTP client, which is huggingface_hub's own
        # choice (and has been another package before), so it is known here by name.
        if any(base.__name__ == "TransportError" for base in type(error).__mro__):
            raise UnreachableError(f"the Hub is unreachable ({reason_of(error)})") from error
        raise
    return about.sha


def _sentences(fields: Fields, repository: HubRepository) -> tuple[Sentence, ...]:
    """Return the rows of a repository, with labels by name.

    Args:
        fields: the columns of one split.
        repository: what its columns are called.

    Raises:
        DataError: a column is missing, or holds what is no label.
    """
    inputs, names = repository.texts or (repository.words,), list(fields.values)
    missing = [name for name in (*inputs, *repository.labels.values()) if name not in names]
    if missing:
        raise DataError(f"it has no column {', '.join(missing)} (it has: {', '.join(names)})")
    columns = {column: _label_names(fields, column, repository) for column in repository.labels}
    labels = {column: rows for column, rows in columns.items() if rows}
    ids = next((fields.values[name] for name in repository.ids if name in names), None)
    sentences = []
    for n, row in enumerate(zip(*(fields.values[name] for name in inputs), strict=True)):
        named = {column: rows[n] for column, rows in labels.items()}
        if repository.texts:
            label_of = {name: label for name, (label,) in named.items()}
            sentences.append(plain_text(row, label_of, n + 1))
        else:
            id = None if ids is None or ids[n] is None else str(ids[n])
            lines = (n + 1,) * max(len(row[0]), 1)
            sentences.append(Sentence(tuple(row[0]), named, lines, id))
    return tuple(sentences)


def _label_names(
    fields: Fields, column: str, repository: HubRepository
) -> list[tuple[str, ...]] | None:
    """Return a column's labels by name; None if the split has none (-1 or "_" throughout)."""
    feature = repository.labels[column]
    rows = [row if isinstance(row, list) else [row] for row in fields.values[feature]]
    if {label for row in rows for label in row} <= UNLABELLED:
        return None
    classes = repository.names.get(column, ())
    renamed = repository.renamed.get(column, {})

    def name(label: Any) -> str:
        if isinstance(label, float):  # a score, no class
            return score_name(label)
        if label in NUMBERS and not repository.texts:  # marks of words stay, as text
            return str(label)
        if isinstance(label, int) and 0 <= label < len(classes):
            label = classes[label]
        if not isinstance(label, str):
            raise DataError(f"{label!r} in column {feature!r} is not a label")
        return renamed.get(label, label)

    return [tuple(map(name, row)) for row in rows]


_NAME = re.compile(
    r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(/(?P<config>\w[^/@]*))?(@(?P<revision>\w.*))?", re.ASCII
)


@dataclass(frozen=True, kw_only=True)
class HubData(OwnCorpus):
    """The rows of a Hub data set, read with the user's columns.

    Attributes:
        repository: where it lies.
        splits: split to the Hub's name for it.
        sizes: bytes of a split, by its name there, where the Hub says it.
    """

    repository: HubRepository
    splits: Mapping[str, str]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def parts(self, split: str) -> Parts | None:
        """Return the parts of a split that the Hub says to be large, which are streamed."""
        size = self.sizes.get(self.splits[split], 0)
        if size <= file_parts.AT_ONCE:
            return None
        return Parts(
            count=max(round(size / file_parts.PART_BYTES), 1),
            readers=lambda: (partial(read_fields, f, self.choice) for f in self._stream(split)),
            told=lambda: [self.choice.given, self.splits[split], _where(self.repository)],
        )

    def _stream(self, split: str) -> Iterator[Fields]:
        """Yield the columns of so many rows after one another as one part has.

        Raises:
            HubError: they cannot be loaded.
        """
        try:
            yield from stream_split(self.splits[split], self.repository)
        except Exception as error:
            raise HubError(f"could not load {self.repository}: {reason_of(error)}.") from error

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Read ``split`` from the Hub, or from files of the same columns.

        Raises:
            HubError: it cannot be loaded.
            MissingFileError: ``data`` does not hold the split.
        """
        if data is not None:
            return UserFiles.at(data, self.choice)(split, None)
        return read_fields(self.fields(split), self.choice)

    def fields(self, split: str) -> Fields:
        """Return the columns of a split.

        Raises:
            HubError: it cannot be loaded.
        """
        if self.parts(split) is not None:  # the first of them
            return next(self._stream(split))
        try:
            return load_split(self.splits[split], self.repository)
        except Exception as error:
            # Whatever goes wrong inside `datasets`; the message keeps the reason.
            raise HubError(f"could not load {self.repository}: {reason_of(error)}.") from error


def hub_name(name: str) -> bool:
    """Say whether a name could be that of a Hub data set."""
    return _NAME.fullmatch(name) is not None


def hub_task(name: str, choice: Choice) -> Task:
    """Return the task that a Hub data set is.

    Args:
        name: "org/name" or "org/name/config", either with "@revision".
        choice: what the user typed of it.

    Raises:
        MissingFileError: there is no such data set (and no such path).
        HubError: the Hub does not answer, or the data set cannot be loaded.
        OptionError: it has several configurations and none is named, or an option is for files.
        UnknownNameError: it has no such configuration.
    """
    choice.refuse(("separator", "sentences"), f"{name}, a data set of the Hub")
    parts = _NAME.fullmatch(name)
    assert parts, f"{name} is no name of a data set"
    repository = HubRepository(
        repo=parts["repo"], config=parts["config"], revision=parts["revision"], labels={}
    )
    splits, sizes = _splits(name, repository)
    corpus = HubData(repository=repository, splits=splits, sizes=sizes, choice=choice)
    return own_task(name, slugify(name), corpus)


def _splits(name: str, repository: HubRepository) -> tuple[dict[str, str], dict[str, int]]:
    """Return our names of the splits to the Hub's, and the bytes of these where they are known.

    A split of another name alone is train.
    """
    import datasets

    try:
        revision = commit_of(repository) or repository.revision
        builder = datasets.load_dataset_builder(
            repository.repo, repository.config, revision=revision
        )
        sizes = {} if revision is None else _sizes(builder)
    except Exception as error:
        _explain(name, repository, error)
    theirs = [str(split) for split in builder.info.splits or builder.config.data_files or ()]
    named = {split_of(split): split for split in reversed(theirs)}
    splits = {split: named[split] for split in SPLITS if split in named}
    if not splits and len(theirs) != 1:
        raise DataError(
            f"{name}: no split is called train, validation or test; it has "
            f"{', '.join(theirs) or 'none'}."
        )
    return splits or {"train": theirs[0]}, sizes


def _sizes(builder: Any) -> dict[str, int]:
    """Return the bytes of each split, as the card says them or as its files have."""
    from huggingface_hub import HfFileSystem

    if builder.info.splits:
        return {str(name): about.num_bytes or 0 for name, about in builder.info.splits.items()}
    size_of, files = HfFileSystem().info, builder.config.data_files or {}
    return {str(name): sum(size_of(url)["size"] for url in urls) for name, urls in files.items()}


def _explain(name: str, repository: HubRepository, error: Exception) -> NoReturn:
    """Say why a data set cannot be opened."""
    if isinstance(error, UnreachableError):
        raise HubError(
            f"{name}: no such file or folder, and no task of that name; as a data set of the Hub "
            f"it cannot be loaded: {error}. Set HF_HUB_OFFLINE=1 to use an earlier download."
        ) from error
    if type(error).__name__ == "RepositoryNotFoundError":
        raise MissingFileError(
            f"{name}: no such file or folder, no task of that name, and no data set of that name "
            f"on the Hub (or a private one). Check the path; `probekit tasks` lists the tasks."
        ) from error
    try:
        configs = list_configurations(repository)
    except HubError:
        configs = []  # the error that led here is the one to report
    if repository.config and configs:
        choose(f"configuration of {repository.repo}", repository.config, dict.fromkeys(configs))
    if repository.config is None and len(configs) > 1:
        raise OptionError(
            f"{name} has several configurations: {', '.join(configs)}. Choose one: "
            f"{repository.repo}/{configs[0]}."
        ) from error
    raise HubError(f"could not load {repository} from the Hub: {reason_of(error)}.") from error
