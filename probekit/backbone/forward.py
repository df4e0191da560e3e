"""One pass of a model: how it is called, and what comes back."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedModel

from probekit.backbone.model_class import takes
from probekit.backbone.quiet import no_warnings
from probekit.backbone.unchanged import unchanged
from probekit.errors import BackboneError, reason_of


def hidden_states(
    name: str,
    model: PreTrainedModel,
    input_ids: Int[Tensor, "batch time"],
    attention_mask: Int[Tensor, "batch time"] | None = None,
    *,
    layers: Sequence[int] | None = None,
    token_types: Int[Tensor, "batch time"] | None = None,
) -> list[Tensor]:
    """Run a model once, without gradients; it stays as it was.

    Args:
        name: the model as the user wrote it, for messages.
        model: on the device of the ids.
        input_ids: padded on the right.
        attention_mask: 1 for real subwords; None where nothing is padded.
        layers: numbers of the layers that are needed, so that the others are not kept in memory;
            None is all.
        token_types: which of two texts each subword belongs to.

    Returns:
        One tensor per layer of ``layers``, in their order, of whatever shape the model gives it.

    Raises:
        BackboneError: the model fails, or returns no hidden states.
    """
    options: dict[str, Any] = {} if token_types is None else {"token_type_ids": token_types}
    if takes(type(model), "use_cache"):  # it would hold memory and serve nobody
        options["use_cache"] = False
    try:
        with torch.no_grad(), no_warnings(), unchanged(model):
            output = model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                output_hidden_states=True if layers is None else sorted(set(layers)),
                return_dict=True,
                **options,
            )
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # every family has its own
        raise BackboneError(
            f"model {name!r}: {type(model).__name__} cannot run on {input_ids.shape[0]} x "
            f"{input_ids.shape[1]} subwords ({reason_of(error)})."
        ) from error
    states = output.get("hidden_states") if isinstance(output, dict) else None
    if not isinstance(states, tuple | list):
        raise BackboneError(
            f"model {name!r}: {type(model).__name__} returns no hidden states of its layers. "
            "Choose a model of another family."
        )
    if layers is not None and max(layers) >= len(states):
        raise BackboneError(
            f"model {name!r}: {type(model).__name__} returns {len(states)} hidden states, of which "
            f"number {max(layers)} is asked for. Choose a model of another family."
        )
    return list(states) if layers is None else [states[layer] for layer in layers]
