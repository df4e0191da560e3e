"""A data set repository of the Hub as files with sizes; the client's errors in one line."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from probekit.errors import EXTRACT_AGAIN, EntryError, HubError
from probekit.store.files import check_room

SECONDS = 10.0
"""How long the first question to the Hub may take."""

PUSH_AGAIN = "Ask whoever pushed it to push it again."
GO_ON = "Run the same command again: it goes on where it stopped."
PULL_AGAIN = "Pull again; if that does not help, ask whoever pushed it to push it again."


def check_name(repo: str) -> str:
    """Return the name of a repository, if it is one.

    Raises:
        HubError: it is none.
    """
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # listed as it loads
        validate_repo_id,
    )

    with hub_errors(repo):
        validate_repo_id(repo)
        if "/" not in repo:
            raise ValueError(f"say whose it is as well, OWNER/{repo}")
    return repo


@dataclass(frozen=True)
class RemoteFiles:
    """The files of a repository at one commit.

    Attributes:
        repo: ``org/name``.
        commit: what was asked for, as a commit.
        sizes: bytes of each file, by its path.
        private: whether only some may read it.
    """

    repo: str
    commit: str
    sizes: Mapping[str, int]
    private: bool = False

    @classmethod
    def find(cls, repo: str, revision: str | None = None) -> "RemoteFiles":
        """List a repository.

        Args:
            repo: ``org/name``.
            revision: branch, tag or commit; None is the main branch.

        Raises:
            HubError: there is none, or no access, or no answer.
        """
        from huggingface_hub import HfApi

        with hub_errors(check_name(repo), revision):
            info = HfApi().dataset_info(
                repo, revision=revision, files_metadata=True, timeout=SECONDS
            )
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
        return cls(repo, info.sha or "main", sizes, bool(info.private))

    def __str__(self) -> str:
        """Return ``org/name@commit`` as messages name it."""
        return f"{self.repo}@{self.commit[:8]}"

    def check(self, name: str, nbytes: int, *, at_most: bool = False) -> None:
        """Check that a file is there in its size, before it is read.

        Args:
            name: its path in the repository.
            nbytes: its size.
            at_most: it may be smaller.

        Raises:
            EntryError: it is missing, or of another size.
        """
        held = self.sizes.get(name)
        if held is None:
            raise EntryError(f"{self}: {name} is missing. {PUSH_AGAIN}")
        if held > nbytes or (held < nbytes and not at_most):
            most = "at most " if at_most else ""
            raise EntryError(
                f"{self}: {name} has {held:,} bytes, expected {most}{nbytes:,}. {PUSH_AGAIN}"
            )

    def fetch(
        self, name: str, folder: Path, report: Callable[[int], None] = lambda count: None
    ) -> Path:
        """Download a file; one that is there already is not loaded again.

        Args:
            name: its path in the repository.
            folder: where it is put, under the same path.
            report: receives the bytes that came since the last call.

        Raises:
            HubError: it cannot be downloaded.
        """
        from huggingface_hub import HfApi

        with hub_errors(self.repo, self.commit):
            path = HfApi().hf_hub_download(
                self.repo,
                name,
                repo_type="dataset",
                revision=self.commit,
                local_dir=folder,
                tqdm_class=_reporting(report),
            )
        return Path(path)


def check_staging(folder: Path, nbytes: int) -> None:
    """Check that a file of an entry, which lies here on its way, has room.

    Args:
        folder: where it is to lie.
        nbytes: its size.

    Raises:
        StorageError: it has none.
    """
    check_room(folder, nbytes, "this transfer", "set TMPDIR to a folder that has room")


def _reporting(report: Callable[[int], None]) -> Any:
    """Return a bar for the Hub's client that shows nothing and passes on what it counts."""

    class Silent(tqdm):  # type: ignore[type-arg]  # it takes none as it runs
        def __init__(self, **options: Any) -> None:
            super().__init__(**{**options, "disable": True})

        def update(self, n: float | None = 1) -> bool | None:
            report(int(n or 0))
            return None

    return Silent


@contextmanager
def hub_errors(repo: str, revision: str | None = None) -> Iterator[None]:
    """Turn the errors of the Hub's client into one line that says what to do.

    Raises:
        HubError: whatever the client, the network or the Hub refuses.
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
        raise HubError(_in_words(repo, revision, reason)) from error


def _in_words(repo: str, revision: str | None, error: BaseException) -> str:
    """Return what an error of the Hub's client means, and what to do."""
    from huggingface_hub import errors
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # httpx's own

    match error:
        case errors.GatedRepoError():
            return (
                f"Hub data set {repo!r} is gated: accept its terms at "
                f"https://huggingface.co/datasets/{repo} and log in with `hf auth login`."
            )
        case errors.RepositoryNotFoundError():
            return (
                f"Hub data set {repo!r} does not exist, or is not open to you. Check the name "
                "(OWNER/NAME), and log in with `hf auth login`, or set HF_TOKEN."
            )
        case errors.RevisionNotFoundError():
            return (
                f"Hub data set {repo!r} has no branch, tag or commit {revision!r}. Leave out "
                "--revision for the main branch."
            )
        case errors.HFValidationError():
            return f"{repo!r} is no name of a Hub data set, OWNER/NAME: {_first_line(error)}"
        case errors.HfHubHTTPError() if error.response.status_code in (401, 403):
            return (
                f"the Hub refuses this for data set {repo!r} (HTTP {error.response.status_code}): "
                "log in with `hf auth login`, or set HF_TOKEN; a push needs a token that may write."
            )
        case errors.HfHubHTTPError():
            return (
                f"the Hub answers HTTP {error.response.status_code} for data set {repo!r} "
                f"({_first_line(error)}). {GO_ON}"
            )
        case HTTPError() | errors.LocalEntryNotFoundError() | ConnectionError() | TimeoutError():
            return f"the Hub cannot be reached ({_first_line(error)}). {GO_ON}"
        case _:
            return f"Hub data set {repo!r}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def silent_client() -> Iterator[None]:
    """Keep the bars of the Hub's client from being shown while there is one of probekit's."""
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # listed as it loads
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


@contextmanager
def pushed_errors() -> Iterator[None]:
    """Say of what is damaged on the Hub that pushing it again helps, not extracting it.

    Raises:
        EntryError: whatever is wrong.
    """
    try:
        yield
    except EntryError as error:
        raise type(error)(str(error).replace(EXTRACT_AGAIN, PUSH_AGAIN)) from None
