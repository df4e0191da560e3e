"""Which class of transformers makes a model's states: of the whole, or of a model inside of it.

A backbone is a model without a head. Of an encoder-decoder it is the encoder; of a model of several
modalities, the text model.
"""

import copy
from typing import Any

from transformers import AutoModel, AutoModelForTextEncoding, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING, MODEL_MAPPING

from probekit.backbone.forward import takes
from probekit.backbone.sizes import without_memory
from probekit.errors import BackboneError, OptionError

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
        with without_memory(config):
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
            f"model {name!r} is part of an encoder-decoder ({kind}), such as the decoder alone, "
            "and probekit reads the encoder of a whole one. Choose that, or another family."
        )
    if part is not None and not whole:
        raise OptionError(
            f"--part {part}: model {name!r} ({kind}) is no encoder-decoder that was saved whole, "
            "so it is read as it is. Leave --part out."
        )
    if whole and model is None:
        raise BackboneError(
            f"model {name!r} is an encoder-decoder ({kind}), and transformers has no class for its "
            "encoder alone. Choose a model of another family."
        )
    if whole and part is None:
        raise OptionError(
            f"model {name!r} is an encoder-decoder ({kind}), of which probekit reads the encoder: "
            f"say so with --part {ENCODER}."
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
    with without_memory(model.config):
        encoder = known(copy.deepcopy(model.config))
    whole, parts = model.base_model, [name for name, _ in encoder.named_children()]
    if any(not hasattr(whole, name) for name in parts):
        return None
    for name in parts:
        setattr(encoder, name, whole.get_submodule(name))
    encoder.training = model.training  # of itself alone: its modules are the model's
    return encoder
