"""Read a model's configuration, and refuse models that cannot serve as a backbone."""

import json
from typing import Any

from transformers import AutoConfig, AutoModel, PretrainedConfig

from probekit.backbone.model_class import auto_class, backbone_class, takes
from probekit.backbone.model_source import ModelSource
from probekit.backbone.quiet import quiet_transformers
from probekit.errors import BackboneError, reason_of


def load_config(source: ModelSource) -> PretrainedConfig:
    """Read the configuration of a model.

    Raises:
        BackboneError: it is damaged, of a type that transformers does not know, or of a kind that
            cannot serve (encoder-decoder, several modalities, code of its own).
    """
    options: dict[str, Any] = {"gguf_file": source.gguf_file} if source.gguf_file else {}
    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(
                str(source.folder), local_files_only=True, trust_remote_code=False, **options
            )
    except Exception as error:  # JSON, key, value and library errors, by damage
        where = source.folder / (source.gguf_file or "config.json")
        raise BackboneError(
            f"model {source.name!r}: its configuration {where} cannot be used "
            f"({reason_of(error)}). Expected a model type that transformers "
            "has built in."
        ) from error
    refuse_unsuitable(source.name, config)
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
    kind, found = config.model_type, backbone_class(config)
    alone = found is not None and found.__name__ in (config.architectures or ())
    halves = found is None and auto_class(config) is not AutoModel
    if halves or (config.is_encoder_decoder and not alone):
        raise BackboneError(
            f"model {name!r} is an encoder-decoder ({kind}); probekit reads encoders and "
            "decoders. The encoder half of one (T5's, BART's) is read only where it was saved "
            "alone (T5EncoderModel)."
        )
    if _holds_several(config):
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


def _holds_several(config: PretrainedConfig) -> bool:
    try:
        return config.get_text_config() is not config
    except ValueError:  # transformers' own, where there are several of text
        return True
