"""Points inside blocks: what attention and the feed-forward part add, and what their layers read.

Families name and nest modules differently, so names do not tell. A small copy of the model runs
once, and a module is chosen if its output reproduces the block's output. For input ``x`` and output
``y``: ``y = x + attn_out + mlp_out`` (norms first, branches may be parallel), or ``y =
norm(norm(x + attn_out) + mlp_out)`` (norms last).
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from probekit.backbone.architecture import build_model, without_memory
from probekit.backbone.forward import hidden_states
from probekit.backbone.structure import are_same, small_copy
from probekit.base.layers import POINTS, RESID_POST
from probekit.errors import BackboneError
from probekit.tuning.contract import blocks_of

_ATTENTION = "att"
"""In the name of every module that is or holds attention, and of no other."""


@dataclass(frozen=True)
class Place:
    """Where in every block the states of a point are.

    Attributes:
        module: name of a module within the block.
        enters: True if they are the module's input, False if its output.
        scale: what the block multiplies them by before it adds them.
        width: channels of that input; None for outputs, which are D wide.
        heads: attention heads whose outputs lie side by side there; None if their widths differ.
    """

    module: str
    enters: bool = False
    scale: float = 1.0
    width: int | None = None
    heads: int | None = None


@dataclass
class _Calls:
    """What the modules of one block read and returned, in the order in which they returned.

    Attributes:
        read: what each module read, by its name within the block ("" is the block).
        made: what each module returned, likewise.
    """

    read: dict[str, Tensor] = field(default_factory=dict)
    made: dict[str, Tensor] = field(default_factory=dict)

    def candidates(self, *, of_attention: bool) -> list[tuple[str, Tensor]]:
        """Return what modules made that could be added to the block's input."""
        shape = self.read[""].shape
        return [
            (name, made)
            for name, made in self.made.items()
            if name and made.shape == shape and (_ATTENTION in name.lower()) == of_attention
        ]


def _first_tensor(values: Any) -> Tensor | None:
    """Return the first tensor of what a module reads or returns; None if there is none."""
    if isinstance(values, Tensor):
        return values
    if isinstance(values, Mapping):
        values = values.values()
    elif not isinstance(values, Sequence):
        return None
    return next((value for value in values if isinstance(value, Tensor)), None)


def find_points(name: str, config: PretrainedConfig) -> dict[str, Place]:
    """Return where in its blocks a model has points besides the residual stream.

    Those that are not proven, or lie elsewhere in some blocks, are left out.

    Args:
        name: the model as the user wrote it, for messages.
        config: its configuration.

    Raises:
        BackboneError: a small copy cannot be built or run.
    """
    model, text, _ = small_copy(name, config)
    blocks = _blocks(model)
    calls = [_Calls() for _ in blocks]
    with _recording(blocks, calls):
        states = hidden_states(name, model, text)
    proven = [
        list(_additions(seen, config)) if _is_block_of(seen, layer) else []
        for seen, layer in zip(calls, states, strict=False)
    ]
    with without_memory():
        whole = _blocks(build_model(config))
    additions = (
        pair
        for pair in (proven[0] if proven else ())
        if all(pair in others for others in proven) and all(_has(whole, one) for one in pair)
    )
    if (first := next(additions, None)) is None:
        return {}
    attention, feed = first
    places = {"attn_out": attention, "mlp_out": feed}
    for inner, place in (("z", attention), ("mlp_act", feed)):
        read = {_projection(*pair, place.module) for pair in zip(blocks, calls, strict=True)}
        (projection,) = read if len(read) == 1 else (None,)
        if projection is not None and (sized := _with_width(projection, whole)) is not None:
            places[inner] = sized
    if "z" in places and (n_heads := _attention_heads(config, places["z"])):
        places["z"] = replace(places["z"], heads=n_heads)
    return places


def _has(blocks: Sequence[nn.Module], place: Place) -> bool:
    """Say whether every block of a model has the module of a place."""
    return all(place.module in dict(block.named_modules()) for block in blocks)


@contextmanager
def _recording(blocks: Sequence[nn.Module], calls: Sequence[_Calls]) -> Iterator[None]:
    """Write down what all modules of some blocks read and return inside of the context."""
    with ExitStack() as hooks:
        for block, seen in zip(blocks, calls, strict=True):
            for name, module in block.named_modules():
                record = partial(_record, seen, name)
                hooks.enter_context(module.register_forward_pre_hook(record, with_kwargs=True))
                hooks.enter_context(module.register_forward_hook(record, with_kwargs=True))
        yield


def _record(
    seen: _Calls, name: str, module: nn.Module, given: Any, options: Any, *output: Any
) -> None:
    """Keep a copy of what a module reads or, given its output, makes; blocks add in place."""
    states = _first_tensor(output[0] if output else (*given, *options.values()))
    if states is None:
        return
    x = seen.read.get("")
    flattened = x is not None and states.dim() == 2 and len(states) == x.shape[:2].numel()
    axes = (*x.shape[:2], -1) if x is not None and flattened else states.shape
    (seen.made if output else seen.read)[name] = states.clone().view(axes)


def _is_block_of(calls: _Calls, layer: Tensor) -> bool:
    """Say whether a block read a layer and made one of that shape."""
    x, y = calls.read.get(""), calls.made.get("")
    if x is None or y is None or not x.shape == y.shape == layer.shape:
        return False
    return are_same(x, layer)


