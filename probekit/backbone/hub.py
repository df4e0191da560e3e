"""Ask the Hub, with one-line errors: what a repository holds, and its files.

Every question has a short time limit, because the user may sit without a network; what the
local Hub cache holds is then used instead.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from probekit.errors import HubError

SECONDS = 10.0
"""How long one question to the Hub may take."""

_LOCAL_OPTIONS = (
    "Without the network, give a local model folder or a .gguf file, or set HF_HUB_OFFLINE=1 "
    "with the model in the Hub cache."
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a repository holds at one commit.

    Attributes:
        commit: the commit's hash (or the revision asked for, when only the cache was read).
        files: file name to sha256 where the Hub lists one (large files), else None.
        folder: when the Hub was not reached: the snapshot of the local cache that has to serve.
    """

    commit: str
    files: dict[str, str | None]
    folder: Path | None = None


def list_files(repo: str, revision: str | None) -> Listing:
    """List a repository's files with their sha256, at one commit.

    Offline (``HF_HUB_OFFLINE``, or no answer) the newest snapshot of the local Hub cache serves.

    Raises:
        HubError: no such repository or revision, no access, or unreachable with nothing cached.
    """
    from huggingface_hub import HfApi, is_offline_mode

    if is_offline_mode():
        return _cached(repo, revision, "offline (HF_HUB_OFFLINE)")
    try:
        with translated(repo, revision):
            info = HfApi().model_info(repo, revision=revision, files_metadata=True, timeout=SECONDS)
    except UnreachableError as error:
        found = _cached(repo, revision, str(error))
        _log.warning("%s; using the cached copy of %s at %s.", error, repo, found.commit)
        return found
    assert info.sha is not None
    siblings = info.siblings or []
    files = {file.rfilename: file.lfs.sha256 if file.lfs else None for file in siblings}
    return Listing(commit=info.sha, files=files)


def fetch(repo: str, revision: str | None, names: Iterable[str]) -> Path:
    """Download files of one revision into the Hub cache (those not there yet).

    Returns:
        the snapshot folder that holds them.

    Raises:
        HubError: the repository is gated, a download broke off, or the Hub is unreachable.
    """
    from huggingface_hub import hf_hub_download

    folder: Path | None = None
    for name in names:
        try:
            with translated(repo, revision):
                path = hf_hub_download(repo, name, revision=revision, etag_timeout=SECONDS)
        except UnreachableError as error:
            raise HubError(
                f"{name} of Hub repository {repo!r} could not be downloaded: {error}. Run the same "
                f"command again: it goes on where it stopped. {_LOCAL_OPTIONS}"
            ) from error
        folder = folder or Path(path).parents[name.count("/")]
    assert folder is not None, "at least config.json is asked for"
    return folder


def _cached(repo: str, revision: str | None, why: str) -> Listing:
    """Return what the cache holds of a revision, or say what else could be done."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(repo, "config.json", revision=revision)
    if not isinstance(path, str):
        at = f" at revision {revision!r}" if revision else ""
        raise HubError(f"{why}, and {repo!r}{at} is not in the Hub cache. {_LOCAL_OPTIONS}")
    folder = Path(path).parent
    files = dict.fromkeys(file.name for file in folder.iterdir())
    return Listing(commit=folder.name, files=files, folder=folder)


class UnreachableError(HubError):
    """The Hub gave no answer, or none that makes sense."""


@contextmanager
def translated(repo: str, revision: str | None) -> Iterator[None]:
    """Turn the Hub client's errors into one line that says what to do."""
    from huggingface_hub import errors
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # httpx's own

    at = f" at revision {revision!r}" if revision else ""
    try:
        yield
    except errors.GatedRepoError as error:
        raise HubError(
            f"Hub repository {repo!r} is gated: accept its terms at https://huggingface.co/{repo} "
            "and log in with `hf auth login`."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise HubError(
            f"Hub repository {repo!r} does not exist, or is private and you are not logged in. "
            "Check the name, or run `hf auth login`; a local folder or .gguf file works too."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise HubError(
            f"Hub repository {repo!r} has no revision {revision!r}. Leave out --revision for the "
            "default branch."
        ) from error
    except errors.HFValidationError as error:
        raise HubError(f"{repo!r} is no valid Hub id: {_first_line(error)}") from error
    except errors.RemoteEntryNotFoundError as error:
        raise HubError(f"Hub repository {repo!r}{at} lost a file: {_first_line(error)}") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code if hasattr(error, "response") else None
        if status in (401, 403):
            raise HubError(
                f"the Hub refuses access to {repo!r} (HTTP {status}). Run `hf auth login`, and "
                f"accept the terms at https://huggingface.co/{repo} if it is gated."
            ) from error
        raise UnreachableError(f"the Hub answers HTTP {status} for {repo!r}") from error
    except (HTTPError, errors.LocalEntryNotFoundError, ConnectionError, TimeoutError) as error:
        raise UnreachableError(f"the Hub cannot be reached ({_first_line(error)})") from error
    except OSError as error:
        raise HubError(f"{repo!r}{at} cannot be kept in the Hub cache: {error}") from error


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
