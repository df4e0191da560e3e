"""What transformers makes of a model: the class of its backbone, and a model built of that.

A backbone is a model without a head. Of an encoder-decoder it is the encoder; of a model of several
modalities, the text model. A configuration that has none is refused, and so are sizes that no model
has: a few are looked at by name, since lists are made of them before there is a model, and what
tensors take is found by building the model without memory.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from transformers import AutoModel, AutoModelForTextEncoding, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING, MODEL_MAPPING

from probekit.backbone.forward import quiet_transformers, takes
from probekit.errors import BackboneError, OptionError, reason_of

_LISTED = {
    re.compile(
        r"(n|num)_(\w+_)?(layer|block|expert)s?(_\w+)?|(\w+_)?layers|num_hidden_groups"
        r"|inner_group_num|type_vocab_size|block_sizes|attention_types|attention_window"
    ): 2**12,
    re.compile(r"num_labels"): 2**17,
}
"""The most of each number that configurations make lists of, or whose tensors a small copy has."""


def refuse_sizes(model: str, options: Mapping[str, Any]) -> None:
    """Refuse a configuration with a number that no model has, before anything is built by it.

    Args:
        model: the model, for messages.
        options: of its configuration.

    Raises:
        BackboneError: it has one.
    """
    blocks = options.get("num_hidden_layers")
    if isinstance(blocks, int) and blocks < 1:
        raise BackboneError(f"model {model!r}: its configuration says that it has no blocks.")
    for name, value in _numbers(options):
        most = next((bound for form, bound in _LISTED.items() if form.fullmatch(name)), value)
        if value > most:
            raise BackboneError(
                f"model {model!r}: its configuration says {name} = {value:,}, and no model has "
                f"more than {most:,}. The file is damaged, or does not describe a model."
            )


@contextmanager
def without_memory() -> Iterator[None]:
    """Build a model inside the block whose tensors have shapes alone."""
    with quiet_transformers(), torch.device("meta"):
        yield


def _numbers(values: Mapping[Any, Any]) -> Iterator[tuple[str, int]]:
    """Yield the whole numbers of an object, and of those in it, with their names."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value)
        elif isinstance(value, list):
            for item in value:
                yield from _numbers({name: item})
        elif isinstance(value, int):
            yield name, value


ENCODER = "encoder"
"""The half of an encoder-decoder that is read."""

_encoders: dict[type[PretrainedConfig], type[PreTrainedModel] | None] = {}


def backbone_classes(config: PretrainedConfig) -> tuple[Any, type[PreTrainedModel] | None]:
    """Return the ``AutoModel`` class that builds the backbone, and the class of the backbone.

    The second is None if transformers has none. What the first builds is the backbone, or holds it
    (`backbone_of`): of an encoder-decoder, whose configuration says both halves whatever was saved
    of it, the backbone is the encoder. That has a class of its own (``T5EncoderModel``), or is a
    part of the whole (``BartEncoder``).
    """
    whole, encoder = (
        _known(mapping, config) for mapping in (MODEL_MAPPING, MODEL_FOR_TEXT_ENCODING_MAPPING)
    )
    if not _has_decoder(config):
        return AutoModel, whole
    if encoder is not None:
        return AutoModelForTextEncoding, encoder
    return AutoModel, _encoder_class(config)


def _known(mapping: Any, config: PretrainedConfig) -> type[PreTrainedModel] | None:
    kind = mapping.get(type(config), None)
    return kind[0] if isinstance(kind, tuple | list) else kind


def _encoder_class(config: PretrainedConfig) -> type[PreTrainedModel] | None:
    """Return the class of an encoder-decoder's encoder; None if that cannot run by itself."""
    kind = type(config)
    if kind not in _encoders:
        with without_memory():
            make: Any = AutoModel.from_config
            whole = make(copy.deepcopy(config))
        encoder = whole.get_encoder()
        alone = encoder is not whole and isinstance(encoder, PreTrainedModel)
        _encoders[kind] = type(encoder) if alone else None
    return _encoders[kind]


def saved_whole(config: PretrainedConfig) -> bool:
    """Say whether a configuration is of an encoder-decoder of which both halves were saved."""
    return config.is_encoder_decoder and not saved_alone(config)


def saved_alone(config: PretrainedConfig) -> bool:
    """Say whether what was saved is the backbone's class: of an encoder-decoder, the encoder."""
    _, kind = backbone_classes(config)
    return kind is not None and kind.__name__ in (config.architectures or ())


def _has_decoder(config: PretrainedConfig) -> bool:
    whole = _known(MODEL_MAPPING, config)
    return whole is not None and takes(whole, "decoder_input_ids")


def check_part(name: str, config: PretrainedConfig, part: str | None) -> None:
    """Check that the half of an encoder-decoder is named, and no half of any other model.

    Args:
        name: the model as the user wrote it.
        config: its configuration.
        part: ``encoder``, or None.

    Raises:
        OptionError: it is not, or one is; or transformers cannot run the half by itself.
    """
    kind, whole = config.model_type, saved_whole(config)
    auto, model = backbone_classes(config)
    halved = auto is AutoModel and _has_decoder(config) and text_config(config) is config
    if halved and not config.is_encoder_decoder:  # as BartForCausalLM is saved
        raise BackboneError(
            f"model {name!r} is only part of an encoder-decoder ({kind}), such as its decoder, "
            "and probekit reads whole ones. Give the whole model, or another family."
        )
    if part is not None and not whole:
        raise OptionError(
            f"--part {part}: model {name!r} ({kind}) is not a whole encoder-decoder, so it has no "
            "parts to choose from. Leave --part out."
        )
    if whole and model is None:
        raise BackboneError(
            f"model {name!r} is an encoder-decoder ({kind}), and transformers has no class for its "
            "encoder alone. Choose a model of another family."
        )
    if whole and part is None:
        raise OptionError(
            f"model {name!r} is an encoder-decoder ({kind}), and probekit reads only its encoder. "
            f"Confirm with --part {ENCODER}."
        )


