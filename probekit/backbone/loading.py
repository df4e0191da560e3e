"""Read a model's weights from disk, and check that they are all there and all used."""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from transformers import AutoModel, PreTrainedModel

from probekit.backbone.facts import Inspection, without_pooler
from probekit.backbone.quiet import quiet_transformers
from probekit.errors import BackboneError
from probekit.reasons import reason_of

_log = logging.getLogger(__name__)

_POOLER = re.compile(r"(.*\.)?pooler(\..*)?")
_HEAD = re.compile(
    r"(.*\.)?(pooler|cls|lm_head|classifier|pre_classifier|score|qa_outputs|head|embed_out"
    r"|vocab_projector|vocab_transform|vocab_layer_norm|predictions|sop_classifier"
    r"|(generator|discriminator|mask|lm)_predictions|generator_lm_head)(\..*)?"
    r"|decoder\.(weight|bias)"
)
"""Weights of poolers and output heads, which a backbone has no use for."""

_CONSTANT = re.compile(
    r"(.*\.)?(position_ids|token_type_ids|inv_freq|masked_bias|bias_mask|attn\.bias)"
)
"""Constants that older checkpoints hold beside the weights."""


def load_model(inspection: Inspection, dtype: torch.dtype) -> PreTrainedModel:
    """Load a model without head and pooler, frozen, in evaluation mode, on the CPU.

    Raises:
        HubError: a download failed.
        BackboneError: the files are damaged; weights are missing, left over or of another shape.
    """
    options = without_pooler(inspection.config)
    if inspection.source.adapter:
        _log.info("%s: the adapter beside its weights is applied.", inspection.source.name)
    model, report = read_weights(inspection, AutoModel, dtype=dtype, options=options)
    check_report(inspection.source.name, report)
    return model


def read_weights(
    inspection: Inspection,
    kind: Any,
    *,
    dtype: torch.dtype | str,
    options: Mapping[str, Any] | None = None,
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
    source = inspection.source
    source.fetch_weights()
    options = dict(options or {})
    if source.gguf_file:
        options["gguf_file"] = source.gguf_file
    else:
        options["use_safetensors"] = source.weights[0].name.endswith(".safetensors")
    try:
        with quiet_transformers():
            model, report = kind.from_pretrained(
                str(source.folder),
                config=inspection.config,
                dtype=dtype,
                output_loading_info=True,
                local_files_only=True,
                trust_remote_code=False,
                **options,
            )
    except Exception as error:  # damaged files raise whatever their reader raises
        raise BackboneError(
            f"model {source.name!r}: its weights in {source.folder} cannot be loaded "
            f"({reason_of(error)}). Download or save the model again."
        ) from error
    return model.eval().requires_grad_(False), report


def check_report(name: str, report: Mapping[str, Iterable[Any]]) -> None:
    """Check what transformers reports of loading weights.

    Args:
        name: the model, for the message.
        report: ``output_loading_info``: lists of keys by kind of trouble.

    Raises:
        BackboneError: weights are missing, left over (other than heads and poolers), or of
            another shape.
    """
    missing = sorted(key for key in report["missing_keys"] if not _POOLER.fullmatch(key))
    extra = sorted(
        key
        for key in report["unexpected_keys"]
        if not (_HEAD.fullmatch(key) or _CONSTANT.fullmatch(key))
    )
    shapes = sorted(str(item[0]) for item in report["mismatched_keys"])
    troubles = [
        f"{len(keys)} {what} ({', '.join(keys[:3])}{', ...' if len(keys) > 3 else ''})"
        for what, keys in (("missing", missing), ("unknown", extra), ("of another shape", shapes))
        if keys
    ]
    if troubles:
        raise BackboneError(
            f"model {name!r}: weights do not fit its configuration: {'; '.join(troubles)}. The "
            "files belong to another model or version."
        )
