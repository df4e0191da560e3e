"""Numbers: seeded draws, and rows of several lengths.

What is drawn from a seed depends on it and the names alone, so adding a member to a sweep, or
running members in another order, changes no other member's draw. Parameters are drawn from the
generator that is given.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int, Int64

from probekit.errors import OptionError

if TYPE_CHECKING:
    import torch
    from torch import nn


def parse_seeds(given: int | str | Iterable[int]) -> list[int]:
    """Return the seeds that are asked for, in their order, each once.

    Args:
        given: how many, as a number or its text: 3 is 0, 1 and 2; or the seeds themselves, as
            numbers or as text: ``0,3,7``, ``10:15`` (10 to 14, as ``--layers`` counts), or ``7,``
            for the seed 7 alone.

    Raises:
        OptionError: there is none, or the text is no such thing.
    """
    if isinstance(given, str) and given.strip().isdecimal():
        given = int(given)
    if isinstance(given, int):
        if given < 1:
            raise OptionError("--seeds must be at least 1.")
        return list(range(given))
    if isinstance(given, str):
        items = [item.strip() for item in given.split(",")]
        seeds = [seed for item in items if item for seed in _seed_range(item)]
    else:
        seeds = [operator.index(seed) for seed in given]
    if not seeds:
        raise OptionError(f"--seeds {given} names no seed. Write 3, or 0,3,7.")
    return list(dict.fromkeys(seeds))


def _seed_range(item: str) -> range:
    """Read a seed, or a range of them."""
    first, colon, stop = item.partition(":")
    if not first.isdecimal() or (colon and not stop.isdecimal()):
        raise OptionError(
            f"--seeds: {item!r} is not a seed. Write how many (3), which (0,3,7) or a range "
            "(10:15)."
        )
    return range(int(first), int(stop) if colon else int(first) + 1)


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch's global random numbers, and put them back as they were.

    Args:
        seed: of the CPU's numbers, and of a CUDA device's.
        device: the CUDA device whose numbers are drawn from as well, if any.
    """
    import torch

    others = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices=others):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed all GPUs
        for gpu in others:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield


def derive(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed that is a function of ``seed`` and ``names`` alone."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def numpy_generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return a NumPy generator of the numbers of ``(seed, *names)``."""
    import numpy as np

    return np.random.Generator(np.random.PCG64(derive(seed, *names)))


def torch_generator(seed: int, *names: str | int) -> torch.Generator:
    """Return a CPU torch generator of the numbers of ``(seed, *names)``."""
    import torch

    return torch.Generator().manual_seed(derive(seed, *names))


def linear_uniform(*shape: int, fan_in: int, generator: torch.Generator) -> nn.Parameter:
    """Return a parameter drawn from U(-1/sqrt(fan_in), 1/sqrt(fan_in)).

    This is what ``torch.nn.Linear`` draws for both its weight and its bias, but from a given
    generator and never the global one.
    """
    import torch

    bound = 1 / math.sqrt(fan_in)
    drawn = torch.empty(shape).uniform_(-bound, bound, generator=generator)
    return torch.nn.Parameter(drawn)


def draw_parameters(module: nn.Module, fan_in: int, generator: torch.Generator) -> None:
    """Replace the module's own parameters, one after the other, by ``linear_uniform``'s.

    For modules built on the meta device, where torch's own draw nothing.
    """
    for name, parameter in list(module.named_parameters(recurse=False)):
        drawn = linear_uniform(*parameter.shape, fan_in=fan_in, generator=generator)
        setattr(module, name, drawn)


def linear_layer(width: int, out: int, generator: torch.Generator) -> nn.Linear:
    """Return a linear layer drawn as ``torch.nn.Linear`` would, from U(-1/sqrt(width), ...).

    Args:
        width: width of the input.
        out: width of the output.
        generator: draws the weight, then the bias.
    """
    import torch

    layer = torch.nn.Linear(width, out, device="meta")  # where nn.Linear draws nothing
    draw_parameters(layer, width, generator)
    return layer


# Three sentences of 3, 1 and 2 words, one after the other; their rows in an array begin at 10, 0
# and 5:
#
#   bounds_of([3, 1, 2])                  [0, 3, 4, 6]     sentence i is bounds[i] : bounds[i + 1]
#   ragged_arange([10, 0, 5], [3, 1, 2])  [10, 11, 12, 0, 5, 6]
#
# The latter counts 0 to 5 and adds to each item what its sentence is off: 10 - 0, 0 - 3 and 5 - 4.
#
#   block_bounds([0, 3, 4, 6], rows=4)    [0, 4, 6]        two sentences, one sentence
#   block_bounds([0, 3, 4, 6], rows=2)    [0, 3, 4, 6]     the first is longer than a block: alone
#
#   Ragged([7, 8, 9, 4, 5, 6], [0, 3, 4, 6]).take([2, 0])  is  Ragged([5, 6, 7, 8, 9], [0, 2, 5])


def bounds_of(lengths: Int[np.ndarray, " runs"]) -> Int64[np.ndarray, " bounds"]:
    """Return where each run starts, and at the end where the last one stops."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def ragged_arange(
    starts: Int[np.ndarray, " runs"], lengths: Int[np.ndarray, " runs"]
) -> Int64[np.ndarray, " items"]:
    """Return ``start, start + 1, ...`` of every run, one run after the other."""
    bounds = bounds_of(lengths)
    return np.repeat(starts - bounds[:-1], lengths) + np.arange(bounds[-1])


def block_bounds(offsets: Int64[np.ndarray, " bounds"], rows: int) -> list[int]:
    """Cut consecutive examples into runs of at most ``rows`` rows (or one example)."""
    bounds = [0]
    while bounds[-1] < offsets[-1]:
        last = int(np.searchsorted(offsets, bounds[-1] + rows, side="right")) - 1
        if offsets[last] == bounds[-1]:  # one example longer than a block
            last = int(np.searchsorted(offsets, bounds[-1], side="right"))
        bounds.append(int(offsets[last]))
    return bounds


@dataclass(frozen=True, eq=False)
class Ragged:
    """Runs of values of different lengths, one after the other.

    Attributes:
        values: the values of all runs.
        bounds: run i is ``values[bounds[i]:bounds[i + 1]]``.
    """

    values: Int64[np.ndarray, " items"]
    bounds: Int64[np.ndarray, " bounds"]

    @cached_property
    def lengths(self) -> Int64[np.ndarray, " runs"]:
        """Values of each run."""
        return np.diff(self.bounds)

    def take(self, runs: Int64[np.ndarray, " taken"]) -> Ragged:
        """Return some runs, in the order given."""
        lengths = self.lengths[runs]
        values = self.values[ragged_arange(self.bounds[runs], lengths)]
        return Ragged(values, bounds_of(lengths))
