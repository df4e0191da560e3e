"""The weights of a model: read from disk, all there and all used, or drawn at random."""

import copy
import logging
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args

import torch
import transformers
from transformers import PretrainedConfig, PreTrainedModel

from probekit.backbone import architecture
from probekit.backbone.checkpoint import refuse_adapter
from probekit.backbone.facts import Inspection
from probekit.backbone.forward import hidden_states, quiet_transformers
from probekit.backbone.given_model import POOLER, GivenModel
from probekit.backbone.miniature import plain_ids
from probekit.backbone.model_files import read_with
from probekit.backbone.padding import ROUNDING, row_error
from probekit.backbone.placement import keep_layout
from probekit.backbone.structure import embedding_rows
from probekit.base.machine import available_memory, native_bfloat16
from probekit.base.notices import human_bytes
from probekit.base.numbers import seeded
from probekit.base.registry import choose
from probekit.errors import BackboneError, reason_of

logger = logging.getLogger(__name__)

_CONSTANT = re.compile(
    r"(.*\.)?(position_ids|token_type_ids|inv_freq|masked_bias|bias_mask|attn\.bias)"
)
"""Constants that older checkpoints hold beside the weights."""

_TIME = 8
"""Subwords on which a text model is compared with the whole."""

NOWHERE: Mapping[str, Any] = MappingProxyType({})
"""What places a model in the host's memory, as it is."""

ComputeDtype = Literal["auto", "float32", "bfloat16", "float16"]


def resolve_compute_dtype(name: str, device: str = "cpu") -> torch.dtype:
    """Turn ``--compute-dtype`` into a torch dtype.

    Args:
        name: "float32", "bfloat16", "float16", or "auto": bfloat16 where the device multiplies
            it in hardware (CUDA since compute capability 8.0, CPUs with AVX512-BF16 or AMX),
            else float32.
        device: a torch device string.

    Raises:
        UnknownNameError: another name.
    """
    choose("--compute-dtype", name, dict.fromkeys(get_args(ComputeDtype)))
    if name == "auto":
        name = "bfloat16" if native_bfloat16(device) else "float32"
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def check_memory(inspection: Inspection, dtype: torch.dtype) -> None:
    """Check that a model fits into what memory is free, before any of it is taken.

    Raises:
        BackboneError: it does not.
    """
    needed, free = inspection.n_values * dtype.itemsize, available_memory()
    if needed <= free or isinstance(inspection.checkpoint, GivenModel):
        return
    name, kind = inspection.info.name, str(dtype).removeprefix("torch.")
    raise BackboneError(
        f"model {name!r}: its {inspection.n_values:,} weights need {human_bytes(needed)} in "
        f"{kind}, and only {human_bytes(free)} of memory are free. Choose a smaller model, "
        "--compute-dtype bfloat16, --quantize, or --device-map auto."
    )


def load_model(
    inspection: Inspection, dtype: torch.dtype, placed: Mapping[str, Any] = NOWHERE
) -> PreTrainedModel:
    """Load a model without head and pooler, frozen, in evaluation mode.

    Args:
        inspection: the model.
        dtype: of its weights, and of hidden states where these are quantized.
        placed: options of ``from_pretrained`` that quantize it or lay it out; without, it lies in
            the host's memory.

    Raises:
        HubError: a download failed.
        BackboneError: the files are damaged; weights are missing, left over or of another shape.
    """
    config, name = inspection.whole, inspection.info.name
    auto, backbone_class = architecture.backbone_classes(config)
    halved = config.is_encoder_decoder and architecture.saved_alone(config)
    kind = backbone_class if halved else auto
    options = {**architecture.without_pooler(config), **_prefix_of_head(config, backbone_class)}
    whole, report = read_weights(inspection, kind, dtype=dtype, **options, **placed)
    if inspection.info.identity.adapter is not None:
        logger.info("%s: the adapter beside its weights is applied.", name)
    model = architecture.backbone_of(whole) or whole
    path = next(path for path, module in whole.named_modules() if module is model)
    _check_fit(name, whole, path, model, report)
    keep_layout(whole, path, model)
    if config is not inspection.config:
        logger.info("%s: its text model is read (%s).", name, type(model).__name__)
        _check_text(name, whole, model)
    return model


def _prefix_of_head(config: PretrainedConfig, kind: Any) -> dict[str, Any]:
    """Return the option that renames a backbone whose head saved it under a prefix of its own.

    Those for questions do, in families such as Llama: ``transformer.layers``, for the others'
    ``model.layers``.

    Args:
        config: of the checkpoint.
        kind: the class of the backbone.
    """
    saved = getattr(transformers, (config.architectures or [""])[0], None)
    theirs, prefix = (getattr(model, "base_model_prefix", "") for model in (saved, kind))
    if not theirs or not prefix or theirs == prefix:
        return {}
    return {"key_mapping": {rf"^{re.escape(theirs)}\.": f"{prefix}."}}


