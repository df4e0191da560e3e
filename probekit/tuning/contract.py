"""What every method promises: to name what it trains, and to change no state before that."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import nn

from probekit.base.installation import install_extra
from probekit.base.numbers import seeded
from probekit.errors import BackboneError
from probekit.probe.model_parts import Groups
from probekit.tuning.packaging import Packaging

if TYPE_CHECKING:
    from peft import PeftConfig
    from transformers import PreTrainedModel


BACKBONE = "backbone"
"""The group of a model's values, for ``--lr backbone=2e-5``."""

Values = Mapping[str, nn.Parameter]
"""What is trained of a model, by name in the model."""


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """What is trained of a model.

    Attributes:
        name: key in ``METHODS``.
        trains: whether anything is; if not, the model only runs, as it did for the cache.
        learning_rate: peak rate of what is trained, unless another one is given.
        group_rates: peak rates of values that are a group of their own: those of that last name.
        quantizes: whether the linear layers of the model are in 4 bits for it.
        stays_apart: why what was trained is not merged into the model's own values; None if it is.
        source: paper and section.
        summary: a line for people.
    """

    name: ClassVar[str]
    trains: ClassVar[bool] = True
    learning_rate: ClassVar[float] = 0.0
    group_rates: ClassVar[Mapping[str, float]] = {}
    quantizes: ClassVar[bool] = False
    stays_apart: ClassVar[str | None] = (
        "what was trained cannot be merged into the model's own weights. `predict` and `extract` "
        "read the run as it is."
    )
    source: ClassVar[str]
    summary: ClassVar[str]

    @property
    def packaging(self) -> Packaging:
        """How a saved run keeps what is trained."""
        return Packaging()

    @property
    def blockwise(self) -> bool:
        """Whether a long text may go back block by block."""
        return True

    @property
    def positions(self) -> int:
        """How many positions the model reads before each text."""
        return 0

    @property
    def rates(self) -> Mapping[str, float]:
        """The peak rate of each group."""
        return {BACKBONE: self.learning_rate, **self.group_rates} if self.trains else {}

    @abstractmethod
    def attach(self, model: "PreTrainedModel", generator: torch.Generator) -> Values:
        """Make a frozen model ready, and return what is trained of it, by name in the model.

        Until the first step its states are those that it had, unless the method puts something
        before the text.

        Args:
            model: whose values take no gradients yet.
            generator: for what is drawn.

        Raises:
            OptionError: this model has nothing that the method could train.
            BackboneError: a package is missing.
        """

    def before_step(self, values: Values, remaining: float) -> None:  # noqa: B027  # most need none
        """Do what a step needs besides the gradients of the loss, which are there.

        Args:
            values: what is trained, by name in the model.
            remaining: the share of the run that is left, in (0, 1].
        """

    def settle(self, model: "PreTrainedModel") -> None:  # noqa: B027  # most have nothing to do
        """Compute once what a model that learns no more would compute in every pass.

        Args:
            model: as `attach` left it, its values trained, in evaluation.
        """

    def merge(self, model: "PreTrainedModel") -> None:  # noqa: B027  # most have nothing to do
        """Take the method out of a model again, whose own values are the trained ones from then on.

        Args:
            model: as `settle` left it, of a method that has no `stays_apart`.
        """

    def changed(self, values: Values, n_model: int) -> float:
        """Return the share of the model's values that are the run's own.

        Args:
            values: what is trained, by name in the model.
            n_model: values of the model, what the method added included.
        """
        return sum(value.numel() for value in values.values()) / n_model


class Tuned(nn.Module):
    """The values that a method trains of a model, as a module of their own.

    They are the model's very parameters, under their names there with ``/`` for ``.``; so a state
    dict of this module holds what was trained, and nothing else of the model.

    Attributes:
        n_model: values of the model, what the method added included.
    """

    def __init__(self, model: "PreTrainedModel", values: Values, method: Method) -> None:
        """Register the values.

        Args:
            model: in evaluation mode; its dropout is active in training where the method trains.
            values: what is trained of it.
            method: which attached them.
        """
        super().__init__()
        for name, value in values.items():
            self.register_parameter(name.replace(".", "/"), value)
        # two values in a byte of bitsandbytes count as two
        packed = [vars(value).get("quant_state") or value for value in model.parameters()]
        self.n_model = sum(value.shape.numel() for value in packed)
        self._method, self._values = method, values
        self._outside = (model,)  # a tuple: as a part of this module, all of it would be saved

    def train(self, mode: bool = True) -> Self:
        """Switch the model, and with it its dropout, as well."""
        super().train(mode)
        self._outside[0].train(mode)
        return self

    @property
    def learns(self) -> bool:
        """Whether it holds anything."""
        return next(self.parameters(), None) is not None

    @property
    def changed(self) -> float:
        """The share of the model's values that are the run's own."""
        return self._method.changed(self._values, self.n_model)

    def before_step(self, remaining: float) -> None:
        """Do what the method needs of a step; see `Method.before_step`."""
        self._method.before_step(self._values, remaining)

    def parameter_groups(self) -> Groups:
        """Return the values by group: `BACKBONE`, but for those that are named."""
        groups: dict[str, list[nn.Parameter]] = {name: [] for name in self._method.rates}
        for name, value in self._values.items():
            last = name.rpartition(".")[2]
            groups[last if last in self._method.group_rates else BACKBONE].append(value)
        return {name: tuple(values) for name, values in groups.items()}


def blocks_of(model: nn.Module, count: int) -> nn.ModuleList | None:
    """Return the list of a model's blocks; None where there is not just one list of so many."""
    lists = [
        (name, part)
        for name, part in model.named_modules()
        if isinstance(part, nn.ModuleList) and len(part) == count
    ]
    # not those within a block: one of T5 is a list too, of attention and feed-forward layer
    outer = [
        part
        for name, part in lists
        if not any(name.startswith(f"{other}.") for other, _ in lists if other != name)
    ]
    return outer[0] if len(outer) == 1 else None


@contextmanager
def drawing_from(generator: torch.Generator, method: str) -> Iterator[None]:
    """Have what peft draws come from a generator, and not from torch's global numbers.

    Args:
        generator: gives the seed.
        method: the method that needs peft.

    Raises:
        BackboneError: peft is not installed.
    """
    if find_spec("peft") is None:
        raise BackboneError(
            f"--method {method}: this needs the package peft. {install_extra('finetune')}"
        )
    with seeded(int(torch.randint(2**62, (), generator=generator))):
        yield


def known_to_peft(model: "PreTrainedModel", config: "PeftConfig") -> None:
    """Keep a configuration where peft keeps those of what it puts into a model by itself."""
    configs: Any = {"default": config}
    model.peft_config = configs
