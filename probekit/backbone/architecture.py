"""What transformers makes of a model: its configuration, its class, and a model built of both.

A backbone is a model without a head; a configuration that has none, or another kind, is refused.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
from transformers.dynamic_module_utils import get_class_from_dynamic_module

from probekit.backbone.checkpoint import Checkpoint
from probekit.backbone.forward import quiet_transformers, takes
from probekit.backbone.model_classes import (
    backbone_classes,
    backbone_of,
    check_part,
    refuse_sizes,
    text_config,
    without_memory,
)
from probekit.base.fingerprint import digest, digest_file
from probekit.base.numbers import seeded
from probekit.errors import BackboneError, OptionError, reason_of
from probekit.store.json_types import list_of, read_object, text


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
    model: PreTrainedModel,
    config: PretrainedConfig,
    dtype: torch.dtype,
    placed: Mapping[str, Any],
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


def read_with(kind: Any, checkpoint: Checkpoint, **options: Any) -> Any:
    """Let a class of transformers read files of a model: none of the Hub's, no untrusted code.

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
    with quiet_transformers(), seeded(0):  # older transformers draw weights before they read them
        return kind.from_pretrained(
            folder, local_files_only=True, trust_remote_code=checkpoint.trusted, **options
        )


def load_config(checkpoint: Checkpoint) -> PretrainedConfig:
    """Read the configuration of a model.

    Raises:
        BackboneError: it is damaged, says sizes that no model has, or is of a type that
            transformers does not know and whose code is not trusted.
        OptionError: code is trusted that is not there.
    """
    check_trusted(checkpoint)
    if not checkpoint.gguf_file:
        refuse_sizes(checkpoint.name, read_object(checkpoint.folder / "config.json") or {})
    try:
        config: PretrainedConfig = read_with(AutoConfig, checkpoint)
        if not list_of(text)(config.architectures or []):
            raise TypeError("its architectures are not a list of names")
        if checkpoint.trusted:
            register_own(checkpoint, config)
    except Exception as error:  # JSON, key, value and library errors, by damage; the code's own
        if not checkpoint.trusted and (why := refusal(checkpoint)):
            raise BackboneError(why) from error
        where = checkpoint.folder / (checkpoint.gguf_file or "config.json")
        raise BackboneError(
            f"model {checkpoint.name!r}: its configuration {where} cannot be used "
            f"({reason_of(error)}). Expected a model type that transformers has built in."
        ) from error
    refuse_sizes(checkpoint.name, plain_config(config))
    return config


def plain_config(config: PretrainedConfig) -> dict[str, Any]:
    """Return a configuration as JSON values; what JSON has not (infinity, a dtype) becomes text."""
    return dict(json.loads(json.dumps(config.to_dict(), default=str), parse_constant=str))


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


_NEEDED = ("AutoConfig", "AutoModel")


def own_classes(checkpoint: Checkpoint) -> Mapping[str, str]:
    """Return the classes of its own code that a model's configuration names (``auto_map``)."""
    if checkpoint.gguf_file:
        return {}
    try:
        config = json.loads((checkpoint.folder / "config.json").read_text("utf-8"))
        auto_map = config.get("auto_map")
    except (ValueError, AttributeError, RecursionError):  # which reading the configuration says
        return {}
    return auto_map if isinstance(auto_map, dict) else {}


def check_trusted(checkpoint: Checkpoint) -> None:
    """Check that the code of a model is there to run, where the user has typed that it may.

    Raises:
        OptionError: the model has none.
        BackboneError: its configuration names no class that would do, or one elsewhere.
    """
    named, name = own_classes(checkpoint), checkpoint.name
    if not checkpoint.trusted:
        return
    if not named:
        raise OptionError(
            f"--trust-remote-code: model {name!r} has no code of its own (no auto_map in its "
            "config.json). Leave it out."
        )
    if missing := [kind for kind in _NEEDED if kind not in named]:
        raise BackboneError(
            f"model {name!r}: the auto_map of its config.json has no {missing[0]}, which probekit "
            "needs to get its hidden states. Choose another model."
        )
    elsewhere = [source for source in map(str, named.values()) if "--" in source]
    if elsewhere:
        raise BackboneError(
            f"model {name!r}: its code is in another repository ({elsewhere[0].split('--')[0]}), "
            "and config.json pins no revision of it. Copy its .py files into the model's folder, "
            "and remove the repository from auto_map in config.json."
        )


def register_own(checkpoint: Checkpoint, config: PretrainedConfig) -> None:
    """Let transformers build models of a configuration whose code the user trusts.

    Raises:
        Exception: whatever the code raises.
    """
    source, folder = own_classes(checkpoint)["AutoModel"], str(checkpoint.folder)
    model = get_class_from_dynamic_module(source, folder, local_files_only=True)
    AutoModel.register(type(config), model, exist_ok=True)


def refusal(checkpoint: Checkpoint) -> str | None:
    """Return why a model cannot be read without its own code; None of a model that has none."""
    if "AutoConfig" not in own_classes(checkpoint):
        return None
    files = ", ".join(sorted(path.name for path in checkpoint.folder.glob("*.py")))
    where = f"{checkpoint.folder}: {files}" if files else "the .py files of its repository"
    return (
        f"model {checkpoint.name!r} runs its own code, which could do anything on this machine. "
        f"Read it ({where}); if you trust it, give --trust-remote-code."
    )


def code_digest(folder: Path) -> str:
    """Return the digest of all code in a model's folder (64 hex digits), by path and content."""
    return digest(
        {path.relative_to(folder).as_posix(): digest_file(path) for path in folder.rglob("*.py")}
    )
