"""Where the blocks of a model lie: on one device, or over several and the host's memory."""

import copy
import platform
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import BitsAndBytesConfig, PretrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from probekit.backbone.checkpoint import Checkpoint
from probekit.backbone.given_model import GivenModel
from probekit.base.installation import install_extra
from probekit.base.machine import pick_device
from probekit.base.registry import nearest
from probekit.base.replacing import scratch
from probekit.errors import BackboneError, OptionError

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
            f"unknown --device-map {device_map!r}.{nearest(device_map, DEVICE_MAPS)} Choose from: "
            f"{', '.join(DEVICE_MAPS)}; or give --device for one device."
        )
    places = () if isinstance(device_map, str) else device_map.values()
    for device_name in map(_named, places):
        if device_name != "disk":
            pick_device(device_name)
    if device != "auto":
        raise OptionError(
            f"--device-map {device_map} and --device {device} were both given; choose one."
        )
    if given:
        raise OptionError(
            f"--device-map {device_map}: a model in memory stays on its device. Save it, and give "
            "its folder."
        )
    if find_spec("accelerate") is None:
        raise BackboneError(
            f"--device-map {device_map}: this needs the package accelerate. "
            + install_extra("device-map")
        )


def placing(
    device_map: DeviceMap | None, device: torch.device, quantized: bool, offloaded: ExitStack
) -> dict[str, Any]:
    """Return the options of ``from_pretrained`` that lay a model out as it is read.

    Args:
        device_map: how; None is on one device.
        device: that one.
        quantized: whether weights are quantized, which happens where they are to lie; others are
            read to the host's memory, and moved from there.
        offloaded: gets the folder of what goes to the disk, if any does.
    """
    if device_map is None:
        return {"device_map": {"": str(device)}} if quantized else {}
    rule = device_map if isinstance(device_map, str) else dict(device_map)
    return {"device_map": rule, "offload_folder": str(offloaded.enter_context(scratch()))}


def keep_layout(whole: PreTrainedModel, path: str, model: PreTrainedModel) -> None:
    """Let a part of a model that lies on several devices know its own layout.

    Args:
        whole: the model.
        path: name of the part in it.
        model: the part.
    """
    if model is whole or (layout := layout_of(whole)) is None:
        return
    own_layout = {}
    for name, device in layout.items():
        if f"{name}.".startswith(f"{path}."):
            own_layout[name.removeprefix(path).removeprefix(".")] = device
        elif f"{path}.".startswith(f"{name}." if name else ""):
            own_layout[""] = device
    vars(model)[_MAP] = own_layout


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
    gpus = [device for device in layout.values() if str(device) not in ("cpu", "disk")]
    return torch.device(gpus[0] if gpus else "cpu")


def describe_layout(layout: Mapping[str, Any]) -> str:
    """Return the devices of a layout with their number of parts: ``cuda:0 (17), cpu (16)``."""
    count = Counter(map(_named, layout.values()))
    return ", ".join(f"{device} ({parts})" for device, parts in count.items())


def _named(device: int | str | torch.device) -> str:
    return f"cuda:{device}" if isinstance(device, int) else str(device)


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
        part_copy = copy.deepcopy(part)
    return remove_hook_from_module(part_copy)


QUANTIZATIONS = ("8bit", "4bit")


OUTLIER = 6.0
"""Beyond this, LLM.int8() leaves a channel of a batch in float16, for all of the batch's rows."""


STAND_IN_OUTLIER = 2.0
"""The same for stand-ins: random weights make no channel that is as large as a trained model's."""


_REPACKS = "support_avx512bf16_for_cpu"
"""What tells a layer of bitsandbytes that it may lie as one kernel for inference wants it."""


