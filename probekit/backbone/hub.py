"""Ask the Hub, with one-line errors: what a repository holds, and its files.

Every question has a short time limit, because the user may sit without a network; what the
local Hub cache holds is then used instead.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        with hub_errors(repo, revision):
            info = HfApi().model_info(repo, revision=revision, files_metadata=True, timeout=SECONDS)
    except UnreachableError as error:
        listing = _cached(repo, revision, str(error))
        _log.warning("%s; using the cached copy of %s at %s.", error, repo, listing.commit)
        return listing
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
            with hub_errors(repo, revision):
                path = hf_hub_download(repo, name, revision=revision, etag_timeout=SECONDS)
        except UnreachableError as error:
            raise HubError(
                f"{name} of Hub repository {repo!r} could not be downloaded: {error}. Run the same "
                f"command again: it goes on where it stopped. {_LOCAL_OPTIONS}"
            ) from error
        except HubError:  # which is an OSError as well
            raise
        except OSError as error:
            raise HubError(f"{repo!r} cannot be kept in the Hub cache: {error}") from error
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


DATA_SETS = "datasets/"
"""What stands before the name of a data set in its address; before that of a model stands nothing.
"""


@contextmanager
def hub_errors(repo: str, revision: str | None, page: str = "") -> Iterator[None]:
    """Turn the errors of the Hub's client into one line that says what to do.

    Args:
        repo: ``org/name``.
        revision: branch, tag or commit; None is the main branch.
        page: what stands before its name in its address, such as `DATA_SETS`.

    Raises:
        UnreachableError: the Hub gives no answer, or none that makes sense.
        HubError: whatever else the client or the Hub refuses.
        OSError: this machine's disk does.
    """
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # httpx's own

    try:
        yield
    except (HTTPError, OSError, ValueError, RuntimeError) as error:
        # the client says only which file could not be uploaded, and why in the cause
        cause = error.__cause__ if type(error) is RuntimeError else None
        reason = error if cause is None else cause
        if type(reason) is OSError and reason.errno is not None:
            raise reason from error
        raise _in_words(repo, revision, reason, page) from error


def _in_words(repo: str, revision: str | None, error: BaseException, page: str) -> HubError:
    """Return what an error of the Hub's client means, and what to do."""
    from huggingface_hub import errors
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # httpx's own

    kind = "Hub data set" if page == DATA_SETS else "Hub repository"
    named = f"{kind} {repo!r}"
    terms = f"https://huggingface.co/{page}{repo}"
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    match error:
        case errors.GatedRepoError():
            return HubError(
                f"{named} is gated: accept its terms at {terms} and log in with `hf auth login`."
            )
        case errors.RepositoryNotFoundError():
            return HubError(
                f"{named} does not exist, or you have no access to it. Check the name "
                "(OWNER/NAME), and log in with `hf auth login`, or set HF_TOKEN."
            )
        case errors.RevisionNotFoundError():
            return HubError(
                f"{named} has no branch, tag or commit {revision!r}. Name none to get its main "
                "branch."
            )
        case errors.HFValidationError():
            return HubError(f"{repo!r} is not a {kind} name (OWNER/NAME): {first_line}")
        case errors.RemoteEntryNotFoundError():
            at = f" at revision {revision!r}" if revision else ""
            return HubError(f"{named}{at} lacks a file: {first_line}")
        case errors.HfHubHTTPError() if _status(error) in (401, 403):
            return HubError(
                f"the Hub refused access to {named} (HTTP {_status(error)}). Run `hf auth login` "
                f"or set HF_TOKEN, and accept the terms at {terms} if it is gated. A push needs a "
                "token with write access."
            )
        case errors.HfHubHTTPError():
            return UnreachableError(f"the Hub answers HTTP {_status(error)} for {repo!r}")
        case HTTPError() | errors.LocalEntryNotFoundError() | ConnectionError() | TimeoutError():
            return UnreachableError(f"the Hub cannot be reached ({first_line})")
        case _:
            return HubError(f"{named}: {first_line}")


def _status(error: Any) -> int | None:
    return error.response.status_code if hasattr(error, "response") else None


@contextmanager
def progress_bars(*, shown: bool) -> Iterator[None]:
    """Show the bars of the Hub's client inside the block, or hide them."""
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # listed as it loads
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if shown or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
