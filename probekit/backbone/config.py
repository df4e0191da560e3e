"""Read a model's configuration, and refuse models that cannot serve as a backbone."""

import json
from typing import Any

from transformers import AutoConfig, PretrainedConfig

from probekit.backbone.quiet import quiet_transformers
from probekit.backbone.source import ModelSource
from probekit.errors import BackboneError
from probekit.reasons import reason_of


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
    """Refuse encoder-decoders and models of several modalities.

    Raises:
        BackboneError: the model is one of these.
    """
    if config.is_encoder_decoder:
        raise BackboneError(
            f"model {name!r} is an encoder-decoder ({config.model_type}); probekit reads encoders "
            "and decoders. The encoder half of one (T5's, BART's) is not supported in this version."
        )
    if config.get_text_config() is not config:
        raise BackboneError(
            f"model {name!r} ({config.model_type}) holds several models (text and images or "
            "sound); probekit reads text-only ones. Choose its text-only release."
        )
