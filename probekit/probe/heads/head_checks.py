"""The contract of heads as checks, and the door through which heads of third parties come in."""

import json
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from probekit.base.contract_checks import Check, check_class, demand, refuses, run_checks
from probekit.base.layers import parse_layers, up_to_depth
from probekit.base.registry import revive
from probekit.errors import OptionError, PluginError, clause_of
from probekit.probe.heads.contract import BackboneFacts, FusionHead, HeadSpec
from probekit.probe.heads.module_head import ModuleFactory, ModuleHead, spec_of_module
from probekit.probe.heads.tokens import TokenStates
from probekit.probe.parameter_groups import demand_groups

LAYERS, DIM, ROWS, BLOCKS = (1, 2, 4, 6), 48, 9, 6
"""What checks build a head for; the width is one that many numbers divide."""

MASSIVE = 29_303.0
"""The largest state of a decoder's first token (SmolLM2-135M); float16 ends at 65,504."""


def build(spec: HeadSpec, seed: int = 0, layers: tuple[int, ...] = LAYERS) -> FusionHead:
    """Return a fresh head in evaluation mode."""
    bound = spec.bind(BackboneFacts(n_blocks=BLOCKS, dim=DIM, config={}))
    return bound.build(layers, DIM, torch.Generator().manual_seed(seed)).eval()


def away_from_start(spec: HeadSpec, layers: tuple[int, ...] = LAYERS) -> FusionHead:
    """Return a head away from its start, so that nothing is equal by being zero."""
    head, generator = build(spec, layers=layers), torch.Generator().manual_seed(7)
    with torch.no_grad():
        for one in head.parameters():
            one.add_(torch.randn(one.shape, generator=generator), alpha=0.2)
    return head


def sample_rows(
    seed: int = 0, layers: tuple[int, ...] = LAYERS, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return rows of shape (rows, layers, dim), layer-major in memory."""
    generator = torch.Generator().manual_seed(100 + seed)
    return torch.randn(len(layers), ROWS, DIM, generator=generator).to(dtype).transpose(0, 1)


def describes_itself(spec: HeadSpec) -> None:
    """It says its name, source, summary and formula, a rate between 0 and 1, and its layers."""
    for what in ("name", "source", "summary", "formula"):
        text = vars(type(spec)).get(what, "") or getattr(type(spec), what)
        demand(isinstance(text, str) and bool(text), f"its {what} is {text!r}")
    demand(0 < spec.learning_rate < 1, f"its learning_rate is {spec.learning_rate}")
    layers = parse_layers(spec.default_layers, 12)
    demand(layers[-1] == 12, f"its default_layers {spec.default_layers!r} leave out the last one")


def is_a_value(spec: HeadSpec) -> None:
    """Its dict form is JSON, gives an equal spec, and takes no unknown option; it is frozen."""
    known = {spec.name: type(spec)}
    again = revive("head", json.loads(json.dumps(spec.to_json())), known)
    demand(again == spec, f"{spec} came back as {again}")
    odd = {**spec.to_json(), "no_such_option": 1}
    refuses(lambda: revive("head", odd, known), OptionError, "an unknown option")
    refuses(lambda: setattr(spec, "name", "x"), AttributeError, "to set an attribute")


def is_built_for_any_size(spec: HeadSpec) -> None:
    """It is built for any number of layers and any width (a module names n_layers and dim)."""
    head = build(spec)
    demand(head.reads == spec.reads, "spec and module read different things")
    found = head.layers, head.dim
    demand(found == (LAYERS, DIM), f"layers and dim of the module are {found}")
    h = head(sample_rows())
    demand(h.shape == (ROWS, head.width), f"h has shape {tuple(h.shape)}, width {head.width}")
    demand(h.dtype == torch.float32, f"h is in {h.dtype}, and not in float32")
    for depth in (0, 1, 2, 5, BLOCKS):
        layers = up_to_depth(parse_layers(spec.default_layers, BLOCKS), depth)
        z, head = sample_rows(layers=layers), build(spec, layers=layers)
        demand(head(z).shape == (ROWS, head.width), f"wrong shape for layers {layers}")


def takes_no_rows(spec: HeadSpec) -> None:
    """It gives no vectors of its width for no rows."""
    head = build(spec)
    found = head(sample_rows()[:0]).shape
    demand(found == (0, head.width), f"found shape {tuple(found)} for width {head.width}")


def is_saved_and_loaded(spec: HeadSpec) -> None:
    """Its state dict holds all that it learned."""
    head, other = away_from_start(spec), build(spec, seed=5)
    other.load_state_dict(head.state_dict())
    same = torch.equal(head(sample_rows()), other(sample_rows()))
    demand(same, "loaded into another one, it computes something else")


def is_drawn_from_the_generator(spec: HeadSpec) -> None:
    """Its parameters come from the generator that build is given, and from nothing else."""
    before = torch.get_rng_state()
    first, second = build(spec, seed=3).state_dict(), build(spec, seed=3).state_dict()
    untouched = torch.equal(torch.get_rng_state(), before)
    demand(untouched, "torch's global random numbers moved (torch.rand without generator=)")
    for name, value in first.items():
        demand(torch.equal(value, second[name]), f"{name} differs for equal seeds")
    third = build(spec, seed=4)
    for name, one in third.named_parameters():
        fixed = isinstance(third, ModuleHead) or bool((one == one.flatten()[:1]).all())
        demand(fixed or not torch.equal(first[name], one), f"{name} is the same for two seeds")


def draws_nothing(spec: HeadSpec) -> None:
    """A pass leaves torch's global random numbers alone; evaluating, two passes are equal."""
    head, z = build(spec), sample_rows()
    for mode in (True, False):
        before = torch.get_rng_state()
        first, second = head.train(mode)(z), head(z)
        untouched = torch.equal(torch.get_rng_state(), before)
        demand(untouched, "torch's global random numbers moved")
        may_differ = mode and isinstance(head, ModuleHead)  # dropout, from numbers of its own
        demand(may_differ or torch.equal(first, second), "two passes over the same rows differ")


def is_trained_by_gradients(spec: HeadSpec) -> None:
    """Gradients reach its parameters: all of them; of a plain module at least one."""
    head = away_from_start(spec).train()
    h, parameters = head(sample_rows()), dict(head.named_parameters())
    demand(h.requires_grad == bool(parameters), f"{len(parameters)} parameters; h has no gradient")
    if not parameters:
        return
    pull = torch.randn(h.shape, generator=torch.Generator().manual_seed(8))
    torch.autograd.backward((h * pull).sum())
    # a bias of the keys adds the same score to every layer, which softmax cancels
    moved = {
        name
        for name, one in parameters.items()
        if one.grad is not None and (one.grad.abs().max() > 1e-6 or name == "key_bias")
    }
    missed = ", ".join(sorted(parameters.keys() - moved))
    reached = bool(moved) if isinstance(head, ModuleHead) else not missed
    demand(reached, f"no gradient reaches {missed}")


def fuses_row_by_row(spec: HeadSpec) -> None:
    """What it makes of a row does not depend on the rows beside it."""
    head, z = away_from_start(spec), sample_rows()
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))
    for rows in (order, torch.tensor([2])):
        alike = torch.allclose(head(z[rows]), head(z)[rows], rtol=1e-4, atol=1e-5)
        demand(alike, "other rows, or another order of them, change what it makes of a row")


