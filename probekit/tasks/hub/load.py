"""Read a split from the Hugging Face Hub through ``datasets``."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from probekit.errors import HubError, reason_of
from probekit.tasks.hub.hub_sentences import hub_sentences
from probekit.tasks.hub.repository import HubSource
from probekit.tasks.sentences import Sentences

logger = logging.getLogger(__name__)

PROBE_SECONDS = 10.0


class UnreachableError(Exception):
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
        except UnreachableError as error:
            failures.append(f"{source}: {error}")
            break
        except Exception as error:
            # Whatever goes wrong inside `datasets` must not keep the next repository from being
            # tried; the message keeps the reason.
            logger.debug("could not load %s", source, exc_info=True)
            failures.append(f"{source}: {reason_of(error)}")
    raise HubError(
        f"could not load split {split!r} of {task} from the Hub. Tried {'; '.join(failures)}. "
        "Give the published files with --data DIR instead; HF_HUB_OFFLINE=1 uses a copy that was "
        "downloaded before."
    )


def load_split(split: str, source: HubSource) -> tuple[Any, str]:
    """Return a split as a ``datasets.Dataset``, and its repository as messages name it.

    Raises:
        UnreachableError: nothing answers.
        Exception: whatever goes wrong inside ``datasets``.
    """
    import datasets

    revision = commit_of(source)
    dataset = datasets.load_dataset(
        source.repo,
        source.config,
        split=source.splits[split],
        revision=revision or source.revision,
    )
    where = f"hub:{source.repo}@{revision or _cached_commit(dataset)}"
    return dataset, f"{where} ({source.config or dataset.config_name})"


def list_configurations(source: HubSource) -> list[str]:
    """Return the names of a repository's configurations.

    Raises:
        HubError: they cannot be listed.
    """
    import datasets

    try:
        revision = commit_of(source) or source.revision
        return list(datasets.get_dataset_config_names(source.repo, revision=revision))
    except Exception as error:
        reason = str(error) if isinstance(error, UnreachableError) else reason_of(error)
        raise HubError(f"cannot list the configurations of {source.repo}: {reason}.") from error


def _read(split: str, source: HubSource) -> Sentences:
    dataset, where = load_split(split, source)
    sentences = hub_sentences(dataset, source, where)
    return Sentences(sentences=sentences, where=where, origin=where, unit="row")


def commit_of(source: HubSource) -> str | None:
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
            raise UnreachableError(f"the Hub is unreachable ({reason_of(error)})") from error
        raise


def _cached_commit(dataset: Any) -> str:
    """Return the commit of a data set loaded from the local cache, whose folder it names."""
    files = dataset.cache_files
    return Path(files[0]["filename"]).parent.name if files else "unknown"