def _check_fit(
    name: str, whole: PreTrainedModel, path: str, model: PreTrainedModel, report: Mapping[str, Any]
) -> None:
    """Check that the tensors of a backbone were all there, and all used.

    Args:
        name: the model as the user wrote it.
        whole: what was loaded.
        path: the backbone's name in it.
        model: the backbone, which is the whole or lies in it.
        report: what transformers says of the loading.

    Raises:
        BackboneError: some are missing, left over or of another shape.
    """
    # A checkpoint that was saved with a head has the backbone's tensors under the prefix of its
    # family ("bert.encoder..."), or by their own names ("encoder..."). What lies beside them is a
    # head, whatever it is called; or the half of an encoder-decoder that is not read.
    inside = {key.split(".")[0] for key in model.state_dict()} | {model.base_model_prefix}
    places = {tensor.data_ptr() for tensor in model.state_dict().values()}
    # the names of its tensors in the whole, shared embeddings included
    tensors = whole.state_dict().items()
    in_whole = {name for name, tensor in tensors if tensor.data_ptr() in places}
    keys = {
        "missing": [
            key
            for key in report["missing_keys"]
            if key in in_whole
            and not POOLER.fullmatch(key)
            # made by rule, and saved by some classes alone: Marian's positions
            and "Sinusoidal" not in type(whole.get_submodule(key.rpartition(".")[0])).__name__
        ],
        "unknown": [
            key
            for key in report["unexpected_keys"]
            if _within(path, key).split(".")[0] in inside
            and not (POOLER.fullmatch(key) or _CONSTANT.fullmatch(key))
        ],
        "of another shape": [
            str(item[0]) for item in report["mismatched_keys"] if str(item[0]) in in_whole
        ],
    }
    troubles = [
        f"{len(names)} {what} ({', '.join(sorted(names)[:3])}{', ...' if len(names) > 3 else ''})"
        for what, names in keys.items()
        if names
    ]
    if troubles:
        raise BackboneError(
            f"model {name!r}: weights do not fit its configuration: {'; '.join(troubles)}. They "
            "belong to another model or version."
        )


def _check_text(name: str, whole: PreTrainedModel, model: PreTrainedModel) -> None:
    """Check that the text model of several makes, by itself, what it makes of a text in the whole.

    Raises:
        BackboneError: it does not, or the whole cannot run on a text alone.
    """
    plain = plain_ids(embedding_rows(name, model), whole.config, model.config)
    ids = torch.tensor([plain[:_TIME]])
    together, alone = (
        [state[0] for state in hidden_states(name, each, ids)] for each in (whole, model)
    )
    if len(together) != len(alone) or row_error(together, alone) > ROUNDING[model.dtype]:
        raise BackboneError(
            f"model {name!r} ({whole.config.model_type}): its text model {type(model).__name__} "
            "gives different states alone. Choose its text-only release."
        )


def _within(path: str, key: str) -> str:
    """Return a tensor's name as from the module at a path on; nothing of what is not in there."""
    return f".{key}".partition(f".{path}." if path else ".")[2]


def read_weights(
    inspection: Inspection, kind: Any, *, dtype: torch.dtype | str, **options: Any
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Load a model as one of transformers' ``AutoModel`` classes, frozen, evaluating, on the CPU.

    Args:
        inspection: the model.
        kind: the class.
        dtype: of the weights; ``auto`` is as stored.
        options: more arguments of ``from_pretrained``.

    Returns:
        The model, and what transformers reports of loading it (``output_loading_info``).

    Raises:
        HubError: a download failed.
        BackboneError: the files are damaged.
    """
    checkpoint = inspection.checkpoint
    if isinstance(checkpoint, GivenModel):
        return _copy_weights(inspection, checkpoint, kind, dtype=dtype, **options)
    checkpoint.fetch()
    for configuration in checkpoint.adapter[:1]:
        refuse_adapter(checkpoint.name, configuration.path)
    if not checkpoint.gguf_file:
        options["use_safetensors"] = checkpoint.weights[0].name.endswith(".safetensors")
    options |= {"config": inspection.whole, "dtype": dtype, "output_loading_info": True}
    try:
        model, report = read_with(kind, checkpoint, **options)
    except Exception as error:  # damaged files raise whatever their reader raises
        raise BackboneError(
            f"model {checkpoint.name!r}: its weights in {checkpoint.folder} cannot be loaded "
            f"({reason_of(error)}). Download or save the model again."
        ) from error
    return model.eval().requires_grad_(False), report


def _copy_weights(
    inspection: Inspection,
    given: GivenModel,
    kind: Any,
    *,
    dtype: torch.dtype | str,
    **options: Any,
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Do the same of a model in memory, whose own dtype is ``auto``.

    Tensors of the same dtype on the CPU are shared, not copied: they must not be written.
    """
    stored = given.model.dtype if dtype == "auto" else dtype
    options |= {"config": inspection.whole, "dtype": stored, "output_loading_info": True}
    try:
        with architecture.without_memory():
            config = copy.deepcopy(inspection.whole)
            itself = issubclass(kind, PreTrainedModel)
            wanted: Any = kind if itself else type(kind.from_config(config))
        inner = wanted is type(given.backbone)
        tensors = dict(given.tensors if inner else given.model.state_dict())
        with quiet_transformers():
            model, report = wanted.from_pretrained(None, state_dict=tensors, **options)
        model.config._name_or_path = inspection.whole._name_or_path  # transformers writes None
    except Exception as error:  # whatever a configuration that was edited can cause
        raise BackboneError(
            f"model {given.name!r}: its tensors cannot be loaded into a model of its configuration "
            f"({reason_of(error)})."
        ) from error
    return model.train(False).requires_grad_(False), report


def draw_model(
    inspection: Inspection, dtype: torch.dtype, seed: int, placed: Mapping[str, Any] = NOWHERE
) -> PreTrainedModel:
    """Build a model without head and pooler, as transformers initialises it before training.

    Weights are drawn on the CPU in float32, so that they depend on the seed alone, and then loaded
    as a checkpoint's would be: what is no weight (rotary frequencies) keeps the dtype that it has
    in a pretrained model. torch's global random state is left as it was.

    Args:
        inspection: of the model; no weights of it are read.
        dtype: of the result.
        seed: of torch's CPU generator.
        placed: as for `load_model`.
    """
    config = inspection.config
    with quiet_transformers(), seeded(seed):
        drawn = architecture.build_model(config)
        if dtype == torch.float32 and not placed:
            return drawn
        return architecture.loaded_again(drawn, config, dtype, placed)
