"""Which class of transformers makes a model; sizes that no model has are refused first.

A backbone is a model without a head. Of an encoder-decoder it is the encoder; of a model of several
modalities, the text model.

A size that makes tensors or modules is found by building the model without memory, whatever it is
called. A few are looked at by name, since lists are made of them before there is a model.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import calcsize, error, unpack_from
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules import module as registration
from transformers import AutoModel, AutoModelForTextEncoding, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING, MODEL_MAPPING

from probekit.backbone.forward import quiet_transformers, takes
from probekit.errors import BackboneError, OptionError
from probekit.store.json_types import read_object

MOST_ROWS = 2**21
"""The largest number that a side of a tensor is made of: twice the largest vocabulary."""

_HASHED = re.compile("gram|hash")
"""What tables of hashed n-grams are called; they have any number of rows."""

_PADDED = 2**16
"""How much longer a side may be than a multiple of the number that it is made of."""

MOST_PARTS = 2**12
"""The most modules right inside of one: no list of blocks, experts or tables is as long."""

_LISTED = {
    re.compile(
        r"(n|num)_(\w+_)?(layer|block)s?(_\w+)?|(\w+_)?layers|num_hidden_groups|inner_group_num"
        r"|type_vocab_size|block_sizes|attention_types|attention_window|.+\.(block|expert)_count"
    ): MOST_PARTS,
    re.compile(r"num_labels"): 2**17,
}
"""The most of each number that configurations make lists of, or whose tensors a small copy has."""


def refuse_sizes(model: str, config: Path) -> None:
    """Refuse a configuration with a number that no model has, before anything is built by it.

    Args:
        model: the model, for messages.
        config: its file, or the GGUF file that holds it; it need not be there.

    Raises:
        BackboneError: it has one.
    """
    options = (_gguf_options if config.suffix == ".gguf" else read_object)(config) or {}
    blocks = options.get("num_hidden_layers")
    if isinstance(blocks, int) and blocks < 1:
        raise BackboneError(f"model {model!r}: its configuration says that it has no blocks.")
    for name, value in _numbers(options):
        most = next((bound for form, bound in _LISTED.items() if form.fullmatch(name)), value)
        if value > most:
            raise _of_no_model(model, f"{name} = {value:,}, and no model has more than {most:,}")


@contextmanager
def without_memory(config: PretrainedConfig, name: str = "") -> Iterator[None]:
    """Build a model inside the block whose tensors have shapes alone.

    Args:
        config: its configuration.
        name: the model as the user wrote it; without one it is named by its folder.

    Raises:
        BackboneError: a number of the configuration makes a side of a tensor, or a list of parts,
            as long as no model has.
    """
    model = name or str(config.name_or_path)
    numbers = sorted((value, option) for option, value in _numbers(config.to_dict()))
    large = [
        (value, option)
        for value, option in reversed(numbers)
        if value > MOST_ROWS and not _HASHED.search(option)
    ]

    def check(owner: torch.nn.Module, part: str, value: object) -> None:
        side = max(value.shape, default=0) if isinstance(value, Tensor) else 0
        for number, option in large:
            if side >= number and side % number < _PADDED:
                raise _of_no_model(
                    model,
                    f"{option} = {number:,}, which makes {type(owner).__name__}.{part} {side:,} "
                    f"rows or columns large, and no model has more than {MOST_ROWS:,}",
                )
        if len(owner._modules) >= MOST_PARTS:
            number, option = numbers[-1]
            raise _of_no_model(
                model,
                f"{option} = {number:,}, which gives {type(owner).__name__} that many parts, and "
                f"no model has more than {MOST_PARTS:,}",
            )

    hooks = (
        registration.register_module_module_registration_hook(check),
        registration.register_module_parameter_registration_hook(check),
        registration.register_module_buffer_registration_hook(check),
    )
    try:
        with quiet_transformers(), torch.device("meta"):
            yield
    finally:
        for hook in hooks:
            hook.remove()


_SCALARS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9
"""Types of values in a GGUF file: numbers as `struct` calls them, and those of any length."""


def _gguf_options(file: Path) -> dict[str, Any] | None:
    """Return what a GGUF file says of its model, without arrays; None of one that is damaged.

    It is read here since the library that reads it also makes the lists that it asks for.
    """
    try:
        with file.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as data:
            order = "<" if unpack_from("<I", data, 4)[0] & 0xFFFF else ">"  # of its version
            at = 16  # its name, its version and the number of its tensors come before

            def number(form: str) -> Any:
                nonlocal at
                at += calcsize(form)
                return unpack_from(order + form, data, at - calcsize(form))[0]

            def value(kind: int) -> Any:
                nonlocal at
                if kind == _TEXT:
                    length = number("Q")
                    at += length
                    return data[at - length : at].decode("utf-8", "replace")
                if kind != _ARRAY:
                    return number(_SCALARS[kind])
                kind, length = number("I"), number("Q")
                if kind in _SCALARS:
                    at += length * calcsize(_SCALARS[kind])
                else:
                    for _ in range(length):
                        value(kind)
                return None

            return {value(_TEXT): value(number("I")) for _ in range(number("Q"))}
    except (OSError, ValueError, LookupError, ArithmeticError, RecursionError, error):
        return None


def _of_no_model(model: str, why: str) -> BackboneError:
    return BackboneError(
        f"model {model!r}: its configuration says {why}. The file is damaged, or does not "
        "describe a model."
    )


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
            f"model {name!r} is only part of an encoder-decoder ({kind}), such as its decoder, "
            "and probekit reads the encoder of a whole one. Give the whole model, or another "
            "family."
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
    with without_memory(model.config):
        encoder = known(copy.deepcopy(model.config))
    whole, parts = model.base_model, [name for name, _ in encoder.named_children()]
    if any(not hasattr(whole, name) for name in parts):
        return None
    for name in parts:
        setattr(encoder, name, whole.get_submodule(name))
    encoder.training = model.training  # of itself alone: its modules are the model's
    return encoder
