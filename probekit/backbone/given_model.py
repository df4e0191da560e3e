"""A model in memory, with its tokenizer: known by its tensors, run as a copy, left as it was found.

A copy runs that is built from configuration and tensors, as one that was saved and loaded again
would be. So hooks, dropout, the attention kernel and whatever else was set on the model itself play
no part, and its entries have the bytes that those of the saved model have.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from probekit.backbone.checkpoint import CheckpointKind
from probekit.backbone.given_checks import (
    POOLER,
    check_classes,
    check_forward,
    check_place,
    check_vocabulary,
    no_model,
    no_tokenizer,
    refuse_adapters,
    refuse_training,
)
from probekit.backbone.model_classes import backbone_of, encoder_of, saved_whole, text_config
from probekit.backbone.quiet import quiet_transformers
from probekit.base.fingerprint import digest_stream
from probekit.data.alignment import backend
from probekit.errors import BackboneError, OptionError


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenModel:
    """A transformers model in memory that can serve as a backbone, with its tokenizer.

    Attributes:
        name: what its user calls it.
        model: with a head or without; never changed.
        tokenizer: fast; never changed.
    """

    name: str
    model: PreTrainedModel = field(repr=False)
    tokenizer: PreTrainedTokenizerFast = field(repr=False)

    kind: CheckpointKind = "memory"
    revision: None = None

    @classmethod
    def of(cls, model: object, tokenizer: object, name: str) -> Self:
        """Check a model and a tokenizer, of which nothing is read yet.

        Raises:
            BackboneError: no transformers model or no fast tokenizer, one of which no entry can be
                made (it is being trained, its tensors lie on several devices, ...).
        """
        if not isinstance(model, PreTrainedModel):
            raise BackboneError(f"model {name!r}: {no_model(model)}")
        if not isinstance(tokenizer, PreTrainedTokenizerFast):
            raise BackboneError(f"model {name!r}: {no_tokenizer(tokenizer)}")
        found = cls(name=name, model=model, tokenizer=tokenizer)
        check_place(name, model)
        refuse_adapters(name, model)
        refuse_training(name, found.backbone)
        return found

    @cached_property
    def config(self) -> PretrainedConfig:
        """A copy of its configuration, as saving and loading would give it."""
        options = self.model.config.to_dict()
        with quiet_transformers():
            config: PretrainedConfig = type(self.model.config).from_dict(options)
        config.architectures = [type(self.model).__name__]
        return config

    @cached_property
    def backbone(self) -> PreTrainedModel:
        """The model without its head, or the encoder of an encoder-decoder; it may be the whole.

        Raises:
            BackboneError: it holds none of transformers' own.
        """
        found = backbone_of(self.model) or encoder_of(self.model)
        if found is None:
            raise BackboneError(
                f"model {self.name!r}: {type(self.model).__name__} is, or holds, no model of "
                f"transformers' own whose hidden states are known ({self.config.model_type} "
                "models without a head). Give one that AutoModel.from_pretrained loads."
            )
        return found

    @property
    def device(self) -> torch.device:
        """Where it lies."""
        return next(self.backbone.parameters()).device

    def read_tokenizer(self) -> PreTrainedTokenizerFast:
        """Return a copy of its tokenizer, padding and truncation off."""
        tokenizer = copy.deepcopy(self.tokenizer)
        backend(tokenizer)  # which switches both off
        return tokenizer

    def read_weights(
        self, kind: type[PreTrainedModel], **options: Any
    ) -> tuple[PreTrainedModel, dict[str, Any]]:
        """Return a model of some class that has its tensors, on the CPU, and what was loaded.

        Tensors of the same dtype on the CPU are shared, not copied: they must not be written.

        Args:
            kind: the class: that of the backbone, or one with a head.
            options: arguments of ``from_pretrained``.

        Raises:
            Exception: whatever transformers raises where they do not fit.
        """
        inner = kind is type(self.backbone)
        tensors = dict(self.tensors) if inner else dict(self.model.state_dict())
        load: Any = kind.from_pretrained
        with quiet_transformers():
            return load(None, state_dict=tensors, **options)

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The tensors of its backbone that are saved, by name, without those of a pooler."""
        state = self.backbone.state_dict().items()
        return {name: tensor for name, tensor in state if not POOLER.fullmatch(name)}

    def check(self, skeleton: PreTrainedModel, rows: int) -> None:
        """Check that it computes what its configuration says, and that the tokenizer is its own.

        Args:
            skeleton: a model that was built from the configuration, without a pooler.
            rows: of the table of embeddings.

        Raises:
            BackboneError: a module is of another class or has a forward pass of its own, or a token
                has no embedding.
        """
        config = text_config(self.config)
        assert config is not None, "it has a backbone"
        check_classes(self.name, self.backbone, skeleton, config)
        check_forward(self.name, self.backbone)
        check_vocabulary(self.name, self.tokenizer, config, rows)

    def digest(self) -> str:
        """Return the identity of its tensors (64 hex digits): of names, dtypes, shapes and numbers.

        It is that of the backbone and, where the model predicts tokens, of its output head; a head
        of another kind is none of an entry's business, nor is the other half of an encoder-decoder.
        Tensors are read one by one, in every call: nothing tells for sure that none has changed
        since.
        """
        named = {f"backbone.{name}": tensor for name, tensor in self.tensors.items()}
        projection = self.model.get_output_embeddings()  # type: ignore[no-untyped-call]
        if projection is not None and not saved_whole(self.config):
            inside = {tensor.data_ptr() for tensor in self.backbone.state_dict().values()}
            others = {
                name: tensor
                for name, tensor in self.model.state_dict().items()
                if tensor.data_ptr() not in inside
            }
            if text_config(self.model.config) is not self.model.config:  # beside images or sound
                places = {tensor.data_ptr() for tensor in projection.state_dict().values()}
                others = {n: value for n, value in others.items() if value.data_ptr() in places}
            named |= {f"head.{name}": tensor for name, tensor in others.items()}
        return digest_stream(part for name in sorted(named) for part in _parts(name, named[name]))


def _parts(name: str, tensor: Tensor) -> Iterator[bytes | memoryview]:
    """Yield what the identity takes in of one tensor."""
    yield f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
    flat = tensor.detach().cpu().contiguous().flatten()
    yield flat.view(torch.uint8).numpy().data


def as_given(
    model: str | Path | PreTrainedModel | None, tokenizer: object, name: str
) -> "str | GivenModel | None":
    """Return what a function of the library was given as its model.

    Args:
        model: where a model is, or one in memory; None is neither.
        tokenizer: of the one in memory.
        name: what that one is called.

    Raises:
        OptionError: a tokenizer for a model that comes with its own.
        BackboneError: a model in memory that cannot serve (`GivenModel.of`).
    """
    if not isinstance(model, str | Path | None):
        return GivenModel.of(model, tokenizer, name)
    if tokenizer is not None:
        raise OptionError(
            f"tokenizer= belongs to a model in memory, and {str(model)!r} comes with its own. "
            "Leave it out."
        )
    return None if model is None else str(model)
