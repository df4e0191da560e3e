"""Any torch module as a head: rows of layers in, one vector per row out, and nothing else asked.

The module sees contiguous float32 rows, draws from numbers of its own, and is fitted by steps.
"""

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, make_dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from probekit.base.fingerprint import import_path
from probekit.base.numbers import derive, seeded
from probekit.base.tensors import full, no_autocast
from probekit.errors import PluginError
from probekit.probe.heads.contract import HeadSpec, LayerWeights, RowHead, check_size

ModuleFactory = Callable[..., nn.Module]
"""A module's class, or a function that makes one. Of ``n_layers`` and ``dim`` it is given what it
names; its other parameters have defaults, and are options of the head where text can say them."""

SIZES = ("n_layers", "dim")

_PLAIN = (bool, int, float, str)

_TRIED = 2
"""Rows of the dry run that finds the width."""


@runtime_checkable
class WeighsLayers(Protocol):
    """A module that says how much its layers count."""

    def layer_weights(self, z: Float[Tensor, "rows layers dim"]) -> Tensor:
        """Return weights that sum to 1 over the layers: (layers,), or (rows, layers)."""


class ModuleHead(RowHead):
    """A module of another kind as a head.

    Attributes:
        module: what fuses.
    """

    def __init__(self, layers: tuple[int, ...], dim: int, module: nn.Module, seed: int) -> None:
        """Find the width of what the module gives.

        Args:
            layers: layer numbers, ascending.
            dim: width of the states.
            module: on the CPU.
            seed: of what it draws in training.

        Raises:
            PluginError: it gives something else than a vector per row.
        """
        super().__init__(layers, dim)
        self.module = module
        self.per_row = isinstance(module, WeighsLayers)  # type: ignore[misc]  # as a class has it
        self.width = self._find_width()
        self._seed, self._passes = seed, 0

    def _find_width(self) -> int:
        z = torch.randn(_TRIED, len(self.layers), self.dim)
        with torch.no_grad():
            h = self.module.eval()(z)
        self.module.train()
        if not isinstance(h, Tensor) or h.ndim != 2 or len(h) != _TRIED:
            made = f"shape {tuple(h.shape)}" if isinstance(h, Tensor) else f"a {type(h).__name__}"
            raise PluginError(
                f"given rows of shape {tuple(z.shape)} (rows, layers, dim) the module returned "
                f"{made}; expected one vector per row, ({_TRIED}, width)."
            )
        return h.shape[1]

    def fuse(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "rows width"]:
        """Return what the module makes of the rows."""
        rows = full(z).transpose(0, 1).contiguous()
        if not len(rows):
            return rows.new_zeros(0, self.width)
        # in training the module draws (dropout) from numbers of its own, which disturb no other's
        self._passes += self.training
        seed = derive(self._seed, self._passes)
        with no_autocast(rows), seeded(seed, rows.device) if self.training else nullcontext():
            return full(self.module(rows))

    def weigh(self, z: Float[Tensor, "layers rows dim"] | None) -> LayerWeights:
        """Return what the module says of the rows, if it says how much its layers count."""
        if z is None or not isinstance(self.module, WeighsLayers):
            return LayerWeights.unknown()
        rows = full(z).transpose(0, 1).contiguous()
        with no_autocast(rows):
            weights = full(self.module.layer_weights(rows))
        return LayerWeights(self.layers, weights.expand(len(rows), len(self.layers)))


@dataclass(frozen=True, kw_only=True)
class ModuleSpec(HeadSpec):
    """Base of the specs that `spec_of_module` makes.

    Attributes:
        sizes: those of ``SIZES`` that the module is made with.
    """

    default_layers: ClassVar[str] = "all"
    learning_rate: ClassVar[float] = 1e-3
    source: ClassVar[str] = "a torch module"
    sizes: ClassVar[tuple[str, ...]]

    @classmethod
    def make(cls, **options: Any) -> nn.Module:
        """Return a module; replaced by the factory."""
        raise NotImplementedError

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> ModuleHead:
        """Create the module with parameters that are drawn from the generator.

        Raises:
            PluginError: the factory makes no module, or one that gives no vector per row.
            OptionError: what `check_size` refuses.
        """
        check_size(layers, dim)
        sizes = {"n_layers": len(layers), "dim": dim}
        options = {name: value for name, value in self.to_json().items() if name != "name"}
        options |= {name: sizes[name] for name in self.sizes}
        seed = int(torch.randint(2**62, (), generator=generator, device="cpu"))
        # planning builds heads on the device "meta", where not every module can be tried
        with torch.device("cpu"), seeded(seed):
            module = self.make(**options)
            if not isinstance(module, nn.Module):
                raise PluginError(f"it made {module!r:.60}, which is not a torch.nn.Module.")
            return ModuleHead(layers, dim, module, seed)


def spec_of_module(name: str, factory: ModuleFactory) -> type[ModuleSpec]:
    """Return the spec of a head that a module's class, or a function, makes.

    Args:
        name: of the head.
        factory: the class or function.

    Raises:
        PluginError: it wants an argument that is neither a size nor has a default.
    """
    options, sizes = [], []
    for parameter in inspect.signature(factory).parameters.values():
        if parameter.name in SIZES:
            sizes.append(parameter.name)
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        elif parameter.default is parameter.empty:
            raise PluginError(
                f"{import_path(factory)} needs {parameter.name!r}; probekit passes only n_layers "
                "and dim, so everything else needs a default: register a functools.partial with "
                f"{parameter.name}=..."
            )
        elif type(parameter.default) in _PLAIN:
            default = parameter.default
            options.append((parameter.name, type(default), field(default=default)))
    about = inspect.getdoc(factory) if isinstance(factory, type) else None
    namespace = {
        "name": name,
        "sizes": tuple(sizes),
        "make": staticmethod(factory),
        "summary": (about or "a torch module").splitlines()[0],
        "formula": import_path(factory),
    }
    return make_dataclass(
        "ModuleSpec", options, bases=(ModuleSpec,), namespace=namespace, frozen=True, kw_only=True
    )
