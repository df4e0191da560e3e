"""What methods of the package peft have in common: that it is there, and whose draws it takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

from probekit.base.numbers.seeding import seeded
from probekit.errors import BackboneError, install_extra

if TYPE_CHECKING:
    from peft import PeftConfig
    from transformers import PreTrainedModel


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
    kept: Any = {"default": config}
    model.peft_config = kept
