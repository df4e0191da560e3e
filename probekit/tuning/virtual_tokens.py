"""Virtual tokens: positions before a text that attention sees, and of which no row is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from probekit.errors import OptionError
from probekit.tuning.contract import Method

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Embedded = Float[Tensor, "batch time width"]


@dataclass(frozen=True, kw_only=True)
class VirtualTokens(Method):
    """A method that puts virtual tokens before every text, each of which takes a position.

    Attributes:
        length: how many.
    """

    length: int = 20

    def __post_init__(self) -> None:
        """Check the number."""
        if self.length < 1:
            raise OptionError(
                f"--method {self.name}: length must be at least 1; found {self.length}."
            )

    @property
    def positions(self) -> int:
        """All virtual tokens have a position."""
        return self.length


def check_takes(method: str, model: "PreTrainedModel", argument: str, instead: str) -> None:
    """Check that a model can be given something beside its token ids.

    Args:
        method: that gives it.
        model: of any family.
        argument: as its forward pass calls it.
        instead: what to do where it cannot.

    Raises:
        OptionError: it cannot.
    """
    if argument not in signature(type(model).forward).parameters:
        raise OptionError(
            f"--method {method}: {type(model).__name__} takes no {argument}. {instead}"
        )


def seen_mask(
    mask: Int[Tensor, "batch time"] | None, count: int
) -> Int[Tensor, "batch longer"] | None:
    """Return an attention mask with some positions before it that all see; None stays None."""
    return None if mask is None else torch.cat([mask.new_ones(len(mask), count), mask], 1)


def put_before(model: "PreTrainedModel", count: int, embed: Callable[[Embedded], Embedded]) -> None:
    """Have a model read embeddings before those of each text, and return states of the text alone.

    Positions are counted from the first virtual token on, and all of them belong to the first of
    two texts.

    Args:
        model: takes ``inputs_embeds``, and is called with its ids.
        count: how many embeddings.
        embed: makes them (batch, count, width), given those of the texts.
    """
    model.register_forward_pre_hook(partial(_extend, count, embed), with_kwargs=True)
    model.register_forward_hook(partial(_drop, count))


def _extend(
    count: int,
    embed: Callable[[Embedded], Embedded],
    model: "PreTrainedModel",
    args: tuple[Any, ...],
    named: Mapping[str, Any],
) -> tuple[tuple[()], dict[str, Any]]:
    """Return a model's arguments with embeddings in place of ids."""
    longer = dict(named)
    ids = args[0] if args else longer.pop("input_ids")
    text = model.get_input_embeddings()(ids)
    longer["inputs_embeds"] = torch.cat([embed(text).to(text.dtype), text], 1)
    longer["attention_mask"] = seen_mask(longer.get("attention_mask"), count)
    if (types := longer.get("token_type_ids")) is not None:
        longer["token_type_ids"] = torch.cat([types.new_zeros(len(types), count), types], 1)
    return (), longer


def _drop(count: int, model: "PreTrainedModel", args: tuple[Any, ...], output: Any) -> Any:
    """Return a model's output without the states of virtual tokens."""
    output.last_hidden_state = output.last_hidden_state[:, count:]
    if output.hidden_states is not None:  # of the layers that nobody asked for there are none
        output.hidden_states = tuple(
            state[:, count:] if isinstance(state, Tensor) else state
            for state in output.hidden_states
        )
    return output
