"""Diff pruning: a sparse difference of all values of the model (Guo et al. 2021)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from probekit.errors import OptionError
from probekit.tuning.contract import Method, Values

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_STRETCH = 1.5
"""Gates reach from -1.5 to 1.5 before they are clamped to [0, 1]."""

_OPEN = 5.0
"""Where gates start: nearly always 1."""

_SURE = 20.0
"""A gate is open or closed from here on, whatever the noise."""

_OWN, GATES = "difference", "gates"


@dataclass(frozen=True, kw_only=True)
class DiffPrune(Method):
    """theta + z w for every value theta, with a gate z that a relaxed L0 norm of z w closes.

    z = clamp(3 sigmoid(log u - log(1 - u) + a) - 1.5, 0, 1), u ~ U(0, 1) in every pass of training
    (section 3.1; l = -1.5 and r = 1.5 are those of the authors' code), and without noise in
    evaluation. The penalty is sum sigmoid(a), as log(-l / r) is 0. w starts at 0.

    In evaluation only the largest of all |z w| stay, so what is scored, chosen and saved is sparse;
    at last they learn alone, their gates open and all others closed (section 3.2).

    Attributes:
        share: of all values of the model, how many may differ; 1 keeps every difference.
        penalty: weight of the L0 norm in the loss.
        fixed: share of the steps, at the end, in which the largest differences learn alone.
    """

    name: ClassVar[str] = "diff-prune"
    learning_rate: ClassVar[float] = 5e-5
    group_rates: ClassVar[Mapping[str, float]] = {GATES: 0.1}
    stays_apart: ClassVar[str | None] = None
    source: ClassVar[str] = "Guo et al. 2021, section 3; rates and penalty: their code"
    summary: ClassVar[str] = "a change to every weight; only the largest are kept"

    share: float = 0.005
    penalty: float = 1.25e-7
    fixed: float = 0.5

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not 0 < self.share <= 1 or self.penalty < 0 or not 0 <= self.fixed <= 1:
            raise OptionError(
                "--method diff-prune: share must be above 0 and at most 1, penalty at least 0, and "
                f"fixed from 0 to 1; found share={self.share:g}, penalty={self.penalty:g}, "
                f"fixed={self.fixed:g}."
            )

    def attach(self, model: "PreTrainedModel", generator: torch.Generator) -> Values:
        """Put a difference beside every value of the model."""
        differences: dict[int, Difference] = {}  # tied values have one difference
        for module in list(model.modules()):
            for name, value in list(module.named_parameters(recurse=False)):
                difference = differences.setdefault(id(value), Difference(value))
                parametrize.register_parametrization(module, name, difference)
        model.register_forward_pre_hook(_Projection(list(differences.values()), self.share))
        return {name: value for name, value in model.named_parameters() if value.requires_grad}

    def before_step(self, values: Values, remaining: float) -> None:
        """Add the gradients of the penalty; at last close what is not among the largest."""
        pairs = _pairs(values)
        if remaining > self.fixed:
            norm = torch.stack([gates.sigmoid().sum() for _, gates in pairs]).sum()
            torch.autograd.backward(self.penalty * norm)
        elif any(bool((gates.abs() < _SURE / 2).any()) for _, gates in pairs):
            with torch.no_grad():
                for (_, gates), largest in zip(pairs, _largest(pairs, self.share), strict=True):
                    gates.copy_(torch.where(largest, _SURE, -_SURE))

    def settle(self, model: "PreTrainedModel") -> None:
        """Add the largest differences to the values that they belong to."""
        places = _places(model)
        differences = {id(difference): difference for _, _, difference in places}
        _keep_largest(list(differences.values()), self.share)
        values = [getattr(module, name).detach() for module, name, _ in places]
        for (module, name, _), value in zip(places, values, strict=True):
            parametrize.remove_parametrizations(module, name, leave_parametrized=False)
            getattr(module, name).data.copy_(value)
        hooks = model._forward_pre_hooks
        for key in [key for key, hook in hooks.items() if isinstance(hook, _Projection)]:
            del hooks[key]

    def changed(self, values: Values, n_model: int) -> float:
        """Return the share of the model's own values that differ in evaluation."""
        n_values = n_model // 3  # beside each of them lie a difference and a gate
        differ = sum(int(_gated(*pair).count_nonzero()) for pair in _pairs(values))
        return min(differ, int(self.share * n_values)) / n_values


class Difference(nn.Module):
    """What is added to one tensor of a model: a parametrization of torch.

    Attributes:
        kept: which values differ in evaluation; None is all.
        settled: what is added in evaluation without gradients; None until it is known.
    """

    def __init__(self, value: Tensor) -> None:
        """Start without a difference, all gates open."""
        super().__init__()
        self.difference = nn.Parameter(torch.zeros_like(value))
        self.gates = nn.Parameter(torch.full_like(value, _OPEN))
        self.kept: Tensor | None = None
        self.settled: Tensor | None = None

    def forward(self, value: Tensor) -> Tensor:
        """Return the tensor with its difference."""
        if not self.training:
            if self.settled is not None and not torch.is_grad_enabled():
                return value + self.settled
            gated = _gated(self.difference, self.gates)
            return value + (gated if self.kept is None else gated * self.kept)
        tiny = torch.finfo(value.dtype).eps
        noise = torch.rand_like(value).clamp(tiny, 1 - tiny).logit()
        return value + _gated(self.difference, self.gates + noise)


class _Projection:
    """Before a model runs in evaluation, finds which differences are the largest of all."""

    def __init__(self, differences: Sequence[Difference], share: float) -> None:
        self._differences, self._share, self._seen = differences, share, -1

    @torch.no_grad()
    def __call__(self, model: nn.Module, args: tuple[Any, ...]) -> None:
        if model.training:
            self._seen = -1  # a fused optimiser writes without being counted
            return
        learned = (value for difference in self._differences for value in difference.parameters())
        now = sum(value._version for value in learned)  # counts what was written in place
        if now == self._seen:
            return
        self._seen = now
        _keep_largest(self._differences, self._share)


def _places(model: nn.Module) -> list[tuple[nn.Module, str, Difference]]:
    """Return every value of a model with its difference: its module, its name there."""
    places = []
    for module in model.modules():
        if parametrize.is_parametrized(module):
            parametrized: Any = module.parametrizations
            places += [(module, name, beside[0]) for name, beside in parametrized.items()]
    return places


@torch.no_grad()
def _keep_largest(differences: Sequence[Difference], share: float) -> None:
    """Let only the largest of all differences count in evaluation."""
    pairs = [(difference.difference, difference.gates) for difference in differences]
    for difference, largest in zip(differences, _largest(pairs, share), strict=True):
        difference.kept = largest
        difference.settled = _gated(difference.difference, difference.gates) * largest


def _pairs(values: Values) -> list[tuple[nn.Parameter, nn.Parameter]]:
    """Return differences with their gates."""
    names = (name.removesuffix(_OWN) for name in values if name.endswith(_OWN))
    return [(values[name + _OWN], values[name + GATES]) for name in names]


@torch.no_grad()
def _largest(pairs: Sequence[tuple[Tensor, Tensor]], share: float) -> list[Tensor]:
    """Return for each tensor which of its differences are among the largest of all tensors."""
    sizes = [_gated(*pair).abs().flatten() for pair in pairs]
    every = torch.cat(sizes)
    largest = torch.zeros_like(every, dtype=torch.bool)
    largest[every.topk(int(share * len(every))).indices] = True  # of equals only so many
    parts = torch.split(largest, [len(values) for values in sizes])
    return [part.view_as(difference) for part, (difference, _) in zip(parts, pairs, strict=True)]


def _gated(difference: Tensor, gates: Tensor) -> Tensor:
    """Return a difference behind its gates."""
    return difference * (2 * _STRETCH * gates.sigmoid() - _STRETCH).clamp(0, 1)