def projects_as_a_map_after_it(spec: HeadSpec) -> None:
    """``project`` gives what a linear map of h gives."""
    head, z, generator = away_from_start(spec), sample_rows(), torch.Generator().manual_seed(3)
    weight = torch.randn(5, head.width, generator=generator)
    bias = torch.randn(5, generator=generator)
    expected = head(z) @ weight.t() + bias
    torch.testing.assert_close(head.project(z, weight, bias), expected, rtol=1e-4, atol=1e-4)


def weighs_its_layers(spec: HeadSpec) -> None:
    """Its layer weights, if it has any, are of its layers, 0 or more, and sum to 1."""
    head, z = away_from_start(spec), sample_rows()
    found = head.layer_weights(z)
    if not found.layers:
        demand(found.raw is None and not found.by_layer(), "weights of no layer")
        return
    shape = (ROWS, len(LAYERS)) if head.per_row else (len(LAYERS),)
    shown = tuple(found.weights.shape)
    demand(found.layers == LAYERS, f"weights are of the layers {found.layers}, not {LAYERS}")
    demand(shown == shape, f"weights have shape {shown}, expected {shape}")
    demand(not found.weights.requires_grad, "weights carry a gradient")
    demand(found.weights.dtype == torch.float32, f"weights are in {found.weights.dtype}")
    demand(bool((found.weights >= 0).all()), "a weight is negative")
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(shape[:-1]))
    if found.raw is not None:
        torch.testing.assert_close(found.raw.softmax(-1), found.weights)


def asks_for_rows_to_weigh(spec: HeadSpec) -> None:
    """Weights that differ by row need the rows; others do not look at them, nor move later."""
    head = build(spec)
    if head.per_row:
        refuses(head.layer_weights, OptionError, "layer_weights without rows")
    else:
        same = torch.equal(head.layer_weights().weights, head.layer_weights(sample_rows()).weights)
        demand(same, "weights depend on rows, and per_row is False")
    found = head.layer_weights(sample_rows())
    before = found.by_layer()
    with torch.no_grad():
        for one in head.parameters():
            one.add_(torch.arange(one.numel()).reshape(one.shape))
    demand(found.by_layer() == before, "weights that were returned changed with the parameters")


def groups_its_parameters(spec: HeadSpec) -> None:
    """Every parameter is in one group, and the spec names all groups but ``weights``."""
    head = build(spec)
    demand_groups(head, head.parameter_groups(), spec.group_rates)


