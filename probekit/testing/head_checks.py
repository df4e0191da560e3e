"""The contract of heads as checks, and the door through which heads of third parties come in."""

from typing import Any

import torch
from torch import Tensor

from probekit.base.layers import parse_layers, up_to_depth
from probekit.errors import PluginError
from probekit.probe.heads.contract import BackboneFacts, FusionHead, HeadSpec
from probekit.probe.heads.module_head import ModuleFactory, ModuleHead, spec_of_module
from probekit.testing.promises import (
    MASSIVE,
    Check,
    Contract,
    demand,
    demand_finite,
    demand_groups,
    demand_loads,
    demand_tensor,
    demand_texts,
    demand_value,
    global_numbers_untouched,
    moved_from_start,
    refuses,
    seeded_generator,
)

LAYERS, DIM, ROWS, BLOCKS = (1, 2, 4, 6), 48, 9, 6
"""What checks build a head for; the width is one that many numbers divide."""


def build(spec: HeadSpec, seed: int = 0, layers: tuple[int, ...] = LAYERS) -> FusionHead:
    """Return a fresh head in evaluation mode."""
    bound = spec.bind(BackboneFacts(n_blocks=BLOCKS, dim=DIM, config={}))
    return bound.build(layers, DIM, seeded_generator(seed)).eval()


def away_from_start(spec: HeadSpec) -> FusionHead:
    """Return a head away from its start, so that nothing is equal by being zero."""
    return moved_from_start(build(spec))


