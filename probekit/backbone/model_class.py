"""Which of transformers' classes is the backbone of a configuration: a model without a head."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from transformers import AutoModel, AutoModelForTextEncoding, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING, MODEL_MAPPING

from probekit.backbone.quiet import quiet_transformers
from probekit.errors import BackboneError, reason_of


def auto_class(config: PretrainedConfig) -> Any:
    """Return the ``AutoModel`` class that builds the backbone.

    A checkpoint of an encoder-decoder's encoder (``T5EncoderModel``) has the configuration of its
    family, of which ``AutoModel`` would build both halves.
    """
    whole = _class_in(MODEL_MAPPING, config)
    both = whole is not None and takes(whole, "decoder_input_ids")
    return AutoModelForTextEncoding if both else AutoModel


def backbone_class(config: PretrainedConfig) -> type[PreTrainedModel] | None:
    """Return the class of the backbone, or None if transformers has none."""
    encoder = auto_class(config) is AutoModelForTextEncoding
    return _class_in(MODEL_FOR_TEXT_ENCODING_MAPPING if encoder else MODEL_MAPPING, config)


def takes(model: type[PreTrainedModel], argument: str) -> bool:
    """Say whether a model's forward pass has an argument of this name."""
    return argument in signature(model.forward).parameters


def without_pooler(config: PretrainedConfig) -> dict[str, bool]:
    """Return the option that leaves the pooler out, for classes that have it."""
    found = backbone_class(config)
    accepts = found is not None and "add_pooling_layer" in signature(found).parameters
    return {"add_pooling_layer": False} if accepts else {}


def build_model(config: PretrainedConfig, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Build a backbone as transformers starts it, frozen, in evaluation mode."""
    options = without_pooler(config)
    own = copy.deepcopy(config)  # it takes the dtype over
    model = auto_class(config).from_config(own, dtype=dtype, **options)
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


def _class_in(mapping: Any, config: PretrainedConfig) -> type[PreTrainedModel] | None:
    if type(config) not in mapping:
        return None
    found = mapping[type(config)]
    return found[0] if isinstance(found, tuple | list) else found
