"""Settle the open choices of a spec against the data."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Int64

from probekit.decoders import DECODERS
from probekit.errors import DataError, OptionError
from probekit.features import FeatureView, Splits
from probekit.features.reading import ARRAY
from probekit.fingerprint import digest
from probekit.heads import HEADS
from probekit.layers import parse_layers, up_to_depth
from probekit.specs import ResolvedOptions, TrainSpec
from probekit.train import MemberSpec
from probekit.train.order import steps_per_epoch
from probekit.train.sampling import count_classes, draw, hold_out

DEFAULT_DECODERS = {"tagging": "linear"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a sweep, settled, with what planning needs to know of it.

    Attributes:
        options: what the record's key hashes.
        member: the head, ready to train.
        n_sentences: drawn sentences.
        n_params: estimate of the trained values of the head.
    """

    options: ResolvedOptions
    member: MemberSpec = field(compare=False)
    n_sentences: int
    n_params: int

    @property
    def spec(self) -> TrainSpec:
        """The options, filled in."""
        return self.options.spec

    @property
    def steps(self) -> int:
        """Training steps."""
        return self.spec.epochs * steps_per_epoch(self.n_sentences, self.spec.batch_size)


def resolve(spec: TrainSpec, splits: Splits) -> Run:
    """Fill in a spec's open choices.

    Raises:
        OptionError: a layer or depth that the model does not have, or more shots than train holds.
        UnknownNameError: no decoder has this name.
        DataError: there is no dev split to score, and no hold-out was asked for.
    """
    if "dev" not in splits.labels and spec.hold_out is None:
        raise DataError(splits.missing_dev)
    head = HEADS[spec.head]()
    decoder = spec.decoder or DEFAULT_DECODERS[splits.task.kind]
    layers = choose_layers(spec, splits.n_blocks)
    _check_stored(layers, splits)
    filled = replace(
        spec,
        label=splits.column,
        decoder=decoder,
        lr=head.learning_rate if spec.lr is None else spec.lr,
    )
    assert filled.lr is not None
    used = used_splits(spec, splits)
    options = ResolvedOptions(
        spec=filled,
        layers=layers,
        metric=splits.metric,
        entries={split: splits.keys[split] for split in used},
        labels_fingerprint=digest({split: splits.labels[split].fingerprint for split in used}),
    )
    member = MemberSpec(
        head=head,
        decoder=DECODERS[decoder](),
        layers=layers,
        normalize=spec.normalize,
        lr=filled.lr,
        mix_lr=spec.mix_lr,
        weight_decay=spec.weight_decay,
    )
    dim = splits.entries["train"].manifest.dim
    return Run(
        options=options,
        member=member,
        n_sentences=len(sample(spec, splits)),
        n_params=count_head(member, dim),
    )


def used_splits(spec: TrainSpec, splits: Splits) -> tuple[str, ...]:
    """Return the labelled splits that a run reads."""
    return tuple(
        split for split in splits.labels if not (split == "dev" and spec.hold_out is not None)
    )


def choose_layers(spec: TrainSpec, n_blocks: int) -> tuple[int, ...]:
    """Return the layers that a head reads: published or asked for, cut to the depth.

    Raises:
        OptionError: the model has no such layer or depth.
    """
    layers = parse_layers(spec.layers or HEADS[spec.head].default_layers, n_blocks)
    if spec.depth is None:
        return layers
    if spec.depth > n_blocks:
        raise OptionError(
            f"--depth {spec.depth}: this model has {n_blocks} blocks; give 0 to {n_blocks}."
        )
    return up_to_depth(layers, spec.depth)


def _check_stored(layers: tuple[int, ...], splits: Splits) -> None:
    for entry in splits.entries.values():
        stored = entry.manifest.array(ARRAY).layers
        missing = sorted(set(layers) - set(stored))
        if missing:
            raise OptionError(
                f"the head reads layer {missing[0]}, but {entry.path} holds layers "
                f"{list(stored)}. Extract with all layers, or choose others with --layers."
            )


def sample(spec: TrainSpec, splits: Splits) -> Int64[np.ndarray, " drawn"]:
    """Return the positions of the train sentences that a run sees, ascending.

    Raises:
        OptionError: more shots than there are sentences.
    """
    pool, _ = part(spec, splits)
    drawn = draw(
        len(pool),
        n_classes=count_classes(splits.label_map.names),
        shots=spec.shots,
        fraction=spec.fraction,
        seed=spec.seed,
    )
    return pool[drawn]


def part(
    spec: TrainSpec, splits: Splits
) -> tuple[Int64[np.ndarray, " kept"], Int64[np.ndarray, " held"]]:
    """Return the positions of train that can be drawn, and those held out as dev."""
    total = len(splits.entries["train"].examples)
    if spec.hold_out is None:
        return np.arange(total), np.arange(0)
    return hold_out(total, spec.hold_out)


def dev_view(spec: TrainSpec, splits: Splits) -> FeatureView:
    """Return the rows that a run is scored on during training."""
    if spec.hold_out is None:
        return splits.view("dev")
    return splits.view("train").take(part(spec, splits)[1])


def count_head(member: MemberSpec, dim: int) -> int:
    """Return the trained values of a head, without creating them."""
    with torch.device("meta"):
        head = member.head.build(member.layers, dim, torch.Generator("cpu"))
    return sum(parameter.numel() for parameter in head.parameters())
