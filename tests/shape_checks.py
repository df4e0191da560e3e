"""The run-time checker of the tensor packages: beartype, with one allowance."""

from collections.abc import Callable
from typing import Any

from beartype import beartype
from beartype.roar import BeartypeDecorHintPep673Exception


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check a function's annotations at each call.

    jaxtyping hands over methods one by one, and beartype knows what ``Self`` means only when it
    sees the class; a method that names ``Self`` goes unchecked.
    """
    try:
        return beartype(function)
    except BeartypeDecorHintPep673Exception:
        return function
