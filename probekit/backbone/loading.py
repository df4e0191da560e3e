"""Read a model's weights from disk, and check that they are all there and all used."""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from probekit.backbone.facts import Inspection
from probekit.backbone.model_class import auto_class, without_pooler
from probekit.backbone.quiet import quiet_transformers
from probekit.errors import BackboneError, reason_of

logger = logging.getLogger(__name__)

_POOLER = re.compile(r"(.*\.)?pooler(\..*)?")
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
    config = inspection.config
    kind, options = auto_class(config), without_pooler(config)
    if inspection.source.adapter:
        logger.info("%s: the adapter beside its weights is applied.", inspection.source.name)
    model, report = read_weights(inspection, kind, dtype=dtype, options=options)
    check_report(inspection.source.name, model, report)
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


def check_report(name: str, model: PreTrainedModel, report: Mapping[str, Iterable[Any]]) -> None:
    """Check what transformers reports of loading weights.

    Args:
        name: the model, for the message.
        model: what was loaded.
        report: ``output_loading_info``: lists of keys by kind of trouble.

    Raises:
        BackboneError: weights are missing, left over (other than heads and poolers), or of
            another shape.
    """
    missing = sorted(key for key in report["missing_keys"] if not _POOLER.fullmatch(key))
    extra = sorted(_left_over(model, report["unexpected_keys"]))
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


def _left_over(model: PreTrainedModel, unexpected: Iterable[str]) -> list[str]:
    """Return the unexpected tensors that belong to the backbone.

    A checkpoint that was saved with a head has the backbone's tensors under the prefix of its
    family ("bert.encoder..."), or by their own names ("encoder..."). What lies beside them is a
    head, whatever it is called.
    """
    inside = {key.split(".")[0] for key in model.state_dict()} | {model.base_model_prefix}
    return [
        key
        for key in unexpected
        if key.split(".")[0] in inside and not (_POOLER.fullmatch(key) or _CONSTANT.fullmatch(key))
    ]
