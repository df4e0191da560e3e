"""Options of training in groups: what all groups can do, and those that the training loop takes.

A group is frozen, and whoever needs one of its options holds it whole: a new option travels with
the others to where it acts, and whatever compares groups compares it too. This file imports no
torch, since the command line reads the options here.
"""

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar

from probekit.base.registry import Panel, choose, flag, option
from probekit.base.selection import PROTOCOL_DEFAULTS, SEARCH
from probekit.errors import OptionError

DEFAULT_EPOCHS = 50
DEFAULT_BATCH_SIZE, DEFAULT_EVALS = PROTOCOL_DEFAULTS["batch_size"], PROTOCOL_DEFAULTS["evals"]
DEFAULT_WEIGHT_DECAY = PROTOCOL_DEFAULTS["weight_decay"]
TUNING_EPOCHS = 3
"""Passes over the training sentences where the model learns too (Devlin et al. 2019: 2 to 4)."""

BELOW_ZERO = math.nextafter(0, -1)
"""What bounds a range that begins at 0 and holds it."""

OPTIMIZERS = ("adamw", "adam")
SCHEDULES = ("linear", "constant")

ALWAYS_WRITTEN = frozenset(
    (
        *("model", "task", "label", "control", "fit_on", "head", "decoder", "layers", "depth"),
        *("normalize", "pooling", "shots", "fraction", "hold_out", "seed", "epochs", "batch_size"),
        *("evals", "lr", "rates", "weight_decay", "optimizer", "schedule", "fit", "select", "l2"),
        *("fusion_from", "freeze_fusion", "init_from"),
    )
)
"""Options that are written whatever their value, as the first records' keys hash them. An option
that came later does not belong here: at its default it is not written, and no key moves."""


