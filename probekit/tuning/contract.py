"""What every method promises: to name what it trains, and to change no state before that."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import nn

from probekit.probe.parameter_groups import Groups

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BACKBONE = "backbone"
"""The group of a model's values, for ``--lr backbone=2e-5``."""


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """What is trained of a model.

    Attributes:
        name: key in ``METHODS``.
        trains: whether anything is; if not, the model only runs, as it did for the cache.
        learning_rate: peak rate of what is trained, unless another one is given.
        source: paper and section.
        summary: a line for people.
    """

    name: ClassVar[str]
    trains: ClassVar[bool] = True
    learning_rate: ClassVar[float] = 0.0
    source: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def attach(
        self, model: "PreTrainedModel", generator: torch.Generator
    ) -> Mapping[str, nn.Parameter]:
        """Make a frozen model ready, and return what is trained of it, by name in the model.

        Until the first step its states are those that it had.

        Args:
            model: whose values take no gradients yet.
            generator: for what is drawn.

        Raises:
            OptionError: this model has nothing that the method could train.
            BackboneError: a package is missing.
        """


class Tuned(nn.Module):
    """The values that a method trains of a model, as a module of their own.

    They are the model's very parameters, under their names there with ``/`` for ``.``; so a state
    dict of this module holds what was trained, and nothing else of the model.

    Attributes:
        n_model: values of the model, what the method added included.
    """

    def __init__(self, model: "PreTrainedModel", values: Mapping[str, nn.Parameter]) -> None:
        """Register the values.

        Args:
            model: in evaluation mode.
            values: what is trained of it.
        """
        super().__init__()
        for name, value in values.items():
            self.register_parameter(name.replace(".", "/"), value)
        self.n_model = sum(value.numel() for value in model.parameters())
        self._outside = (model,)  # a tuple: as a part of this module, all of it would be saved

    def train(self, mode: bool = True) -> Self:
        """Switch the model, and with it its dropout, as well."""
        super().train(mode)
        self._outside[0].train(mode)
        return self

    def parameter_groups(self) -> Groups:
        """Return all values in one group."""
        return {BACKBONE: tuple(self.parameters())}
