"""Where the blocks of a model lie: on one device, or over several and the host's memory."""

import copy
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import groupby
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from probekit.base.machine.hardware import pick_device
from probekit.errors import BackboneError, OptionError, install_extra

DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""The rules by which accelerate lays blocks out."""

DeviceMap = str | Mapping[str, Any]
"""One of these rules, or a device (``cuda:1``, ``cpu``, ``disk``) by the name of a module."""

_MAP = "hf_device_map"
"""Where transformers keeps the layout of a model that lies on several devices."""


def check_device_map(device_map: DeviceMap, device: str, *, given: bool) -> None:
    """Check that blocks can be laid out so.

    Args:
        device_map: how.
        device: what is said of where the model runs; ``auto`` says nothing.
        given: whether the model is in memory already.

    Raises:
        OptionError: no rule is called so, this machine has no such device, or something else says
            where the model lies.
        BackboneError: accelerate is not installed.
    """
    if isinstance(device_map, str) and device_map not in DEVICE_MAPS:
        raise OptionError(
            f"--device-map {device_map!r} is none of: {', '.join(DEVICE_MAPS)}. For one device "
            "give --device."
        )
    places = () if isinstance(device_map, str) else device_map.values()
    for place in map(_named, places):
        if place != "disk":
            pick_device(place)
    if device != "auto":
        raise OptionError(
            f"--device-map {device_map}: --device {device} is one device: give one of the two."
        )
    if given:
        raise OptionError(
            f"--device-map {device_map}: the model is given in memory, and lies where it is. Save "
            "it, and name its folder."
        )
    if find_spec("accelerate") is None:
        raise BackboneError(
            f"--device-map {device_map}: this needs the package accelerate. "
            + install_extra("device-map")
        )


def placing(device_map: DeviceMap | None, device: torch.device, quantized: bool) -> dict[str, Any]:
    """Return the options of ``from_pretrained`` that lay a model out as it is read.

    Args:
        device_map: how; None is on one device.
        device: that one.
        quantized: whether weights are quantized, which happens where they are to lie; others are
            read to the host's memory, and moved from there.
    """
    if device_map is None:
        return {"device_map": {"": str(device)}} if quantized else {}
    folder = tempfile.mkdtemp(prefix="probekit-offloaded-")  # of what goes to the disk, if any does
    rule = device_map if isinstance(device_map, str) else dict(device_map)
    return {"device_map": rule, "offload_folder": folder}


def remove_after(model: PreTrainedModel, folder: str | None) -> None:
    """Remove the folder of what a model has on the disk once the model is gone."""
    if folder is not None:
        weakref.finalize(model, shutil.rmtree, folder, ignore_errors=True)


def keep_layout(whole: PreTrainedModel, path: str, model: PreTrainedModel) -> None:
    """Let a part of a model that lies on several devices know its own layout.

    Args:
        whole: the model.
        path: name of the part in it.
        model: the part.
    """
    if model is whole or (layout := layout_of(whole)) is None:
        return
    own = {}
    for name, place in layout.items():
        if f"{name}.".startswith(f"{path}."):
            own[name.removeprefix(path).removeprefix(".")] = place
        elif f"{path}.".startswith(f"{name}." if name else ""):
            own[""] = place
    vars(model)[_MAP] = own


def layout_of(model: nn.Module) -> dict[str, Any] | None:
    """Return the device of each part of a model, in their order; None where it lies on one."""
    return vars(model).get(_MAP)


def main_device(model: PreTrainedModel) -> torch.device:
    """Return the device that a model's input goes to: of several the first that is a GPU, if any.

    Parts in the host's memory, or on the disk, are fetched to it for each pass.
    """
    layout = layout_of(model)
    if layout is None:
        return model.device
    gpus = [place for place in layout.values() if str(place) not in ("cpu", "disk")]
    return torch.device(gpus[0] if gpus else "cpu")


def describe_layout(layout: Mapping[str, Any]) -> str:
    """Return a layout in words: ``cuda:0 (embed_tokens to layers.15), cpu (layers.16 to norm)``."""
    named = [(name, _named(place)) for name, place in layout.items()]
    runs = [(place, list(run)) for place, run in groupby(named, key=lambda pair: pair[1])]
    return ", ".join(
        f"{place} ({run[0][0]}{f' to {run[-1][0]}' if len(run) > 1 else ''})" for place, run in runs
    )


def _named(place: int | str | torch.device) -> str:
    return f"cuda:{place}" if isinstance(place, int) else str(place)


def host_copy(model: nn.Module, part: nn.Module) -> nn.Module:
    """Return a part of a model as it is in the host's memory, wherever its tensors lie.

    Args:
        model: on one device or several.
        part: a module without others in it.
    """
    if layout_of(model) is None:
        return part
    from accelerate.hooks import remove_hook_from_module
    from accelerate.utils import align_module_device

    with align_module_device(part, torch.device("cpu")):
        own = copy.deepcopy(part)
    return remove_hook_from_module(own)
