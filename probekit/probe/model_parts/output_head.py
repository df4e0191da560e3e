"""The output head of a language model as numbers: a row of features in, one logit per token out.

On disk it is ``backbone/output_head.safetensors`` in an entry. Tensors: ``weight`` (V, E) and, as
far as the head has them, ``bias`` (V,), ``dense.weight`` (E, D), ``dense.bias`` (E,),
``norm.weight`` (E,), ``norm.bias`` (E,), in the dtype of the checkpoint. Metadata: ``kind``, and
for a head with a transform ``activation`` (a name in ``ACTIVATIONS``) and ``eps``. E is D except
where the family factorises its embeddings (ALBERT, ELECTRA).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jaxtyping import Float, Float32
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn import functional

from probekit.errors import EXTRACT_AGAIN, EntryError
from probekit.probe.model_parts.final_norm import tensor_file

FILE = "output_head.safetensors"
HEAD_KINDS = ("masked", "causal", "tied-input")
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu-tanh": partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
}
_PARTS = ("weight", "bias", "dense_weight", "dense_bias", "norm_weight", "norm_bias")
_NAMES = {part: part.replace("_", ".") for part in _PARTS}


@dataclass(frozen=True, kw_only=True, eq=False)
class OutputHead:
    """``LayerNorm(activation(W_d h + b_d))``, where the head has these, then ``W x + b``.

    Attributes:
        kind: "masked" or "causal" for a checkpoint's own head; "tied-input" for the input
            embeddings of a checkpoint without one, which lack a transform that must be trained.
        weight: W, one row per token of the vocabulary.
        bias: b.
        dense_weight: W_d; None for a head without a dense layer.
        dense_bias: b_d.
        activation: a name in ``ACTIVATIONS``; None without a dense layer.
        norm_weight: of the LayerNorm.
        norm_bias: of the LayerNorm.
        eps: of the LayerNorm; None for a head without one.
    """

    kind: str
    weight: Float[Tensor, "vocabulary width"]
    bias: Float[Tensor, " vocabulary"] | None = None
    dense_weight: Float[Tensor, "width dim"] | None = None
    dense_bias: Float[Tensor, " width"] | None = None
    activation: str | None = None
    norm_weight: Float[Tensor, " width"] | None = None
    norm_bias: Float[Tensor, " width"] | None = None
    eps: float | None = None

    def __post_init__(self) -> None:
        """Check that the parts belong together."""
        assert self.kind in HEAD_KINDS, f"kind {self.kind!r}"
        assert (self.activation is None) == (self.dense_weight is None)
        assert self.activation is None or self.activation in ACTIVATIONS, self.activation

    def __call__(self, rows: Float[Tensor, "rows dim"]) -> Float32[Tensor, "rows vocabulary"]:
        """Return the logits of rows, computed in float32 whatever the stored dtype."""
        rows = rows.float()
        if self.dense_weight is not None and self.activation is not None:
            rows = functional.linear(rows, self.dense_weight.float(), _float(self.dense_bias))
            rows = ACTIVATIONS[self.activation](rows)
        if self.eps is not None:
            norm = _float(self.norm_weight), _float(self.norm_bias)
            rows = functional.layer_norm(rows, rows.shape[-1:], *norm, self.eps)
        return functional.linear(rows, self.weight.float(), _float(self.bias))

    def to_file(self) -> bytes:
        """Return the content of the safetensors file."""
        values = {name: getattr(self, attribute) for attribute, name in _NAMES.items()}
        tensors = {name: value for name, value in values.items() if value is not None}
        about = {"kind": self.kind, "activation": self.activation, "eps": self.eps}
        metadata = {name: str(value) for name, value in about.items() if value is not None}
        return tensor_file(tensors, metadata)

    @classmethod
    def from_file(cls, path: Path) -> "OutputHead":
        """Read a head back, on the CPU.

        Raises:
            EntryError: the file is missing, damaged, or no output head.
        """
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                present = set(_NAMES.values()).intersection(file.keys())
                tensors = {p: file.get_tensor(_NAMES[p]) for p in _PARTS if _NAMES[p] in present}
            eps = metadata.get("eps")
            return cls(
                kind=metadata["kind"],
                activation=metadata.get("activation"),
                eps=None if eps is None else float(eps),
                **tensors,
            )
        except FileNotFoundError as error:
            raise EntryError(
                f"{path}: the entry holds no output head. Extract again with it among what is "
                "kept, such as --keep predicted,output-head."
            ) from error
        except (SafetensorError, KeyError, ValueError, TypeError, AssertionError) as error:
            raise EntryError(
                f"{path} is damaged or no output head ({type(error).__name__}: {error}). "
                f"{EXTRACT_AGAIN}"
            ) from error


def _float(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.float()
