"""A model in memory, with its tokenizer: known by its tensors, run as a copy, left as it was found.

A copy runs that is built from configuration and tensors, as one that was saved and loaded again
would be. So hooks, dropout, the attention kernel and whatever else was set on the model itself play
no part, and its entries have the bytes that those of the saved model have.
"""

import copy
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import PathLike
from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from probekit.backbone.architecture import (
    backbone_of,
    encoder_of,
    saved_whole,
    text_config,
    without_memory,
)
from probekit.backbone.checkpoint import CheckpointKind
from probekit.backbone.forward import quiet_transformers
from probekit.base.fingerprint import digest_stream
from probekit.base.notices import warn_once
from probekit.base.registry import PathName, typed_name
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
            raise BackboneError(
                f"model {name!r}: expected a transformers model (PreTrainedModel), found "
                f"{type(model).__name__}. Merge PEFT's adapters (merge_and_unload()), or give the "
                "transformers model inside."
            )
        if not isinstance(tokenizer, PreTrainedTokenizerFast):
            raise BackboneError(
                f"model {name!r}: a model in memory needs its fast tokenizer, found "
                f"{type(tokenizer).__name__}: tokenizer=AutoTokenizer.from_pretrained(...)."
            )
        given = cls(name=name, model=model, tokenizer=tokenizer)
        check_usable(name, model)
        if any(module.training for module in given.backbone.modules()):
            raise BackboneError(
                f"model {name!r} is in training mode, so dropout would make its hidden states "
                "random. Call model.eval() first (and model.train() to go on training)."
            )
        return given

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
        inner = backbone_of(self.model) or encoder_of(self.model)
        if inner is None:
            raise BackboneError(
                f"model {self.name!r}: {type(self.model).__name__} neither is nor contains a "
                f"transformers model without a head. Give one that AutoModel.from_pretrained loads."
            )
        return inner

    @property
    def device(self) -> torch.device:
        """Where it lies."""
        return next(self.backbone.parameters()).device

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
        special = set(self.tokenizer.all_special_ids)  # of which one for padding stands in no text
        ids = self.tokenizer.get_vocab().values()
        if (largest := max((i for i in ids if i not in special), default=0)) >= rows:
            token = self.tokenizer.convert_ids_to_tokens(largest)
            raise BackboneError(
                f"model {self.name!r}: its tokenizer has the token id {largest} ({token!r}), but "
                f"the model has only {rows} embeddings. The tokenizer belongs to another model, or "
                "model.resize_token_embeddings was not called."
            )

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


logger = logging.getLogger(__name__)


POOLER = re.compile(r"(.*\.)?pooler(\..*)?")
"""Modules and tensors that no hidden state depends on, whatever the model."""


_LIBRARIES = ("torch.", "transformers.", "accelerate.")
"""Whose hooks change no state."""


def check_usable(name: str, model: PreTrainedModel) -> None:
    """Refuse a model whose tensors lie on several devices or have no numbers, or with adapters.

    Args:
        name: what its user calls it, here and below.
        model: the model.

    Raises:
        BackboneError: they do.
    """
    count = Counter(str(tensor.device) for tensor in model.state_dict().values())
    if "meta" in count:
        raise BackboneError(
            f"model {name!r}: {count['meta']} of its {count.total()} tensors have no values (they "
            "are on the meta device, or offloaded). Load it whole, onto one device."
        )
    if len(count) > 1:
        said = ", ".join(f"{number} tensors on {device}" for device, number in count.items())
        raise BackboneError(
            f"model {name!r} is on several devices ({said}). Move it to one: model.to('cpu')."
        )
    for part, module in model.named_modules():
        if type(module).__module__.startswith("peft."):
            raise BackboneError(
                f"model {name!r}: its module {part!r} is an adapter ({type(module).__name__}) that "
                "is not merged. Merge it (merge_and_unload), or remove it (delete_adapter)."
            )


def check_classes(
    name: str, model: nn.Module, skeleton: PreTrainedModel, config: PretrainedConfig
) -> None:
    """Check that the modules of a backbone are those that its configuration builds.

    Args:
        name: as above.
        model: the backbone, with a pooler or without.
        skeleton: a model that was built from the configuration, without a pooler.
        config: the configuration.

    Raises:
        BackboneError: one is of another class, is missing, or there is one more.
    """
    classes, needed = _classes(model), _classes(skeleton)
    with without_memory():
        known = _classes(type(skeleton)(copy.deepcopy(config))) | needed  # with its pooler
    exchanged: list[str] = []
    for part in sorted(classes.keys() | needed.keys()):
        actual, expected = classes.get(part), known.get(part)
        if actual is expected or any(part.startswith(f"{other}.") for other in exchanged):
            continue
        # two classes of one family are alike: BigBird exchanges its attention as it runs
        family = getattr(expected, "__module__", "")
        alike = family.startswith("transformers.models.") and actual is not None
        if not (alike and actual.__module__ == family):
            is_now, built = (getattr(kind, "__name__", "missing") for kind in (actual, expected))
            raise BackboneError(
                f"model {name!r}: its module {part!r} is {is_now}, but its configuration builds "
                f"{built}, by which probekit knows a model. Give one whose weights alone were "
                "changed: not quantised, pruned or edited."
            )
        exchanged.append(part)


def _classes(model: nn.Module) -> dict[str, type]:
    """Return the class of every module by its name, without a pooler's."""
    return {n: type(module) for n, module in model.named_modules() if not POOLER.fullmatch(n)}


def check_forward(name: str, model: nn.Module) -> None:
    """Refuse a forward pass that was replaced; say it where hooks of the user's do not run.

    Raises:
        BackboneError: a module has one of its own.
    """
    for part, module in model.named_modules():
        if "forward" in vars(module) and "_hf_hook" not in vars(module):  # accelerate's
            raise BackboneError(
                f"model {name!r}: the forward method of its module {part!r} was replaced, and "
                "probekit knows a model by its tensors alone. Give one with its own forward."
            )
        if _has_hooks(module):
            warn_once(
                logger,
                "model %r: its hooks do not run: probekit uses only its tensors and configuration.",
                name,
            )


def _has_hooks(module: nn.Module) -> bool:
    """Say whether somebody else than the libraries has hooks in the forward pass of a module."""
    for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values()):
        called: Any = hook
        while isinstance(called, partial):
            called = called.func
        definition = called if hasattr(called, "__module__") else type(called)
        if not str(definition.__module__).startswith(_LIBRARIES):
            return True
    return False


def as_given(
    model: PathName | PreTrainedModel | None, tokenizer: object, name: str
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
    if not isinstance(model, str | PathLike | None):
        return GivenModel.of(model, tokenizer, name)
    if tokenizer is not None:
        raise OptionError(
            f"tokenizer= is for a model in memory, and {str(model)!r} comes with its own. Leave "
            "it out."
        )
    return None if model is None else typed_name(model)
