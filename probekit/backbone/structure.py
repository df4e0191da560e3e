"""A model's structure, learned by running a small copy of it: its layers, and who sees whom."""

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from probekit.backbone.architecture import building
from probekit.backbone.forward import hidden_states
from probekit.backbone.miniature import build_miniature, plain_ids
from probekit.errors import BackboneError, OptionError
from probekit.tuning.contract import blocks_of

_TIME = 8
"""Subwords that the copy reads."""

_ROUNDING = 1e-5
"""Largest difference between equal states, as a share of the largest: other shapes may round."""

_OF_BLOCKS = ("attention_window",)
"""Options that are lists with a value per block, beside those that are called after layers."""


@dataclass(frozen=True, kw_only=True)
class Structure:
    """What a model does, whatever its weights are.

    Attributes:
        n_blocks: L.
        dim: D, the width of its layers.
        odd: layers that are no rows of this width, and what they are instead ("16 wide").
        causal: whether a position sees only earlier positions.
        final_norm: name of the norm outside of the blocks that makes layer L; None if the last
            block makes it.
    """

    n_blocks: int
    dim: int
    odd: Mapping[int, str]
    causal: bool
    final_norm: str | None

    @property
    def usable(self) -> list[int]:
        """The layers that are of the model's width."""
        return [layer for layer in range(self.n_blocks + 1) if layer not in self.odd]

    def with_blocks(self, count: int) -> "Structure":
        """Return the structure of the same model with another number of blocks."""
        odd = {count if i == self.n_blocks else i: what for i, what in self.odd.items()}
        return replace(self, n_blocks=count, odd=odd)

    def check_layers(self, name: str, layers: Sequence[int]) -> None:
        """Check that the model has layers, and that they are of its width.

        Args:
            name: the model as the user wrote it.
            layers: their numbers.

        Raises:
            OptionError: one is not, and the message names those that are; or there are none.
        """
        wrong = [layer for layer in layers if not 0 <= layer <= self.n_blocks]
        if wrong or not layers:
            raise OptionError(
                f"layers {wrong or 'none'}: {name} has layers 0 (embeddings) to {self.n_blocks}."
            )
        for layer in sorted(set(layers) & self.odd.keys()):
            raise OptionError(
                f"model {name!r}: layer {layer} is {self.odd[layer]}, the others are {self.dim} "
                "wide, and an entry holds layers of one width. Extract only those: --layers "
                f"{','.join(map(str, self.usable))}."
            )


def read_structure(name: str, config: PretrainedConfig) -> Structure:
    """Build a small copy of a model and see what it does.

    Args:
        name: the model as the user wrote it, for messages.
        config: its configuration.

    Raises:
        BackboneError: the copy cannot be built or run, or its layers are no rows of subwords.
    """
    model, text, other = small_copy(name, config)
    changed = torch.cat([text[:, :-1], other], dim=1)
    states, norms = _watched(name, model, text)
    dim, odd = _shapes(name, model, states)
    plain = [layer for layer in range(len(states)) if layer not in odd]
    after = hidden_states(name, model, changed, layers=range(len(states)))
    before = hidden_states(name, model, torch.cat([changed[:, -1:], text[:, 1:]], dim=1))
    if all(are_same(states[layer][:, 1:], before[layer][:, 1:]) for layer in plain):
        raise BackboneError(
            f"model {name!r}: in {type(model).__name__}, no token's state depends on another "
            "(its kernels may be missing here). Choose a model of another family."
        )
    last = len(states) - 1
    made = [norm for norm, output in norms if last not in odd and torch.equal(output, states[-1])]
    seen = Structure(
        n_blocks=last,
        dim=dim,
        odd=odd,
        causal=all(are_same(states[layer][:, :-1], after[layer][:, :-1]) for layer in plain),
        final_norm=made[-1] if made else None,
    )
    return seen.with_blocks(config.num_hidden_layers)


