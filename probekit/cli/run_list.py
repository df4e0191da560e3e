"""From the command line's words to the runs of a sweep."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from probekit.base.numbers.seeding import parse_seeds
from probekit.base.registry import flag
from probekit.cli.options import split_list
from probekit.cli.target import Target
from probekit.cli.training_options import OF_RUNS, TrainingOptions
from probekit.cli.values import each, each_rate
from probekit.errors import OptionError
from probekit.train.sweeps.protocols import Protocol, get_protocol

if TYPE_CHECKING:
    from probekit.train.sweeps.specs import TrainSpec

DEFAULT_HEADS = ("last", "p32", "concat", "dwatt")


def make_plan(
    target: Target,
    shared: TrainingOptions,
    asked: Mapping[str, Any],
    *,
    head: str | None,
    depths: Sequence[int | None],
) -> "list[TrainSpec]":
    """Return one spec for every combination, the seed varying fastest.

    Raises:
        OptionError: an option names no value, or one that cannot be used.
    """
    from probekit.train.sweeps.specs import TrainSpec, product

    preset = _preset(shared.protocol)
    fixed, lists = _read(asked, preset)
    labels = lists.pop("label", [None])
    if not labels:
        raise OptionError("--label names no value.")
    decoders = lists.pop("decoder", None)
    heads = preset.heads if head is None else split_list(head)
    varied = {
        "head": heads,
        "depth": depths,
        **lists,
        "seed": parse_seeds(preset.seeds if shared.seeds is None else shared.seeds),
    }
    preset_values = {name: one for name, one in preset.options.items() if name not in varied}
    first = next(iter(heads), "last")
    base = TrainSpec(model=target.model, task=target.task, head=first, **preset_values | fixed)
    return [
        spec
        for label in labels
        for spec in product(
            base,
            {"label": [label], "decoder": _decoders(decoders, preset, target, label), **varied},
        )
        if not (spec.untrained and spec.seed)  # without training, no seed differs from another
    ]


def _read(
    asked: Mapping[str, Any], preset: Protocol
) -> tuple[dict[str, Any], dict[str, Sequence[Any]]]:
    """Return the options that were given: those of one value, and the values of all others."""
    fixed: dict[str, Any] = {}
    lists: dict[str, Sequence[Any]] = {}
    for name, field in OF_RUNS.fields.items():
        value, usual = asked.get(name), preset.options.get(name)
        if value is None:
            continue
        if name == "lr":
            rates, groups = each_rate(value)
            lists |= {"lr": rates or [usual], "rates": groups, "rate_from": [None]}
        elif "each" not in field.metadata:
            fixed[name] = value
        else:
            lists[name] = each(value, field.metadata["each"], flag(name))
        if name == "epochs":  # of which every protocol has its own
            lists[name] = [usual if one is None else one for one in lists[name]]
    return fixed, lists


def _decoders(
    given: Sequence[str] | None, preset: Protocol, target: Target, label: str | None
) -> Sequence[str | None]:
    """Return the decoders for a label column; None is the default of its kind."""
    if given is not None:
        return given
    return [preset.decoders.get(target.kind(label)) if preset.decoders else None]


def _preset(protocol: str | None) -> Protocol:
    """Return the preset that was named, or the plain defaults.

    Raises:
        UnknownNameError: no protocol has this name.
    """
    if protocol is None:
        return Protocol(summary="", source="", heads=DEFAULT_HEADS, seeds=1)
    return get_protocol(protocol)


def own_head(protocol: str | None) -> str:
    """Return the head that a single run trains by default: the protocol's own."""
    return "dwatt" if protocol is None else get_protocol(protocol).heads[-1]


def first_label(asked: Mapping[str, Any]) -> str | None:
    """Return the first label column that was named, or None for the task's default."""
    return next(iter(split_list(asked.get("label") or "")), None)
