"""Named groups of a module's trainable parameters: what learning rates are given to."""

from collections.abc import Iterable, Mapping

from torch import nn

WEIGHTS = "weights"
"""The group of whatever is in no other one; its rate is the plain number of ``--lr``."""

Groups = Mapping[str, tuple[nn.Parameter, ...]]


def divide(module: nn.Module, **named: Iterable[nn.Parameter]) -> Groups:
    """Return a module's parameters by group: the named ones, and ``weights``, all others."""
    groups = {name: tuple(values) for name, values in named.items()}
    apart = {id(value) for values in groups.values() for value in values}
    rest = tuple(value for value in module.parameters() if id(value) not in apart)
    return {WEIGHTS: rest, **groups}
