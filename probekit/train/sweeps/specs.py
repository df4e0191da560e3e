"""What a training run is asked for, and what that comes to: options that turn into JSON."""

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from probekit.base.fingerprint import digest
from probekit.base.kinds import NO_BLOCK, ReadPoint, parse_layers, up_to_depth
from probekit.base.numbers import parse_seeds
from probekit.base.registry import choose, flag, normal_form
from probekit.base.selection import HELD_OUT, SEARCH, SOLVED
from probekit.errors import OptionError
from probekit.probe.decoders import DECODERS
from probekit.probe.fitters import AUTO, FITTERS, solves
from probekit.probe.heads import HEADS
from probekit.probe.heads.contract import HeadSpec
from probekit.probe.model_parts import WEIGHTS
from probekit.probe.normalization import NORMALIZATIONS
from probekit.probe.token_heads import TOKEN_HEADS
from probekit.train.option_groups import Descent, Steps, as_typed
from probekit.train.sweeps.run_options import (
    GROUPS,
    Data,
    Fitting,
    Origin,
    ProbeOptions,
    Sample,
    Start,
    Tuning,
)
from probekit.tuning import METHODS, Method, method_of


@dataclass(frozen=True, kw_only=True)
class TrainSpec(Data, ProbeOptions, Tuning, Sample, Steps, Descent, Fitting, Start, Origin):
    """Options of one training run: one head, one seed.

    None of them says where files lie or which device computes, so a spec means the same on every
    machine. They come in groups (``GROUPS``, which describe each): a spec is made of single options
    and has each of them, and ``spec.of(Descent)`` is a group of it whole.

    Raises:
        OptionError: a value cannot be used.
        UnknownNameError: no such head, decoder, normalisation, fitter, ...
    """

    def __post_init__(self) -> None:
        """Check every value, in each group and across them; take their normal forms."""
        values = {name: v for group in GROUPS for name, v in vars(self.of(group)).items()}
        values["head"] = normal_form("head", self.head, HEADS)
        if self.token_head is not None:
            values["token_head"] = normal_form("token head", self.token_head, TOKEN_HEADS)
        if self.decoder is not None:
            values["decoder"] = normal_form("decoder", self.decoder, DECODERS)
        if self.method is not None:
            values["method"] = normal_form("method", self.method, METHODS)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self.normalize is not None:
            choose("normalization", self.normalize, NORMALIZATIONS)
        if self.fit not in FITTERS:
            choose("fitter", self.fit, dict.fromkeys((AUTO, *FITTERS)))
        self._check_together()

    def _check_rows(self) -> None:
        """Refuse options that conflict with a token head or a point."""
        if self.token_head is not None and (self.pooling or self.method):
            other = "--pooling" if self.pooling else "--method"
            raise OptionError(
                f"--token-head {self.token_head} makes the rows of texts from their cached tokens, "
                f"so {other} has nothing to do: leave one of them out."
            )
        if self.point is not None and self.method:
            raise OptionError(
                f"--point {self.point} reads cached rows, but --method {self.method} runs the "
                "model and gives only its residual stream. Leave one of them out."
            )

    def _check_together(self) -> None:
        """Refuse options that the fitter has no use for, and to train on nothing.

        Where a saved head is to be scored, nothing need be trained.
        """
        for name, rate in self.rates:
            if name == WEIGHTS:
                raise OptionError(f"--lr {name}={rate}: write the number alone, --lr {rate}.")
        self._check_rows()
        if self.select == HELD_OUT and self.hold_out is None:
            raise OptionError(
                f"--select {HELD_OUT} needs a held-out split: give --hold-out F as well."
            )
        descent = self.descending
        if solves(self.fit) and descent:
            raise OptionError(
                f"--fit {self.fit} solves for the optimum and takes no {descent[0]}; "
                "leave it out, or give --fit adam."
            )
        if solves(self.fit) and self.tunes:
            raise OptionError(
                f"--fit {self.fit} needs fixed rows, and --method {self.method} changes them by "
                "training the model; leave --fit out, or give --fit adam."
            )
        descends = self.fit != AUTO and not solves(self.fit)
        if self.l2 is not None and (descends or descent):
            given = [f"--fit {self.fit}", *descent] if descends else descent
            raise OptionError(
                "--l2 is for solvers, and this run trains by steps; give weight_decay in a "
                f"--protocol, or leave out {' and '.join(given)}."
            )
        if self.fit == "sae-probes" and (self.shots or self.fraction):
            raise OptionError(
                "--fit sae-probes fits all of train, and dev with it: leave out --shots and "
                "--fraction, or --fit."
            )
        if self.untrained and (self.searched or self.tunes):
            option = "--lr search" if self.searched else f"--method {self.method}"
            raise OptionError(
                f"{option} is for training, and here nothing is trained: leave it out, or give "
                "sentences to train on."
            )
        if self.start == SOLVED and not self.tunes:
            raise OptionError(
                f"--start {SOLVED} is for runs that train the model, and this one does not: leave "
                "it out, or give --method."
            )
        if self.untrained and self.init_from is None:
            option = "--fraction" if self.shots is None else "--shots"
            raise OptionError(
                f"{option} 0 trains on nothing: give more, or the saved head that is to be scored "
                "as it is, --start DIR."
            )

    @property
    def descending(self) -> list[str]:
        """The options of descent by steps that were given, as typed; a decoder's dropout is one."""
        given = [*self.of(Descent).given, *self.of(Steps).given]
        if self.decoder is not None and "dropout=" in self.decoder:
            given.append("dropout")
        # rates of groups are typed with the learning rate
        return list(dict.fromkeys(as_typed("lr" if name == "rates" else name) for name in given))

    @property
    def tuning(self) -> Method | None:
        """What is trained of the model; None of a run from the cache."""
        return method_of(self.method)

    @property
    def tunes(self) -> bool:
        """Whether anything of the model is trained."""
        method = self.tuning
        return method is not None and method.trains

    @property
    def searched(self) -> bool:
        """Whether the learning rate is to be found by trials."""
        return self.lr == SEARCH

    @property
    def protocol(self) -> str:
        """How training sentences are chosen: ``few-shot``, ``zero-shot``, ``fraction``, ``full``.

        What comes after a comma says where they, or those of dev, are taken from.
        """
        drawn = "few-shot" if self.shots else "fraction" if self.fraction else "full"
        base = "zero-shot" if self.untrained else drawn
        if self.fit_on != "train":
            base = f"{base}, fitted on {self.fit_on}"
        by = f" by {self.group}" if self.group else ""
        base += "" if self.hold_out is None else f", hold-out {self.hold_out:g}{by}"
        changes = {
            "without duplicates": self.drop_duplicates,
            f"label noise {self.label_noise}": self.label_noise,
            f"positives {self.positives}": self.positives,
        }
        return ", ".join([base, *(name for name, given in changes.items() if given)])


