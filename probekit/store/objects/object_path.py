"""Places in an object store, used as folders and files are.

An object store has no folders: a prefix stands for one, and is there while an object is below it.
So folders need not be made. There is no rename, and nothing can be mapped or locked; whoever tries
learns that this is no file, instead of making a folder called ``s3:``.
"""

import io
import os
import re
import stat
from collections.abc import Generator, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PosixPath
from typing import Any, NoReturn
from urllib.parse import unquote

from probekit.errors import OptionError
from probekit.store.objects.bucket import SCHEMES, Bucket, bucket_of, check_installed

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):/+(?P<rest>.*)", re.DOTALL)
_BARE = re.compile(rf"({'|'.join((*SCHEMES, 'file'))}):", re.IGNORECASE)
"""What a path makes of a URL that names nothing."""

_SLASHLESS = re.compile(rf"({'|'.join((*SCHEMES, 'file'))}):[^/]", re.IGNORECASE)
_OF_HOST = re.compile(r"file://[^/]", re.IGNORECASE)


class ObjectPath(PosixPath):
    """``s3://bucket/prefix/...``: an object or a prefix, made by `root_of`.

    It has what the store uses of `pathlib.Path`; what asks the file system for it raises.
    """

    __slots__ = ()

    @property
    def bucket(self) -> Bucket:
        """Where it lies."""
        return bucket_of(self.parts[0].removesuffix(":"), self.parts[1])

    @property
    def key(self) -> str:
        """Its name in the bucket."""
        return "/".join(self.parts[2:])

    def __str__(self) -> str:
        """Return the URL."""
        scheme, *rest = self.parts or ("",)
        return f"{scheme}//{'/'.join(rest)}" if scheme.endswith(":") else super().__str__()

    def __fspath__(self) -> NoReturn:
        raise TypeError(f"{self} is in an object store, and no file")

    def exists(self, **_: Any) -> bool:
        """Say whether there is such an object, or one below it."""
        return self.is_file() or self.is_dir()

    def is_file(self, **_: Any) -> bool:
        """Say whether there is such an object."""
        return len(self.parts) > 2 and self.bucket.size(self.key) is not None

    def is_dir(self, **_: Any) -> bool:
        """Say whether there is an object below it."""
        if len(self.parts) < 2:
            return False
        folders, objects = self.bucket.children(self._prefix)
        return bool(folders or objects)

    def is_symlink(self) -> bool:
        """Say that it is none."""
        return False

    def stat(self, **_: Any) -> os.stat_result:
        """Return the size; the rest is 0.

        Raises:
            FileNotFoundError: there is no such object.
        """
        size = self.bucket.size(self.key)
        if size is None:
            raise FileNotFoundError(f"there is no object {self}")
        return os.stat_result((stat.S_IFREG, 0, 0, 0, 0, 0, size, 0, 0, 0))

    def read_bytes(self) -> bytes:
        """Return the object.

        Raises:
            FileNotFoundError: there is none.
        """
        return self.bucket.read(self.key)

    def read_text(self, encoding: str | None = None, *_: Any) -> str:
        """Return the object as text; errors as `read_bytes`."""
        return self.read_bytes().decode(encoding or "utf-8")

    def write_bytes(self, data: Any) -> int:
        """Write the object, whole."""
        self.bucket.put(self.key, data)
        return len(data)

    def open(self, mode: str = "r", *_: Any, **__: Any) -> Any:
        """Open the object to read its bytes, which are fetched whole."""
        if mode != "rb":
            raise TypeError(f"{self} is in an object store: it cannot be opened to {mode!r}")
        return io.BytesIO(self.read_bytes())

    def iterdir(self) -> Generator["ObjectPath", None, None]:
        """Yield what lies right below it; nothing where there is nothing."""
        folders, objects = self.bucket.children(self._prefix)
        for name in sorted({*folders, *(found.key for found in objects)}):
            yield self / name.rstrip("/").rpartition("/")[2]

    def glob(self, pattern: str, **_: Any) -> Iterator["ObjectPath"]:  # type: ignore[override]
        """Yield what lies below it under names that fit a pattern, part by part."""
        first, _slash, rest = pattern.partition("/")
        if not any(letter in first for letter in "*?["):
            found = iter([self / first])
            if not rest:
                found = (path for path in found if path.exists())
        else:
            found = (path for path in self.iterdir() if fnmatchcase(path.name, first))
        for path in found:
            if rest:
                yield from path.glob(rest)
            else:
                yield path

    def below(self) -> dict[str, int]:
        """Return the sizes of all objects below it, by their path from here."""
        prefix = self._prefix
        return {found.key.removeprefix(prefix): found.nbytes for found in self.bucket.below(prefix)}

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Do nothing: a prefix needs no making."""

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object; one that is not there is no error."""
        self.bucket.remove([self.key])

    def remove(self) -> None:
        """Remove the object, and all that are below it."""
        prefix = self._prefix
        self.bucket.remove([self.key, *(prefix + name for name in self.below())])

    def resolve(self, strict: bool = False) -> "ObjectPath":
        """Return self: there are no links."""
        return self

    def absolute(self) -> "ObjectPath":
        """Return self."""
        return self

    def expanduser(self) -> "ObjectPath":
        """Return self."""
        return self

    @property
    def _prefix(self) -> str:
        return f"{self.key}/" if self.key else ""


def check_seen_by_others(root: Path) -> None:
    """Refuse other processes where a root is the memory of this one.

    Args:
        root: of the cache.

    Raises:
        OptionError: it is.
    """
    if is_memory(root):
        raise OptionError(
            f"{root} is memory of this process, which others do not see: use one worker of the "
            "local engine, or another cache."
        )


def is_memory(root: Path) -> bool:
    """Say whether a root is memory of this process."""
    return isinstance(root, ObjectPath) and root.bucket.scheme == "memory"


def root_of(typed: str | Path) -> Path:
    """Return the place that a user names: a folder, or a place in an object store.

    ``file://`` is the folder that it names.

    Args:
        typed: a path, or a URL: ``s3://bucket/prefix``, ``gs://``, ``az://``, ``memory://``.

    Raises:
        OptionError: nothing, or a URL of another kind, without a bucket or of a file on another
            machine; or its package is not installed.
    """
    if not str(typed):  # of which a path makes the folder that one is in: a variable is not set
        raise OptionError("the path is empty: name a folder, or a URL.")
    text = f"{typed}//" if _BARE.fullmatch(str(typed)) else str(typed)
    found = None if isinstance(typed, ObjectPath) else _URL.fullmatch(text)
    if found is None:
        if _SLASHLESS.match(text):
            raise OptionError(f"{text} is no URL: write {text.replace(':', '://', 1)}.")
        return Path(typed) if isinstance(typed, str) else typed
    scheme, rest = found["scheme"].lower(), found["rest"].strip("/")
    url = f"{scheme}://{rest}"  # the two slashes may be gone in a path
    if scheme == "file":
        if _OF_HOST.match(text):
            raise OptionError(f"{text} names a machine: write file:///FOLDER, or the folder alone.")
        return Path("/", unquote(rest))
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in (*SCHEMES, "file"))
        raise OptionError(f"{url}: a cache is a folder, or a URL that begins with {known}.")
    if not rest:
        raise OptionError(f"{url} names no bucket: write {scheme}://BUCKET/PREFIX.")
    if {".", ".."} & {*rest.split("/")}:
        raise OptionError(f"{url}: an object store has no folders, and no . or .. in them.")
    check_installed(url)
    return ObjectPath(url)
