"""Parts of models: the final norm and output head that an entry keeps, and groups of parameters.

The norm is ``backbone/final_norm.safetensors`` in an entry: tensors ``weight`` (D,) and ``bias``
(D,) in float32, metadata ``kind`` and ``eps``.

The head is ``backbone/output_head.safetensors`` in an entry. Tensors: ``weight`` (V, E) and, as
far as the head has them, ``bias`` (V,), ``dense.weight`` (E, D), ``dense.bias`` (E,),
``norm.weight`` (E,), ``norm.bias`` (E,), in the dtype of the checkpoint. Metadata: ``kind``, and
for a head with a transform ``activation`` (a name in ``ACTIVATIONS``) and ``eps``. E is D except
where the family factorises its embeddings (ALBERT, ELECTRA).
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast
from weakref import WeakValueDictionary

import torch
from jaxtyping import Float, Float32
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional

from probekit.base.fingerprint import parse_json
from probekit.errors import EXTRACT_AGAIN, EntryError


def tensor_file(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return the content of a safetensors file, its metadata in the order of their names.

    The library writes them in another order in each call, and an entry that is made again, or
    resumed after a kill, has the same bytes.
    """
    data = save(dict(tensors), metadata=dict(metadata))
    # 8 bytes: the length n of the header; n bytes: the header as JSON, blanks behind it; tensors
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length]) | {"__metadata__": dict(sorted(metadata.items()))}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return b"".join((data[:8], text.ljust(length), memoryview(data)[8 + length :]))


FINAL_NORM_FILE = "final_norm.safetensors"
NormKind = Literal["layernorm", "rmsnorm"]


@dataclass(frozen=True, kw_only=True, eq=False)
class FinalNorm:
    """A norm as an equation: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Attributes:
        kind: "layernorm", or "rmsnorm" (no mean, and the mean square for the variance).
        eps: added to the variance.
        weight: what multiplies, in full (Gemma keeps ``weight - 1``; here 1 is added).
        bias: what is added; None is nothing.
    """

    kind: NormKind
    eps: float
    weight: Float[Tensor, " dim"]
    bias: Float[Tensor, " dim"] | None = None

    def __call__(self, rows: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Apply the norm to rows, in float32."""
        rows = rows.float()
        if self.kind == "layernorm":
            rows = rows - rows.mean(-1, keepdim=True)
        normed = rows * (rows.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight
        return normed if self.bias is None else normed + self.bias

    def to_file(self) -> bytes:
        """Return the content of the safetensors file."""
        bias = torch.zeros_like(self.weight) if self.bias is None else self.bias
        tensors = {"weight": self.weight, "bias": bias}
        return tensor_file(tensors, {"kind": self.kind, "eps": str(self.eps)})

    @classmethod
    def from_file(cls, path: Path) -> "FinalNorm | None":
        """Read a norm back, on the CPU; None if there is no such file: the model has no such norm.

        Raises:
            EntryError: the file is damaged.
        """
        if not path.is_file():
            return None
        try:
            with safe_open(path, "pt") as file:
                about = file.metadata()
                return cls(
                    kind=cast(NormKind, about["kind"]),
                    eps=float(about["eps"]),
                    weight=file.get_tensor("weight"),
                    bias=file.get_tensor("bias"),
                )
        except Exception as error:  # safetensors raises its own type for every kind of damage
            raise EntryError(f"{path} cannot be read ({error}). {EXTRACT_AGAIN}") from None


OUTPUT_HEAD_FILE = "output_head.safetensors"
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
                f"{path}: the entry holds no output head. Extract again and keep it, such as with "
                "--keep predicted,output-head."
            ) from error
        except (SafetensorError, KeyError, ValueError, TypeError, AssertionError) as error:
            raise EntryError(
                f"{path} is damaged or not an output head ({type(error).__name__}: {error}). "
                f"{EXTRACT_AGAIN}"
            ) from error


def _float(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.float()


CONFIG_FILE = "config.json"
_heads: WeakValueDictionary[tuple[Path, int], OutputHead] = WeakValueDictionary()
"""Output heads in use: decoders side by side share one copy of the frozen numbers."""

PROVENANCE = frozenset(
    {
        "_name_or_path", "architectures", "auto_map", "dtype", "id2label", "label2id",
        "num_labels", "problem_type", "task_specific_params", "torch_dtype",
        "transformers_version",
    }
)  # fmt: skip
"""Where a model came from, how its weights are stored, and what its heads were for."""

OUTPUTS = frozenset(
    {
        "output_attentions", "output_hidden_states", "return_dict", "tie_word_embeddings",
        "use_cache",
    }
)  # fmt: skip
"""What a forward pass returns besides hidden states, and how an output head is stored."""


@dataclass(frozen=True)
class KeptBackbone:
    """The small files of a model.

    Attributes:
        folder: where they lie, ``backbone/`` in an entry.
    """

    folder: Path

    @property
    def config(self) -> dict[str, Any]:
        """The model's configuration; empty if it was not kept."""
        path = self.folder / CONFIG_FILE
        return dict(parse_json(path.read_text("utf-8"))) if path.is_file() else {}

    @property
    def final_norm(self) -> FinalNorm | None:
        """The norm after the last block; None if the model has no such norm.

        Raises:
            EntryError: the file is damaged.
        """
        return FinalNorm.from_file(self.folder / FINAL_NORM_FILE)

    @property
    def output_head(self) -> OutputHead:
        """The output head in float32; while someone holds it, everyone gets the same object.

        Raises:
            EntryError: the file is missing, damaged, or no output head.
        """
        path = self.folder / OUTPUT_HEAD_FILE
        key = path, path.stat().st_mtime_ns if path.exists() else 0
        head = _heads.get(key)
        if head is None:
            head = OutputHead.from_file(path)
            parts: dict[str, Any] = {
                name: value.float()
                for name, value in vars(head).items()
                if isinstance(value, Tensor)
            }
            head = _heads[key] = replace(head, **parts)
        return head

    @staticmethod
    def content(
        config: Mapping[str, Any], norm: FinalNorm | None, head: OutputHead | None
    ) -> dict[str, bytes]:
        """Return the files that hold these, by name; None is not kept."""
        files = {CONFIG_FILE: json.dumps(config, indent=1).encode()}
        if norm is not None:
            files[FINAL_NORM_FILE] = norm.to_file()
        if head is not None:
            files[OUTPUT_HEAD_FILE] = head.to_file()
        return files


def without_idle(config: Mapping[str, Any], idle: Collection[str]) -> dict[str, Any]:
    """Return a configuration without idle entries, and without private ones."""
    return {
        name: value
        for name, value in config.items()
        if name not in idle and not name.startswith("_")
    }


def differing_entries(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the names of entries that both configurations have, with different values.

    What only one of them has may come from another version of transformers.
    """
    return sorted(name for name in first.keys() & second.keys() if first[name] != second[name])


WEIGHTS = "weights"
"""The group of whatever is in no other one; its rate is the plain number of ``--lr``."""

Groups = Mapping[str, tuple[nn.Parameter, ...]]


def divide(module: nn.Module, **named: Iterable[nn.Parameter]) -> Groups:
    """Return a module's parameters by group: the named ones, and ``weights``, all others."""
    groups = {name: tuple(values) for name, values in named.items()}
    apart = {id(value) for values in groups.values() for value in values}
    rest = tuple(value for value in module.parameters() if id(value) not in apart)
    return {WEIGHTS: rest, **groups}
