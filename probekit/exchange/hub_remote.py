"""Data sets of the Hub as remotes of entries, and which remote a URL names."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from probekit.backbone.hub import DATA_SETS, SECONDS, UnreachableError, hub_errors, progress_bars
from probekit.base.registry import PathName
from probekit.errors import HubError, OptionError
from probekit.exchange.remotes import BUCKETS, Bucket, Folder, Remote
from probekit.store.files import typed_path

_URL = re.compile(r"([a-z][a-z0-9+.-]+)://(.*)", re.IGNORECASE)


@dataclass(frozen=True)
class Hub(Remote):
    """A data set repository.

    Attributes:
        repo: ``org/name``.
        revision: branch, tag or commit; None is the main branch.
    """

    repo: str
    revision: str | None = None

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
        with self._told(), HfFileSystem().open(path, "rb", cache_type="none") as file:
            file.seek(start)
            return file.read(nbytes)

    def open_for_push(self, *, private: bool) -> None:
        """Make the repository, and its branch, if need be.

        Raises:
            HubError: the Hub refuses; or it is to be private, and exists and is public.
        """
        from huggingface_hub import HfApi

        api = HfApi()
        with self._told():  # None: as its owner has it, who may want all to be private
            api.create_repo(self.repo, repo_type="dataset", private=private or None, exist_ok=True)
        if private and not Hub(self.repo)._info.private:
            raise HubError(
                f"Hub data set {self.repo!r} exists and is public: --private is for new ones. "
                "Nothing was pushed; make it private in its settings, or choose another name."
            )
        if self.revision not in (None, "main"):
            with self._told():
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
        with self._told(), progress_bars(shown=progress):
            made = HfApi().create_commit(
                self.repo,
                [*removed, *sent],
                commit_message=message,
                repo_type="dataset",
                revision=self.revision,
                parent_commit=self._info.sha,  # what goes was looked for there
            )
        return str(made.commit_url)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            with hub_errors(self.repo, self.revision, DATA_SETS):
                yield
        except UnreachableError as error:
            again = "Run the same command again: it goes on where it stopped."
            raise HubError(f"{error}. {again}") from error

    @cached_property
    def _info(self) -> Any:
        from huggingface_hub import HfApi

        with self._told():
            return HfApi().dataset_info(
                self.repo, revision=self.revision, files_metadata=True, timeout=SECONDS
            )


def remote_at(url: PathName) -> Remote:
    """Return the place that a user names; nothing is asked of it yet.

    Args:
        url: a folder, ``s3://BUCKET/PREFIX`` (``gs://``, ``az://``), or of the Hub
            ``hf://datasets/OWNER/NAME``, with ``@REVISION`` for a branch, tag or commit.

    Raises:
        OptionError: it is none of these, or a package for it is missing.
        HubError: it is no name of a repository.
    """
    match = _URL.fullmatch(str(url))
    if match is None:
        return Folder(typed_path(url))
    scheme, rest = match[1].lower(), match[2].strip("/")
    repo, _, revision = rest.removeprefix("datasets/").partition("@")
    if scheme == "hf" and rest.startswith("datasets/") and repo.count("/") == 1:
        return Hub(repo, revision or None)
    if scheme in BUCKETS and rest:
        if "#" in rest or "?" in rest or {".", ".."} & {*rest.split("/")}:
            raise OptionError(f"{url}: a prefix may not contain # or ?, nor . or .. as a part.")
        return Bucket.at(f"{scheme}://{rest}")
    known = ", ".join(f"{name}://BUCKET/PREFIX" for name in BUCKETS)
    raise OptionError(f"{url}: expected a folder, {known} or hf://datasets/OWNER/NAME (@REVISION).")
