"""Files on their way to one commit of a repository."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any

from probekit.extraction.transport.outgoing_entry import OutgoingEntry
from probekit.extraction.transport.remote_files import check_staging, hub_errors
from probekit.extraction.transport.transport_form import LayerFile
from probekit.store.marks import ChunkSum
from probekit.store.objects.chunk_window import REQUESTS

_IN_MEMORY = 2**20
"""Bytes of a file up to which it is sent from memory, and not laid on the disk before."""


class Upload:
    """Files on their way to one commit."""

    def __init__(self, api: Any, repo: str, revision: str | None) -> None:
        self._api, self._repo, self._revision = api, repo, revision
        self._operations: list[Any] = []

    def add(self, files: Mapping[str, bytes | Path]) -> None:
        """Send files that the Hub does not have; they become visible with the commit."""
        from huggingface_hub import CommitOperationAdd

        added = [
            CommitOperationAdd(name, data if isinstance(data, bytes) else str(data))
            for name, data in files.items()
        ]
        with hub_errors(self._repo, self._revision):
            self._api.preupload_lfs_files(
                self._repo, added, repo_type="dataset", revision=self._revision
            )
        for one in added:
            if isinstance(one.path_or_fileobj, str):  # the Hub wants it in the commit itself
                one.path_or_fileobj = Path(one.path_or_fileobj).read_bytes()
        self._operations += added

    def send_entry(
        self, one: OutgoingEntry, staging: Path, report: Callable[[int | str], None]
    ) -> None:
        """Send the files of an entry, those of chunks last."""
        self.add({f"{one.folder}/{name}": data for name, data in one.small.items()})
        report(sum(map(len, one.small.values())))
        for file in one.layer_files:
            report(file.name)
            if file.nbytes <= _IN_MEMORY:
                with ThreadPoolExecutor(REQUESTS) as pool:
                    data = b"".join(pool.map(one.source.chunk, one.sums(file)))
                self.add({f"{one.folder}/{file.name}": data})
            else:
                laid = _lay(one, file, staging)
                self.add({f"{one.folder}/{file.name}": laid})
                laid.unlink()
            report(file.nbytes)

    def commit(self, message: str, outdated: Sequence[str]) -> str:
        """Make everything visible at once, and remove what is out of date."""
        from huggingface_hub import CommitOperationDelete

        gone = [CommitOperationDelete(name, is_folder=False) for name in outdated]
        with hub_errors(self._repo, self._revision):
            made = self._api.create_commit(
                self._repo,
                [*gone, *self._operations],
                commit_message=message,
                repo_type="dataset",
                revision=self._revision,
            )
        return str(made.commit_url)


def _lay(one: OutgoingEntry, file: LayerFile, staging: Path) -> Path:
    """Lay a file of chunks on the disk, since the Hub's client reads its bytes more than once.

    Raises:
        EntryError: a chunk is damaged.
        StorageError: there is no room.
    """
    laid = staging / "layer.bin"
    check_staging(staging, file.nbytes)
    sums = one.sums(file)
    starts = accumulate((found.nbytes for found in sums), initial=0)
    with laid.open("wb", buffering=0) as sink, ThreadPoolExecutor(REQUESTS) as pool:

        def lay(found: ChunkSum, start: int) -> None:
            left = memoryview(one.source.chunk(found))
            while left:
                written = os.pwrite(sink.fileno(), left, start)
                left, start = left[written:], start + written

        for _ in pool.map(lay, sums, starts):
            pass
    return laid
