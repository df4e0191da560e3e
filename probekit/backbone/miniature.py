"""Small copies of a model, and stand-ins for it: few blocks, random weights, to try things on.

What a model does (which positions see each other, what its last layer comes from) is learned by
running the copy: no weights need be read, and nothing that is tried changes the model itself.
"""

import copy
import re
from collections.abc import Iterator, MutableMapping
from typing import Any

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

from probekit.backbone.architecture import (
    build_model,
    count_parameters,
    loaded_again,
    without_memory,
)
from probekit.backbone.forward import quiet_transformers
from probekit.backbone.placement import STAND_IN_OUTLIER, quantization
from probekit.base.machine import available_memory, free_memory
from probekit.base.notices import human_bytes
from probekit.base.numbers import seeded

_VOCABULARY = 128
_INNER = (
    "intermediate_size", "moe_intermediate_size", "ffn_dim", "encoder_ffn_dim", "n_inner", "d_ff",
    "hidden_dim", "d_inner",
)  # fmt: skip
"""Widths inside a block that its output does not show."""

_INNER_WIDTH = 64
_TRIAL = 4
_NOISE = 1_000_003  # numbers that are drawn once and repeated; a prime is no multiple of a width
_STEP = 7919  # by which they are turned for the next tensor
_BLOCKS = "num_hidden_layers"
_UNUSED = ("decoder_layers", "num_decoder_layers")
"""Blocks of the half of an encoder-decoder that is not read."""

_WHOLE = 1_000_000_000
"""Parameters of the largest model that is copied whole where its small copy does not run."""


def build_miniature(
    config: PretrainedConfig, dtype: torch.dtype = torch.float32
) -> PreTrainedModel:
    """Build the smallest copy that runs, on the CPU, frozen, in evaluation mode.

    Every parameter is drawn away from zero, since zeros would hide what a module does. torch's
    global random state is left as it was.

    Raises:
        Exception: whatever transformers raises where it cannot build the model.
        MemoryError: it does not fit into memory.
    """
    with seeded(0), torch.device("cpu"):
        try:
            model = _built(small_config(config), dtype)
            model(input_ids=torch.arange(model.config.vocab_size)[None, :_TRIAL])
        except Exception:  # some families tie these sizes to others
            if count_parameters(config) > _WHOLE:
                raise
            model = _built(config, dtype)
        shake(model)
    return model


