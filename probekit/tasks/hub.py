"""Read a split from the Hugging Face Hub through ``datasets``."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probekit.errors import DataError, HubError
from probekit.tasks.sentences import Sentence, Sentences

logger = logging.getLogger(__name__)

SPLITS = {"train": "train", "dev": "validation", "test": "test"}
PROBE_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class HubSource:
    """A Hub repository that holds a task as files that ``datasets`` reads without a script.

    Attributes:
        repo: "org/name".
        labels: label column to the repository's feature.
        words: the feature with the list of words.
        config: the repository's configuration, or None for its only one.
        revision: branch, tag or commit; None is the main branch.
        ids: features that hold the examples' own ids; the first that is there is used.
        names: label column to published label names, for a repository that stores numbers and
            has lost their names.
        splits: split to the repository's name for it.
    """

    repo: str
    labels: Mapping[str, str]
    words: str = "tokens"
    config: str | None = None
    revision: str | None = None
    ids: Sequence[str] = ()
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=lambda: SPLITS)

    def __str__(self) -> str:
        """Return "org/name@revision (config)" as messages name it."""
        revision = f"@{self.revision}" if self.revision else ""
        return f"{self.repo}{revision}" + (f" ({self.config})" if self.config else "")


class _UnreachableError(Exception):
    """Nothing answers at the Hub's address, so no other repository will either."""


def read_hub(task: str, split: str, sources: Sequence[HubSource]) -> Sentences:
    """Return ``split`` from the first source that loads.

    The sources are tried in order, each once. A Hub that does not answer at all ends the search
    after one attempt of at most ten seconds.

    Raises:
        HubError: none loaded; the message says what was tried and why each failed.
    """
    failures = []
    for source in sources:
        try:
            return _read(split, source)
        except _UnreachableError as error:
            failures.append(f"{source}: {error}")
            break
        except Exception as error:
            # Whatever goes wrong inside `datasets` must not keep the next repository from being
            # tried; the message keeps the reason.
            logger.debug("could not load %s", source, exc_info=True)
            failures.append(f"{source}: {_reason(error)}")
    raise HubError(
        f"could not load split {split!r} of {task} from the Hub. Tried {'; '.join(failures)}. "
        "Give the published files with --data DIR instead; HF_HUB_OFFLINE=1 uses a copy that was "
        "downloaded before."
    )


def _read(split: str, source: HubSource) -> Sentences:
    import datasets

    revision = _commit(source)
    dataset = datasets.load_dataset(
        source.repo,
        source.config,
        split=source.splits[split],
        revision=revision or source.revision,
    )
    where = f"hub:{source.repo}@{revision or _cached_commit(dataset)}"
    where += f" ({source.config or dataset.config_name})"
    sentences = _sentences(dataset, source, where)
    return Sentences(sentences=sentences, where=where, origin=where, unit="row")


def _commit(source: HubSource) -> str | None:
    """Return the commit that the source's revision means now; None when offline.

    Asking first pins one revision for every later request, and it is the one request that
    ``huggingface_hub`` does not repeat for half a minute when nothing answers.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        return (
            HfApi().dataset_info(source.repo, revision=source.revision, timeout=PROBE_SECONDS).sha
        )
    except OfflineModeIsEnabled:
        return None
    except Exception as error:
        # The base class of every "no answer" of the HTTP client, which is huggingface_hub's own
        # choice (and has been another package before), so it is known here by name.
        if any(base.__name__ == "TransportError" for base in type(error).__mro__):
            raise _UnreachableError(f"the Hub is unreachable ({_reason(error)})") from error
        raise


def _cached_commit(dataset: Any) -> str:
    """Return the commit of a data set loaded from the local cache, whose folder it names."""
    files = dataset.cache_files
    return Path(files[0]["filename"]).parent.name if files else "unknown"


def _reason(error: Exception) -> str:
    """Return the first line of an error, with its type."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:2])}"[:300]


def _sentences(dataset: Any, source: HubSource, where: str) -> tuple[Sentence, ...]:
    wanted = [source.words, *source.labels.values()]
    missing = [name for name in wanted if name not in dataset.column_names]
    if missing:
        found = ", ".join(dataset.column_names)
        raise DataError(f"{where} has no column {', '.join(missing)} (it has: {found})")
    words = dataset[source.words][:]
    columns = {
        column: _label_names(dataset, feature, source.names.get(column), where)
        for column, feature in source.labels.items()
    }
    kept = {column: rows for column, rows in columns.items() if rows is not None}
    named = next((name for name in source.ids if name in dataset.column_names), None)
    ids = dataset[named][:] if named else [None] * len(words)
    return tuple(
        Sentence(
            tuple(row),
            {column: rows[number] for column, rows in kept.items()},
            (number + 1,) * max(len(row), 1),
            None if ids[number] is None else str(ids[number]),
        )
        for number, row in enumerate(words)
    )


def _label_names(
    dataset: Any, feature: str, published: Sequence[str] | None, where: str
) -> list[tuple[str, ...]] | None:
    """Return a feature's labels by name; None if the split has none (-1 or "_" throughout)."""
    rows = dataset[feature][:]
    flat = {label for row in rows for label in row}
    if flat <= {-1, "_", None}:
        return None
    if all(isinstance(label, str) for label in flat):
        return [tuple(row) for row in rows]
    names = getattr(getattr(dataset.features[feature], "feature", None), "names", None) or published
    if names is None:
        raise DataError(f"{where}: column {feature!r} holds numbers without names")
    wrong = [label for label in flat if not isinstance(label, int) or not 0 <= label < len(names)]
    if wrong:
        raise DataError(f"{where}: column {feature!r} holds {wrong[0]!r}, not one of {len(names)}")
    return [tuple(names[label] for label in row) for row in rows]
