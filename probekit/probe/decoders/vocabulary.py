"""Vocabulary decoder: the backbone's own output head, frozen or trained, over any fused row."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, Self
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from probekit.base.numbers import linear_layer
from probekit.base.tensors import full
from probekit.errors import OptionError
from probekit.probe.decoders.contract import Classifier, DecoderSpec, Fused, Logits
from probekit.probe.model_parts import ACTIVATIONS, KeptBackbone, OutputHead

Transform = Literal["own", "none", "new"]

_moved: WeakKeyDictionary[OutputHead, dict[tuple[torch.device, torch.dtype], Tensor]]
_moved = WeakKeyDictionary()
"""Their matrices on the devices where decoders are."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary(DecoderSpec):
    """logits = W transform(h) + b, from the output head that the entry keeps.

    What is frozen is no parameter, and no part of a checkpoint or a saved head.

    Attributes:
        trained: train W, b and the transform, starting from the backbone's numbers.
        transform: "own" is that of the backbone's head (dense, activation, LayerNorm of a masked-LM
            head; none for a causal one), "new" is dense, GELU and LayerNorm drawn anew and always
            trained, "none" is none. Input embeddings that stand in for a missing head (``--tie
            input``) have no transform of their own: "own" is "new" there.
        folder: the entry's ``backbone/`` folder, from `bind`.
    """

    trained: bool = False
    transform: Transform = "own"
    folder: Path | None = field(default=None, init=False, repr=False, compare=False)

    name: ClassVar[str] = "vocabulary"
    source: ClassVar[str] = "the backbone's own output head"
    summary: ClassVar[str] = "the backbone's own output head, frozen or trained"
    kinds: ClassVar[frozenset[str]] = frozenset({"language-modelling"})

    def __post_init__(self) -> None:
        """Check the transform."""
        if self.transform not in ("own", "none", "new"):
            raise OptionError(
                f"vocabulary: transform must be own, none or new; found {self.transform!r}."
            )

    def bind(self, entry_backbone: Path) -> Self:
        """Return the same decoder knowing where the output head is."""
        bound = replace(self)
        object.__setattr__(bound, "folder", entry_backbone)
        return bound

    def build(self, width: int, n_classes: int, generator: torch.Generator) -> "VocabularyDecoder":
        """Create the module; it has one logit per row of W, whatever ``n_classes`` is.

        Raises:
            OptionError: the decoder is not bound to an entry, or h has not the width that the
                output head reads.
            EntryError: the entry holds no output head, or a damaged one.
        """
        if self.folder is None:
            raise OptionError(
                "vocabulary reads the output head that an entry keeps: bind it to the entry first."
            )
        head = KeptBackbone(self.folder).output_head
        stands_in = self.transform == "own" and head.kind == "tied-input"
        kind: Transform = "new" if stands_in else self.transform
        return VocabularyDecoder(head, width, kind, self.trained, generator)


class VocabularyDecoder(Classifier):
    """Module of `Vocabulary`."""

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        head: OutputHead,
        width: int,
        transform: Transform,
        trained: bool,
        generator: torch.Generator,
    ) -> None:
        """Take the head's numbers as parameters if trained, else as buffers; draw a new transform.

        Raises:
            OptionError: h has another width than the head reads.
        """
        super().__init__(width, len(head.weight))
        inside = head.weight.shape[1]
        self.transform: OwnTransform | NewTransform | None = None
        if transform == "new":
            self.transform = NewTransform(width, inside, generator)
        elif transform == "own" and (head.dense_weight is not None or head.eps is not None):
            self.transform = OwnTransform(head, trained)
            inside = inside if head.dense_weight is None else head.dense_weight.shape[1]
        if transform != "new" and width != inside:
            raise OptionError(
                f"vocabulary: the backbone's output head reads rows of width {inside}, the fusion "
                f"head gives {width}; choose another head, or vocabulary:transform=new."
            )
        self._shared = head  # keeps the frozen numbers for the next decoder
        _hold(self, "weight", head.weight, trained)
        _hold(self, "bias", head.bias, trained)

    @property
    def logit_weight(self) -> Tensor | None:
        """W, where there is no transform."""
        return self.weight if self.transform is None else None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move the module as torch does, but a frozen W only once for all decoders."""
        weight = self._buffers.pop("weight", None)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if weight is not None:
            moved = _moved.setdefault(self._shared, {})
            like = fn(weight.new_empty(0))
            key = like.device, like.dtype
            if key not in moved:
                moved[key] = fn(self._shared.weight)
            self._buffers["weight"] = moved[key]
        return self

    def forward(self, h: Fused, generator: torch.Generator | None = None) -> Logits:
        """Return logits; the products run in the autocast dtype."""
        if self.transform is not None:
            h = self.transform(h)
        return full(functional.linear(h, self.weight, self.bias))


class OwnTransform(nn.Module):
    """The transform of the backbone's head: dense and activation, LayerNorm, where it has them."""

    dense_weight: Tensor
    dense_bias: Tensor | None
    norm_weight: Tensor | None
    norm_bias: Tensor | None

    def __init__(self, head: OutputHead, trained: bool) -> None:
        """Take the head's numbers as parameters if trained, else as buffers."""
        super().__init__()
        self.activation = head.activation
        self.eps = head.eps
        for name in ("dense_weight", "dense_bias", "norm_weight", "norm_bias"):
            _hold(self, name, getattr(head, name), trained)

    def forward(self, h: Fused) -> Float[Tensor, "rows inside"]:
        """Return what W reads."""
        if self.activation is not None:
            dense = full(functional.linear(h, self.dense_weight, self.dense_bias))
            h = ACTIVATIONS[self.activation](dense)
        if self.eps is None:
            return h
        return functional.layer_norm(h, h.shape[1:], self.norm_weight, self.norm_bias, self.eps)


class NewTransform(nn.Module):
    """A masked-LM head's transform drawn anew: dense, GELU, LayerNorm."""

    def __init__(self, width: int, inside: int, generator: torch.Generator) -> None:
        """Draw the dense layer as ``torch.nn.Linear`` would; the norm starts as the identity."""
        super().__init__()
        self.dense = linear_layer(width, inside, generator)
        self.norm = nn.LayerNorm(inside)

    def forward(self, h: Fused) -> Float[Tensor, "rows inside"]:
        """Return what W reads."""
        return self.norm(functional.gelu(full(self.dense(h))))


def _hold(module: nn.Module, name: str, value: Tensor | None, trained: bool) -> None:
    if trained and value is not None:
        module.register_parameter(name, nn.Parameter(value.clone()))
    else:
        module.register_buffer(name, value, persistent=False)