def text_config(config: PretrainedConfig) -> PretrainedConfig | None:
    """Return the configuration of the text model of a model of several modalities; else itself.

    None where there are several of text, or where the text model is an encoder-decoder.
    """
    try:
        text: PretrainedConfig = config.get_text_config()
    except ValueError:  # transformers' own
        return None
    return None if text is not config and _has_decoder(text) else text


def backbone_of(model: PreTrainedModel) -> PreTrainedModel | None:
    """Return the backbone that a model is, or holds; None if it holds none."""
    config = text_config(model.config)
    _, known = backbone_classes(model.config if config is None else config)
    inside = (model, model.base_model, *model.modules())
    return next((module for module in inside if type(module) is known), None)


def encoder_of(model: PreTrainedModel) -> PreTrainedModel | None:
    """Return the encoder of an encoder-decoder as a model of its own class, made of its modules.

    None where transformers has no such class, or where the encoder is a part of the whole anyway
    (`backbone_of`).
    """
    auto, known = backbone_classes(model.config)
    if auto is AutoModel or known is None:
        return None
    with without_memory():
        encoder = known(copy.deepcopy(model.config))
    whole, parts = model.base_model, [name for name, _ in encoder.named_children()]
    if any(not hasattr(whole, name) for name in parts):
        return None
    for name in parts:
        setattr(encoder, name, whole.get_submodule(name))
    encoder.training = model.training  # of itself alone: its modules are the model's
    return encoder


def config_to_read(name: str, whole: PretrainedConfig, part: str | None) -> PretrainedConfig:
    """Return the configuration of what is read of a model: of several modalities, the text model's.

    Args:
        name: the model as the user wrote it.
        whole: its configuration.
        part: the half of an encoder-decoder that is to be read, or None.

    Raises:
        OptionError: the half of an encoder-decoder is not named, or one of another model is.
        BackboneError: it is no stack of blocks over the tokens of a text, nor holds one that can
            be run by itself; or transformers has no class for it.
    """
    check_part(name, whole, part)
    config, kind = text_config(whole), whole.model_type
    _, model_class = (None, None) if config is None else backbone_classes(config)
    # whether the whole holds the class of its text
    if config is not whole and model_class is not None:
        holds = backbone_classes(whole)[1] is not None
        make: Any = AutoModel.from_config
        with without_memory():
            holds = holds and backbone_of(make(copy.deepcopy(whole))) is not None
        model_class = model_class if holds else None
    if config is not whole and (config is None or model_class is None):
        raise BackboneError(
            f"model {name!r} ({kind}) combines several models (text with images or sound), and "
            "transformers cannot load its text model alone. Choose its text-only release."
        )
    if config is None or model_class is None:
        raise BackboneError(
            f"model {name!r} ({kind}): transformers has no class for it without a head. Choose a "
            "model of another family."
        )
    if not takes(model_class, "input_ids"):
        raise BackboneError(
            f"model {name!r} ({kind}): {model_class.__name__} does not take token ids, so it is "
            "not a text model. Choose a text model."
        )
    return config


def without_pooler(config: PretrainedConfig) -> dict[str, bool]:
    """Return the option that leaves the pooler out, for classes that have it."""
    _, model = backbone_classes(config)
    accepts = model is not None and "add_pooling_layer" in signature(model).parameters
    return {"add_pooling_layer": False} if accepts else {}


def build_model(config: PretrainedConfig, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Build a backbone as transformers starts it, frozen, in evaluation mode."""
    auto, _ = backbone_classes(config)
    # of a copy, since the configuration takes the dtype over
    built = auto.from_config(copy.deepcopy(config), dtype=dtype, **without_pooler(config))
    model = backbone_of(built) or built
    assert isinstance(model, PreTrainedModel)
    return model.train(False).requires_grad_(False)


def loaded_again(
    model: PreTrainedModel, config: PretrainedConfig, dtype: torch.dtype, placed: Mapping[str, Any]
) -> PreTrainedModel:
    """Return a built model as one that ``from_pretrained`` would have loaded, frozen, evaluating.

    Args:
        model: a backbone in float32.
        config: that it was built from.
        dtype: of the result.
        placed: more options of ``from_pretrained``.
    """
    load: Any = type(model).from_pretrained
    weights, options = model.state_dict(), {**without_pooler(config), **placed}
    again: PreTrainedModel = load(None, config=config, state_dict=weights, dtype=dtype, **options)
    return again.train(False).requires_grad_(False)


def count_parameters(config: PretrainedConfig) -> int:
    """Return the number of a backbone's parameters, without memory for them."""
    with without_memory():
        return sum(parameter.numel() for parameter in build_model(config).parameters())


@contextmanager
def building(name: str, config: PretrainedConfig) -> Iterator[None]:
    """Build a model inside the block; say nothing, or why it cannot be built.

    Args:
        name: the model as the user wrote it.
        config: its configuration.

    Raises:
        BackboneError: whatever transformers raises, or the model asks for too much.
    """
    try:
        with quiet_transformers():
            yield
    except BackboneError:
        raise
    except Exception as error:  # anything a configuration with odd numbers can cause
        raise BackboneError(
            f"model {name!r}: transformers cannot build a {config.model_type} model from its "
            f"configuration ({reason_of(error)})."
        ) from error
