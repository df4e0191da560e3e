"""Stand-ins of a model to try things on: its configuration with few blocks, weights at random."""

import copy
import re
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel

from probekit.backbone.architecture import build_model, count_parameters, loaded_again
from probekit.backbone.facts import Inspection
from probekit.backbone.miniature import few_blocks, shake, small_config
from probekit.backbone.placement import placing
from probekit.backbone.quantized import STAND_IN_OUTLIER, quantization
from probekit.backbone.quiet import quiet_transformers
from probekit.backbone.structure import embedding_rows
from probekit.base.machine.hardware import free_memory

LOWERED = 8
"""What a stand-in's length thresholds are lowered to, so that short texts lie on both sides."""

_THRESHOLD = re.compile("window|block_size|chunk|landmark|segment_means|original_max_pos")
_NO_LENGTH = re.compile("pattern|layer|feed_forward|num_chunks")
_MEMORY = 0.5
"""Share of the free memory that a stand-in in float32 may take."""
_Table = MutableMapping[Any, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class StandIn:
    """A random model that computes as another one does.

    Attributes:
        model: frozen, evaluating, on the device.
        inspection: of the model it stands for, with the stand-in's configuration and sizes.
        straddled: whether texts of a few times ``LOWERED`` lie beyond every length threshold.
    """

    model: PreTrainedModel
    inspection: Inspection
    straddled: bool


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
    found = {value for table, key in _threshold_places(vars(config)) for value in _ints(table[key])}
    return sorted(value for value in found if value < longest)


def draw_stand_in(
    inspection: Inspection, config: PretrainedConfig, device: torch.device, dtype: torch.dtype
) -> StandIn:
    """Build a random model whose every weight matters: biases, norms and padding embedding too.

    It is quantized as that model is, with channels that count as outliers.

    It is in float32 where memory allows, else in ``dtype``; torch's random state decides.

    Args:
        inspection: of the model that it stands for.
        config: one of ``stand_in_configs``.
        device: where it is to run.
        dtype: of the model that it stands for.
    """
    with quiet_transformers():
        size = count_parameters(config) * torch.float32.itemsize
        fits = size <= _MEMORY * free_memory(device)
        with torch.device(device):
            model = build_model(config, torch.float32 if fits else dtype)
            shake(model)
        if (quantize := inspection.info.identity.quantize) is not None:
            how = quantization(quantize, model.dtype, outlier=STAND_IN_OUTLIER)
            how |= placing(None, device, quantized=True)
            model = loaded_again(model, config, model.dtype, how)
    name, blocks = inspection.info.name, config.num_hidden_layers
    info = replace(inspection.info, n_blocks=blocks, vocab_size=embedding_rows(name, model))
    structure = inspection.structure.with_blocks(blocks)
    thresholds = length_thresholds(config, info.identity.max_length)
    return StandIn(
        model=model,
        inspection=replace(inspection, info=info, config=config, structure=structure),
        straddled=all(value <= LOWERED for value in thresholds),
    )


def _lowered(value: Any, longest: int) -> Any:
    if isinstance(value, int):
        return LOWERED if LOWERED < value < longest else value
    return type(value)(_lowered(item, longest) for item in value)


def _threshold_places(table: _Table) -> list[tuple[_Table, Any]]:
    """Return the tables and keys of a configuration that hold thresholds, nested ones included."""
    found = []
    for key, value in table.items():
        if isinstance(value, dict):
            found += _threshold_places(value)
        elif _THRESHOLD.search(str(key)) and not _NO_LENGTH.search(str(key)) and _ints(value):
            found.append((table, key))
    return found


def _ints(value: Any) -> list[int]:
    """Return a positive number, or a list of nothing else, as a list."""
    items = value if isinstance(value, list | tuple) else [value]
    plain = all(type(item) is int and item > 0 for item in items)
    return list(items) if plain else []
