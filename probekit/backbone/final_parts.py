"""The parts after a model's last block: its norm and its output head.

Families write them in different ways, so every reading that makes sense is tried on random rows.
"""

import copy
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMaskedLM,
    PreTrainedModel,
)
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
)

from probekit.backbone.architecture import backbone_of
from probekit.backbone.facts import Inspection
from probekit.backbone.loading import read_weights
from probekit.errors import BackboneError, reason_of
from probekit.probe.model_parts import ACTIVATIONS, FinalNorm, OutputHead

_TOLERANCE = 1e-4
"""Largest error of the logits, relative to the largest logit."""

_log = logging.getLogger(__name__)


def read_final_norm(module: nn.Module, dim: int) -> FinalNorm | None:
    """Express a norm module as a ``FinalNorm``, proven on random rows.

    Families write the same norm in different ways, so every reading of the module's numbers is
    tried until one reproduces it.

    Returns:
        the norm, or None (with a logged warning) if no reading does.
    """
    module_32 = copy.deepcopy(module).to(device="cpu", dtype=torch.float32)
    rows = torch.randn(8, dim, generator=torch.Generator().manual_seed(0)) * 3 + 1
    with torch.no_grad():
        expected = module_32(rows)
    for norm in _norms(module_32, dim):
        if torch.allclose(norm(rows), expected, rtol=1e-4, atol=1e-4):
            return norm
    _log.warning("probekit cannot reproduce the final norm %s.", type(module).__name__)
    return None


def _norms(module: nn.Module, dim: int) -> Iterator[FinalNorm]:
    parameters = {name: value.detach() for name, value in module.named_parameters(recurse=False)}
    weight = parameters.get("weight", torch.ones(dim))
    bias = parameters.get("bias", torch.zeros(dim))
    named = (module.__dict__.get(name) for name in ("eps", "variance_epsilon", "epsilon"))
    eps = next((value for value in named if isinstance(value, float)), 1e-5)
    for kind in ("layernorm", "rmsnorm"):
        for offset in (0.0, 1.0):
            yield FinalNorm(kind=kind, eps=eps, weight=weight + offset, bias=bias.clone())


def read_output_head(inspection: Inspection) -> OutputHead:
    """Read the head with which a model predicts tokens from its last layer.

    The whole checkpoint is loaded for it, and only the head's tensors are kept, in the dtype in
    which they are stored. An encoder gives its masked-LM head (dense, activation, LayerNorm and
    projection); a causal model its projection, which follows the final norm that layer L has
    already been through.

    Raises:
        BackboneError: the checkpoint has no such head, or one of a form that is not understood
            (transformers would make up random weights for a missing one).
        HubError: a download failed.
    """
    name, config = inspection.info.name, inspection.whole
    causal = inspection.info.causal
    known: Any = MODEL_FOR_CAUSAL_LM_MAPPING if causal else MODEL_FOR_MASKED_LM_MAPPING
    kind: Any = AutoModelForCausalLM if causal else AutoModelForMaskedLM
    if config is not inspection.config and type(config) not in known:
        known, kind = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING, AutoModelForImageTextToText
    if inspection.info.identity.part is not None:
        raise _no_head(name, causal, "the head of the whole model belongs to its decoder")
    if type(config) not in known:
        raise _no_head(name, causal, f"transformers has none for {config.model_type}")
    model, report = read_weights(inspection, kind, dtype="auto")
    base = next(f"{name}." for name, module in model.named_modules() if module is _inner(model))
    missing = sorted(key for key in report["missing_keys"] if not key.startswith(base))
    if missing:
        these = f"{', '.join(missing[:2])}{', ...' if len(missing) > 2 else ''}"
        raise _no_head(name, causal, f"the checkpoint lacks {these}")
    return _extract(name, model, "causal" if causal else "masked", inspection.info.dim)


def _no_head(name: str, causal: bool, why: str) -> BackboneError:
    what = "language-model head" if causal else "masked-language-model head"
    return BackboneError(
        f"model {name!r} has no {what}: {why}. Choose a checkpoint that was saved with it, or use "
        "--tie input: a trained transform over the input embeddings."
    )