def number_or_search(text: str) -> float | str:
    """Read a number, or the word ``search``.

    Raises:
        ValueError: it is neither.
    """
    return text if text == SEARCH else float(text)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Options that belong together and check themselves.

    What a field says of itself besides its help: ``unset``, the value that None stands for;
    ``each``, what reads one item of a list, for an option that may have several values on the
    command line; and ``show_default``, the default in words. An option of `PROTOCOL_DEFAULTS` is
    stated in the file of a ``--protocol``, and is none of the command line.
    """

    PANEL: ClassVar[Panel] = Panel.FIRST

    @property
    def given(self) -> tuple[str, ...]:
        """The options that are not the default."""
        return tuple(item.name for item in fields(self) if getattr(self, item.name) != item.default)

    def filled(self) -> Self:
        """Return the group with a value for every option that has one if unset."""
        unset = {item.name: item.metadata.get("unset") for item in fields(self)}
        return replace(self, **{name: unset[name] for name in unset if getattr(self, name) is None})

    def of(self, group: "type[G]") -> "G":
        """Return one group of a spec, which has the options of several."""
        return group(**{item.name: getattr(self, item.name) for item in fields(group)})

    def to_json(self) -> dict[str, Any]:
        """Return the options as JSON values, without later ones (see above) at their default."""
        changed = self.changed
        values = asdict(self).items()
        return {name: value for name, value in values if name in ALWAYS_WRITTEN or name in changed}

    @property
    def changed(self) -> frozenset[str]:
        """The options that are neither the default nor what stands for it."""
        return frozenset(
            item.name
            for item in fields(self)
            if getattr(self, item.name) not in (item.default, item.metadata.get("unset"))
        )


G = TypeVar("G", bound=Group)


@dataclass(frozen=True, kw_only=True)
class Steps(Group):
    """Which steps a run takes that descends by steps.

    Attributes:
        epochs: passes over the drawn sentences.
        batch_size: sentences per step.
        evals: number of evenly spaced points at which dev is scored.
    """

    PANEL = Panel.FITTED

    epochs: int | None = option(
        None,
        f"Passes over the training sentences; {TUNING_EPOCHS} where the model is trained too.",
        unset=DEFAULT_EPOCHS,
        each=int,
    )
    batch_size: int | None = option(None, "Sentences per step.", unset=DEFAULT_BATCH_SIZE, each=int)
    evals: int | None = option(
        None, "How many times dev is scored: evenly spaced, and at the end.", unset=DEFAULT_EVALS
    )

    def __post_init__(self) -> None:
        """Check every value."""
        for name in ("epochs", "batch_size", "evals"):
            check_whole(name, getattr(self, name), least=1)


@dataclass(frozen=True, kw_only=True)
class Descent(Group):
    """How a run goes down the gradients from step to step.

    Attributes:
        lr: peak learning rate of all parameters that have none of their own below; ``None`` is the
            head's, ``search`` is found by trials on other seeds (``sweeps.fitting``).
        rates: peak learning rates of named groups of parameters (``mixing``, ``transitions``),
            sorted by name. A group that is not named has the default of its head or decoder, else
            ``lr``.
        weight_decay: AdamW's decoupled weight decay.
        optimizer: ``adamw``, or ``adam``, which has no weight decay.
        schedule: of the learning rate: ``linear`` decay to 0, or ``constant``.
        warmup: share of the steps, in [0, 1), over which the rate rises to its peak on a line; the
            first step of a warm-up has the rate 0, as in the schedules of ``transformers``.
    """

    PANEL = Panel.FITTED

    lr: float | str | None = option(
        None,
        "Peak learning rate; per parameter group as mixing=0.1,transitions=0.05; auto uses the "
        "head's own, search finds it by trials on other seeds.",
        show_default="auto",
        each=number_or_search,
    )
    rates: tuple[tuple[str, float], ...] = ()
    weight_decay: float | None = option(
        None, "AdamW's decoupled weight decay.", unset=DEFAULT_WEIGHT_DECAY, each=float
    )
    optimizer: str | None = option(None, "adamw or adam.", unset="adamw", each=str)
    schedule: str | None = option(
        None, "Learning rate over time: linear or constant.", unset="linear", each=str
    )
    warmup: float | None = option(
        None, "Share of the steps over which the rate rises to its peak.", unset=0, each=float
    )

    def __post_init__(self) -> None:
        """Check every value, and sort the rates of groups."""
        for kind, names in {"optimizer": OPTIMIZERS, "schedule": SCHEDULES}.items():
            if (name := getattr(self, kind)) is not None:
                choose(kind, name, dict.fromkeys(names))
        if self.lr != SEARCH:
            check_range("lr", self.lr, 0, math.inf, "a number above 0, or search")
        object.__setattr__(self, "rates", tuple(sorted((str(n), r) for n, r in self.rates)))
        groups = [group for group, _ in self.rates]
        for name, rate in self.rates:
            if groups.count(name) > 1:
                raise OptionError(f"--lr: one run has one rate of {name}; found several.")
            check_range("lr", rate, 0, math.inf, f"a number above 0 for {name}")
        check_range("warmup", self.warmup, BELOW_ZERO, 1, "a number from 0 to below 1")
        decay = self.weight_decay
        check_range("weight_decay", decay, BELOW_ZERO, math.inf, "0 or more")
        if self.optimizer == "adam" and decay not in (None, 0, DEFAULT_WEIGHT_DECAY):
            raise OptionError("weight_decay: the optimizer adam has none; leave one of them out.")

    @property
    def rates_text(self) -> str:
        """The peak rates as they are typed, once they are settled: ``0.002,backbone=2e-05``."""
        return ",".join([f"{self.lr:g}", *(f"{name}={rate:g}" for name, rate in self.rates)])

    def peak(self, group: str) -> float:
        """Return the peak learning rate of a group of parameters, once rates are settled."""
        return float(dict(self.rates).get(group, self.lr) or 0)

    @property
    def decay(self) -> float | None:
        """AdamW's weight decay; None is Adam."""
        settled = self.filled()
        return None if settled.optimizer == "adam" else float(settled.weight_decay or 0)

    def share(self, remaining: float) -> float:
        """Return the share of the peak rates that a step takes.

        Args:
            remaining: the share of the run that is left before the step, in (0, 1].
        """
        # Of 10 steps, 2 of them a warm-up, with linear decay, the shares are 0, 1/2 | 1, 7/8, ...,
        # 1/8: `remaining` is 1, 0.9 | 0.8, ..., 0.1, and the two lines meet at 0.8.
        warmup = self.warmup or 0.0
        if 1 - remaining < warmup:
            return (1 - remaining) / warmup
        return 1.0 if self.schedule == "constant" else remaining / (1 - warmup)

    @property
    def optimizer_text(self) -> str:
        """Optimizer and schedule as records name them."""
        rate = "constant rate" if self.schedule == "constant" else "linear decay"
        rate += f", warm-up {self.warmup:g}" if self.warmup else ""
        decay = self.decay
        return f"Adam, {rate}" if decay is None else f"AdamW, weight decay {decay:g}, {rate}"


def as_typed(name: str) -> str:
    """Return an option as users state it: on the command line, else in Python or in a protocol."""
    return name if name in PROTOCOL_DEFAULTS or name == "depth" else flag(name)


def check_whole(name: str, value: object, *, least: int) -> None:
    """Refuse what is neither None nor a whole number that is large enough."""
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if value is not None and not fits:
        raise OptionError(
            f"{as_typed(name)} must be a whole number of at least {least}; found {value!r}."
        )


def check_range(name: str, value: Any, low: float, high: float, expected: str) -> None:
    """Refuse what is neither None nor a number between two others."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (number and low < value < high):
        raise OptionError(f"{as_typed(name)} must be {expected}; found {value!r}.")
