"""What a training run is asked for: options that check themselves and turn into JSON."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from probekit.base.fingerprint import digest
from probekit.base.kinds import POOLED
from probekit.base.numbers.seeding import parse_seeds
from probekit.base.registry import choose, normal_form
from probekit.base.selection import FIXED, HELD_OUT, PUBLISHED, SEARCH, SEARCHED, Selection
from probekit.errors import OptionError
from probekit.probe.decoders import DECODERS
from probekit.probe.fitters import FITTERS, SOLVERS
from probekit.probe.heads import HEADS
from probekit.probe.normalization import NORMALIZATIONS
from probekit.probe.parameter_groups import WEIGHTS

DEFAULT_EPOCHS, DEFAULT_BATCH_SIZE, DEFAULT_EVALS = 50, 16, 10
DEFAULT_OPTIMIZER, DEFAULT_SCHEDULE, DEFAULT_WEIGHT_DECAY = "adamw", "linear", 0.01
DESCENT = {
    "lr": None,
    "epochs": DEFAULT_EPOCHS,
    "batch_size": DEFAULT_BATCH_SIZE,
    "evals": DEFAULT_EVALS,
    "optimizer": DEFAULT_OPTIMIZER,
    "schedule": DEFAULT_SCHEDULE,
    "weight_decay": DEFAULT_WEIGHT_DECAY,
}
"""The options of descent by steps, which a solver has not, and what ``adam`` takes if unset."""

SEARCHABLE = ("lr", "weight_decay")
"""Options that a sweep can find by trials."""

_ASIDE = ("as_published", "rate_from", "trial")
"""Fields that say nothing of a resolved run: what it does is the same with any value of them."""

OPTIMIZERS = ("adamw", "adam")
SCHEDULES = ("linear", "constant")

FITS = ("auto", *FITTERS)
"""What ``fit`` may be: a name of ``FITTERS``, or the choice among them."""


@dataclass(frozen=True, kw_only=True)
class TrainSpec:
    """Options of one training run: one head, one seed.

    None of them says where files lie or which device computes, so a spec means the same on every
    machine.

    Attributes:
        model: the backbone, as in ``probekit extract``.
        task: name of the task.
        label: label column; ``None`` is the task's default.
        head: name of the head, with settings where they differ from the published ones:
            ``extra-layers``, ``extra-layers:n=2``. Settings that do not differ are dropped, so that
            one head has one name.
        decoder: name of the decoder, with settings likewise; ``None`` is the head's published one,
            else the default of what the labels are.
        layers: layers instead of the head's published ones, in the language of
            ``probekit.base.layers``.
        depth: the largest layer the head may see; ``None`` is all of them.
        normalize: normalisation of each layer, one of ``NORMALIZATIONS``; ``None`` is
            ``standardize`` for a mixture of layers that is solved (L2 favours layers with large
            rows), else ``none``.
        pooling: which row stands for a whole text, ``cls``, ``mean`` or ``last``; ``None`` is the
            last token of a causal model; of a bidirectional one the mean of all tokens, or the
            first under a pooler or ``as_published``. Labels of words have rows of their own.
        shots: K; K x C sentences of the train split are drawn. With 0, the saved head of
            ``init_from`` is scored as it is.
        fraction: share of the train split that is drawn, in (0, 1]; or 0, as for shots.
        hold_out: share of the train split that is kept as a split of its own, ``held-out``, in
            (0, 1); it serves as dev split for data without one.
        seed: decides sample, initialisation, order and dropout.
        fit: how it is fitted, a name of ``FITTERS``: ``adam`` by steps, ``lbfgs`` or ``ridge`` to
            the optimum; ``auto`` is a solver wherever the problem is smooth and small, unless one
            of the options of descent below is given.
        select: what chooses the strength of L2, or under ``adam`` the checkpoint: ``dev``,
            ``held-out`` (what ``hold_out`` keeps), ``cv:K`` (folds of the drawn sentences) or
            ``hold-out:F`` (a share of them); ``None`` is ``held-out`` where there is that beside a
            dev split, else ``dev`` where the task has a labelled test split, else ``cv:5`` (a share
            of 0.1 under ``adam``).
        l2: strength of a solver's L2; ``None`` chooses it among those of its path.
        epochs: passes over the drawn sentences; this and the next ones are of ``adam`` alone, and
            ``None`` is what ``DESCENT`` says.
        lr: peak learning rate of all parameters that have none of their own below; ``None`` is the
            head's, ``search`` is found by trials on other seeds (``sweeps.search``).
        rates: peak learning rates of named groups of parameters (``mixing``, ``transitions``),
            sorted by name. A group that is not named has the default of its head or decoder, else
            ``lr``.
        as_published: read and decode whole texts, and set the rates of groups, as the papers do: by
            a pooler over the first token for encoders, and ``lr`` for all; and fit by ``adam``.
        batch_size: sentences per step.
        evals: number of evenly spaced points at which dev is scored.
        optimizer: ``adamw``, or ``adam``, which has no weight decay.
        schedule: of the learning rate: ``linear`` decay to 0, or ``constant``.
        weight_decay: AdamW's decoupled weight decay, or ``search``.
        rate_from: where the rates are from: ``published``, ``fixed`` or ``searched``; ``None``
            is ``fixed``.
        trial: whether the run is one of a search, which tables leave out.
        fit_on: the split to fit on, for data without a train split (with ``hold_out``).
        control: seed of control labels that replace the real ones (Hewitt & Liang 2019).
        fusion_from: folder of a saved head whose fusion this run starts from.
        freeze_fusion: keep that fusion as it is, and train the decoder alone.
        init_from: folder of a saved head that this run goes on training, decoder included.

    Raises:
        OptionError: a value cannot be used.
        UnknownNameError: no such head, decoder or normalisation.
    """

    model: str
    task: str
    label: str | None = None
    head: str
    decoder: str | None = None
    layers: str | None = None
    depth: int | None = None
    normalize: str | None = None
    shots: int | None = None
    fraction: float | None = None
    hold_out: float | None = None
    seed: int = 0
    fit: str = "auto"
    select: str | None = None
    l2: float | None = None
    epochs: int | None = None
    lr: float | str | None = None
    rates: tuple[tuple[str, float], ...] = ()
    as_published: bool = False
    batch_size: int | None = None
    evals: int | None = None
    weight_decay: float | str | None = None
    rate_from: str | None = None
    trial: bool = False
    pooling: str | None = None
    optimizer: str | None = None
    schedule: str | None = None
    fit_on: str = "train"
    control: int | None = None
    fusion_from: str | None = None
    freeze_fusion: bool = False
    init_from: str | None = None

    def __post_init__(self) -> None:
        """Check every value."""
        object.__setattr__(self, "head", normal_form("head", self.head, HEADS))
        if self.decoder is not None:
            object.__setattr__(self, "decoder", normal_form("decoder", self.decoder, DECODERS))
        if self.normalize is not None:
            choose("normalization", self.normalize, NORMALIZATIONS)
        choose("fitter", self.fit, dict.fromkeys(FITS))
        if self.optimizer is not None:
            choose("optimizer", self.optimizer, dict.fromkeys(OPTIMIZERS))
        if self.schedule is not None:
            choose("schedule", self.schedule, dict.fromkeys(SCHEDULES))
        if self.pooling is not None:
            choose("pooling", self.pooling, dict.fromkeys(POOLED))
        if self.shots is not None and self.fraction is not None:
            raise OptionError("--shots and --fraction were both given; choose one.")
        for option in ("epochs", "batch_size", "evals"):
            _check_whole(option, getattr(self, option), least=1)
        for option in ("shots", "depth", "seed", "control"):
            _check_whole(option, getattr(self, option), least=0)
        self._check_rates()
        _check_range("l2", self.l2, 0, math.inf, "a number above 0")
        least, most = math.nextafter(0, -1), 1 + 1e-12
        _check_range("fraction", self.fraction, least, most, "a number from 0 to 1")
        _check_range("hold_out", self.hold_out, 0, 1, "a number between 0 and 1")
        self._check_decay()
        self._check_fit()
        self._check_start()

    def _check_rates(self) -> None:
        """Check the learning rates, and sort those of groups."""
        if self.lr != SEARCH:
            _check_range("lr", self.lr, 0, math.inf, "a number above 0, or search")
        object.__setattr__(self, "rates", tuple(sorted((str(n), r) for n, r in self.rates)))
        names = [name for name, _ in self.rates]
        for name, rate in self.rates:
            if name == WEIGHTS:
                raise OptionError(f"--lr {name}={rate}: write the number alone, --lr {rate}.")
            if names.count(name) > 1:
                raise OptionError(f"--lr: one run has one rate of {name}; found several.")
            _check_range("lr", rate, 0, math.inf, f"a number above 0 for {name}")
        if self.rate_from is not None:
            choose("origin of a rate", self.rate_from, dict.fromkeys((PUBLISHED, FIXED, SEARCHED)))

    def _check_decay(self) -> None:
        decay = 0 if self.weight_decay is None else self.weight_decay
        searched = decay == SEARCH
        if not searched and not (_is_number(decay) and 0 <= float(decay) < math.inf):
            raise OptionError(
                f"--weight-decay must be 0 or more, or search; found {self.weight_decay!r}."
            )
        if self.optimizer == "adam" and decay not in (0, DEFAULT_WEIGHT_DECAY):
            raise OptionError("--weight-decay: --optimizer adam has none; leave one of them out.")

    def _check_fit(self) -> None:
        """Refuse options that the fitter has no use for."""
        if self.select is not None:
            object.__setattr__(self, "select", str(Selection.parse(self.select)))
        if self.select == HELD_OUT and self.hold_out is None:
            raise OptionError(f"--select {HELD_OUT} chooses by what --hold-out F keeps; give both.")
        if self.fit in SOLVERS and self.descent:
            raise OptionError(
                f"--fit {self.fit} solves for the optimum and takes no {_option(self.descent[0])}; "
                "leave it out, or give --fit adam."
            )
        if self.l2 is not None and (self.fit == "adam" or self.descent):
            given = ["--fit adam"] if self.fit == "adam" else []
            given += map(_option, self.descent)
            raise OptionError(
                "--l2 is the strength of a solver's penalty, and this run descends by steps; give "
                f"--weight-decay, or leave out {' and '.join(given)}."
            )

    @property
    def descent(self) -> tuple[str, ...]:
        """The options of descent by steps that were given, a decoder's dropout included."""
        given = tuple(
            name
            for name in DESCENT
            if getattr(self, name) is not None or (name == "lr" and self.rates)
        )
        dropout = self.decoder is not None and "dropout=" in self.decoder
        return (*given, "dropout") if dropout else given

    def _check_start(self) -> None:
        if self.fusion_from is not None and self.init_from is not None:
            raise OptionError("--fusion-from and --init-from were both given; choose one.")
        if self.freeze_fusion and self.fusion_from is None:
            raise OptionError("--freeze-fusion needs a fusion to freeze: --fusion-from DIR.")
        if self.untrained and self.searched:
            raise OptionError(
                f"{_option(self.searched[0])} search: nothing is trained, so no value is better "
                "than another; leave it out."
            )
        if self.untrained and self.init_from is None:
            option = "--fraction" if self.shots is None else "--shots"
            raise OptionError(
                f"{option} 0 trains on nothing: give more, or the saved head that is to be scored "
                "as it is, --init-from DIR."
            )

    @property
    def untrained(self) -> bool:
        """Whether nothing is trained: a saved head is scored as it is."""
        return 0 in (self.shots, self.fraction)

    @property
    def searched(self) -> tuple[str, ...]:
        """The options that are to be found by trials."""
        return tuple(name for name in SEARCHABLE if getattr(self, name) == SEARCH)

    @property
    def protocol(self) -> str:
        """How training sentences are chosen: ``few-shot``, ``zero-shot``, ``fraction``, ``full``.

        What comes after a comma says where they, or those of dev, are taken from.
        """
        base = "few-shot" if self.shots else "fraction" if self.fraction else "full"
        if self.untrained:
            base = "zero-shot"
        if self.fit_on != "train":
            base = f"{base}, fitted on {self.fit_on}"
        return base if self.hold_out is None else f"{base}, hold-out {self.hold_out:g}"

    def to_json(self) -> dict[str, Any]:
        """Return the options as JSON values."""
        return asdict(self)


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
        start: sha256 over the saved head that the run starts from; ``None`` for a fresh start.
    """

    spec: TrainSpec
    task: str
    layers: tuple[int, ...]
    metric: str
    entries: Mapping[str, str]
    labels_fingerprint: str
    numerics: int
    start: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the options as JSON values."""
        spec = self.spec.to_json()
        return {
            **{name: value for name, value in spec.items() if name not in _ASIDE},
            "task": self.task,
            "layers": list(self.layers),
            "metric": self.metric,
            "entries": dict(self.entries),
            "labels_fingerprint": self.labels_fingerprint,
            "numerics": self.numerics,
            "start": self.start,
        }

    @property
    def key(self) -> str:
        """The record's key: a fingerprint of the options.

        Left out are the names of model and task, because the entries' keys hash what they are and
        a spec may name them in several ways; the folder of a saved head, whose content counts;
        and options of another fitter than the one that was used. All others enter as they were
        settled, so that a default that changes is another run.
        """
        options = self.to_json()
        for name in ("model", "task", "fusion_from", "init_from"):
            del options[name]
        options["continued"] = self.spec.init_from is not None
        for name in (*DESCENT, "rates") if self.spec.fit in SOLVERS else ("l2",):
            del options[name]
        return digest(options)


