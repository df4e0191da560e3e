"""What every head promises: a spec, a module, layer weights; and the subwords it may read."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from probekit.base.tensors import full, no_autocast
from probekit.errors import OptionError
from probekit.probe.heads.token_inputs import TextTokens, TokenStates
from probekit.probe.model_parts import Groups, divide

Layers = Float[Tensor, "layers rows dim"]
"""Layer-major rows, as heads compute with them."""

Fused = Float[Tensor, "rows width"]
"""h, one vector per row."""

OutputMap = Float[Tensor, "outputs width"]
"""A linear map of h."""

Parts = Float[Tensor, "layers rows outputs"]
"""What each layer adds to h, or to a map of h."""

Reads = Literal["rows", "tokens", "texts"]
Trains = Literal["nothing", "mixture", "maps"]
HeadInput = Float[Tensor, "rows layers dim"] | TokenStates | TextTokens
"""What a head's ``forward`` takes, by its ``reads``."""


@dataclass(frozen=True, kw_only=True)
class BackboneFacts:
    """What a head may want to know of the backbone whose states it reads.

    Attributes:
        n_blocks: L.
        dim: width d of the hidden states.
        config: the backbone's configuration, as its ``config.json`` holds it; empty if unknown.
    """

    n_blocks: int
    dim: int
    config: Mapping[str, Any]


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

    @classmethod
    def unknown(cls) -> "LayerWeights":
        """Return the weights of a head that cannot say how much its layers count: of no layer."""
        return cls((), torch.zeros(0))

    @classmethod
    def even(cls, layers: tuple[int, ...]) -> "LayerWeights":
        """Return the same weight for every layer."""
        return cls(layers, torch.full((len(layers),), 1 / len(layers)))

    def by_layer(self) -> dict[int, float]:
        """Return ``{layer: weight}``, averaged over the rows where weights differ by row."""
        if not self.layers:
            return {}
        means = self.weights.double().reshape(-1, len(self.layers)).mean(0)
        return dict(zip(self.layers, means.tolist(), strict=True))

    def raw_by_layer(self) -> dict[int, float] | None:
        """Return ``{layer: raw weight}`` like `by_layer`, or None for a head without softmax."""
        return None if self.raw is None else LayerWeights(self.layers, self.raw).by_layer()

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


