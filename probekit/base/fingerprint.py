"""Fingerprints: of values, and of the source that a plug-in runs."""

import ast
import hashlib
import inspect
import json
import linecache
import math
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, Self

from probekit.errors import PluginError


def canonical_json(value: Any) -> str:
    """Return ``value`` as JSON with sorted keys and no spaces; NaN is refused."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: Any) -> str:
    """Return the sha256 (64 hex digits) of a JSON-like value."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def parse_json(text: str | bytes) -> Any:
    """Return what JSON says.

    Raises:
        ValueError: it is none, holds a number that is not finite, or is nested too deep.
    """
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"{digits:.20} is no JSON number")
    return number


CHECKSUM = "checksum"


def with_checksum(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with a checksum of all else in it."""
    return {**value, CHECKSUM: digest(value)}


def is_changed(value: Mapping[str, Any]) -> bool:
    """Say whether a JSON object that has a checksum is no more what it was written as."""
    rest = {name: item for name, item in value.items() if name != CHECKSUM}
    try:
        return CHECKSUM in value and value[CHECKSUM] != digest(rest)
    except ValueError:  # nothing that was ever written
        return True


def digest_stream(parts: Iterable[bytes | memoryview]) -> str:
    """Return the sha256 of parts, each framed by its length so that boundaries count."""
    state = hashlib.sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()


def digest_file(path: Path) -> str:
    """Return the sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


NO_CHECK = "PROBEKIT_NO_CHECK"
"""Environment variable, so that workers have it: set, the rows of a cache are not compared."""


def compares() -> bool:
    """Say whether rows of a cache are compared with their checksums when they are first read."""
    return not os.environ.get(NO_CHECK)


@contextmanager
def unchecked(wanted: bool) -> Iterator[None]:
    """Compare no rows while this lasts, if that is wanted, nor in processes that it starts."""
    before = os.environ.get(NO_CHECK, "")
    os.environ[NO_CHECK] = "1" if wanted else before
    try:
        yield
    finally:
        os.environ[NO_CHECK] = before


_PLAIN = (bool, int, float, str, bytes, type(None))
"""Types of the constants whose values count."""


def source_hash(value: Any) -> str | None:
    """Return the sha256 over the source of a class, function or ``partial`` of one.

    What it names of its own package, or notebook, counts as well, and so on from there: bases,
    helpers and constants. What other packages define does not.

    Returns:
        None where no source is to be found (compiled code, or a class that ``exec`` made).
    """
    sources: dict[str, str] = {}
    try:
        _collect(value, _root(value), sources)
    except (OSError, TypeError, SyntaxError):
        return None
    return digest_stream(f"{name}\n{text}".encode() for name, text in sorted(sources.items()))


def import_path(value: Any) -> str:
    """Return where a plug-in is found again: ``module:name`` of a class or function.

    Of an instance it is that of its class, of a ``partial`` that of its function.
    """
    if isinstance(value, partial):
        return import_path(value.func)
    named = value if isinstance(value, type | FunctionType) else type(value)
    return f"{named.__module__}:{named.__qualname__}"


def _root(value: Any) -> str:
    return import_path(value).partition(":")[0].partition(".")[0]


def _collect(value: Any, root: str, sources: dict[str, str]) -> None:
    """Add the source of a value, and of all of its own package that it names."""
    if isinstance(value, partial):
        _collect(value.func, root, sources)
        sources[f"{import_path(value)} given"] = repr((value.args, sorted(value.keywords.items())))
        return
    if not isinstance(value, type | FunctionType):
        if " at 0x" in repr(value):  # which is another one in every process
            raise TypeError(f"{value!r} does not say what it holds")
        sources[f"{import_path(value)} instance"] = repr(value)
        value = type(value)
    if import_path(value) in sources:
        return
    text = textwrap.dedent(_source_of(value))
    sources[import_path(value)] = text
    bases = value.__mro__[1:] if isinstance(value, type) else ()
    for name, other in [*((base.__name__, base) for base in bases), *_named(value, text)]:
        if isinstance(other, _PLAIN):
            sources[f"{value.__module__}:{name}"] = repr(other)
        elif isinstance(other, type | FunctionType) and _root(other) == root:
            _collect(other, root, sources)


def _named(value: type | FunctionType, text: str) -> Iterator[tuple[str, Any]]:
    """Yield what a source names of its module, by name."""
    if isinstance(value, FunctionType):
        space = value.__globals__
    else:
        space = vars(sys.modules[value.__module__]) if value.__module__ in sys.modules else {}
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    yield from ((name, space[name]) for name in sorted(names & space.keys()))


def _source_of(value: type | FunctionType) -> str:
    """Return the source of a class or function; OSError or TypeError where there is none.

    Of a class in a notebook `inspect` knows no file: its methods know the cell that it is in.
    """
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        if not isinstance(value, type):
            raise
    methods = [member for member in vars(value).values() if isinstance(member, FunctionType)]
    cells = {member.__code__.co_filename for member in methods}
    for cell in sorted(cells):
        lines = "".join(linecache.getlines(cell))
        for node in ast.walk(ast.parse(lines)):
            if isinstance(node, ast.ClassDef) and node.name == value.__name__:
                return ast.get_source_segment(lines, node) or ""
    raise OSError(f"no source of {value.__qualname__}")


@dataclass(frozen=True, kw_only=True)
class PluginOrigin:
    """Where a plug-in is from, and which version of it that is: what records and saved heads keep.

    Attributes:
        path: ``module:name`` of the class or function.
        code: what tells its code from an earlier or later one: ``version 2`` as it was registered,
            else the hash of its source.
        package: the package that offers it, if one does, with its version: ``probekit-mine 0.1.0``.
    """

    path: str
    code: str
    package: str = ""

    @classmethod
    def of(cls, value: Any, *, version: str | None = None, package: str = "") -> Self:
        """Return the origin of a plug-in.

        Raises:
            PluginError: its source cannot be found, and nothing else tells its version.
        """
        code = f"version {version}" if version is not None else source_hash(value)
        if code is None and not package:
            raise PluginError(
                f"{import_path(value)}: its source cannot be found, so a change to it would go "
                'unnoticed. Give its version when you register it: version="1".'
            )
        return cls(path=import_path(value), code=code or "", package=package)

    def to_json(self) -> dict[str, str]:
        """Return what there is, as text by name."""
        return {name: text for name, text in vars(self).items() if text}
