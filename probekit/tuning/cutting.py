"""Cut a model to its first blocks, see that their states stay, and what they depend on."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from probekit.backbone import Backbone
from probekit.errors import BackboneError

_TIME = 8
"""Subwords that a cut model is compared on."""

_ROUNDING = 1e-5
"""Largest difference of equal states, as a share of the largest: other shapes may round."""


def cut(backbone: Backbone, deepest: int) -> Backbone:
    """Return a model of the first blocks of another one, whose layers are the same.

    Args:
        backbone: the model; it is cut in place.
        deepest: the last layer that is wanted, so how many blocks stay.

    Raises:
        BackboneError: its blocks are not found, or it computes other states without the later ones.
    """
    inspection, model = backbone.inspection, backbone.model
    structure = inspection.structure
    if deepest == structure.n_blocks:
        return backbone
    layers = [layer for layer in structure.usable if layer <= deepest]
    with torch.no_grad():
        before = _states(backbone, layers)
    blocks = blocks_of(model, structure.n_blocks)
    if blocks is None:
        raise _uncut(backbone, deepest, "its blocks do not lie in one list")
    kept = max(deepest, 1)  # transformers gives no states of a model without a block
    del blocks[kept:]
    if structure.final_norm is not None:  # layers before the last have not been through it
        model.set_submodule(structure.final_norm, nn.Identity())
    model.config = copy.deepcopy(model.config)
    model.config.num_hidden_layers = kept
    shorter = replace(structure, n_blocks=kept, final_norm=None)
    found = replace(backbone, inspection=replace(inspection, structure=shorter))
    with torch.no_grad():
        after = _states(found, layers)
    for one, other in zip(before, after, strict=True):
        if (one - other).abs().max() > _ROUNDING * one.abs().max():
            raise _uncut(backbone, deepest, "it computes other states without its later blocks")
    return found


def blocks_of(model: nn.Module, count: int) -> nn.ModuleList | None:
    """Return the list of a model's blocks; None where there is not just one list of so many."""
    found = [
        part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == count
    ]
    return found[0] if len(found) == 1 else None


def reached(
    backbone: Backbone, values: Mapping[str, nn.Parameter], layers: Sequence[int]
) -> dict[str, nn.Parameter]:
    """Return those of some values that layers depend on; the others learn nothing, and stay.

    Args:
        backbone: the model.
        values: what is to be trained of it, by name.
        layers: the layers that are read.
    """
    if not values:
        return {}
    total = torch.stack([state.float().sum() for state in _states(backbone, layers)]).sum()
    found = torch.autograd.grad(total, list(values.values()), allow_unused=True)
    for value, gradient in zip(values.values(), found, strict=True):
        value.requires_grad_(gradient is not None)
    return {name: value for name, value in values.items() if value.requires_grad}


def _states(backbone: Backbone, layers: Sequence[int]) -> list[Tensor]:
    """Return the states of some layers of a text of the first ids of the vocabulary."""
    ids = torch.arange(_TIME)[None] % backbone.info.vocab_size
    return backbone.layers(ids, torch.tensor([_TIME]), layers)


def _uncut(backbone: Backbone, deepest: int, why: str) -> BackboneError:
    return BackboneError(
        f"model {backbone.info.name!r} cannot be cut to {deepest} blocks: {why}. Train heads that "
        "read its last layer, without --depth."
    )
