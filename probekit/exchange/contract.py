"""What a remote of entries is: files with sizes, whose paths are relative."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_REQUESTS = 16  # files that are sent at a time


class Remote(ABC):
    """Files at a URL.

    Attributes:
        url: as messages name it.
    """

    url: str

    def __str__(self) -> str:
        """Return the URL."""
        return self.url

    @abstractmethod
    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of every file, by its path.

        Raises:
            StorageError: the place does not answer, or refuses.
            HubError: the Hub does.
        """

    @abstractmethod
    def read(self, name: str, start: int, nbytes: int) -> bytes:
        """Return bytes of a file: fewer where it ends before, none where there is no such file.

        Errors as of `sizes`.
        """


class Writable(Remote):
    """A remote where each file is written by itself, whole or not at all."""

    @abstractmethod
    def write(self, name: str, data: bytes | Path) -> None:
        """Write a file, replacing one that is there; errors as of `sizes`."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless one is there; of several that try at once, one succeeds.

        Errors as of `sizes`.

        Returns:
            Whether this call wrote it. A bucket may say no to a call that did, if its first answer
            was lost.
        """

    @abstractmethod
    def remove(self, names: Sequence[str]) -> None:
        """Remove files; errors as of `sizes`."""

    def write_all(self, files: Mapping[str, bytes | Path], report: Callable[[int], None]) -> None:
        """Write files, several at a time.

        Args:
            files: their bytes, or where these lie, by their paths here.
            report: receives the bytes that were written since the last call.
        """

        def write(item: tuple[str, bytes | Path]) -> int:
            name, data = item
            self.write(name, data)
            return nbytes_of(data)

        with ThreadPoolExecutor(_REQUESTS) as pool:
            for nbytes in pool.map(write, files.items()):
                report(nbytes)


def nbytes_of(data: bytes | Path) -> int:
    """Return the size of what is to be sent."""
    return len(data) if isinstance(data, bytes) else data.stat().st_size
