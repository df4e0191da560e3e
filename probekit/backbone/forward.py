"""One pass of a model: how it is called, what comes back, and that it stays as it was."""

import io
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from inspect import signature
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils import logging as transformers_logging
from transformers.utils import output_capturing

from probekit.errors import BackboneError, reason_of


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence warnings and progress bars of transformers inside the ``with`` block.

    Both are put back as they were. Errors still come through, as exceptions.
    """
    bars = transformers_logging.is_progress_bar_enabled()
    if bars:
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        # the bar over GGUF tensors heeds no setting
        with no_warnings(), redirect_stderr(io.StringIO()):
            yield
    finally:
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


CHATTY = ("transformers", "accelerate", "bitsandbytes")
"""Names of the loggers whose warnings say nothing to our users."""


@contextmanager
def no_warnings() -> Iterator[None]:
    """Silence the warnings of transformers inside the ``with`` block, batch after batch.

    Those of accelerate and bitsandbytes are of the same kind: where weights are, and, for each
    product, what 8 bits mean.
    """
    loggers = [logging.getLogger(name) for name in CHATTY]
    # setLevel empties the cache of every logger, even where the level stays the same
    loggers = [logger for logger in loggers if logger.isEnabledFor(logging.WARNING)]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def takes(model: type[PreTrainedModel], argument: str) -> bool:
    """Say whether a model's forward pass has an argument of this name."""
    return argument in signature(model.forward).parameters


def hidden_states(
    name: str,
    model: PreTrainedModel,
    input_ids: Int[Tensor, "batch time"],
    attention_mask: Int[Tensor, "batch time"] | None = None,
    *,
    layers: Sequence[int] | None = None,
    token_types: Int[Tensor, "batch time"] | None = None,
    gradients: bool = False,
) -> list[Tensor]:
    """Run a model once, without gradients unless they are wanted; it stays as it was.

    Args:
        name: the model as the user wrote it, for messages.
        model: on the device of the ids.
        input_ids: padded on the right.
        attention_mask: 1 for real subwords; None where nothing is padded.
        layers: numbers of the layers that are needed, so that the others are not kept in memory;
            None is all.
        token_types: which of two texts each subword belongs to.
        gradients: let them through where they are on.

    Returns:
        One tensor per layer of ``layers``, in their order, of whatever shape the model gives it.

    Raises:
        BackboneError: the model fails, or returns no hidden states.
    """
    options: dict[str, Any] = {} if token_types is None else {"token_type_ids": token_types}
    if takes(type(model), "use_cache"):  # it would hold memory and serve nobody
        options["use_cache"] = False
    kept = True if layers is None or not _LAYERS_BY_NUMBER else sorted(set(layers))
    try:
        wanted = gradients and torch.is_grad_enabled()
        with torch.set_grad_enabled(wanted), no_warnings(), unchanged(model):
            output = model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                output_hidden_states=kept,
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
    return _picked(f"model {name!r}: {type(model).__name__}", states, layers)


def _picked(what: str, states: object, layers: Sequence[int] | None) -> list[Tensor]:
    """Return the layers that are needed of what a model returns as its hidden states.

    Raises:
        BackboneError: they are none, or not all there.
    """
    if isinstance(states, tuple | list) and (layers is None or max(layers) < len(states)):
        picked = list(states) if layers is None else [states[layer] for layer in layers]
        if all(isinstance(state, Tensor) for state in picked):
            return picked
    raise BackboneError(
        f"{what} does not return the hidden states of all its layers as tensors. Choose a model of "
        "another family."
    )


_LAYERS_BY_NUMBER = hasattr(output_capturing, "selected_hidden_states")
"""Whether a list of layers means these; before 5.23, transformers took it for one of blocks."""

_TABLES = ("_parameters", "_buffers", "_modules")
_CONSTANT = ("torch.nn.", "probekit.")
"""Where classes are defined whose modules stay as they are: most modules of a model, for speed."""

_KEPT = "_output_capturing_hooks_installed"
"""Goes with hooks that stay: without it transformers would install them anew, beside these."""


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Put back the attributes, buffers and parts of every module, and the configuration's entries.

    BigBird replaces its sparse attention by full attention at the first short input, and rotary
    embeddings with dynamic scaling keep the frequencies of a long one. What is replaced or set is
    put back, also after an error; a tensor that is written in place is not.
    """
    modules = [m for m in model.modules() if not type(m).__module__.startswith(_CONSTANT)]
    tables = [part for m in modules for part in (vars(m), *(vars(m)[name] for name in _TABLES))]
    if (config := vars(model).get("config")) is not None:
        tables.append(vars(config))
    before = [(table, dict(table)) for table in tables]
    try:
        yield
    finally:
        for table, content in before:
            if _KEPT in table:
                content[_KEPT] = table[_KEPT]
            if table.keys() != content.keys() or any(table[k] is not content[k] for k in content):
                table.clear()
                table.update(content)
