"""Promises as checks: functions that a plug-in passes, or that say what it did instead."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from probekit.errors import PluginError, reason_of

T = TypeVar("T")

Check = Callable[[T], None]
"""Raises whatever it finds; the first line of its docstring is the promise that it checks."""


def demand(holds: bool, otherwise: str) -> None:
    """Go on if a promise holds.

    Args:
        holds: what the contract promises.
        otherwise: what the plug-in did instead, in words.

    Raises:
        AssertionError: it does not hold.
    """
    if not holds:
        raise AssertionError(otherwise)


def demand_texts(plugin: object, *names: str) -> None:
    """Go on if a plug-in's class says all of some texts about itself."""
    for name in names:
        text = getattr(plugin, name, None)
        demand(isinstance(text, str) and bool(text.strip()), f"its {name} is {text!r}")


def refuses(call: Callable[..., object], *arguments: Any, error: type[Exception]) -> None:
    """Go on if a call raises an error.

    Raises:
        AssertionError: it raises nothing.
    """
    try:
        call(*arguments)
    except error:
        return
    shown = ", ".join(map(repr, arguments))[:100]
    raise AssertionError(f"({shown}) was not refused with a {error.__name__}")


def run_checks(kind: str, plugin: T, checks: Iterable[Check[T]]) -> None:
    """Run checks until one fails.

    Args:
        kind: what the plug-in is, for the message ("head").
        plugin: what every check is given.
        checks: of its contract.

    Raises:
        PluginError: a check failed, or the plug-in raised an error in it; the message has the
            promise that was broken and what the plug-in did.
    """
    for check in checks:
        try:
            check(plugin)
        except Exception as error:  # whatever a plug-in does when it is tried
            broken = isinstance(error, AssertionError)
            did = " ".join(str(error).split())[:300] if broken else f"it raised {reason_of(error)}"
            promise = (check.__doc__ or check.__name__).strip().splitlines()[0]
            raise PluginError(
                f"it breaks the contract of a {kind}: {promise} But {did} (check {check.__name__})."
            ) from error


def admit_class(name: str, plugin: Any, base: type[Any], check: Callable[[T], None] | None) -> T:
    """Return a class that is added, once its contract holds.

    Args:
        name: that it is added under.
        plugin: what is added.
        base: what classes of its kind derive from.
        check: its contract; None where that is known to hold.

    Raises:
        PluginError: it is no such class, says another name, or breaks its contract.
    """
    if not (isinstance(plugin, type) and issubclass(plugin, base)):
        raise PluginError(f"expected a class that derives from {base.__name__}; found {plugin!r}.")
    said = next((vars(one)["name"] for one in plugin.__mro__ if "name" in vars(one)), None)
    if said != name:
        raise PluginError(f"the class says name = {said!r}; say {name!r}.")
    admitted = cast(T, plugin)
    if check is not None:
        check(admitted)
    return admitted
