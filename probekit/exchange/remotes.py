"""Remotes of entries: files with sizes, whose paths are relative, in a folder or a bucket."""

import errno
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from probekit.base.installation import install_extra
from probekit.base.replacing import is_workshop, put_new, remove_left, replacing, workshop
from probekit.errors import OptionError, StorageError, reason_of
from probekit.store.files import read_span, remove_path, storage_errors

_REQUESTS = 16  # files that are sent at a time
_DEPTH = 6  # of folders, from a place to the files of an array

BUCKETS = ("s3", "gs", "az")
_PARTS, _PART_BYTES = 10_000, 5 * 2**20  # of a large object: the most, and the least of each
PATIENCE = timedelta(seconds=30)
"""How long a bucket that is busy, or whose server is started again, is asked once more."""

_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_ENDPOINT_URL, AWS_REGION)",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_REFUSED = (
    *("169.254.", "credential", "Account must be"),
    *("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"),
)
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")


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


@dataclass(frozen=True)
class Folder(Writable):
    """A folder of this machine, or one that is mounted."""

    path: Path

    @property
    def url(self) -> str:  # type: ignore[override]
        """Its path."""
        return str(self.path)

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of every file."""
        sizes = {}
        for inside, folders, files in os.walk(self.path, onerror=self._check, followlinks=True):
            depth = len(Path(inside).relative_to(self.path).parts)
            here = depth < _DEPTH  # a link may lead to a folder above it
            folders[:] = [name for name in folders if here and not is_workshop(name)]
            for file in (Path(inside, name) for name in files):
                try:
                    sizes[file.relative_to(self.path).as_posix()] = file.stat().st_size
                except OSError as error:
                    self._check(error)
        return sizes

    def _check(self, error: OSError) -> None:
        """Pass over what another push removes, links to nowhere and the folders of others.

        Raises:
            StorageError: something else cannot be read.
        """
        others = error.errno in (errno.EACCES, errno.EPERM) and error.filename != str(self.path)
        if not (others or error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)):
            raise self._unread(error) from error

    def _unread(self, error: OSError) -> StorageError:
        return StorageError(
            f"{error.filename or self.path} cannot be read ({error.strerror}). Check the disk, or "
            "the network that it is on."
        )

    def read(self, name: str, start: int, nbytes: int) -> bytes:
        """Return bytes of a file."""
        try:
            return read_span(str(self.path / name), start, nbytes)
        except OSError as error:
            raise self._unread(error) from error

    def write(self, name: str, data: bytes | Path) -> None:
        """Write a file; it is on the disk afterwards."""
        with storage_errors(self.path, option="another URL"), replacing(self.path / name) as new:
            if isinstance(data, bytes):
                new.write_bytes(data)
            else:
                shutil.copyfile(data, new)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless one is there; it is on the disk afterwards."""
        path = self.path / name
        with storage_errors(self.path, option="another URL"), workshop(path.parent) as folder:
            (new := folder / path.name).write_bytes(data)
            return put_new(new, path)

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, and what a kill left beside them and in the folders there."""
        for name in names:
            remove_path(self.path / name)
        for folder in {(self.path / name).parent for name in names}:
            for inside, _, _ in os.walk(folder):
                remove_left(Path(inside))


@dataclass(frozen=True)
class Bucket(Writable):
    """A prefix of a bucket, through obstore.

    Attributes:
        url: such as ``s3://bucket/prefix``.
        store: obstore's.
    """

    url: str
    store: Any

    @classmethod
    def at(cls, url: str) -> "Bucket":
        """Name it; nothing is asked of it yet.

        Raises:
            OptionError: obstore is not installed, or it is no name of a bucket.
        """
        if find_spec("obstore") is None:
            raise OptionError(f"{url}: a bucket needs the package obstore. {install_extra('s3')}")
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        client: dict[str, Any] = {"timeout": timedelta(minutes=1)}
        if url.startswith("s3") and _endpoint().startswith("http://"):
            client["allow_http"] = True
        retries: Any = {"max_retries": 1000, "retry_timeout": PATIENCE}
        try:
            return cls(url, from_url(url, client_options=client, retry_config=retries))
        except (BaseError, ValueError) as error:
            raise OptionError(f"{url} is not a valid bucket URL ({reason_of(error)}).") from error

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of every object."""
        with self._told():
            pages = self.store.list()
            return {stored["path"]: stored["size"] for page in pages for stored in page}

    def read(self, name: str, start: int, nbytes: int) -> bytes:
        """Return bytes of an object."""
        if not nbytes:
            return b""
        with self._told(name):
            try:
                return bytes(self.store.get_range(name, start=start, length=nbytes))
            except FileNotFoundError as error:
                if any(word in str(error) for word in _NO_BUCKET):
                    raise
                return b""

    def write(self, name: str, data: bytes | Path) -> None:
        """Write an object."""
        with self._told(name):
            part = max(_PART_BYTES, -(-nbytes_of(data) // _PARTS))
            self.store.put(name, data, chunk_size=part)

    def create(self, name: str, data: bytes) -> bool:
        """Write an object unless one is there, by a conditional write.

        A server without conditional writes answers 501, and ``AWS_CONDITIONAL_PUT=disabled`` makes
        obstore refuse them: then an object that is there is replaced.
        """
        from obstore.exceptions import AlreadyExistsError, BaseError

        with self._told(name):
            try:
                self.store.put(name, data, mode="create")
            except AlreadyExistsError:
                return False
            except (BaseError, NotImplementedError) as error:
                if "NotImplemented" not in str(error):
                    raise
                self.store.put(name, data)
        return True

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects."""
        if names:
            with self._told():
                self.store.delete(list(names))

    @contextmanager
    def _told(self, name: str = "") -> Iterator[None]:
        """Turn the store's refusals of an object into errors that say what to do."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            text, url = str(error), f"{self.url}/{name}".rstrip("/")
            if any(word in text for word in _NO_BUCKET):
                raise StorageError(
                    f"{self.url}: there is no such bucket (or container). Make it first, or "
                    "correct the name; AWS_ENDPOINT_URL sets which server is used."
                ) from error
            refused = isinstance(error, PermissionDeniedError | UnauthenticatedError)
            if refused or any(word in text for word in _REFUSED):
                # the address of a cloud's own machines, asked where the environment has none
                state = "missing" if "169.254." in text else f"refused ({reason_of(error)})"
                raise StorageError(
                    f"{url}: the credentials are {state}. They come from the environment: set "
                    f"{_CREDENTIALS[self.url.partition(':')[0]]}."
                ) from error
            raise StorageError(
                f"{url}: the bucket returned an error ({reason_of(error)}). Run the same command "
                "again: what is finished is kept."
            ) from error


def _endpoint() -> str:
    """Return the server that the environment names for S3; nothing where it names none.

    Raises:
        OptionError: it is no URL, of which the store would make a crash.
    """
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        if url := os.environ.get(name, ""):
            if not re.fullmatch(r"https?://[^\s/]+\S*", url):
                raise OptionError(
                    f"{name}={url} is not a URL: write http://HOST:PORT or https://HOST."
                )
            return url
    return ""
