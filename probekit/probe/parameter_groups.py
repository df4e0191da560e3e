"""Named groups of a module's trainable parameters: what learning rates are given to."""

from collections.abc import Iterable, Mapping

from torch import nn

from probekit.base.contract_checks import demand

WEIGHTS = "weights"
"""The group of whatever is in no other one; its rate is the plain number of ``--lr``."""

Groups = Mapping[str, tuple[nn.Parameter, ...]]


def divide(module: nn.Module, **named: Iterable[nn.Parameter]) -> Groups:
    """Return a module's parameters by group: the named ones, and ``weights``, all others."""
    groups = {name: tuple(values) for name, values in named.items()}
    apart = {id(value) for values in groups.values() for value in values}
    rest = tuple(value for value in module.parameters() if id(value) not in apart)
    return {WEIGHTS: rest, **groups}


def demand_groups(module: nn.Module, groups: Groups, named: Iterable[str]) -> None:
    """Go on if every parameter of a head or decoder is in one group, of those that are named.

    Args:
        module: the head or decoder.
        groups: what it says of its parameters.
        named: by its spec, besides ``weights``.

    Raises:
        BrokenPromiseError: one is not.
    """
    wanted = {WEIGHTS, *named}
    demand(set(groups) == wanted, f"groups {sorted(groups)}, and the spec names {sorted(wanted)}")
    found = sorted(id(one) for group in groups.values() for one in group)
    own = sorted(map(id, module.parameters()))
    demand(found == own, "a parameter is in no group, or in two")
