"""Settle the learning rate of every group of parameters that a run trains."""

from collections.abc import Mapping
from dataclasses import replace

from probekit.base.selection import FIXED
from probekit.errors import OptionError
from probekit.probe.decoders import DecoderSpec
from probekit.probe.heads import HeadSpec
from probekit.probe.parameter_groups import WEIGHTS
from probekit.train.sweeps.specs import TrainSpec

HIDDEN_RATE = 3e-3
"""Most that a decoder is trained at by default if its loss is not convex: it has hidden layers."""


def settle_rates(spec: TrainSpec, head: HeadSpec, decoder: DecoderSpec) -> TrainSpec:
    """Return the spec with the rate of ``weights`` and of every other group written out.

    A group that has no rate of its own in the spec has the default that its head or decoder
    states, unless all groups have one rate; without a default it has the rate of ``weights``.

    Args:
        spec: as the user gave it, or settled before.
        head: its head.
        decoder: its decoder.

    Raises:
        OptionError: a rate of a group that is not trained, or one that is still to be searched.
    """
    if spec.searched:
        option = spec.searched[0].replace("_", "-")
        raise OptionError(
            f"--{option} search takes several runs, and this is one: let a sweep search "
            f"(probekit sweep --{option} search), or give a number."
        )
    defaults = group_rates(spec, head, decoder)
    named = dict(spec.rates)
    if unknown := [name for name in named if name not in defaults]:
        raise OptionError(_unknown(unknown[0], named[unknown[0]], spec, decoder, defaults))
    lr = default_rate(head, decoder) if spec.lr is None else float(spec.lr)
    shared = {
        name: lr if spec.as_published or rate is None else rate for name, rate in defaults.items()
    }
    return replace(
        spec,
        lr=lr,
        rates=tuple((shared | named).items()),
        as_published=False,
        rate_from=spec.rate_from or FIXED,
    )


def default_rate(head: HeadSpec, decoder: DecoderSpec) -> float:
    """Return the rate of ``weights`` where none is given.

    A light head's suits a single linear layer; hidden layers in its decoder stand less.
    """
    rate = head.learning_rate
    return rate if decoder.objective else min(rate, HIDDEN_RATE)


def group_rates(
    spec: TrainSpec, head: HeadSpec, decoder: DecoderSpec
) -> Mapping[str, float | None]:
    """Return the default rates of the groups besides ``weights`` that a run trains."""
    of_head = {} if spec.freeze_fusion else head.group_rates
    return {**of_head, **decoder.group_rates}


def _unknown(
    name: str,
    rate: float,
    spec: TrainSpec,
    decoder: DecoderSpec,
    defaults: Mapping[str, float | None],
) -> str:
    groups = " and ".join([WEIGHTS, *defaults])
    frozen = ", its fusion frozen," if spec.freeze_fusion else ""
    return (
        f"--lr {name}={rate:g}: {spec.head} with decoder {decoder.name}{frozen} "
        f"has no parameters called {name}; it trains {groups}. Leave that rate out."
    )
