"""Contracts as checks: functions that a plug-in passes, or that say what it did instead."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from probekit.errors import PluginError, clause_of, reason_of

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


@dataclass(frozen=True)
class Contract(Generic[T]):
    """What plug-ins of one kind promise, and the door through which those of third parties come in.

    Attributes:
        kind: what the plug-ins are, for messages ("head").
        base: the class that they derive from.
        checks: one for each promise.
        built: whether the checks are given what the class makes without options, and not the class.
    """

    kind: str
    base: type[Any]
    checks: tuple[Check[T], ...]
    built: bool = False

    def check(self, plugin: Any) -> None:
        """Check a plug-in against the contract of its kind, with its default options.

        Raises:
            PluginError: it breaks the contract; the message has the promise and what it did.
        """
        subject = self.build(plugin)
        for check in self.checks:
            try:
                check(subject)
            except Exception as error:  # whatever a plug-in does when it is tried
                broken = isinstance(error, AssertionError)
                did = (
                    " ".join(str(error).split())[:300]
                    if broken
                    else f"it raised {reason_of(error)}"
                )
                promise = (check.__doc__ or check.__name__).strip().splitlines()[0]
                raise PluginError(
                    f"it breaks the contract of a {self.kind}: {promise} "
                    f"But {did} (check {check.__name__})."
                ) from error

    def build(self, plugin: Any) -> Any:
        """Return what the checks are given of a plug-in.

        Raises:
            PluginError: it cannot be made without options.
        """
        if not (self.built and isinstance(plugin, type)):
            return plugin
        try:
            return plugin()
        except Exception as error:  # whatever its constructor does
            raise PluginError(
                f"{plugin.__name__}() without options failed: {clause_of(error)}."
            ) from error

    def admit(self, name: str, plugin: Any, checked: bool = False) -> Any:
        """Return a class that is added, once its contract holds.

        Args:
            name: that it is added under.
            plugin: what is added.
            checked: whether its contract is known to hold.

        Raises:
            PluginError: it is no such class, says another name, or breaks its contract.
        """
        self.demand_class(name, plugin)
        if not checked:
            self.check(plugin)
        return plugin

    def demand_class(self, name: str, plugin: Any) -> None:
        """Go on if a plug-in is a class of this kind that says the name it is added under.

        Raises:
            PluginError: it is no such class, or says another name.
        """
        if not (isinstance(plugin, type) and issubclass(plugin, self.base)):
            raise PluginError(
                f"expected a class that derives from {self.base.__name__}; found {plugin!r}."
            )
        says = next((vars(base)["name"] for base in plugin.__mro__ if "name" in vars(base)), None)
        if says != name:
            raise PluginError(f"the class says name = {says!r}; say {name!r}.")
