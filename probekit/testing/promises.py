"""Contracts as checks: what a plug-in passes, and promises that torch modules share."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from probekit.base.registry import revive
from probekit.errors import OptionError, PluginError, clause_of, reason_of
from probekit.probe.decoders.contract import Decoder, DecoderSpec
from probekit.probe.heads.contract import FusionHead, HeadSpec
from probekit.probe.model_parts import WEIGHTS
from probekit.probe.token_heads.contract import TokenHeadSpec

T = TypeVar("T")
M = TypeVar("M", bound=nn.Module)

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


MASSIVE = 29_303.0
"""The largest state of a decoder's first token (SmolLM2-135M); float16 ends at 65,504."""


def seeded_generator(seed: int = 0) -> torch.Generator:
    """Return a generator on the CPU."""
    return torch.Generator().manual_seed(seed)


def moved_from_start(module: M) -> M:
    """Return a module with every parameter moved, so that nothing is equal by being zero."""
    generator = seeded_generator(7)
    with torch.no_grad():
        for values in module.parameters():
            values.add_(torch.randn(values.shape, generator=generator), alpha=0.2)
    return module


def demand_gradients(tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Go on if a gradient reached each of some tensors, given with their names."""
    for name, tensor in tensors:
        reached = tensor.grad is not None and bool(tensor.grad.any())
        demand(reached, f"no gradient reaches {name}")


def demand_value(kind: str, spec: HeadSpec | TokenHeadSpec | DecoderSpec) -> None:
    """Go on if the dict form of a spec is JSON, gives an equal spec, and takes no other option."""
    registry = {spec.name: type(spec)}
    value = json.loads(json.dumps(spec.to_json()))
    again = revive(kind, value, registry)
    demand(again == spec, f"{spec} came back as {again}")
    refuses(revive, kind, {**value, "no_such_option": 1}, registry, error=OptionError)


def demand_loads(learned: nn.Module, fresh: nn.Module, rows: Tensor) -> None:
    """Go on if the state dict of a module makes another one compute the same of rows."""
    fresh.load_state_dict(learned.state_dict())
    same = torch.equal(learned(rows), fresh(rows))
    demand(same, "loaded into another one, it computes something else")


@contextmanager
def global_numbers_untouched() -> Iterator[None]:
    """Demand that torch's global random numbers do not move inside the ``with`` block."""
    before = torch.get_rng_state()
    yield
    untouched = torch.equal(torch.get_rng_state(), before)
    demand(untouched, "torch's global random numbers moved (torch.rand without generator=)")


def demand_groups(module: FusionHead | Decoder, spec: HeadSpec | DecoderSpec) -> None:
    """Go on if every parameter of a head or decoder is in one group, of those its spec names."""
    groups, named = module.parameter_groups(), {WEIGHTS, *spec.group_rates}
    demand(set(groups) == named, f"groups {sorted(groups)}, and the spec names {sorted(named)}")
    grouped = sorted(id(value) for group in groups.values() for value in group)
    every = sorted(map(id, module.parameters()))
    demand(grouped == every, "a parameter is in no group, or in two")


def demand_tensor(what: str, tensor: Tensor, shape: tuple[int, ...], *dtypes: torch.dtype) -> None:
    """Go on if a tensor has a shape, and one of some dtypes."""
    shown = f"{what}: found shape {tuple(tensor.shape)} in {tensor.dtype}"
    right = tensor.shape == shape and tensor.dtype in dtypes
    demand(right, f"{shown}, expected {shape} in {' or '.join(map(str, dtypes))}")


def demand_finite(what: str, *tensors: Tensor | None) -> None:
    """Go on if all values are finite."""
    finite = all(bool(values.isfinite().all()) for values in tensors if values is not None)
    demand(finite, f"{what} is not finite")
