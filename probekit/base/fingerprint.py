"""Stable fingerprints: the same options give the same hash on any machine and Python version."""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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
