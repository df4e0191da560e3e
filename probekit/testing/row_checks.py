"""The contracts of what makes or treats rows before a head: token heads and normalisations."""

import json
from typing import Literal

import torch
from torch import Tensor

from probekit.probe.model_parts import FinalNorm
from probekit.probe.normalization.contract import Normalization, RowFacts
from probekit.probe.token_heads.contract import TokenHeadSpec, TokenPool
from probekit.testing.promises import (
    MASSIVE,
    Check,
    Contract,
    demand,
    demand_finite,
    demand_gradients,
    demand_loads,
    demand_tensor,
    demand_texts,
    demand_value,
    global_numbers_untouched,
    moved_from_start,
    seeded_generator,
)

LAYERS, DIM, ROWS = (0, 2, 3), 8, 50
"""Of the rows that checks fit on; layer 3 is stored behind the model's final norm."""

BOUNDS = torch.tensor([0, 4, 4, 5, 17])
"""Of four texts, one of them without tokens."""


def build(spec: TokenHeadSpec) -> TokenPool:
    """Return a fresh module, away from its start."""
    with global_numbers_untouched():
        pool = spec.build(len(LAYERS), DIM, seeded_generator())
    return moved_from_start(pool)


def sample_tokens(dtype: torch.dtype = torch.float32) -> Tensor:
    """Return states of the tokens of all texts, layer by layer."""
    shape = len(LAYERS), int(BOUNDS[-1]), DIM
    return torch.randn(shape, generator=seeded_generator(1)).to(dtype)


def describes_itself(spec: TokenHeadSpec) -> None:
    """It states its name, source, summary and formula."""
    demand_texts(type(spec), "name", "source", "summary", "formula")


def is_a_value(spec: TokenHeadSpec) -> None:
    """Its dict form is JSON and rebuilds it; it is frozen, and refuses unknown options."""
    demand_value("token head", spec)


def trains_if_it_says_so(spec: TokenHeadSpec) -> None:
    """It has parameters if ``trains`` says so, and they have gradients."""
    pool = build(spec)
    demand(bool([*pool.parameters()]) == spec.trains, "its `trains` does not fit its parameters")
    if spec.trains:
        pool(sample_tokens(), BOUNDS).square().sum().backward()
        demand_gradients(pool.named_parameters())


def makes_a_row_of_each_text(spec: TokenHeadSpec) -> None:
    """It makes rows of the width that it says, zeros of no tokens."""
    pool = build(spec)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        rows = pool(sample_tokens(dtype), BOUNDS)
        demand_tensor("rows", rows, (len(LAYERS), len(BOUNDS) - 1, pool.width), torch.float32)
        demand(not rows[:, 1].any(), "the row of a text without tokens is not zeros")
    nothing = pool(sample_tokens()[:, :0], torch.zeros(1, dtype=torch.int64))
    demand_tensor("rows of no texts", nothing, (len(LAYERS), 0, pool.width), torch.float32)


def reads_texts_apart(spec: TokenHeadSpec) -> None:
    """A text's row does not depend on the other texts, nor a layer's on the other layers."""
    pool, z = build(spec), sample_tokens()
    rows = pool(z, BOUNDS)
    alone = pool(z[:, 5:], torch.tensor([0, 12]))
    demand(torch.allclose(rows[:, 3:], alone, atol=1e-5), "a row depends on the texts before it")
    other = z.clone()
    other[0] = 0
    demand(torch.allclose(pool(other, BOUNDS)[1:], rows[1:], atol=1e-5), "a layer reads another")


def stands_large_values(spec: TokenHeadSpec) -> None:
    """A channel near 30,000 gives finite rows."""
    z = sample_tokens()
    z[:, ::3, 2] = MASSIVE
    demand_finite("a value", build(spec)(z, BOUNDS))


TOKEN_HEAD_CHECKS: tuple[Check[TokenHeadSpec], ...] = (
    describes_itself, is_a_value, trains_if_it_says_so, makes_a_row_of_each_text, reads_texts_apart,
    stands_large_values,
)  # fmt: skip
"""What holds for every token head."""


TOKEN_HEAD = Contract("token head", TokenHeadSpec, TOKEN_HEAD_CHECKS, built=True)
check_token_head = TOKEN_HEAD.check


def sample_rows(
    dtype: torch.dtype = torch.float32, scale: float = 3.0, shift: float = 5.0
) -> Tensor:
    """Return rows of shape (rows, layers, dim), layer-major in memory."""
    z = torch.randn(len(LAYERS), ROWS, DIM, generator=seeded_generator())
    return (z * scale + shift).to(dtype).transpose(0, 1)


def sample_final_norm(kind: Literal["layernorm", "rmsnorm"] = "rmsnorm") -> FinalNorm:
    """Return a model's final norm."""
    weight, bias = torch.rand(2, DIM, generator=seeded_generator(1))
    return FinalNorm(kind=kind, weight=weight, bias=bias if kind == "layernorm" else None, eps=1e-6)


