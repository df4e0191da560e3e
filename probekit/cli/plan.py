"""From the command line's words to the runs of a sweep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from probekit.cli.options import split_list
from probekit.cli.target import Target
from probekit.cli.training_options import TrainingOptions
from probekit.cli.values import each, each_name
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.specs import TrainSpec

DEFAULT_HEADS = ("last", "p32", "concat", "dwatt")
DEFAULT_EPOCHS = 50


def make_plan(
    target: Target,
    shared: TrainingOptions,
    *,
    head: str | None,
    depths: Sequence[int | None],
    epochs: str | None,
    evals: int,
) -> "list[TrainSpec]":
    """Return one spec for every combination, the seed varying fastest.

    Raises:
        OptionError: an option names no value, or one that cannot be used.
    """
    from probekit.specs import TrainSpec, product

    preset = Preset.of(shared, target)
    seeds = preset.seeds if shared.seeds is None else shared.seeds
    if seeds < 1:
        raise OptionError("--seeds must be at least 1.")
    varied: dict[str, Sequence[Any]] = {
        "label": each_name(shared.label),
        "head": preset.heads if head is None else split_list(head),
        "decoder": [preset.decoder] if shared.decoder is None else split_list(shared.decoder),
        "depth": depths,
        "normalize": split_list(shared.normalize),
        "shots": each(shared.shots, int, "--shots"),
        "fraction": each(shared.fraction, float, "--fraction"),
        "epochs": each(epochs, int, "--epochs"),
        "lr": each(shared.lr, float, "--lr"),
        "mix_lr": each(shared.mix_lr, float, "--mix-lr"),
        "seed": range(seeds),
    }
    given = {
        name: getattr(shared, name)
        for name in ("batch_size", "optimizer", "schedule")
        if getattr(shared, name) is not None
    }
    defaults = {"epochs": DEFAULT_EPOCHS, **preset.options}
    for name in ("epochs", "lr"):
        varied[name] = [defaults.get(name) if value is None else value for value in varied[name]]
        defaults.pop(name, None)
    base = TrainSpec(
        model=target.model,
        task=target.task,
        head=next(iter(varied["head"]), "last"),
        hold_out=shared.hold_out,
        layers=shared.layers,
        evals=evals,
        pooling=shared.pooling,
        fit_on=shared.fit_on,
        control=shared.control,
        fusion_from=shared.fusion_from,
        freeze_fusion=shared.freeze_fusion,
        init_from=shared.init_from,
        **defaults | given,
    )
    return product(base, varied)


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What ``--protocol`` fills in.

    Attributes:
        heads: heads to train.
        seeds: how many seeds.
        decoder: the decoder for the labels at hand; ``None`` is their default.
        options: other fields of ``TrainSpec``.
    """

    heads: Sequence[str]
    seeds: int = 1
    decoder: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, shared: TrainingOptions, target: Target) -> Self:
        """Return the preset that was named, or the plain defaults.

        Raises:
            UnknownNameError: no protocol has this name.
        """
        from probekit.protocols import get_protocol

        if shared.protocol is None:
            return cls(heads=DEFAULT_HEADS)
        found = get_protocol(shared.protocol)
        return cls(
            heads=found.heads,
            seeds=found.seeds,
            decoder=found.decoders.get(target.kind(first_label(shared)))
            if found.decoders
            else None,
            options=found.options,
        )


def own_head(protocol: str | None) -> str:
    """Return the head that a single run trains by default: the protocol's own."""
    from probekit.protocols import get_protocol

    return "dwatt" if protocol is None else get_protocol(protocol).heads[-1]


def first_label(shared: TrainingOptions) -> str | None:
    """Return the first label column that was named, or None for the task's default."""
    return next(iter(each_name(shared.label)), None)