def check_quantizable(
    checkpoint: Checkpoint | GivenModel, config: PretrainedConfig, asked: str
) -> None:
    """Refuse what bitsandbytes cannot make of a model, before anything is read.

    Args:
        checkpoint: the model.
        config: its configuration.
        asked: the option that asks for it, as typed.

    Raises:
        OptionError: the model lies in memory or in a GGUF file, or is quantized already.
        BackboneError: bitsandbytes is not installed.
    """
    said = f"{asked}: model {checkpoint.name!r}"
    if isinstance(checkpoint, GivenModel):
        raise OptionError(
            f"{said} is in memory, and weights are quantized as they are loaded. Give a model that "
            "was loaded quantized, or save this one and give its folder."
        )
    if checkpoint.kind == "gguf":
        raise OptionError(
            f"{said} is a GGUF file, whose weights are unpacked to the compute dtype. Leave it "
            "out, or name the folder of the original weights."
        )
    if (saved_as := getattr(config, "quantization_config", None)) is not None:
        method = (
            saved_as.get("quant_method") if isinstance(saved_as, Mapping) else saved_as.quant_method
        )
        raise OptionError(f"{said} was saved quantized ({method}). Leave it out.")
    if any(find_spec(package) is None for package in ("bitsandbytes", "accelerate")):
        raise BackboneError(
            f"{said}: this needs the packages bitsandbytes and accelerate. "
            + install_extra("finetune" if said.startswith("--method") else "quantize")
        )


def quantization(
    quantize: str | None, dtype: torch.dtype, *, outlier: float = OUTLIER
) -> dict[str, Any]:
    """Return the options of ``from_pretrained`` that quantize a model; none for None.

    Args:
        quantize: ``8bit`` is LLM.int8() (Dettmers et al. 2022), ``4bit`` is NF4 in blocks of 64
            (Dettmers et al. 2023), whose weights are unpacked to the dtype in every product.
        dtype: of hidden states.
        outlier: of ``8bit``, the size from which on channels stay in float16.
    """
    if quantize is None:
        return {}
    options: dict[str, Any] = (
        {"load_in_8bit": True, "llm_int8_threshold": outlier}
        if quantize == "8bit"
        else {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": dtype}
    )
    make: Any = BitsAndBytesConfig  # which has no types
    return {"quantization_config": make(**options)}


def keep_gradients(model: nn.Module) -> None:
    """Have layers in 4 bits stay as gradients go through them.

    On CPUs with AVX512-BF16 bitsandbytes repacks them at the first input in evaluation, for
    products in bfloat16 that end every gradient without an error, in training as well.
    """
    for module in model.modules():
        if _REPACKS in vars(module):
            vars(module)[_REPACKS] = False


class PackedLinear(nn.Module):
    """A linear layer that computes what ``torch.nn.Linear`` or transformers' ``Conv1D`` does.

    Those pack their weight anew in every call, or leave float32 to a library that is slow on some
    processors. In bfloat16 the results are the same bit by bit, in float32 up to rounding.

    Attributes:
        in_features: width of the rows that come in.
        out_features: width of those that go out.
        bias: as in the layer; None if it has none.
    """

    def __init__(self, layer: nn.Linear | Conv1D) -> None:
        """Pack the weight of ``layer``, which is not needed any more then."""
        super().__init__()
        self._turned = isinstance(layer, Conv1D)
        weight = layer.weight.t().contiguous() if self._turned else layer.weight
        self.out_features, self.in_features = weight.shape
        self.bias = layer.bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight)

    @property
    def weight(self) -> Tensor:
        """The layer's weight, unpacked in every call: some models read it beside the layer."""
        weight: Tensor = self._packed.to_dense()
        return weight.t() if self._turned else weight

    def forward(self, x: Float[Tensor, "*rows in_features"]) -> Float[Tensor, "*rows out_features"]:
        """Return x W^T + b."""
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")
        return out


def pack_linear_layers(model: nn.Module) -> None:
    """Replace the linear layers of a frozen model on a CPU, one by one; gradients end there.

    Only where this machine has packed products; measured on x86, where oneDNN has them all.

    Layers of another class, even of one derived from ``torch.nn.Linear``, stay: they may do more.
    So do those with hooks or parts of their own, such as the adapter of a saved run.
    """
    measured = platform.machine().lower() in ("x86_64", "amd64")
    if not (measured and torch.backends.mkldnn.is_available()):  # type: ignore[no-untyped-call]
        return
    for name, layer in list(model.named_modules()):
        if type(layer) not in (nn.Linear, Conv1D):
            continue
        if layer._forward_hooks or layer._forward_pre_hooks or next(layer.children(), None):
            continue
        dtype = layer.weight.dtype
        half = dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        if half or dtype == torch.float32:
            model.set_submodule(name, PackedLinear(layer))
