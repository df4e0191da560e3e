"""The run-time checker of the tensor packages: beartype, with one allowance."""

from collections.abc import Callable
from typing import Any

from beartype import beartype
from beartype.roar import BeartypeDecorHintPep673Exception

# What users type comes in here, of any type, and is refused in words of its own.
_UNCHECKED = (
    "probekit.train.option_groups",
    "probekit.train.sweeps.",
    "probekit.train.baselines.",
)


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check a function's annotations at each call.

    jaxtyping hands over methods one by one, and beartype knows what ``Self`` means only when it
    sees the class; a method that names ``Self`` goes unchecked.
    """
    if function.__module__.startswith(_UNCHECKED):
        return function
    try:
        return beartype(function)
    except BeartypeDecorHintPep673Exception:
        return function
