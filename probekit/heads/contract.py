"""What every fusion head promises: a spec that is a value, a fusing module, layer weights."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from probekit.errors import OptionError
from probekit.heads.precision import full


@dataclass(frozen=True)
class LayerWeights:
    """How much each layer counts in a head's output.

    Attributes:
        layers: layer numbers, one per column.
        weights: shape (layers,) when the head gives every row the same weights, else
            (rows, layers); they sum to 1 over the layers (after softmax, where there is one).
        raw: the same before softmax, or None for a head without one.
    """

    layers: tuple[int, ...]
    weights: Float[Tensor, "*rows layers"]
    raw: Float[Tensor, "*rows layers"] | None = None

    def by_layer(self) -> dict[int, float]:
        """Return ``{layer: weight}``, averaged over the rows where weights differ by row."""
        return self._average(self.weights)

    def raw_by_layer(self) -> dict[int, float] | None:
        """Return ``{layer: raw weight}`` like `by_layer`, or None for a head without softmax."""
        return None if self.raw is None else self._average(self.raw)

    def select(self, rows: Tensor) -> "LayerWeights":
        """Return the weights of some rows (a mask or indices); unchanged when all rows agree."""
        if self.weights.ndim == 1:
            return self
        raw = None if self.raw is None else self.raw[rows]
        return LayerWeights(self.layers, self.weights[rows], raw)

    @staticmethod
    def concatenate(parts: Sequence["LayerWeights"]) -> "LayerWeights":
        """Join the weights of consecutive batches of one head; the rows keep their order."""
        first = parts[0]
        if first.weights.ndim == 1:
            return first
        raws = [part.raw for part in parts if part.raw is not None]
        weights = torch.cat([part.weights for part in parts])
        return LayerWeights(first.layers, weights, torch.cat(raws) if raws else None)

    def _average(self, values: Tensor) -> dict[int, float]:
        means = values.double().reshape(-1, len(self.layers)).mean(0)
        return dict(zip(self.layers, means.tolist(), strict=True))


class FusionHead(nn.Module, ABC):
    """Fuses the rows of several layers into one vector per word.

    ``forward`` takes z with shape (rows, layers, dim) in float16, bfloat16, float32 or float64 and
    returns h with shape (rows, width) in float32 (float64 for float64 input). Softmax, norms and
    sums over layers always run in float32, so massive activations cannot overflow; matrix products
    with learned d x d weights run in the autocast dtype under ``torch.autocast``, else in float32.

    z is fastest when its memory is layer-major, that is when ``z.transpose(0, 1)`` is contiguous.

    Attributes:
        layers: layer numbers along axis 1 of z, ascending; "the last layer" is the last of these.
        dim: width of z.
        width: width of h.
    """

    per_row: ClassVar[bool] = False
    """Whether layer weights depend on the input, so that `layer_weights` needs z."""

    def __init__(self, layers: tuple[int, ...], dim: int) -> None:
        """Check the layer choice; subclasses then create their parameters.

        Raises:
            OptionError: ``layers`` is empty or not ascending, or ``dim`` is not positive.
        """
        super().__init__()
        if not layers or list(layers) != sorted(set(layers)):
            raise OptionError(
                f"a head needs one layer or more, ascending and each once; found {layers}."
            )
        if dim < 1:
            raise OptionError(f"a head needs a positive width of its input; found dim={dim}.")
        self.layers = layers
        self.dim = dim
        self.width = dim

    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows width"]:
        """Return h, one vector per row.

        Raises:
            OptionError: z has another number of layers or another width than the head.
        """
        return self.fuse(self._layer_major(z))

    def project(
        self,
        z: Float[Tensor, "rows layers dim"],
        weight: Float[Tensor, "classes width"],
        bias: Float[Tensor, " classes"],
    ) -> Float[Tensor, "rows classes"]:
        """Return ``weight h + bias``: a head that can fold the map into its own does so."""
        return full(functional.linear(self(z), weight, bias))

    def layer_weights(self, z: Float[Tensor, "rows layers dim"] | None = None) -> LayerWeights:
        """Return the weight of each layer, without gradients.

        Args:
            z: the rows to weigh; needed when ``per_row``, ignored otherwise.

        Raises:
            OptionError: ``per_row`` and no z.
        """
        if self.per_row and z is None:
            raise OptionError(f"{type(self).__name__} weighs each row by itself: pass its rows z.")
        with torch.no_grad():
            return self.weigh(self._layer_major(z) if self.per_row and z is not None else None)

    def mixing_parameters(self) -> tuple[nn.Parameter, ...]:
        """Return the parameters that decide how much each layer counts (``--mix-lr``)."""
        return ()

    @abstractmethod
    def fuse(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "rows width"]:
        """Return h for layer-major z, already checked."""

    @abstractmethod
    def weigh(self, z: Float[Tensor, "layers rows dim"] | None) -> LayerWeights:
        """Return the layer weights for layer-major z; None unless ``per_row``."""

    def _layer_major(self, z: Tensor) -> Tensor:
        if z.shape[1:] != (len(self.layers), self.dim):
            raise OptionError(
                f"this head was built for {len(self.layers)} layers of width {self.dim}; found "
                f"{z.shape[1]} layers of width {z.shape[2]}. Read the head's layers {self.layers}."
            )
        return z.transpose(0, 1)


@dataclass(frozen=True, kw_only=True)
class HeadSpec(ABC):
    """A head's name and hyper-parameters: a value that builds the module.

    Attributes:
        name: key in ``HEADS``.
        default_layers: published layer set, for ``parse_layers``.
        learning_rate: published learning rate, what ``--lr auto`` means.
        source: paper and equation.
        summary: one line for people.
        formula: h in one line.
    """

    name: ClassVar[str]
    default_layers: ClassVar[str]
    learning_rate: ClassVar[float]
    source: ClassVar[str]
    summary: ClassVar[str]
    formula: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the name and hyper-parameters; ``head_from_json`` is the inverse."""
        return {"name": self.name, **asdict(self)}

    @abstractmethod
    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> FusionHead:
        """Create the module with fresh parameters.

        Args:
            layers: layer numbers, ascending; any non-empty subset of 0..L.
            dim: width d of the hidden states.
            generator: the only source of randomness, on the CPU.
        """
