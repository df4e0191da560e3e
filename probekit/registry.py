"""Look a name up in a registry (a dict literal), with an error that helps when it is not there."""

import difflib
from collections.abc import Mapping
from typing import TypeVar

from probekit.errors import UnknownNameError

T = TypeVar("T")


def choose(kind: str, name: str, registry: Mapping[str, T]) -> T:
    """Return ``registry[name]``.

    Args:
        kind: what the registry holds, for the message ("head", "task").
        name: the name asked for.
        registry: the choices.

    Raises:
        UnknownNameError: the name is unknown; the message lists the choices and the nearest match.
    """
    if name in registry:
        return registry[name]
    near = difflib.get_close_matches(name, registry, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownNameError(
        f"unknown {kind} {name!r}.{hint} Choose from: {', '.join(sorted(registry))}."
    )
