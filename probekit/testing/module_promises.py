"""Promises that heads, decoders and normalisations share, as they are torch modules."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from probekit.base.registry import revive
from probekit.errors import OptionError
from probekit.probe.decoders.contract import Decoder, DecoderSpec
from probekit.probe.heads.contract import FusionHead, HeadSpec
from probekit.probe.parameter_groups import WEIGHTS
from probekit.testing.promises import demand, refuses

MASSIVE = 29_303.0
"""The largest state of a decoder's first token (SmolLM2-135M); float16 ends at 65,504."""


def seeded_generator(seed: int = 0) -> torch.Generator:
    """Return a generator on the CPU."""
    return torch.Generator().manual_seed(seed)


def demand_value(kind: str, spec: HeadSpec | DecoderSpec) -> None:
    """Go on if the dict form of a spec is JSON, gives an equal spec, and takes no other option."""
    registry = {spec.name: type(spec)}
    value = json.loads(json.dumps(spec.to_json()))
    again = revive(kind, value, registry)
    demand(again == spec, f"{spec} came back as {again}")
    refuses(revive, kind, {**value, "no_such_option": 1}, registry, error=OptionError)


def demand_loads(learned: nn.Module, fresh: nn.Module, rows: Tensor) -> None:
    """Go on if the state dict of a module makes another one compute the same of rows."""
    fresh.load_state_dict(learned.state_dict())
    same = torch.equal(learned(rows), fresh(rows))
    demand(same, "loaded into another one, it computes something else")


@contextmanager
def global_numbers_untouched() -> Iterator[None]:
    """Demand that torch's global random numbers do not move inside the ``with`` block."""
    before = torch.get_rng_state()
    yield
    untouched = torch.equal(torch.get_rng_state(), before)
    demand(untouched, "torch's global random numbers moved (torch.rand without generator=)")


def demand_groups(module: FusionHead | Decoder, spec: HeadSpec | DecoderSpec) -> None:
    """Go on if every parameter of a head or decoder is in one group, of those its spec names."""
    groups, named = module.parameter_groups(), {WEIGHTS, *spec.group_rates}
    demand(set(groups) == named, f"groups {sorted(groups)}, and the spec names {sorted(named)}")
    grouped = sorted(id(value) for group in groups.values() for value in group)
    every = sorted(map(id, module.parameters()))
    demand(grouped == every, "a parameter is in no group, or in two")


def demand_tensor(what: str, tensor: Tensor, shape: tuple[int, ...], *dtypes: torch.dtype) -> None:
    """Go on if a tensor has a shape, and one of some dtypes."""
    shown = f"{what}: found shape {tuple(tensor.shape)} in {tensor.dtype}"
    right = tensor.shape == shape and tensor.dtype in dtypes
    demand(right, f"{shown}, expected {shape} in {' or '.join(map(str, dtypes))}")


def demand_finite(what: str, *tensors: Tensor | None) -> None:
    """Go on if all values are finite."""
    finite = all(bool(values.isfinite().all()) for values in tensors if values is not None)
    demand(finite, f"{what} is not finite")