def _watched(
    name: str, model: PreTrainedModel, text: Tensor
) -> tuple[list[Tensor], list[tuple[str, Tensor]]]:
    """Return a model's states, and what the norms outside of its blocks return, as they work.

    Raises:
        BackboneError: it cannot run, or its first states are not the embeddings.
    """
    norms: list[tuple[str, Tensor]] = []
    from_first_block: list[Any] = []

    def record(norm: str, module: nn.Module, arguments: object, output: object) -> None:
        if isinstance(output, Tensor):  # I-BERT's come with a scale
            norms.append((norm, output))

    def note(block: nn.Module, arguments: object, output: Any) -> None:
        from_first_block.append(output[0] if isinstance(output, tuple | list) else output)

    count = model.config.to_dict().get("num_hidden_layers")
    with ExitStack() as hooks:
        for part, module in model.named_modules():
            inside = any(map(str.isdigit, part.split(".")))  # of a ``ModuleList``, so of a block
            if "norm" in type(module).__name__.lower() and not inside:
                hooks.enter_context(module.register_forward_hook(partial(record, part)))
        if isinstance(count, int) and (blocks := blocks_of(model, count)):
            hooks.enter_context(blocks[0].register_forward_hook(note))
        states = hidden_states(name, model, text)
    tensors = [out for out in from_first_block[-1:] if isinstance(out, Tensor)]
    if any(out.shape == states[0].shape and are_same(out, states[0]) for out in tensors):
        raise BackboneError(
            f"model {name!r}: the hidden states of {type(model).__name__} start with the output "
            "of its first block, not with the embeddings. Choose a model of another family."
        )
    return states, norms


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
    cut = shortened(structure, deepest)
    if cut.n_blocks == structure.n_blocks:
        return structure
    blocks = blocks_of(model, structure.n_blocks)
    if blocks is None:
        raise cannot_be_cut(name, deepest, "its blocks are not in one list")
    kept = cut.n_blocks
    del blocks[kept:]
    if structure.final_norm is not None:
        norm = model.get_submodule(structure.final_norm)
        norm.register_forward_hook(lambda norm, given, made: given[0])
    model.config = copy.deepcopy(model.config)
    for option, value in model.config.to_dict().items():
        of_blocks = "layer" in option or option in _OF_BLOCKS
        if of_blocks and isinstance(value, list) and len(value) == structure.n_blocks:
            setattr(model.config, option, value[:kept])  # of what sort each block is
    model.config.num_hidden_layers = kept
    return cut


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


def cannot_be_cut(name: str, deepest: int, why: str) -> BackboneError:
    """Return the error of a model that cannot be cut to its first blocks."""
    return BackboneError(
        f"model {name!r} cannot be cut to {deepest} blocks: {why}. Train heads that read its last "
        "layer, without --layers."
    )


def check_runs(
    name: str, config: PretrainedConfig, dtype: torch.dtype, device: torch.device
) -> None:
    """Run a small copy of a model in a dtype, with and without padding.

    Raises:
        BackboneError: it fails.
    """
    model, text, _ = small_copy(name, config, dtype)
    with building(name, config):  # a device may not have the dtype
        model.to(device)  # type: ignore[arg-type]  # a wrapper hides the method's signature
    mask = torch.ones_like(text)
    mask[:, -2:] = 0
    for given in (None, mask.to(device)):
        hidden_states(name, model, text.to(device), given)


def small_copy(
    name: str, config: PretrainedConfig, dtype: torch.dtype = torch.float32
) -> tuple[PreTrainedModel, Tensor, Tensor]:
    """Return a small copy of a model, a text (1, time) of plain tokens, and one more token (1, 1).

    Raises:
        BackboneError: the copy cannot be built, or has no table of embeddings.
    """
    with building(name, config):
        model = build_miniature(config, dtype)
    ids = torch.tensor([plain_ids(embedding_rows(name, model), model.config)[: _TIME + 1]])
    return model, ids[:, :-1], ids[:, -1:]


def _shapes(
    name: str, model: PreTrainedModel, states: Sequence[Tensor]
) -> tuple[int, dict[int, str]]:
    """Return the width of the layers, and what those are that have another shape.

    Raises:
        BackboneError: there is no layer per block, most are no rows of subwords, or one between
            the first and the last is odd.
    """
    blocks, kind = model.config.num_hidden_layers, f"model {name!r}: {type(model).__name__}"
    if len(states) != blocks + 1:
        raise BackboneError(
            f"{kind} returns {len(states)} hidden states for {blocks} blocks; expected one for the "
            "embeddings and one for each block. Choose a model of another family."
        )
    shapes = [tuple(state.shape) for state in states]
    listed = ", ".join(map(str, dict.fromkeys(shapes)))
    usual, _ = Counter(shapes).most_common(1)[0]
    odd = {i: _in_words(shape) for i, shape in enumerate(shapes) if shape != usual}
    if len(usual) != 3 or usual[:2] != (1, _TIME) or not odd.keys() <= {0, blocks}:
        raise BackboneError(
            f"{kind} returns hidden states of the shapes {listed} for {_TIME} subwords; expected "
            f"(1, {_TIME}, width) from every block. Choose a model of another family."
        )
    return usual[2], odd


def _in_words(shape: tuple[int, ...]) -> str:
    plain = len(shape) == 3 and shape[:2] == (1, _TIME)
    return f"{shape[2]} wide" if plain else f"of the shape {shape} for {_TIME} subwords"


def are_same(first: Tensor, second: Tensor) -> bool:
    """Say whether two states are the same but for rounding."""
    return bool((first - second).abs().max() <= _ROUNDING * first.abs().max())


def embedding_rows(name: str, model: PreTrainedModel) -> int:
    """Return how many token ids a model has an embedding for.

    Raises:
        BackboneError: it has no table of embeddings.
    """
    try:
        weight = model.get_input_embeddings().weight
    except (AttributeError, NotImplementedError) as error:
        raise BackboneError(
            f"model {name!r}: {type(model).__name__} has no table of token embeddings. Choose a "
            "model of another family."
        ) from error
    assert isinstance(weight, Tensor)
    return weight.shape[0]
