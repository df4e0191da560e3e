"""Where the blocks of a model lie."""

from torch import nn


def blocks_of(model: nn.Module, count: int) -> nn.ModuleList | None:
    """Return the list of a model's blocks; None where there is not just one list of so many."""
    lists = [
        (name, part)
        for name, part in model.named_modules()
        if isinstance(part, nn.ModuleList) and len(part) == count
    ]
    # not those within a block: one of T5 is a list too, of attention and feed-forward layer
    outer = [
        part
        for name, part in lists
        if not any(name.startswith(f"{other}.") for other, _ in lists if other != name)
    ]
    return outer[0] if len(outer) == 1 else None