def _built(config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """Build a model, once it is known that the memory for it is free.

    Raises:
        MemoryError: it is not.
    """
    with without_memory():
        skeleton = build_model(config, dtype)
    needed = sum(tensor.nbytes for tensor in (*skeleton.parameters(), *skeleton.buffers()))
    if needed > (free := available_memory()):
        raise MemoryError(
            f"a copy with few blocks takes {human_bytes(needed)} of memory, and "
            f"{human_bytes(free)} are free"
        )
    return build_model(config, dtype)


def shake(model: nn.Module) -> None:
    """Add noise to all weights: zeros and ones of a fresh model would hide what they multiply."""
    # twice, so that a turn of it by any step is a view, and small weights copy none of it
    noise, start = torch.randn(_NOISE).repeat(2), 0
    means = [buffer for name, buffer in model.named_buffers() if name.endswith("running_mean")]
    for tensor in (*model.parameters(), *means):
        if tensor.is_floating_point():
            start = (start - _STEP) % _NOISE
            turned = noise[start : start + _NOISE]
            if tensor.numel() > _NOISE:
                turned = turned.repeat(-(-tensor.numel() // _NOISE))
            tiled = turned[: tensor.numel()].view(tensor.shape)
            scale = 0.1 if tensor.dim() < 2 else min(0.1, tensor.shape[-1] ** -0.5)
            tensor.add_(tiled, alpha=scale)


def small_config(config: PretrainedConfig) -> PretrainedConfig:
    """Return a copy of a configuration with few blocks, a small vocabulary and inner widths."""
    small = few_blocks(config)
    given = small.to_dict()
    for name in _INNER:
        width = given.get(name)
        if isinstance(width, int) and width > _INNER_WIDTH:
            setattr(small, name, _INNER_WIDTH)
    small.vocab_size = min(small.vocab_size, _VOCABULARY)
    for name, value in given.items():
        if name.endswith("_token_id") and isinstance(value, int) and value >= small.vocab_size:
            setattr(small, name, value % small.vocab_size)
    return small


def few_blocks(config: PretrainedConfig) -> PretrainedConfig:
    """Return a copy with the first block of every kind, and the last one.

    Kinds are told apart by whatever the configuration lists per block.
    """
    count = config.num_hidden_layers
    listed = {
        name: list(values)
        for name, values in vars(config).items()
        if isinstance(values, list | tuple) and len(values) == count
    }
    kinds = list(zip(*listed.values(), strict=True)) or [()] * count
    blocks = sorted({0, count - 1} | {kinds.index(kind) for kind in kinds})
    few = copy.deepcopy(config)
    for name, values in listed.items():
        setattr(few, name, [values[block] for block in blocks])
    given = few.to_dict()
    # ProphetNet sets its halves apart
    setattr(few, "num_encoder_layers" if "num_encoder_layers" in given else _BLOCKS, len(blocks))
    for name in set(_UNUSED) & given.keys():
        setattr(few, name, 1)
    return few


def plain_ids(vocabulary: int, *configs: PretrainedConfig) -> list[int]:
    """Return the ids of tokens that no configuration gives a role: padding, end of text, ..."""
    options = [option for config in configs for option in config.to_dict().items()]
    roles = [value for name, value in options if name.endswith("_token_id")]
    special = {i for ids in roles for i in (ids if isinstance(ids, list) else [ids])}
    return [number for number in range(vocabulary) if number not in special]


LOWERED = 8
"""What a stand-in's length thresholds are lowered to, so that short texts lie on both sides."""


_THRESHOLD = re.compile("window|block_size|chunk|landmark|segment_means|original_max_pos")


_NO_LENGTH = re.compile("pattern|layer|feed_forward|num_chunks")


_MEMORY = 0.5
"""Share of the free memory that a stand-in in float32 may take."""


_Table = MutableMapping[Any, Any]


def stand_in_configs(config: PretrainedConfig, longest: int) -> Iterator[PretrainedConfig]:
    """Yield configurations to try, each more like the given one, and larger, than that before.

    The first has the fewest blocks that show every kind of block, a small vocabulary and low
    length thresholds. Not every family can be built so; the last one is a copy.

    Args:
        config: the model's.
        longest: most subwords of a text.
    """
    for like in (small_config(config), few_blocks(config), copy.deepcopy(config)):
        if any(value > LOWERED for value in length_thresholds(like, longest)):
            low = copy.deepcopy(like)
            for table, key in _threshold_places(vars(low)):
                table[key] = _lowered(table[key], longest)
            yield low
        yield like


def length_thresholds(config: PretrainedConfig, longest: int) -> list[int]:
    """Return the lengths below ``longest`` at which a model says that it changes its ways."""
    thresholds = _threshold_places(vars(config))
    lengths = {length for table, key in thresholds for length in _ints(table[key])}
    return sorted(length for length in lengths if length < longest)


def draw_stand_in(
    config: PretrainedConfig, quantize: str | None, device: torch.device, dtype: torch.dtype
) -> PreTrainedModel:
    """Build a random model whose every weight matters: biases, norms and padding embedding too.

    It is frozen and evaluating, and quantized as the model that it stands for, with channels that
    count as outliers. It is in float32 where memory allows; torch's random state decides.

    Args:
        config: one of ``stand_in_configs``.
        quantize: ``8bit``, ``4bit`` or None, as the model that it stands for.
        device: where it is to run.
        dtype: of the model that it stands for, which it has where memory is short.
    """
    with quiet_transformers():
        size = count_parameters(config) * torch.float32.itemsize
        fits = size <= _MEMORY * free_memory(device)
        with torch.device(device):
            model = build_model(config, torch.float32 if fits else dtype)
            shake(model)
        if quantize is not None:
            how = quantization(quantize, model.dtype, outlier=STAND_IN_OUTLIER)
            how["device_map"] = {"": str(device)}
            model = loaded_again(model, config, model.dtype, how)
    return model


def _lowered(value: Any, longest: int) -> Any:
    if isinstance(value, int):
        return LOWERED if LOWERED < value < longest else value
    return type(value)(_lowered(item, longest) for item in value)


def _threshold_places(table: _Table) -> list[tuple[_Table, Any]]:
    """Return the tables and keys of a configuration that hold thresholds, nested ones included."""
    places = []
    for key, value in table.items():
        if isinstance(value, dict):
            places += _threshold_places(value)
        elif _THRESHOLD.search(str(key)) and not _NO_LENGTH.search(str(key)) and _ints(value):
            places.append((table, key))
    return places


def _ints(value: Any) -> list[int]:
    """Return a positive number, or a list of nothing else, as a list."""
    items = value if isinstance(value, list | tuple) else [value]
    plain = all(type(item) is int and item > 0 for item in items)
    return list(items) if plain else []