def fit(
    kind: type[Normalization], z: Tensor | None = None, normed_layer: int | None = 3
) -> Normalization:
    """Return a normalisation that is fitted on rows in uneven blocks."""
    facts = RowFacts(final_norm=sample_final_norm(), normed_layer=normed_layer)
    return kind.fit(torch.split(sample_rows() if z is None else z, 13), LAYERS, facts)


def is_of_its_layers(kind: type[Normalization]) -> None:
    """Once fitted, it has its name and the layers that it was fitted for."""
    fitted = fit(kind)
    demand(fitted.name == kind.name and bool(kind.name), f"its name is {fitted.name!r}")
    demand(fitted.layers == LAYERS, f"its layers are {fitted.layers}, fitted for {LAYERS}")


def keeps_shape_and_memory(kind: type[Normalization]) -> None:
    """Rows keep their shape and stay layer-major in memory; the input does not change."""
    z = sample_rows()
    out = fit(kind)(z)
    demand(out.shape == z.shape, f"shape {tuple(z.shape)} became {tuple(out.shape)}")
    demand(out.transpose(0, 1).is_contiguous(), "out.transpose(0, 1) is not contiguous")
    demand(torch.equal(z, sample_rows()), "the rows that it was given changed")


def has_no_parameters(kind: type[Normalization]) -> None:
    """Its numbers are buffers: it has no parameters."""
    names = [name for name, _ in fit(kind).named_parameters()]
    demand(not names, f"it has {', '.join(names)}")


def is_saved_and_loaded(kind: type[Normalization]) -> None:
    """Its dict form is JSON with its name, and rebuilds it together with the state dict."""
    fitted = fit(kind)
    value = json.loads(json.dumps(fitted.to_json()))
    demand(value.get("name") == kind.name, f"its dict form says name {value.get('name')!r}")
    demand_loads(fitted, kind.from_json(value, LAYERS, DIM), sample_rows())


def learns_only_if_it_says_so(kind: type[Normalization]) -> None:
    """If it is ``fitted``, name and tensors rebuild it; if not, rows do not change what it does."""
    fitted, few = fit(kind), fit(kind, sample_rows()[:20])
    if kind.fitted:
        demand_loads(fitted, kind.from_json({"name": kind.name}, LAYERS, DIM), sample_rows())
        return
    demand(few.state_dict().keys() == fitted.state_dict().keys(), "its tensors depend on rows")
    same = torch.equal(few(sample_rows()), fitted(sample_rows()))
    demand(same, "what it does depends on rows")


def is_cut_to_layers(kind: type[Normalization]) -> None:
    """The part for some layers treats them as the whole does, and leaves the whole unchanged."""
    fitted, z = fit(kind), sample_rows()
    expected = fitted(z)
    for layers in (LAYERS, LAYERS[1:], LAYERS[:2], (0, 3), (2,)):
        indices = [LAYERS.index(layer) for layer in layers]
        part, rows = fitted.cut(layers), z.transpose(0, 1)[indices].transpose(0, 1)
        demand(part.layers == layers, f"the part of layers {layers} is of {part.layers}")
        demand(torch.equal(part(rows), expected[:, indices]), f"that of layers {layers} differs")
        demand_loads(part, kind.from_json(part.to_json(), layers, DIM), rows)
    demand(fitted.layers == LAYERS and torch.equal(fitted(z), expected), "cut changed the whole")


def widens_half_precision(kind: type[Normalization]) -> None:
    """Rows in half precision become float32, unless it changes nothing."""
    for dtype in (torch.float16, torch.bfloat16):
        z = sample_rows(dtype)
        fitted = fit(kind, z)
        out, wide = fitted(z), fitted(z.float())
        demand(out.dtype == torch.float32 or out is z, f"{dtype} rows became {out.dtype}")
        demand(torch.equal(out, wide.to(out.dtype)), f"{dtype} rows are not widened first")


def stands_massive_activations(kind: type[Normalization]) -> None:
    """A channel near 30,000 in float16 gives finite rows."""
    z = sample_rows(torch.float16)
    z[::7, 1, 2] = MASSIVE
    demand_finite("a value", fit(kind, z)(z))


NORMALIZATION_CHECKS: tuple[Check[type[Normalization]], ...] = (
    is_of_its_layers, keeps_shape_and_memory, has_no_parameters, is_saved_and_loaded,
    learns_only_if_it_says_so, is_cut_to_layers, widens_half_precision, stands_massive_activations,
)  # fmt: skip
"""What holds for every normalisation."""


NORMALIZATION = Contract("normalization", Normalization, NORMALIZATION_CHECKS)
check_normalization = NORMALIZATION.check