class FusionHead(nn.Module, ABC):
    """Turns frozen states into one vector h per row.

    ``forward`` takes what ``reads`` says and returns h with shape (rows, width) in float32 (float64
    for float64 input).

    Attributes:
        layers: layer numbers that it reads, ascending; "the last layer" is the last of these.
        dim: width of the states.
        width: width of h.
    """

    reads: ClassVar[Reads] = "rows"
    """What ``forward`` takes: "rows" (`RowHead`), "tokens" (`SubwordHead`), or "texts", all layers
    of the tokens of whole texts (`TextTokens`)."""

    per_row: ClassVar[bool] = False
    """Whether layer weights depend on the input, so that `layer_weights` needs z."""

    additive: ClassVar[bool] = False
    """Whether h is a sum of one part per layer, and perhaps a constant: `layer_parts` then has the
    parts. A part is what stands in the sum beside its layer; how much of it is taken may be decided
    by other layers (an attention)."""

    linear: ClassVar[bool] = False
    """Whether h is an affine map of the states, one matrix for each layer: it is `additive` then,
    and ``layer_parts`` of a layer is linear in that layer alone, the same for every row. A probe on
    top of it can be written as directions (``train.saved.directions``)."""

    weighed_by_shares: ClassVar[bool] = False
    """Whether what is recorded as the weights of a trained head is what its layers contribute
    (``train.contributions``), since `weigh`, which sees no rows, can say less."""

    def __init__(self, layers: tuple[int, ...], dim: int) -> None:
        """Check the layer choice; subclasses then create their parameters.

        Raises:
            OptionError: ``layers`` is empty or not ascending, or ``dim`` is not positive.
        """
        super().__init__()
        check_size(layers, dim)
        self.layers = layers
        self.dim = dim
        self.width = dim

    @abstractmethod
    def forward(self, z: HeadInput) -> Fused:
        """Return h, one vector per row.

        Raises:
            OptionError: z is not what the head reads, or has other layers or another width.
        """

    def project(
        self, z: HeadInput, weight: Float[Tensor, "classes width"], bias: Float[Tensor, " classes"]
    ) -> Float[Tensor, "rows classes"]:
        """Return ``weight h + bias``: a head that can fold the map into its own does so."""
        return full(functional.linear(self(z), weight, bias))

    @abstractmethod
    def layer_weights(self, z: HeadInput | None = None) -> LayerWeights:
        """Return the weight of each layer, without gradients; `LayerWeights.unknown` if none says.

        Args:
            z: the rows to weigh; needed when ``per_row``, ignored otherwise.

        Raises:
            OptionError: ``per_row`` and no z.
        """

    def layer_parts(self, z: HeadInput, weight: OutputMap | None = None) -> Parts:
        """Return what each layer adds to h, or to ``weight h``; only heads that are ``additive``.

        In full precision, without gradients.

        Args:
            z: the rows.
            weight: a map of h; without one the parts are those of h itself.
        """
        raise NotImplementedError(f"{type(self).__name__} is no sum over layers")

    def load_mixture(self, values: Float[Tensor, " values"]) -> None:
        """Take the values of the mixture that a solver found; only heads that train just one.

        Args:
            values: logarithms of the layers' weights, or a query where weights differ by row.
        """
        raise NotImplementedError(f"{type(self).__name__} is not solved")

    def parameter_groups(self) -> Groups:
        """Return the parameters by group, each of which may have a learning rate of its own.

        ``mixing`` is what decides how much each layer counts, ``weights`` everything else. Groups
        besides ``weights`` are those of the spec's ``group_rates``.
        """
        return divide(self)


def check_size(layers: tuple[int, ...], dim: int) -> None:
    """Refuse what no head can be built for.

    Raises:
        OptionError: ``layers`` is empty or not ascending, or ``dim`` is not positive.
    """
    if not layers or list(layers) != sorted(set(layers)):
        raise OptionError(
            f"a head needs at least one layer, in ascending order without repeats; found {layers}."
        )
    if dim < 1:
        raise OptionError(f"a head needs a positive width of its input; found dim={dim}.")


class RowHead(FusionHead):
    """Fuses the rows of several layers into one vector per row.

    ``forward`` takes z with shape (rows, layers, dim) in float16, bfloat16, float32 or float64.
    Softmax, norms and sums over layers always run in float32, so massive activations cannot
    overflow; matrix products with learned d x d weights run in the autocast dtype under
    ``torch.autocast``, else in float32.

    z is fastest when its memory is layer-major, that is when ``z.transpose(0, 1)`` is contiguous.
    """

    def forward(self, z: HeadInput) -> Fused:
        """Return h, one vector per row.

        Raises:
            OptionError: z has another number of layers or another width than the head.
        """
        return self.fuse(self._layer_major(z))

    def layer_weights(self, z: HeadInput | None = None) -> LayerWeights:
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

    def layer_parts(self, z: HeadInput, weight: OutputMap | None = None) -> Parts:
        """Return what each layer adds to h, or to ``weight h``; only heads that are ``additive``.

        Raises:
            OptionError: z has another number of layers or another width than the head.
        """
        z = self._layer_major(z)
        with torch.no_grad(), no_autocast(z):
            return self.parts(full(z), weight)

    @abstractmethod
    def fuse(self, z: Layers) -> Fused:
        """Return h for layer-major z, already checked."""

    def parts(self, z: Layers, weight: OutputMap | None) -> Parts:
        """Return the parts of h, or of ``weight h``, for layer-major z in full precision."""
        raise NotImplementedError(f"{type(self).__name__} is no sum over layers")

    @abstractmethod
    def weigh(self, z: Layers | None) -> LayerWeights:
        """Return the layer weights for layer-major z; None unless ``per_row``."""

    def _layer_major(self, z: HeadInput) -> Tensor:
        if not isinstance(z, Tensor):
            raise OptionError("this head reads word rows; found the subwords of whole windows.")
        if z.shape[1:] != (len(self.layers), self.dim):
            raise OptionError(
                f"this head was built for {len(self.layers)} layers of width {self.dim}; found "
                f"{z.shape[1]} layers of width {z.shape[2]}. Read the head's layers {self.layers}."
            )
        return z.transpose(0, 1)