def _extract(name: str, model: PreTrainedModel, kind: str, dim: int) -> OutputHead:
    """Read the head's modules in every way that makes sense, and keep the way that is right."""
    readings = list(_heads(model, kind))
    # from small to large, so that activations that are nearly the same come out unlike
    rows = torch.randn(16, dim, generator=torch.Generator().manual_seed(0))
    rows *= torch.logspace(-1, 2, 16)[:, None]
    try:
        expected = _own_logits(model, rows)
        scaled = [_scaled(head, rows, expected) for head in readings]
    except Exception as error:  # a head of another form fails in its own way
        raise _unknown_form(name, model, reason_of(error)) from error
    errors = [float((head(rows) - expected).abs().max()) for head in scaled]
    if not errors or min(errors) > _TOLERANCE * float(expected.abs().max()):
        raise _unknown_form(name, model, "it computes something else")
    return scaled[errors.index(min(errors))]


def _unknown_form(name: str, model: PreTrainedModel, why: str) -> BackboneError:
    return BackboneError(
        f"model {name!r}: the head of {type(model).__name__} is of a form that probekit does not "
        f"know (expected: dense, activation, LayerNorm, projection; {why}). Choose another family, "
        "or use --tie input: a trained transform over the input embeddings."
    )


def _scaled(
    head: OutputHead, rows: Float32[Tensor, "rows dim"], expected: Float[Tensor, "rows vocabulary"]
) -> OutputHead:
    """Return the head with the constant factor that some families give their logits (Cohere)."""
    logits = head(rows)
    factor = float((logits * expected).sum() / logits.square().sum())
    if abs(factor - 1) < _TOLERANCE:
        return head
    bias = None if head.bias is None else head.bias.float() * factor
    return replace(head, weight=head.weight.float() * factor, bias=bias)


def _heads(model: PreTrainedModel, kind: str) -> Iterator[OutputHead]:
    projection = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    modules = [module for module in _head_modules(model) if module is not projection]
    dense = [module for module in modules if isinstance(module, nn.Linear)]
    norms = [module for module in modules if isinstance(module, nn.LayerNorm)]
    if not isinstance(projection, nn.Linear) or len(dense) > 1 or len(norms) > 1:
        return
    others = [module for module in modules if module not in (*dense, *norms)]
    biases = [module.bias for module in others if isinstance(module.bias, nn.Parameter)]
    bias = projection.bias if not biases else biases[0]  # ESM adds its own after the projection
    parts: dict[str, Any] = {"weight": _copy(projection.weight), "bias": _copy(bias)}
    for module in dense:
        parts |= {"dense_weight": _copy(module.weight), "dense_bias": _copy(module.bias)}
    for norm in norms:
        parts |= {"norm_weight": _copy(norm.weight), "norm_bias": _copy(norm.bias)}
        parts["eps"] = norm.eps
    for activation in ACTIVATIONS if dense else (None,):
        yield OutputHead(kind=kind, activation=activation, **parts)


def _inner(model: PreTrainedModel) -> nn.Module:
    """Return the backbone inside of a language model."""
    inner = model.base_model
    # the prefix of Llama 4 is that of a larger model
    backbone = backbone_of(model) if inner is model else inner
    assert backbone is not None
    return backbone


def _head_modules(model: PreTrainedModel) -> list[nn.Module]:
    """Return the modules with weights of their own that are not part of the backbone."""
    inside = set(_inner(model).modules())
    return [
        module
        for module in model.modules()
        if module not in inside and next(module.parameters(recurse=False), None) is not None
    ]


def _own_logits(
    model: PreTrainedModel, rows: Float32[Tensor, "rows dim"]
) -> Float[Tensor, "rows vocabulary"]:
    """Return what the model's own head makes of rows, in float32; the backbone does not run."""
    for module in _head_modules(model):
        module.float()
    output = _OnlyStates(last_hidden_state=rows[None])
    for part in _inner(model).modules():
        if isinstance(part, PreTrainedModel):  # OPT's head calls a part of its backbone
            part.forward = lambda *arguments, **options: output
    with torch.no_grad():
        logits = model(input_ids=torch.zeros(1, len(rows), dtype=torch.long)).logits
    assert isinstance(logits, Tensor)
    return logits[0]


class _OnlyStates(BaseModelOutput):
    """A backbone's output that has nothing but its last layer, whatever a head asks it for."""

    def __getattr__(self, name: str) -> None:
        return None


def _copy(tensor: Tensor | None) -> Tensor | None:
    """Copy a tensor to the CPU, so that the model it belongs to can go."""
    return None if tensor is None else tensor.detach().cpu().clone()
