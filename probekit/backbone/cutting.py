"""Cut a model to its first blocks, see that their states stay, and what they depend on."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from probekit.backbone.structure import Structure
from probekit.errors import BackboneError
from probekit.tuning.blocks import blocks_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from probekit.backbone.model import Backbone

_TIME = 8
"""Subwords that a cut model is compared on."""

_OF_BLOCKS = ("attention_window",)
"""Options that are lists with a value per block, beside those that are called after layers."""

_ROUNDING = 1e-5
"""Largest difference of equal states, as a share of the largest: other shapes may round."""


def cut(backbone: "Backbone", deepest: int) -> "Backbone":
    """Return a model of the first blocks of another one, whose layers are the same.

    Args:
        backbone: the model; it is cut in place.
        deepest: the last layer that is wanted, so how many blocks stay.

    Raises:
        BackboneError: its blocks are not found, or it computes other states without the later ones.
    """
    inspection, name = backbone.inspection, backbone.info.name
    structure = inspection.structure
    if deepest == structure.n_blocks:
        return backbone
    layers = [layer for layer in structure.usable if layer <= deepest]
    with torch.no_grad():
        before = _states(backbone, layers)
    shorter = shorten(name, backbone.model, structure, deepest)
    found = replace(backbone, inspection=replace(inspection, structure=shorter))
    with torch.no_grad():
        after = _states(found, layers)
    for one, other in zip(before, after, strict=True):
        if (one - other).abs().max() > _ROUNDING * one.abs().max():
            raise _uncut(name, deepest, "it computes other states without its later blocks")
    return found


def shorten(name: str, model: "PreTrainedModel", structure: Structure, deepest: int) -> Structure:
    """Take a model's later blocks away, and return what its structure is then.

    A final norm, which only the last layer goes through, stays where it is, as a saved model needs
    it, and does nothing.

    Args:
        name: the model as the user wrote it, for messages.
        model: it is changed in place, and gets a configuration of its own.
        structure: of the whole.
        deepest: the last layer that is wanted.

    Raises:
        BackboneError: its blocks are not found.
    """
    found = shortened(structure, deepest)
    if found.n_blocks == structure.n_blocks:
        return structure
    blocks = blocks_of(model, structure.n_blocks)
    if blocks is None:
        raise _uncut(name, deepest, "its blocks do not lie in one list")
    kept = found.n_blocks
    del blocks[kept:]
    if structure.final_norm is not None:
        model.get_submodule(structure.final_norm).register_forward_hook(_what_went_in)
    model.config = copy.deepcopy(model.config)
    for option, value in model.config.to_dict().items():
        of_blocks = "layer" in option or option in _OF_BLOCKS
        if of_blocks and isinstance(value, list) and len(value) == structure.n_blocks:
            setattr(model.config, option, value[:kept])  # of what sort each block is
    model.config.num_hidden_layers = kept
    return found


def shortened(structure: Structure, deepest: int) -> Structure:
    """Return the structure of a model without the blocks that its layers up to one do not need.

    One block stays at least, as transformers gives no states without. Where the last layer has
    another width (it is projected after the last block), one more stays, or it would be ``deepest``
    that is projected.

    Args:
        structure: of the whole.
        deepest: the last layer that is wanted.
    """
    last = structure.n_blocks
    kept = max(deepest, 1) + (last in structure.odd)
    if kept >= last:
        return structure
    return replace(structure.with_blocks(kept), final_norm=None)


def reached(
    backbone: "Backbone", values: Mapping[str, nn.Parameter], layers: Sequence[int]
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
    found: Sequence[Tensor | None] = [None] * len(values)
    if total.requires_grad:
        found = torch.autograd.grad(total, list(values.values()), allow_unused=True)
    for value, gradient in zip(values.values(), found, strict=True):
        value.requires_grad_(gradient is not None)
    return {name: value for name, value in values.items() if value.requires_grad}


def _states(backbone: "Backbone", layers: Sequence[int]) -> list[Tensor]:
    """Return the states of some layers of a text of the first ids of the vocabulary."""
    time = min(_TIME, backbone.info.identity.max_length)
    ids = torch.arange(time)[None] % backbone.info.vocab_size
    return backbone.layers(ids, torch.tensor([time]), layers)


def _what_went_in(norm: nn.Module, given: tuple[Any, ...], made: Any) -> Tensor:
    """Put what a module was given in the place of what it made of it."""
    first: Tensor = given[0]
    return first


def _uncut(name: str, deepest: int, why: str) -> BackboneError:
    return BackboneError(
        f"model {name!r} cannot be cut to {deepest} blocks: {why}. Train heads that read its last "
        "layer, without --depth."
    )