def _additions(calls: _Calls, config: PretrainedConfig) -> Iterator[tuple[Place, Place]]:
    """Yield the places of attention and feed-forward outputs that explain what a block made."""
    x, y = calls.read[""], calls.made[""]
    scales = {1.0, float(getattr(config, "residual_multiplier", 1.0))}
    found = [calls.candidates(of_attention=attention) for attention in (True, False)]
    for scale, (attention, a) in product(sorted(scales), found[0]):
        first = x + scale * a
        middles = [first, *(calls.made[n] for n in _modules_that_read(calls, first))]
        for (feed, m), middle in product(found[1], middles):
            last = middle + scale * m
            ends = [last, *(calls.made[n] for n in _modules_that_read(calls, last))]
            if any(end.shape == y.shape and are_same(end, y) for end in ends):
                yield Place(attention, scale=scale), Place(feed, scale=scale)


def _modules_that_read(calls: _Calls, states: Tensor) -> list[str]:
    """Return the modules within a block that read some states, and made others of their shape."""
    return [
        name
        for name, read in calls.read.items()
        if name
        and name in calls.made
        and read.shape == states.shape == calls.made[name].shape
        and are_same(read, states)
    ]


def _projection(block: nn.Module, calls: _Calls, added: str) -> str | None:
    """Return the linear layer whose output is what is added, or what a norm makes that of."""
    for name, made in calls.made.items():
        weight = getattr(block.get_submodule(name), "weight", None)
        if not (isinstance(weight, Tensor) and weight.dim() == 2 and name in calls.read):
            continue
        ends = [made, *(calls.made[n] for n in _modules_that_read(calls, made))]
        target = calls.made[added]
        if any(end.shape == target.shape and are_same(end, target) for end in ends):
            return name
    return None


def check_points(name: str, places: Mapping[str, Place], points: Sequence[str]) -> None:
    """Check that a model has points.

    Args:
        name: the model as the user wrote it.
        places: those that it has, see `find_points`.
        points: of ``POINTS``.

    Raises:
        BackboneError: it has not been proven to have one of them in every block.
    """
    for point in points:
        if point != RESID_POST and point not in places:
            others = ", ".join(known for known in POINTS if known in (RESID_POST, *places))
            raise BackboneError(
                f"model {name!r}: no single module gives {point} ({POINTS[point]}) in every block. "
                f"Leave it out of --points; available: {others}."
            )


def _blocks(model: PreTrainedModel) -> list[nn.Module]:
    """Return a model's blocks; none where there is not one list of them."""
    return [*(blocks_of(model, model.config.num_hidden_layers) or ())]


def _with_width(module: str, blocks: Sequence[nn.Module]) -> Place | None:
    """Return the place of what a linear layer reads; None if a block lacks it, or widths differ."""
    place = Place(module, enters=True)
    if not _has(blocks, place):
        return None
    widths = {_input_width(block.get_submodule(module)) for block in blocks}
    return replace(place, width=widths.pop()) if len(widths) == 1 else None


def _attention_heads(config: PretrainedConfig, z: Place) -> int | None:
    """Return how many attention heads lie side by side in ``z``; None where that is not proven.

    In a small copy, part h of ``z`` must depend on the attention probabilities of head h alone.
    """
    eager = copy.deepcopy(config)
    eager._attn_implementation = "eager"
    read: list[Tensor] = []

    def keep(module: nn.Module, given: Any, options: Any) -> None:
        if (states := _first_tensor((*given, *options.values()))) is not None:
            read.append(states)

    try:
        model, text, _ = small_copy("", eager)
        module = _blocks(model.requires_grad_(True))[0].get_submodule(z.module)
        with module.register_forward_pre_hook(keep, with_kwargs=True), torch.enable_grad():
            probabilities = model(text, output_attentions=True).attentions[0]
        n_heads = probabilities.shape[1]
        width = read[0].shape[-1] // n_heads
        touched = []
        for head in range(n_heads):
            part = read[0][..., head * width : (head + 1) * width].sum()
            (gradient,) = torch.autograd.grad(part, probabilities, retain_graph=True)
            touched.append(gradient.abs().amax((0, 2, 3)) > 0)
        proven = torch.equal(torch.stack(touched), torch.eye(n_heads, dtype=torch.bool))
    except Exception:  # families without eager attention, or whose probabilities have other axes
        return None
    whole = (z.width or 0) % n_heads == 0 and read[0].shape[-1] % n_heads == 0
    return n_heads if proven and whole else None


def _input_width(linear: nn.Module) -> int:
    """Return how many numbers a linear layer reads."""
    width, weight = getattr(linear, "in_features", None), linear.weight
    assert isinstance(weight, Tensor)
    return width if isinstance(width, int) else weight.shape[0]  # of GPT-2's Conv1D


@contextmanager
def captured(
    model: PreTrainedModel, places: Mapping[str, Place], points: Mapping[str, Sequence[int]]
) -> Iterator[dict[tuple[str, int], Tensor]]:
    """Collect the states of points while the model runs inside the context.

    Args:
        model: as it is loaded.
        places: of its points, see `find_points`.
        points: the layers of each point that is wanted: layer i is of the block that makes it.

    Yields:
        states by point and layer: (batch, time, width), or (batch x time, width) in families that
        flatten them.
    """
    caught: dict[tuple[str, int], Tensor] = {}
    blocks = _blocks(model)

    def keep(at: tuple[str, int], module: nn.Module, given: Any, options: Any, output: Any) -> None:
        place = places[at[0]]
        states = _first_tensor((*given, *options.values()) if place.enters else output)
        if states is not None:  # a copy, since some blocks add to what modules return in place
            caught[at] = states.detach() if place.enters else states.detach() * place.scale

    with ExitStack() as hooks:
        for at in [(point, layer) for point, layers in points.items() for layer in layers]:
            module = blocks[at[1] - 1].get_submodule(places[at[0]].module)
            hook = module.register_forward_hook(partial(keep, at), with_kwargs=True)
            hooks.enter_context(hook)
        yield caught
