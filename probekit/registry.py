"""Look a name up in a registry (a dict literal), with an error that helps when it is not there."""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from probekit.errors import OptionError, UnknownNameError

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


def revive(kind: str, value: Mapping[str, Any], registry: Mapping[str, Callable[..., T]]) -> T:
    """Return the plug-in whose dict form is ``value``: its ``name``, and its options by name.

    Args:
        kind: what the registry holds, for the message ("head", "decoder").
        value: the dict form.
        registry: the classes by name.

    Raises:
        UnknownNameError: the name is unknown.
        OptionError: an option that the plug-in does not have, or a value that it refuses.
    """
    options = dict(value)
    name = str(options.pop("name", ""))
    make = choose(kind, name, registry)
    try:
        return make(**options)
    except TypeError as error:
        raise OptionError(f"{kind} {name!r}: {error}.") from None