class SubwordHead(FusionHead):
    """Turns the subwords of whole windows into one vector per row; it reads one layer."""

    reads = "tokens"

    def __init__(self, layers: tuple[int, ...], dim: int) -> None:
        """Check the layer.

        Raises:
            OptionError: more than one layer, or what `FusionHead` refuses.
        """
        super().__init__(layers, dim)
        if len(layers) != 1:
            raise OptionError(
                f"this head reads the subwords of one layer, found layers {layers}. Entries keep "
                "the subwords of the last layer."
            )

    def forward(self, z: HeadInput) -> Fused:
        """Return h, one vector per row.

        Raises:
            OptionError: z holds word rows, or states of another width.
        """
        if not isinstance(z, TokenStates):
            raise OptionError("this head reads the subwords of whole windows; found word rows.")
        if z.hidden.shape[1] != self.dim:
            raise OptionError(
                f"this head was built for states of width {self.dim}; found {z.hidden.shape[1]}."
            )
        return z.pool(self.transform(z.hidden, z.lengths))

    def layer_weights(self, z: HeadInput | None = None) -> LayerWeights:
        """Return 1 for the one layer that the head reads; z is ignored."""
        return LayerWeights(self.layers, torch.ones(1))

    @abstractmethod
    def transform(
        self, hidden: Float[Tensor, "T dim"], lengths: Int64[Tensor, " windows"]
    ) -> Float[Tensor, "T width"]:
        """Return a vector for every subword, in the order of ``hidden``."""


@dataclass(frozen=True, kw_only=True)
class HeadSpec(ABC):
    """A head's name and hyper-parameters: a value that builds the module.

    Attributes:
        name: key in ``HEADS``.
        default_layers: published layer set, for ``parse_layers``.
        learning_rate: the default with a linear decoder, chosen by ``analyses/default_rates.py``; a
            protocol has that of its paper.
        group_rates: the module's groups of parameters besides ``weights``, each with the rate that
            it has by default where that is not the head's.
        source: paper and equation.
        summary: one line for people.
        formula: h in one line.
        reads: what the module's ``forward`` takes: "rows" of the layers, or the "tokens" of one.
        trains: what its module trains: "nothing", the "mixture" of the layers, or "maps" of their
            states. A solver fits the first two.
        recurrent: whether a row passes through the parameters once for every layer, not just once.
        default_decoder: the decoder it was published with; None leaves it to the task's kind.
    """

    name: ClassVar[str]
    default_layers: ClassVar[str]
    learning_rate: ClassVar[float]
    group_rates: ClassVar[Mapping[str, float | None]] = {}
    source: ClassVar[str]
    summary: ClassVar[str]
    formula: ClassVar[str]
    reads: ClassVar[Reads] = "rows"
    trains: ClassVar[Trains] = "maps"
    recurrent: ClassVar[bool] = False
    default_decoder: ClassVar[str | None] = None

    def bind(self, facts: BackboneFacts) -> Self:
        """Return the spec with what it takes from the backbone filled in; most take nothing.

        Call it before ``build``, and save the result: ``to_json`` then holds all that the head
        needs, so a saved head is rebuilt without its backbone.

        Raises:
            OptionError: this backbone does not suit the head.
        """
        return self

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
