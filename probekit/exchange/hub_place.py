"""A data set repository of the Hub as a place; the errors of its client in one line."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from probekit.errors import HubError
from probekit.exchange.url_places import Place

SECONDS = 10.0
"""How long the first question to the Hub may take."""

GO_ON = "Run the same command again: it goes on where it stopped."


@dataclass(frozen=True)
class Hub(Place):
    """A data set repository.

    Attributes:
        repo: ``org/name``.
        revision: branch, tag or commit; None is the main branch.
    """

    repo: str
    revision: str | None = None

    def __post_init__(self) -> None:
        """Check the name.

        Raises:
            HubError: it is none.
        """
        from huggingface_hub.utils import (  # type: ignore[attr-defined]  # listed as it loads
            validate_repo_id,
        )

        with hub_errors(self.repo):
            validate_repo_id(self.repo)
            if self.repo.count("/") != 1:
                raise ValueError("write hf://datasets/OWNER/NAME")

    @property
    def url(self) -> str:  # type: ignore[override]
        """``hf://datasets/org/name``, with the revision that is asked for."""
        asked = "" if self.revision is None else f"@{self.revision}"
        return f"hf://datasets/{self.repo}{asked}"

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of every file, at the commit that the revision names."""
        return {file.rfilename: file.size or 0 for file in self._info.siblings or []}

    def read(self, name: str, start: int, nbytes: int) -> bytes:
        """Return bytes of a file, at the same commit."""
        from huggingface_hub import HfFileSystem

        if not nbytes:
            return b""
        path = f"datasets/{self.repo}@{self._info.sha}/{name}"
        with (
            hub_errors(self.repo, self.revision),
            HfFileSystem().open(path, "rb", cache_type="none") as file,
        ):
            file.seek(start)
            return file.read(nbytes)

    def open_for_push(self, *, private: bool) -> None:
        """Make the repository, and its branch, if need be.

        Raises:
            HubError: the Hub refuses; or it is to be private, and exists and is public.
        """
        from huggingface_hub import HfApi

        api = HfApi()
        with hub_errors(self.repo):  # None: as its owner has it, who may want all to be private
            api.create_repo(self.repo, repo_type="dataset", private=private or None, exist_ok=True)
        if private and not Hub(self.repo)._info.private:
            raise HubError(
                f"Hub data set {self.repo!r} exists and is public: --private is for new ones. "
                "Nothing was pushed; make it private in its settings, or choose another name."
            )
        if self.revision not in (None, "main"):
            with hub_errors(self.repo):
                api.create_branch(
                    self.repo, branch=str(self.revision), repo_type="dataset", exist_ok=True
                )

    def commit(
        self,
        message: str,
        files: Mapping[str, bytes | Path],
        gone: Sequence[str],
        *,
        progress: bool,
    ) -> str:
        """Send files and remove others in one commit; return its address.

        ``progress`` shows the bars of the Hub's client.

        Raises:
            HubError: the Hub refuses, or cannot be reached.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

        sent: list[Any] = [
            CommitOperationAdd(name, data if isinstance(data, bytes) else str(data))
            for name, data in files.items()
        ]
        removed = [CommitOperationDelete(name, is_folder=False) for name in gone]
        with hub_errors(self.repo, self.revision), _bars(shown=progress):
            made = HfApi().create_commit(
                self.repo,
                [*removed, *sent],
                commit_message=message,
                repo_type="dataset",
                revision=self.revision,
            )
        return str(made.commit_url)

    @cached_property
    def _info(self) -> Any:
        from huggingface_hub import HfApi

        with hub_errors(self.repo, self.revision):
            return HfApi().dataset_info(
                self.repo, revision=self.revision, files_metadata=True, timeout=SECONDS
            )


@contextmanager
def _bars(*, shown: bool) -> Iterator[None]:
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
                "@REVISION for the main branch."
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