def widens_half_precision(spec: HeadSpec) -> None:
    """Rows in half precision are computed with in float32, also under autocast."""
    head = away_from_start(spec)
    for dtype in (torch.float16, torch.bfloat16):
        z = sample_rows(dtype=dtype)
        demand(head(z).dtype == torch.float32, f"h of {dtype} rows is in {head(z).dtype}")
        demand(torch.equal(head(z), head(z.float())), f"{dtype} rows are not widened first")
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        z = sample_rows(dtype=dtype)
        exact = head(z.float())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h, weights = head(z), head.layer_weights(z).weights
        demand(h.dtype == weights.dtype == torch.float32, "autocast leaves h or weights in half")
        demand(bool((h - exact).norm() < 0.02 * exact.norm()), "autocast moves h by over 2 %")


def stands_massive_activations(spec: HeadSpec) -> None:
    """Channels near 30,000 give finite vectors, weights and gradients, also in float16."""
    head, z = away_from_start(spec), sample_rows()
    z[0, 1:, 3], z[1, 1:, 3] = MASSIVE, -MASSIVE
    for autocast in (False, True):
        head.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            h = head(z.half())
        demand(bool(h.isfinite().all()), "h is not finite")
        demand(
            bool(head.layer_weights(z.half()).weights.isfinite().all()), "a weight is not finite"
        )
        if h.requires_grad:
            torch.autograd.backward(h.mean())
            gradients = [one.grad for one in head.parameters() if one.grad is not None]
            demand(all(bool(one.isfinite().all()) for one in gradients), "a gradient is not finite")


def refuses_other_rows(spec: HeadSpec) -> None:
    """Rows of other layers or another width are refused, and layers that do not ascend."""
    head, none = build(spec), torch.zeros(0, dtype=torch.int64)
    tokens = TokenStates(hidden=sample_rows()[0], lengths=none, source=none, row=none, n_rows=0)
    odd = {
        "rows of 3 layers": sample_rows()[:, :3],
        "narrower rows": sample_rows()[..., :-1],
        "subwords": tokens,
    }
    for what, z in odd.items():
        refuses(lambda z=z: head(z), OptionError, what)  # type: ignore[misc]
    for layers in ((), (2, 1), (1, 1)):
        refuses(lambda own=layers: build(spec, layers=own), OptionError, f"layers {layers}")  # type: ignore[misc]


def parts_make_its_sum(spec: HeadSpec) -> None:
    """If it is additive, its parts make h but for a constant; else it has none."""
    head, z = away_from_start(spec), sample_rows()
    if not head.additive:
        refuses(lambda: head.layer_parts(z), NotImplementedError, "layer_parts")
        return
    weight = torch.randn(3, head.width, generator=torch.Generator().manual_seed(1))
    h, parts = head(z).detach(), head.layer_parts(z)
    demand(parts.shape == (len(LAYERS), ROWS, head.width), f"parts of shape {tuple(parts.shape)}")
    demand(not parts.requires_grad, "parts carry a gradient")
    constant = h - parts.sum(0)
    torch.testing.assert_close(constant, constant[:1].expand_as(h), atol=1e-5, rtol=0)
    expected = parts @ weight.t()
    torch.testing.assert_close(head.layer_parts(z, weight), expected, atol=1e-5, rtol=1e-5)


OF_SPECS: tuple[Check[HeadSpec], ...] = (describes_itself, is_a_value)
"""What holds for every head."""

HEAD_CHECKS: tuple[Check[HeadSpec], ...] = (
    *OF_SPECS, is_built_for_any_size, takes_no_rows, is_saved_and_loaded,
    is_drawn_from_the_generator, draws_nothing, is_trained_by_gradients, fuses_row_by_row,
    projects_as_a_map_after_it, weighs_its_layers, asks_for_rows_to_weigh, groups_its_parameters,
    widens_half_precision, stands_massive_activations, refuses_other_rows, parts_make_its_sum,
)  # fmt: skip
"""What holds for every head that reads rows; of one that reads subwords, ``OF_SPECS`` alone."""


def check_head(head: type[HeadSpec] | ModuleFactory) -> None:
    """Check a head against the contract of heads.

    Args:
        head: a `HeadSpec`, or a module's class or function as `register_head` takes it.

    Raises:
        PluginError: it breaks the contract; the message has the promise and what it did.
    """
    spec = head if _is_spec(head) else spec_of_module("mine", cast(ModuleFactory, head))
    _check(cast(type[HeadSpec], spec))


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
    if not _is_spec(head):
        spec: type[HeadSpec] = spec_of_module(name, cast(Callable[..., nn.Module], head))
    else:
        spec = cast(type[HeadSpec], head)
        check_class(spec, HeadSpec, name)
    if not checked:
        _check(spec)
    return spec


def _is_spec(head: object) -> bool:
    return isinstance(head, type) and issubclass(head, HeadSpec)


def _check(spec: type[HeadSpec]) -> None:
    try:
        made = spec()
    except Exception as error:  # whatever its constructor does
        raise PluginError(
            f"{spec.__name__}() without options failed: {clause_of(error)}."
        ) from error
    run_checks("head", made, HEAD_CHECKS if made.reads == "rows" else OF_SPECS)
