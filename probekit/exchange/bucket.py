"""Buckets that entries are pushed to and pulled from: S3, Google Cloud Storage, Azure."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from probekit.base.installation import install_extra
from probekit.errors import OptionError, StorageError, reason_of
from probekit.exchange.contract import Writable, nbytes_of

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
        import obstore

        with self._told():
            pages = obstore.list(self.store)
            return {stored["path"]: stored["size"] for page in pages for stored in page}

    def read(self, name: str, start: int, nbytes: int) -> bytes:
        """Return bytes of an object."""
        import obstore

        if not nbytes:
            return b""
        with self._told(name):
            try:
                return bytes(obstore.get_range(self.store, name, start=start, length=nbytes))
            except FileNotFoundError as error:
                if any(word in str(error) for word in _NO_BUCKET):
                    raise
                return b""

    def write(self, name: str, data: bytes | Path) -> None:
        """Write an object."""
        import obstore

        with self._told(name):
            part = max(_PART_BYTES, -(-nbytes_of(data) // _PARTS))
            obstore.put(self.store, name, data, chunk_size=part)

    def create(self, name: str, data: bytes) -> bool:
        """Write an object unless one is there, by a conditional write.

        A server without conditional writes answers 501, and ``AWS_CONDITIONAL_PUT=disabled`` makes
        obstore refuse them: then an object that is there is replaced.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        with self._told(name):
            try:
                obstore.put(self.store, name, data, mode="create")
            except AlreadyExistsError:
                return False
            except (BaseError, NotImplementedError) as error:
                if "NotImplemented" not in str(error):
                    raise
                obstore.put(self.store, name, data)
        return True

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects."""
        import obstore

        if names:
            with self._told():
                obstore.delete(self.store, list(names))

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
