"""Linear layers in 8 or 4 bits: what bitsandbytes makes of a model's weights as they are read."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn
from transformers import BitsAndBytesConfig, PretrainedConfig

from probekit.backbone.checkpoint import Checkpoint
from probekit.backbone.given_model import GivenModel
from probekit.errors import BackboneError, OptionError, install_extra

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
            f"{said} is given in memory, and weights are quantized as they are read. Leave it out "
            "and give a model that was loaded so, or save the model and name its folder."
        )
    if checkpoint.kind == "gguf":
        raise OptionError(
            f"{said} is a GGUF file, whose weights are unpacked to the compute dtype. Leave it "
            "out, or name the folder of the original weights."
        )
    if (own := getattr(config, "quantization_config", None)) is not None:
        method = own.get("quant_method") if isinstance(own, Mapping) else own.quant_method
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
    own: dict[str, Any] = (
        {"load_in_8bit": True, "llm_int8_threshold": outlier}
        if quantize == "8bit"
        else {
            "load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_compute_dtype": dtype,
        }
    )
    make: Any = BitsAndBytesConfig  # which has no types
    return {"quantization_config": make(**own)}


def keep_gradients(model: nn.Module) -> None:
    """Have layers in 4 bits stay as gradients go through them.

    On CPUs with AVX512-BF16 bitsandbytes repacks them at the first input in evaluation, for
    products in bfloat16 that end every gradient without an error, in training as well.
    """
    for module in model.modules():
        if _REPACKS in vars(module):
            vars(module)[_REPACKS] = False
