"""What transformers makes of a model: its configuration, its class, and a model built of both.

A backbone is a model without a head; a configuration that has none, or another kind, is refused.
"""

import copy
import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from inspect import signature
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForTextEncoding,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING, MODEL_MAPPING
from transformers.utils import logging as transformers_logging

from probekit.backbone.checkpoint import Checkpoint
from probekit.errors import BackboneError, reason_of


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence warnings and progress bars of transformers inside the ``with`` block.

    Both are put back as they were. Errors still come through, as exceptions.
    """
    bars = transformers_logging.is_progress_bar_enabled()
    if bars:
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        # the bar over GGUF tensors heeds no setting
        with no_warnings(), redirect_stderr(io.StringIO()):
            yield
    finally:
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@contextmanager
def no_warnings() -> Iterator[None]:
    """Silence the warnings of transformers inside the ``with`` block, batch after batch."""
    logger = transformers_logging.get_logger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def backbone_classes(config: PretrainedConfig) -> tuple[Any, type[PreTrainedModel] | None]:
    """Return the ``AutoModel`` class that builds the backbone, and the class of what it builds.

    The second is None if transformers has none. A checkpoint of an encoder-decoder's encoder
    (``T5EncoderModel``) has the configuration of its family, of which ``AutoModel`` would build
    both halves.
    """
    mappings: Any = (MODEL_MAPPING, MODEL_FOR_TEXT_ENCODING_MAPPING)
    found = [mapping.get(type(config), None) for mapping in mappings]
    whole, encoder = (one[0] if isinstance(one, tuple | list) else one for one in found)
    if whole is None or not takes(whole, "decoder_input_ids"):
        return AutoModel, whole
    return AutoModelForTextEncoding, encoder


def backbone_of(model: PreTrainedModel) -> PreTrainedModel | None:
    """Return the model without a head that a model is, or holds; None if it holds none."""
    _, known = backbone_classes(model.config)
    inside = (model, model.base_model, *model.modules())
    return next((module for module in inside if type(module) is known), None)


def takes(model: type[PreTrainedModel], argument: str) -> bool:
    """Say whether a model's forward pass has an argument of this name."""
    return argument in signature(model.forward).parameters


def without_pooler(config: PretrainedConfig) -> dict[str, bool]:
    """Return the option that leaves the pooler out, for classes that have it."""
    _, found = backbone_classes(config)
    accepts = found is not None and "add_pooling_layer" in signature(found).parameters
    return {"add_pooling_layer": False} if accepts else {}


def build_model(config: PretrainedConfig, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Build a backbone as transformers starts it, frozen, in evaluation mode."""
    auto, _ = backbone_classes(config)
    own = copy.deepcopy(config)  # it takes the dtype over
    model = auto.from_config(own, dtype=dtype, **without_pooler(config))
    assert isinstance(model, PreTrainedModel)
    return model.train(False).requires_grad_(False)


def count_parameters(config: PretrainedConfig) -> int:
    """Return the number of a backbone's parameters, without memory for them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build_model(config).parameters())


@contextmanager
def building(name: str, config: PretrainedConfig) -> Iterator[None]:
    """Build a model inside the block; say nothing, or why it cannot be built.

    Args:
        name: the model as the user wrote it.
        config: its configuration.

    Raises:
        BackboneError: whatever transformers raises.
    """
    try:
        with quiet_transformers():
            yield
    except Exception as error:  # anything a configuration with odd numbers can cause
        raise BackboneError(
            f"model {name!r}: transformers cannot build a {config.model_type} model from its "
            f"configuration ({reason_of(error)})."
        ) from error


def read_with(kind: Any, checkpoint: Checkpoint, **options: Any) -> Any:
    """Let a class of transformers read files of a model: none of the Hub's, and no code of theirs.

    Args:
        kind: ``AutoConfig``, ``AutoTokenizer``, ``AutoModel``, ...
        checkpoint: where the files lie.
        options: more arguments of ``from_pretrained``.

    Raises:
        Exception: whatever transformers raises where files are damaged.
    """
    if checkpoint.gguf_file:
        options["gguf_file"] = checkpoint.gguf_file
    folder = str(checkpoint.folder)
    with quiet_transformers():
        return kind.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **options
        )


def load_config(checkpoint: Checkpoint) -> PretrainedConfig:
    """Read the configuration of a model.

    Raises:
        BackboneError: it is damaged, of a type that transformers does not know, or of a kind that
            cannot serve (encoder-decoder, several modalities, code of its own).
    """
    try:
        config: PretrainedConfig = read_with(AutoConfig, checkpoint)
    except Exception as error:  # JSON, key, value and library errors, by damage
        where = checkpoint.folder / (checkpoint.gguf_file or "config.json")
        raise BackboneError(
            f"model {checkpoint.name!r}: its configuration {where} cannot be used "
            f"({reason_of(error)}). Expected a model type that transformers has built in."
        ) from error
    refuse_unsuitable(checkpoint.name, config)
    return config


def plain_config(config: PretrainedConfig) -> dict[str, Any]:
    """Return a configuration as JSON values; what JSON has not (infinity, a dtype) becomes text."""
    return dict(json.loads(json.dumps(config.to_dict(), default=str), parse_constant=str))


def refuse_unsuitable(name: str, config: PretrainedConfig) -> None:
    """Refuse models that are no stack of blocks over the tokens of a text.

    Raises:
        BackboneError: an encoder-decoder, whatever its configuration says, several modalities,
            another modality, or a family without a model of its own.
    """
    kind, (auto, found) = config.model_type, backbone_classes(config)
    alone = found is not None and found.__name__ in (config.architectures or ())
    halves = found is None and auto is not AutoModel
    if halves or (config.is_encoder_decoder and not alone):
        raise BackboneError(
            f"model {name!r} is an encoder-decoder ({kind}); probekit reads encoders and "
            "decoders. The encoder half of one (T5's, BART's) is read only where it was saved "
            "alone (T5EncoderModel)."
        )
    try:
        several = config.get_text_config() is not config
    except ValueError:  # transformers' own, where there are several of text
        several = True
    if several:
        raise BackboneError(
            f"model {name!r} ({kind}) holds several models (text and images or sound); probekit "
            "reads text-only ones. Choose its text-only release."
        )
    if found is None:
        raise BackboneError(
            f"model {name!r} ({kind}): transformers has no class for it without a head. Choose a "
            "model of another family."
        )
    if not takes(found, "input_ids"):
        raise BackboneError(
            f"model {name!r} ({kind}): {found.__name__} reads no token ids, so it is no model of "
            "texts. Choose one that is."
        )