def sample_rows(
    seed: int = 0, layers: tuple[int, ...] = LAYERS, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return rows of shape (rows, layers, dim), layer-major in memory."""
    rows = torch.randn(len(layers), ROWS, DIM, generator=seeded_generator(100 + seed))
    return rows.to(dtype).transpose(0, 1)


def describes_itself(spec: HeadSpec) -> None:
    """It states its name, source, summary, formula and layers, and a rate between 0 and 1."""
    demand_texts(type(spec), "name", "source", "summary", "formula")
    demand(0 < spec.learning_rate < 1, f"its learning_rate is {spec.learning_rate}")
    layers = parse_layers(spec.default_layers, 12)
    demand(layers[-1] == 12, f"its default_layers {spec.default_layers!r} leave out the last one")


def is_a_value(spec: HeadSpec) -> None:
    """Its dict form is JSON and rebuilds it; it is frozen, and refuses unknown options."""
    demand_value("head", spec)
    refuses(setattr, spec, "name", "x", error=AttributeError)


def is_built_for_any_size(spec: HeadSpec) -> None:
    """It is built for any number of layers and any width (a module names n_layers and dim)."""
    head = build(spec)
    demand(head.reads == spec.reads, "spec and module read different things")
    made_for = head.layers, head.dim
    demand(made_for == (LAYERS, DIM), f"layers and dim of the module are {made_for}")
    demand_tensor("h", head(sample_rows()), (ROWS, head.width), torch.float32)
    demand_tensor("h of no rows", head(sample_rows()[:0]), (0, head.width), torch.float32)
    for depth in (0, 1, 2, 5, BLOCKS):
        layers = up_to_depth(parse_layers(spec.default_layers, BLOCKS), depth)
        z, head = sample_rows(layers=layers), build(spec, layers=layers)
        demand_tensor(f"h of layers {layers}", head(z), (ROWS, head.width), torch.float32)


def is_saved_and_loaded(spec: HeadSpec) -> None:
    """Its state dict holds everything that it learned."""
    demand_loads(away_from_start(spec), build(spec, seed=5), sample_rows())


def is_drawn_from_the_generator(spec: HeadSpec) -> None:
    """Its parameters are drawn from the generator given to build, and from nothing else."""
    with global_numbers_untouched():
        first, second = build(spec, seed=3).state_dict(), build(spec, seed=3).state_dict()
    for name, value in first.items():
        demand(torch.equal(value, second[name]), f"{name} differs for equal seeds")
    third = build(spec, seed=4)
    for name, values in third.named_parameters():
        fixed = isinstance(third, ModuleHead) or bool((values == values.flatten()[:1]).all())
        demand(fixed or not torch.equal(first[name], values), f"{name} is the same for two seeds")


def draws_nothing(spec: HeadSpec) -> None:
    """A pass leaves torch's global random numbers alone, and in evaluation repeats exactly."""
    head, z = build(spec), sample_rows()
    for mode in (True, False):
        with global_numbers_untouched():
            first, second = head.train(mode)(z), head(z)
        may_differ = mode and isinstance(head, ModuleHead)  # dropout, from numbers of its own
        demand(may_differ or torch.equal(first, second), "two passes over the same rows differ")


def is_trained_by_gradients(spec: HeadSpec) -> None:
    """Gradients reach all of its parameters; in a plain module, at least one."""
    head = away_from_start(spec).train()
    h, parameters = head(sample_rows()), dict(head.named_parameters())
    demand(h.requires_grad == bool(parameters), f"{len(parameters)} parameters; h has no gradient")
    if not parameters:
        return
    torch.autograd.backward((h * torch.randn(h.shape, generator=seeded_generator(8))).sum())
    missed = {
        name
        for name, values in parameters.items()
        # a bias of the keys adds the same score to every layer, which softmax cancels
        if values.grad is None or (values.grad.abs().max() <= 1e-6 and name != "key_bias")
    }
    enough = len(missed) < len(parameters) if isinstance(head, ModuleHead) else not missed
    demand(enough, f"no gradient reaches {', '.join(sorted(missed))}")


def fuses_row_by_row(spec: HeadSpec) -> None:
    """What it makes of a row does not depend on the rows beside it."""
    head, z = away_from_start(spec), sample_rows()
    for rows in (torch.randperm(ROWS, generator=seeded_generator()), torch.tensor([2])):
        alike = torch.allclose(head(z[rows]), head(z)[rows], rtol=1e-4, atol=1e-5)
        demand(alike, "other rows, or another order of them, change what it makes of a row")


def projects_as_a_map_after_it(spec: HeadSpec) -> None:
    """``project`` equals a linear map applied to h."""
    head, z, generator = away_from_start(spec), sample_rows(), seeded_generator(3)
    weight = torch.randn(5, head.width, generator=generator)
    bias = torch.randn(5, generator=generator)
    expected = head(z) @ weight.t() + bias
    torch.testing.assert_close(head.project(z, weight, bias), expected, rtol=1e-4, atol=1e-4)


def weighs_its_layers(spec: HeadSpec) -> None:
    """Layer weights, if there are any, belong to its layers, are 0 or more, and sum to 1."""
    head, z = away_from_start(spec), sample_rows()
    layer_weights = head.layer_weights(z)
    weights, layers, raw = layer_weights.weights, layer_weights.layers, layer_weights.raw
    if not layers:
        demand(raw is None and not layer_weights.by_layer(), "weights of no layer")
        return
    shape = (ROWS, len(LAYERS)) if head.per_row else (len(LAYERS),)
    demand(layers == LAYERS, f"weights are of the layers {layers}, not {LAYERS}")
    demand_tensor("weights", weights, shape, torch.float32)
    demand(not weights.requires_grad, "weights carry a gradient")
    demand(bool((weights >= 0).all()), "a weight is negative")
    torch.testing.assert_close(weights.sum(-1), torch.ones(shape[:-1]))
    if raw is not None:
        torch.testing.assert_close(raw.softmax(-1), weights)


def groups_its_parameters(spec: HeadSpec) -> None:
    """Each parameter is in one group, and the spec names every group except ``weights``."""
    demand_groups(build(spec), spec)


def stands_massive_activations(spec: HeadSpec) -> None:
    """Channels near 30,000 give finite vectors, weights and gradients, also in float16."""
    head, z = away_from_start(spec), sample_rows()
    z[0, 1:, 3], z[1, 1:, 3] = MASSIVE, -MASSIVE
    for autocast in (False, True):
        head.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            h = head(z.half())
        demand_finite("h", h)
        demand_finite("a weight", head.layer_weights(z.half()).weights)
        if h.requires_grad:
            torch.autograd.backward(h.mean())
            demand_finite("a gradient", *(values.grad for values in head.parameters()))


def parts_make_its_sum(spec: HeadSpec) -> None:
    """The parts of an additive head sum to h up to a constant; other heads have no parts."""
    head, z = away_from_start(spec), sample_rows()
    if not head.additive:
        refuses(head.layer_parts, z, error=NotImplementedError)
        return
    weight = torch.randn(3, head.width, generator=seeded_generator(1))
    h, parts = head(z).detach(), head.layer_parts(z)
    demand_tensor("parts", parts, (len(LAYERS), ROWS, head.width), torch.float32)
    demand(not parts.requires_grad, "parts carry a gradient")
    constant = h - parts.sum(0)
    torch.testing.assert_close(constant, constant[:1].expand_as(h), atol=1e-5, rtol=0)
    expected = parts @ weight.t()
    torch.testing.assert_close(head.layer_parts(z, weight), expected, atol=1e-5, rtol=1e-5)


OF_SPECS: tuple[Check[HeadSpec], ...] = (describes_itself, is_a_value)
"""What holds for every head."""

HEAD_CHECKS: tuple[Check[HeadSpec], ...] = (
    *OF_SPECS, is_built_for_any_size, is_saved_and_loaded, is_drawn_from_the_generator,
    draws_nothing, is_trained_by_gradients, fuses_row_by_row, projects_as_a_map_after_it,
    weighs_its_layers, groups_its_parameters, stands_massive_activations, parts_make_its_sum,
)  # fmt: skip
"""What holds for every head that reads rows; of one that reads subwords, ``OF_SPECS`` alone."""


ROW_HEAD = Contract("head", HeadSpec, HEAD_CHECKS, built=True)
SUBWORD_HEAD = Contract("head", HeadSpec, OF_SPECS, built=True)


def check_head(head: type[HeadSpec] | ModuleFactory) -> None:
    """Check a head against the contract of heads, with its default options.

    Args:
        head: a `HeadSpec`, or a module's class or function as `register_head` takes it.

    Raises:
        PluginError: it breaks the contract; the message has the promise and what it did.
    """
    spec = _as_spec("mine", head)
    (ROW_HEAD if spec.reads == "rows" else SUBWORD_HEAD).check(spec)


def admit_head(name: str, head: Any, checked: bool) -> type[HeadSpec]:
    """Return the spec of a head that is added, once its contract holds.

    Raises:
        PluginError: it is no head, is called otherwise, or breaks the contract.
    """
    if not callable(head):
        raise PluginError(
            f"found a {type(head).__name__}; expected a HeadSpec, a torch.nn.Module's class, or a "
            "function that makes a module."
        )
    spec = _as_spec(name, head)
    ROW_HEAD.demand_class(name, spec)
    if not checked:
        check_head(spec)
    return spec


def _as_spec(name: str, head: Any) -> type[HeadSpec]:
    """Return the spec of a module's class or function; a spec as it is."""
    is_spec = isinstance(head, type) and issubclass(head, HeadSpec)
    return head if is_spec else spec_of_module(name, head)
