"""Open a model for training: find it again, cut it to the blocks that are read, attach a method."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from probekit.backbone import Backbone, GivenModel, load_again
from probekit.backbone.structure import are_same, cannot_be_cut, shorten
from probekit.base.numbers.seeding import torch_generator
from probekit.data.pooling import Pooling
from probekit.errors import BackboneError, OptionError
from probekit.train.live.live_model import LiveModel, logger
from probekit.tuning.contract import Method, Tuned

_TIME = 8
"""Subwords that a cut model is compared on."""


def open_live(
    about: Mapping[str, Any],
    method: Method,
    *,
    layers: Sequence[int],
    seed: int,
    pooling: Pooling,
    dtype: torch.dtype,
    compute_dtype: str,
    batch_tokens: int,
    model: str | GivenModel | None = None,
    device: str = "auto",
    made: str,
    trust_remote_code: bool = False,
) -> LiveModel:
    """Load the model that ``about`` describes, cut it, and attach a method.

    Args:
        about: what the entry says of its model.
        method: what is trained.
        layers: those that are read; what comes after the last of them is cut off.
        seed: of what the method draws, and of dropout.
        pooling: which subwords make a word's row.
        dtype: what rows of a frozen model are rounded to.
        compute_dtype: in which the entry was computed.
        batch_tokens: padded subwords that run at once.
        model: where the model lies now; None is where it was.
        device: where it runs.
        made: what was made with it, for messages.
        trust_remote_code: run code that lies with the model.

    Raises:
        BackboneError: it is another model, or the method cannot be had.
        MissingFileError: no model lies there.
        OptionError: the method has nothing to train here.
    """
    _check_weights(about, method)

    def load() -> Backbone:
        return load_again(
            about,
            model=model,
            device=device,
            compute_dtype=compute_dtype,
            made=made,
            trust_remote_code=trust_remote_code,
            learns=method.trains,
            quantize_for=f"--method {method.name}" if method.quantizes else None,
        )

    if not method.trains:
        try:
            backbone = cut(load(), max(layers))
        except BackboneError as error:  # it may be in part
            logger.debug("%s The whole model runs.", error)
            backbone = load()
        return LiveModel(backbone, method, None, seed, pooling, dtype, batch_tokens)
    backbone = cut(load(), max(layers))
    backbone = replace(backbone, inspection=backbone.inspection.with_room(method))
    tuned = _attach(method, backbone, layers, seed)
    if method.positions and not tuned.learns:  # virtual tokens would move the text all the same
        backbone = cut(load(), max(layers))
        tuned = Tuned(backbone.model, {}, method)
    return LiveModel(backbone, method, tuned.eval(), seed, pooling, torch.float32, batch_tokens)


def _attach(method: Method, backbone: Backbone, layers: Sequence[int], seed: int) -> Tuned:
    """Attach a method, and return what it trains that layers depend on; say where that is nothing.

    Raises:
        BackboneError: the method cannot be had.
        OptionError: it has nothing to train in such a model.
    """
    every = method.attach(backbone.model, torch_generator(seed, "method", method.name))
    values = reached(backbone, every, layers)
    if not values:
        logger.info(
            "--method %s trains nothing that layer %d depends on: the head learns alone there.",
            method.name,
            max(layers),
        )
    return Tuned(backbone.model, values, method)


def _check_weights(about: Mapping[str, Any], method: Method) -> None:
    """Refuse weights that take no gradients, and say what becomes of those of a GGUF file.

    Raises:
        OptionError: the weights of the entry's model are quantized, and the method wants others.
    """
    bits = about["identity"].get("quantize")
    if method.trains and about["identity"].get("tuned"):
        raise OptionError(
            f"--method {method.name}: this entry's model was trained by a run already "
            f"({about['name']}), and is not trained further. Give extract a whole model: the run's "
            "folder backbone under --method full, else what `probekit merge` writes."
        )
    if not method.trains or (method.quantizes and bits == "4bit"):
        return
    if bits:
        raise OptionError(
            f"--method {method.name}: the weights of this entry's model are in {bits}, and take no "
            "gradients. Extract without --quantize, or train beside 4 bits: --quantize 4bit and "
            "--method qlora."
        )
    if about.get("source") == "gguf" and not method.quantizes:
        logger.info(
            "%s is a GGUF file: its weights are unpacked to float32, and what is trained is saved "
            "in safetensors.",
            about["name"],
        )


def cut(backbone: Backbone, deepest: int) -> Backbone:
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
    first = replace(backbone, inspection=replace(inspection, structure=shorter))
    with torch.no_grad():
        after = _states(first, layers)
    if not all(map(are_same, before, after)):
        raise cannot_be_cut(name, deepest, "it computes other states without its later blocks")
    return first


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
    gradients: Sequence[Tensor | None] = [None] * len(values)
    if total.requires_grad:
        gradients = torch.autograd.grad(total, list(values.values()), allow_unused=True)
    for value, gradient in zip(values.values(), gradients, strict=True):
        value.requires_grad_(gradient is not None)
    return {name: value for name, value in values.items() if value.requires_grad}


def _states(backbone: Backbone, layers: Sequence[int]) -> list[Tensor]:
    """Return the states of some layers of a text of the first ids of the vocabulary."""
    time = min(_TIME, backbone.info.identity.max_length)
    ids = torch.arange(time)[None] % backbone.info.vocab_size
    return backbone.layers(ids, torch.tensor([time]), layers)
