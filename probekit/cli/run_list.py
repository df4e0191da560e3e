"""From the command line's words to the runs of a sweep."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from probekit.base.numbers.seeding import parse_seeds
from probekit.cli.options import split_list
from probekit.cli.target import Target
from probekit.cli.training_options import TrainingOptions
from probekit.cli.values import each, each_name, each_rate, number_or_search
from probekit.errors import OptionError
from probekit.train.sweeps.protocols import Protocol, get_protocol

if TYPE_CHECKING:
    from probekit.train.sweeps.specs import TrainSpec

DEFAULT_HEADS = ("last", "p32", "concat", "dwatt")

_FIXED = (
    "hold_out", "layers", "fit_on", "control", "fusion_from", "freeze_fusion", "init_from", "fit",
    "select",
)  # fmt: skip
"""Options of one value, which a run has as the user gave them."""


def make_plan(
    target: Target,
    shared: TrainingOptions,
    *,
    head: str | None,
    depths: Sequence[int | None],
    epochs: str | None,
    evals: int | None,
) -> "list[TrainSpec]":
    """Return one spec for every combination, the seed varying fastest.

    Raises:
        OptionError: an option names no value, or one that cannot be used.
    """
    from probekit.train.sweeps.specs import TrainSpec, product

    preset = _preset(shared.protocol)
    defaults = {"epochs": None, "lr": None, **preset.options}
    varied = _varied(shared, preset, defaults)
    if head is not None:
        varied["head"] = split_list(head)
    passes = each(epochs, int, "--epochs")
    varied["epochs"] = [defaults["epochs"] if value is None else value for value in passes]
    varied["depth"] = depths
    fixed = {name: value for name, value in defaults.items() if name not in varied}
    given = {name: getattr(shared, name) for name in _FIXED if getattr(shared, name) is not None}
    base = TrainSpec(
        model=target.model,
        task=target.task,
        head=next(iter(varied["head"]), "last"),
        evals=evals,
        **fixed | given,
    )
    labels = each_name(shared.label)
    if not labels:
        raise OptionError("--label names no value.")
    return [
        spec
        for label in labels
        for spec in product(
            base, {"label": [label], "decoder": _decoders(shared, preset, target, label), **varied}
        )
        if not (spec.untrained and spec.seed)  # without training, no seed differs from another
    ]


def _varied(
    shared: TrainingOptions, preset: Protocol, defaults: Mapping[str, Any]
) -> dict[str, Sequence[Any]]:
    """Return the values of the options that may have several, the seed varying fastest."""
    return {
        "head": preset.heads,
        "depth": [None],
        "normalize": each_name(shared.normalize),
        "pooling": each_name(shared.pooling),
        "shots": each(shared.shots, int, "--shots"),
        "fraction": each(shared.fraction, float, "--fraction"),
        "epochs": [defaults["epochs"]],
        **_varied_descent(shared, defaults),
        "l2": each(shared.l2, float, "--l2"),
        "seed": parse_seeds(preset.seeds if shared.seeds is None else shared.seeds),
    }


def _varied_descent(
    shared: TrainingOptions, defaults: Mapping[str, Any]
) -> dict[str, Sequence[Any]]:
    """Return the values of the options of descent that were given; of rates also the defaults."""
    given: dict[str, Sequence[Any]] = {"lr": [defaults["lr"]]}
    if shared.lr is not None:
        rates, groups = each_rate(shared.lr)
        given |= {"lr": rates or [defaults["lr"]], "rates": groups, "rate_from": [None]}
    if shared.batch_size is not None:
        given["batch_size"] = each(shared.batch_size, int, "--batch-size")
    if shared.weight_decay is not None:
        given["weight_decay"] = each(shared.weight_decay, number_or_search, "--weight-decay")
    for name in ("optimizer", "schedule"):
        if (names := getattr(shared, name)) is not None:
            given[name] = split_list(names)
    return given


def _decoders(
    shared: TrainingOptions, preset: Protocol, target: Target, label: str | None
) -> Sequence[str | None]:
    """Return the decoders for a label column; None is the default of its kind."""
    if shared.decoder is not None:
        return split_list(shared.decoder)
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


def first_label(shared: TrainingOptions) -> str | None:
    """Return the first label column that was named, or None for the task's default."""
    return next(iter(each_name(shared.label)), None)