_WHERE_SET = ("groups", "plugins", "dropout")
"""Settled options that are written where there are any."""


@dataclass(frozen=True, kw_only=True)
class ResolvedOptions:
    """A spec with every open choice settled against the data: what a record's key hashes.

    Attributes:
        spec: the options, with every one that its fitter has filled in.
        task: name of the task; of the user's own data what stands for their path, however it was
            typed.
        layers: layer numbers that the head reads, ascending.
        metric: name of the metric.
        entries: key of the cache entry of each split that is read.
        labels_fingerprint: sha256 over the labels of all splits.
        numerics: version of the fitter's arithmetic.
        start: sha256 over the saved head that the run starts from, or the key of the run that
            solves its start; ``None`` for a random one. It takes the place of the spec's.
        groups: sha256 over the groups of all splits, and over what is left of train without
            duplicates; ``None``, and not written, without any.
        plugins: where plug-ins of third parties are from, and which code they are, by kind; not
            written without any.
        dropout: that of the model, for a method that trains it, where it is not its class's; not
            written without any.
    """

    spec: TrainSpec
    task: str
    layers: tuple[int, ...]
    metric: str
    entries: Mapping[str, str]
    labels_fingerprint: str
    numerics: int
    start: str | None = None
    groups: str | None = None
    plugins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    dropout: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the options as JSON values."""
        origin, apart = {field.name for field in fields(Origin)}, ("spec", *_WHERE_SET)
        return {
            **{name: value for name, value in self.spec.to_json().items() if name not in origin},
            **{name: value for name, value in vars(self).items() if name not in apart},
            "layers": list(self.layers),
            "entries": dict(self.entries),
            **{name: value for name in _WHERE_SET if (value := getattr(self, name))},
        }

    @property
    def key(self) -> str:
        """The record's key: a fingerprint of the options.

        Left out are the names of model and task, because the entries' keys hash what they are and
        a spec may name them in several ways; the folder of a saved head, whose content counts;
        options of another fitter than the one that was used; and the batches of a frozen model.
        All others enter as they were settled, so that a default that changes is another run.
        """
        left_out = {"model", "task", "fusion_from", "init_from"}
        if solves(self.spec.fit):
            left_out |= {field.name for group in (Descent, Steps) for field in fields(group)}
        else:
            left_out.add("l2")
        if not self.spec.tunes:  # of a frozen model all batches make the same rows
            left_out.add("batch_tokens")
        hashed = {name: value for name, value in self.to_json().items() if name not in left_out}
        return digest(hashed | {"continued": self.spec.init_from is not None})


def product(base: TrainSpec, options: Mapping[str, Any]) -> list[TrainSpec]:
    """Return one spec for every combination of option values.

    Args:
        base: values of all options that are not varied.
        options: values of each varied option; the last one varies fastest. ``seeds`` are what
            ``--seeds`` takes: how many, or which, as numbers or text.

    Raises:
        UnknownNameError: an option does not exist.
        OptionError: it has no value, or one that cannot be used.
    """
    # {"head": ["last", "p32"], "seeds": 2} gives last-0, last-1, p32-0, p32-1
    choices = {
        "seed" if name == "seeds" else name: parse_seeds(values) if name == "seeds" else [*values]
        for name, values in options.items()
    }
    known = dict.fromkeys(field.name for field in fields(TrainSpec))
    for name, values in choices.items():
        choose("training option", name, known)
        if not values:
            raise OptionError(f"{flag(name)} names no value.")
    combinations = itertools.product(*choices.values())
    specs = [replace(base, **dict(zip(choices, values, strict=True))) for values in combinations]
    return list(dict.fromkeys(specs))


K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by what a key says of them, each group in their order."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def depths(n_blocks: int, every: int = 1, layers: str | None = None) -> Sequence[int]:
    """Return 0, ``every``, 2 ``every``, ... up to L, and L itself.

    ``product(spec, {"depth": depths(n_blocks)})`` are one probe at every depth. They share sample,
    order and every read, so all are trained in one pass over the cache. At depth n the head sees
    the layers up to n, and depth 0 is the embeddings alone: the analysis of "overthinking" in the
    P-32 paper, there with BERT's first n blocks.

    Args:
        n_blocks: L.
        every: distance between depths.
        layers: the layers that heads read, in the language of ``probekit.base.kinds``: depths
            at which a head reads no more than at the one before are left out.

    Raises:
        OptionError: ``every`` is less than 1, a layer does not exist, or no depth is left.
    """
    if every < 1:
        raise OptionError(f"--every must be at least 1; found {every}.")
    # 12 blocks, every 5: 0, 5, 10 and 12; with layers 0:13:2 no head reads layer 5, which leaves
    # 0, 10 and 12
    chosen = {*range(0, n_blocks + 1, every), n_blocks}
    if layers is not None:
        chosen &= set(parse_layers(layers, n_blocks))
        if not chosen:
            raise OptionError(f"--every {every} leaves none of --layers {layers}.")
    return sorted(chosen)


def choose_layers(spec: TrainSpec, head: HeadSpec, n_blocks: int) -> tuple[int, ...]:
    """Return the layers that a head reads: published or asked for, cut to the depth.

    Raises:
        OptionError: the model has no such layer or depth, or none of the layers asked for is left.
    """
    layers = parse_layers(spec.layers or head.default_layers, n_blocks)
    point = ReadPoint.parse(spec.point)
    if spec.layers is None and not point.has_embeddings:
        layers = tuple(layer for layer in layers if layer > 0)
    if spec.depth is not None:
        if spec.depth > n_blocks:
            raise OptionError(
                f"--depth {spec.depth}: this model has {n_blocks} blocks; give 0 to {n_blocks}."
            )
        if spec.layers is not None and min(layers) > spec.depth:
            raise OptionError(f"--depth {spec.depth} leaves none of --layers {spec.layers}.")
        layers = up_to_depth(layers, spec.depth)
    if not (numbers := point.layers(layers)):
        raise OptionError(f"--point {spec.point}: {NO_BLOCK}")
    return numbers