def product(base: TrainSpec, options: Mapping[str, Any]) -> list[TrainSpec]:
    """Return one spec for every combination of option values.

    Args:
        base: values of all options that are not varied.
        options: values of each varied option; the last one varies fastest. ``seeds`` are what
            ``--seeds`` takes: how many, or which, as numbers or text.

    Raises:
        OptionError: an option does not exist, has no value, or has one that cannot be used.
    """
    known = {field.name for field in fields(TrainSpec)}
    choices = {
        "seed" if name == "seeds" else name: parse_seeds(values) if name == "seeds" else [*values]
        for name, values in options.items()
    }
    for name, values in choices.items():
        if name not in known:
            raise OptionError(f"unknown training option {name!r}.")
        if not values:
            raise OptionError(f"--{name.replace('_', '-')} names no value.")
    combinations = itertools.product(*choices.values())
    specs = [replace(base, **dict(zip(choices, values, strict=True))) for values in combinations]
    return list(dict.fromkeys(specs))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_whole(option: str, value: object, *, least: int) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(
            f"--{option.replace('_', '-')} must be a whole number of at least {least}; "
            f"found {value!r}."
        )


def _check_range(option: str, value: Any, low: float, high: float, expected: str) -> None:
    if value is not None and not (_is_number(value) and low < value < high):
        raise OptionError(f"--{option.replace('_', '-')} must be {expected}; found {value!r}.")
