"""Where the blocks of a model lie."""

from torch import nn


def blocks_of(model: nn.Module, count: int) -> nn.ModuleList | None:
    """Return the list of a model's blocks; None where there is not just one list of so many."""
    found = [
        part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == count
    ]
    return found[0] if len(found) == 1 else None
