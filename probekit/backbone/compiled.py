"""Compile a backbone's blocks, so that less memory is read and written between matrix products."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from transformers import PreTrainedModel

from probekit.errors import OptionError

_VARIANTS = 8
"""Programs per block: with and without padding, with one row, and room for a family's own."""


def compile_blocks(model: PreTrainedModel) -> None:
    """Mark a model's blocks for ``torch.compile``; each is compiled when it first runs.

    Blocks, not the model: the code of one is compiled for all lengths and batch sizes at once, and
    transformers collects hidden states outside of blocks.

    Raises:
        OptionError: the model has no list of blocks.
    """
    blocks = _blocks(model)
    if not blocks:
        raise OptionError(
            f"--compile: {type(model).__name__} has no list of blocks to compile. Leave it out."
        )
    for block in blocks:
        block.forward = torch.compile(block.forward, dynamic=True)


@contextmanager
def compiling(device: torch.device, n_blocks: int) -> Iterator[None]:
    """Set torch's compiler up for running compiled blocks on a device.

    On a CPU, weights are constants of the compiled code: they are then packed for the matrix
    products once, not in every call, and every block has code (and packed weights) of its own.
    """
    constants = device.type == "cpu"
    programs = _VARIANTS * n_blocks
    with (
        torch._inductor.config.patch(freezing=constants),
        torch._dynamo.config.patch(recompile_limit=programs, accumulated_recompile_limit=programs),
    ):
        yield


def _blocks(model: PreTrainedModel) -> list[nn.Module]:
    """Return the elements of the outermost lists of modules."""
    lists = {name: part for name, part in model.named_modules() if isinstance(part, nn.ModuleList)}
    outermost = [
        part
        for name, part in lists.items()
        if not any(name.startswith(f"{other}.") for other in lists)
    ]
    return [block for part in outermost for block in part]
