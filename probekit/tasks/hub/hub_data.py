"""Any data set of the Hugging Face Hub as the user's own data: org/name, org/name/config."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Self

from probekit.base.kinds import SPLITS, KindName
from probekit.base.registry import choose
from probekit.errors import DataError, HubError, MissingFileError, OptionError, reason_of
from probekit.tasks.formats.arrow_fields import dataset_fields
from probekit.tasks.hub.load import UnreachableError, commit_of, list_configurations, load_split
from probekit.tasks.hub.repository import HubSource
from probekit.tasks.own.column_choice import Choice
from probekit.tasks.own.own_formats import read_fields
from probekit.tasks.own.split_files import split_of
from probekit.tasks.own.user_task import UserFiles, own_task
from probekit.tasks.sentences import Sentences
from probekit.tasks.task import Task, slugify

_NAME = re.compile(
    r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(/(?P<config>\w[^/@]*))?(@(?P<revision>\w.*))?", re.ASCII
)


@dataclass(frozen=True, kw_only=True)
class HubData:
    """The source of a Hub data set's rows, read with the user's columns.

    Attributes:
        source: where it lies, with the Hub's name of each split.
        choice: how its text is read.
        kind: what is labelled.
    """

    source: HubSource
    choice: Choice
    kind: KindName

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that there are, in the order train, dev, test."""
        return tuple(self.source.splits)

    def choosing(self, choice: Choice) -> Self:
        """Return the same data set, read with another choice."""
        return replace(self, choice=choice)

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Read ``split`` from the Hub, or from files of the same columns.

        Raises:
            HubError: it cannot be loaded.
            MissingFileError: ``data`` does not hold the split.
        """
        if data is not None:
            return UserFiles.at(data, self.choice, self.kind)(split, None)
        try:
            dataset, where = load_split(split, self.source)
        except Exception as error:
            # Whatever goes wrong inside `datasets`; the message keeps the reason.
            raise HubError(f"could not load {self.source}: {reason_of(error)}.") from error
        return read_fields(dataset_fields(dataset, where, where), self.choice, self.kind)


def hub_name(name: str) -> bool:
    """Say whether a name could be that of a Hub data set."""
    return _NAME.fullmatch(name) is not None


def hub_task(name: str, choice: Choice, kind: KindName) -> Task:
    """Return the task that a Hub data set is.

    Args:
        name: "org/name" or "org/name/config", either with "@revision".
        choice: what the user typed of it.
        kind: what is labelled.

    Raises:
        MissingFileError: there is no such data set (and no such path).
        HubError: the Hub does not answer, or the data set cannot be loaded.
        OptionError: it has several configurations and none is named, or an option is for files.
        UnknownNameError: it has no such configuration.
    """
    choice.refuse(("separator", "encoding", "sentences"), f"{name}, a data set of the Hub")
    parts = _NAME.fullmatch(name)
    assert parts, f"{name} is no name of a data set"
    source = HubSource(
        repo=parts["repo"], config=parts["config"], revision=parts["revision"], labels={}
    )
    source = replace(source, splits=_splits(name, source))
    return own_task(name, slugify(name), HubData(source=source, choice=choice, kind=kind))


def _splits(name: str, source: HubSource) -> dict[str, str]:
    """Return our names of the splits to the Hub's; a split of another name alone is train."""
    import datasets

    try:
        revision = commit_of(source) or source.revision
        builder = datasets.load_dataset_builder(source.repo, source.config, revision=revision)
    except Exception as error:
        _explain(name, source, error)
    found = [str(split) for split in builder.info.splits or builder.config.data_files or ()]
    named = {split_of(split): split for split in reversed(found)}
    splits = {split: named[split] for split in SPLITS if split in named}
    if not splits and len(found) != 1:
        raise DataError(
            f"{name}: no split is called train, validation or test; it has "
            f"{', '.join(found) or 'none'}."
        )
    return splits or {"train": found[0]}


def _explain(name: str, source: HubSource, error: Exception) -> NoReturn:
    """Say why a data set cannot be opened."""
    reason = reason_of(error)
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
        configs = list_configurations(source)
    except HubError:
        configs = []  # the error that led here is the one to report
    if source.config is not None and configs:
        choose(f"configuration of {source.repo}", source.config, dict.fromkeys(configs))
    if source.config is None and len(configs) > 1:
        raise OptionError(
            f"{name} has several configurations: {', '.join(configs)}. Choose one: "
            f"{source.repo}/{configs[0]}."
        ) from error
    raise HubError(f"could not load {source} from the Hub: {reason}.") from error
