"""Any data set of the Hugging Face Hub as the user's own data: org/name, org/name/config."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from probekit.base.kinds import SPLITS
from probekit.base.registry import choose
from probekit.errors import DataError, HubError, MissingFileError, OptionError, reason_of
from probekit.tasks.formats.file_names import split_of
from probekit.tasks.hub_repository import (
    HubRepository,
    UnreachableError,
    commit_of,
    list_configurations,
    load_split,
)
from probekit.tasks.own.own_examples import read_fields
from probekit.tasks.own.user_files import OwnCorpus, UserFiles, own_task
from probekit.tasks.sentences import Sentences
from probekit.tasks.task import Task, slugify
from probekit.tasks.text_options import Choice

_NAME = re.compile(
    r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(/(?P<config>\w[^/@]*))?(@(?P<revision>\w.*))?", re.ASCII
)


@dataclass(frozen=True, kw_only=True)
class HubData(OwnCorpus):
    """The rows of a Hub data set, read with the user's columns.

    Attributes:
        repository: where it lies.
        splits: split to the Hub's name for it.
    """

    repository: HubRepository
    splits: Mapping[str, str]

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Read ``split`` from the Hub, or from files of the same columns.

        Raises:
            HubError: it cannot be loaded.
            MissingFileError: ``data`` does not hold the split.
        """
        if data is not None:
            return UserFiles.at(data, self.choice)(split, None)
        try:
            fields = load_split(self.splits[split], self.repository)
        except Exception as error:
            # Whatever goes wrong inside `datasets`; the message keeps the reason.
            raise HubError(f"could not load {self.repository}: {reason_of(error)}.") from error
        return read_fields(fields, self.choice)


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
    choice.refuse(("separator", "encoding", "sentences"), f"{name}, a data set of the Hub")
    parts = _NAME.fullmatch(name)
    assert parts, f"{name} is no name of a data set"
    repository = HubRepository(
        repo=parts["repo"], config=parts["config"], revision=parts["revision"], labels={}
    )
    corpus = HubData(repository=repository, splits=_splits(name, repository), choice=choice)
    return own_task(name, slugify(name), corpus)


def _splits(name: str, repository: HubRepository) -> dict[str, str]:
    """Return our names of the splits to the Hub's; a split of another name alone is train."""
    import datasets

    try:
        revision = commit_of(repository) or repository.revision
        builder = datasets.load_dataset_builder(
            repository.repo, repository.config, revision=revision
        )
    except Exception as error:
        _explain(name, repository, error)
    found = [str(split) for split in builder.info.splits or builder.config.data_files or ()]
    named = {split_of(split): split for split in reversed(found)}
    splits = {split: named[split] for split in SPLITS if split in named}
    if not splits and len(found) != 1:
        raise DataError(
            f"{name}: no split is called train, validation or test; it has "
            f"{', '.join(found) or 'none'}."
        )
    return splits or {"train": found[0]}


def _explain(name: str, repository: HubRepository, error: Exception) -> NoReturn:
    """Say why a data set cannot be opened."""
    if isinstance(error, UnreachableError):
        raise HubError(
            f"{name}: no such file or folder, and no task of that name; as a data set of the Hub "
            f"it cannot be loaded: {error}. HF_HUB_OFFLINE=1 uses a copy that was downloaded "
            "before."
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
