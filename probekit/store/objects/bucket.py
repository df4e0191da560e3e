"""A bucket: the few requests that an object store gets, and its refusals as errors that help.

A request that fails on the way is sent again: an object is written whole or not at all, so that
nothing is harmed. A conditional put that was sent again may find its own object there: its bytes
tell, since no two writers write the same.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

from probekit.errors import OptionError, StorageError, install_extra, reason_of

T = TypeVar("T")

Tag = Mapping[str, str]
"""By which a store tells an object from what was there before, and what comes after."""

SCHEMES = ("s3", "gs", "az", "memory")
"""Of URLs that are no folders."""

PUT_SECONDS = 60
"""Within which a request is answered, or given up."""

_TRIES = 4
_REMOVED_AT_ONCE = 500
_PAUSE = 0.2  # seconds before the second try, and twice as long before each one after it

_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_ENDPOINT_URL, AWS_REGION)",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "memory": "nothing",
}
_REFUSED = (
    "169.254.",
    "credential",
    "Account must be",
    "AccessDenied",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
)
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")


@dataclass(frozen=True, slots=True)
class Stored:
    """One object of a listing.

    Attributes:
        key: its name in the bucket.
        nbytes: its size.
    """

    key: str
    nbytes: int


class LostPutError(Exception):
    """A conditional put found another object than it expected, or one at all."""


def check_installed(url: str) -> None:
    """Refuse a URL where the package that reads it is missing.

    Raises:
        OptionError: it is.
    """
    if find_spec("obstore") is None:
        raise OptionError(
            f"{url}: a cache at a URL needs the package obstore, which is not installed. "
            + install_extra("s3")
        )


@cache
def bucket_of(scheme: str, name: str) -> "Bucket":
    """Return a bucket; in a process always the same, so that connections are kept.

    Args:
        scheme: of `SCHEMES`.
        name: of the bucket; of ``memory``, any.
    """
    return Bucket(scheme, name)


class Bucket:
    """One bucket of an object store, or a memory of this process that behaves like one.

    Every method raises `StorageError` where the store refuses: the bucket is not there, or the
    credentials are not accepted, or it does not answer.

    Attributes:
        scheme: of `SCHEMES`.
        url: without a slash at its end.
    """

    def __init__(self, scheme: str, name: str) -> None:
        """Name it; nothing is asked of it yet."""
        from obstore.store import MemoryStore, from_url

        self.scheme, self.url = scheme, f"{scheme}://{name}"
        self._store: Any = MemoryStore()
        if scheme != "memory":
            client: dict[str, Any] = {"timeout": timedelta(seconds=PUT_SECONDS)}
            if scheme == "s3" and _endpoint().startswith("http://"):
                client["allow_http"] = True
            retries: Any = {"max_retries": 8, "retry_timeout": timedelta(seconds=PUT_SECONDS)}
            try:
                with self._told(self.url):
                    self._store = from_url(
                        f"{self.url}/",
                        client_options=client,
                        retry_config=retries,
                    )
            except ValueError as error:
                raise OptionError(
                    f"{self.url} is no name of a bucket ({reason_of(error)})."
                ) from error

    def read(self, key: str) -> bytes:
        """Return an object.

        Raises:
            FileNotFoundError: there is none.
        """
        return self.tagged(key)[0]

    def tagged(self, key: str) -> tuple[bytes, Tag]:
        """Return an object, and the tag by which `put_if` knows it.

        Raises:
            FileNotFoundError: there is none.
        """
        import obstore

        def ask() -> tuple[bytes, Tag]:
            found = obstore.get(self._store, key)
            return bytes(found.bytes()), _tag_of(found.meta)

        return self._ask(key, ask)

    def read_span(self, key: str, start: int, nbytes: int) -> bytes:
        """Return some bytes of an object; fewer where it ends before.

        Raises:
            FileNotFoundError: there is none.
        """
        import obstore

        def ask() -> bytes:
            return bytes(obstore.get_range(self._store, key, start=start, length=nbytes))

        try:
            with self._told(f"{self.url}/{key}"):
                return ask()
        except StorageError:
            size = self.size(key) or 0
        if start + nbytes <= size:
            return self._ask(key, ask)
        return self.read_span(key, start, size - start) if start < size else b""

    def size(self, key: str) -> int | None:
        """Return the bytes of an object; None where there is none."""
        import obstore

        try:
            return int(self._ask(key, lambda: obstore.head(self._store, key))["size"])
        except FileNotFoundError:
            return None

    def put(self, key: str, data: bytes | memoryview) -> None:
        """Write an object, replacing one that is there."""
        import obstore

        whole = data if isinstance(data, bytes) else data.cast("B")
        self._ask(key, lambda: obstore.put(self._store, key, whole, chunk_size=2**24))

    def put_if(self, key: str, data: bytes, tag: Tag | None) -> Tag:
        """Write an object where the one that is there is as it was, or where there is none.

        Args:
            key: its name.
            data: its bytes, which no other writer writes.
            tag: of the object that it replaces; None: there is to be none.

        Returns:
            the tag of the new one.

        Raises:
            LostPutError: another one is there, or the expected one is not any more.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        mode: Any = "create" if tag is None else dict(tag)

        def ask() -> Tag:
            try:
                return _tag_of(obstore.put(self._store, key, data, mode=mode))
            except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
                if isinstance(error, FileNotFoundError) and tag is None:
                    raise
                return self._own_tag(key, data)

        return self._ask(key, ask)

    def _own_tag(self, key: str, data: bytes) -> Tag:
        """Return the tag of an object that an earlier try of the same put wrote."""
        try:
            found, tag = self.tagged(key)
        except FileNotFoundError:
            found, tag = b"", {}
        if found != data:
            raise LostPutError(key)
        return tag

    def below(self, prefix: str) -> list[Stored]:
        """Return all objects whose names begin with a prefix, which ends with a slash."""
        import obstore

        def ask() -> list[Stored]:
            pages = obstore.list(self._store, prefix or None)
            return [Stored(one["path"], one["size"]) for page in pages for one in page]

        return self._ask(prefix, ask)

    def children(self, prefix: str) -> tuple[list[str], list[Stored]]:
        """Return what lies right under a prefix: the prefixes below it, and objects."""
        import obstore

        def ask() -> tuple[list[str], list[Stored]]:
            found = obstore.list_with_delimiter(self._store, prefix or None)
            objects = [Stored(one["path"], one["size"]) for one in found["objects"]]
            return list(found["common_prefixes"]), objects

        return self._ask(prefix, ask)

    def remove(self, keys: Sequence[str]) -> None:
        """Remove objects; one that is not there is no error."""
        import obstore

        for start in range(0, len(keys), _REMOVED_AT_ONCE):
            some = keys[start : start + _REMOVED_AT_ONCE]
            try:
                self._ask(some[0], lambda some=some: obstore.delete(self._store, some))  # type: ignore[misc]
            except FileNotFoundError:
                if len(some) > 1:
                    for key in some:
                        self.remove([key])

    def _ask(self, key: str, ask: Callable[[], T]) -> T:
        """Send a request, and again where it failed on the way."""
        from obstore.exceptions import GenericError

        url = f"{self.url}/{key}"
        for left in reversed(range(_TRIES)):
            try:
                with self._told(url):
                    return ask()
            except StorageError as error:
                if not left or not isinstance(error.__cause__, GenericError) or _is_final(error):
                    raise
                time.sleep(_PAUSE * 2 ** (_TRIES - 1 - left))
        raise AssertionError("not reached")

    @contextmanager
    def _told(self, url: str) -> Iterator[None]:
        """Turn the store's refusals into errors that say what to do."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except FileNotFoundError as error:
            if any(word in str(error) for word in _NO_BUCKET):
                raise self._no_bucket() from error
            raise FileNotFoundError(f"there is no object {url}") from error
        except BaseError as error:
            text = str(error)
            if any(word in text for word in _NO_BUCKET):
                raise self._no_bucket() from error
            refused = isinstance(error, PermissionDeniedError | UnauthenticatedError)
            if refused or any(word in text for word in _REFUSED):
                raise StorageError(
                    f"{url}: the credentials are missing, or refused ({reason_of(error)}). They "
                    f"are those of the environment: set {_CREDENTIALS[self.scheme]}."
                ) from error
            raise StorageError(
                f"{url}: the object store does not answer as it should ({reason_of(error)}). Run "
                "the same command again (what is finished is kept)."
            ) from error

    def _no_bucket(self) -> StorageError:
        return StorageError(
            f"{self.url}: there is no such bucket (or container). Make it first, or correct the "
            "name; AWS_ENDPOINT_URL says which server is asked."
        )


def _endpoint() -> str:
    """Return the server that the environment names for S3; nothing where it names none.

    Raises:
        OptionError: it is no URL, of which the store would make a crash.
    """
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        if found := os.environ.get(name, ""):
            if not re.fullmatch(r"https?://[^\s/]+\S*", found):
                raise OptionError(
                    f"{name}={found} is no URL: write http://HOST:PORT or https://HOST."
                )
            return found
    return ""


def _tag_of(told: Mapping[str, Any]) -> Tag:
    return {name: told[name] for name in ("e_tag", "version") if told.get(name)}


def _is_final(error: StorageError) -> bool:
    """Say whether a refusal stays what it is however often one asks."""
    return any(word in str(error.__cause__) for word in (*_NO_BUCKET, *_REFUSED))
