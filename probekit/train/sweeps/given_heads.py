"""A run whose head, or model, is given as Python has it: a class, a function, a model in memory."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torch import nn

from probekit.base.registry import choose, text_of
from probekit.errors import OptionError, PluginError
from probekit.probe.heads import HEADS, register_head
from probekit.probe.heads.contract import HeadSpec
from probekit.probe.heads.module_head import ModuleFactory
from probekit.train.sweeps.specs import TrainSpec

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from probekit.backbone import GivenModel

GivenHead = str | HeadSpec | type[HeadSpec] | ModuleFactory


def spec_of(
    head: GivenHead, *, model: str | Path, task: str, options: Mapping[str, Any] | None = None
) -> TrainSpec:
    """Return the spec of a run; a head that has no name yet is registered under that of its class.

    Args:
        head: a name with options; a `HeadSpec`; or the class of a module, or a function that makes
            one, as `register_head` takes it.
        model: the backbone, or the path of an entry.
        task: name of the task.
        options: any others of `TrainSpec`, by name.

    Raises:
        OptionError: a value cannot be used.
        UnknownNameError: there is no such option, head, ...
        PluginError: the head breaks its contract, has no name, or one that is taken.
    """
    given = dict(options or {})
    apart = ("model", "task", "head")
    known = [one.name for one in fields(TrainSpec) if one.name not in apart]
    for name in given:
        choose("training option", name, dict.fromkeys(known))
    return TrainSpec(model=str(model), task=task, head=head_text(head), **given)


def named(model: "str | Path | PreTrainedModel") -> str | Path:
    """Return what a model is called, by which entries are found.

    Raises:
        OptionError: it is one in memory.
    """
    if isinstance(model, str | Path):
        return model
    raise OptionError(
        "a model in memory is given beside what names its entry: fit(TrainSpec(model=NAME, ...), "
        "model=MODEL, tokenizer=TOKENIZER)."
    )


def in_memory(spec: TrainSpec, model: object, tokenizer: object) -> "GivenModel | None":
    """Return the model in memory that a run is to train; None where none is given.

    Raises:
        OptionError: the run trains a head from the cache.
        BackboneError: it cannot serve.
    """
    if model is None and tokenizer is None:
        return None
    if spec.method is None:
        raise OptionError(
            "a head is trained from the cache, and the model in memory is not read: leave model= "
            "out, or give a method that runs it, such as method='full'."
        )
    from probekit.backbone import GivenModel  # with transformers

    return GivenModel.of(model, tokenizer, spec.model)


def head_text(head: GivenHead) -> str:
    """Return how a head is typed; one that is not known yet is registered.

    Raises:
        OptionError: it is a module that has been made.
        PluginError: as for `spec_of`.
    """
    if isinstance(head, str):
        return head
    if isinstance(head, nn.Module):
        raise OptionError(
            f"head: found a {type(head).__name__} that has been made; give its class, or a "
            "function that makes one, since a head is made anew for each choice of layers and seed."
        )
    if isinstance(head, HeadSpec):
        _know(head.name, type(head))
        return text_of(head, HEADS)
    if isinstance(head, type) and issubclass(head, HeadSpec):
        _know(head.name, head)
        return head.name
    name = head.__name__ if isinstance(head, type) or hasattr(head, "__name__") else ""
    if not name.isidentifier():
        raise PluginError(
            f"head: {head!r} has no name for records and messages; give it one: "
            'probekit.register_head("mine", ...), then head="mine".'
        )
    register_head(name, cast(ModuleFactory, head))
    return name


def _know(name: str, head: type[HeadSpec]) -> None:
    """Register a spec's class unless it is the one of that name."""
    if name not in HEADS or HEADS[name] is not head:
        register_head(name, head)
