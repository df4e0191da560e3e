"""Shapes are checked in the first calls of a function in each test; mypy checks the rest."""

import inspect
from collections import Counter
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Literal, get_args, get_origin

import jaxtyping
from beartype import beartype
from beartype.roar import BeartypeDecorHintPep673Exception

_jaxtyped = jaxtyping.jaxtyped

CALLS = 10
"""Calls of each function that are checked per test. Checking all takes an eighth of the time."""

_called: Counter[Callable[..., Any]] = Counter()


def begin_test() -> None:
    """Check the first calls of every function again."""
    _called.clear()


def install(packages: list[str]) -> None:
    """Check every function and dataclass that names a shape and is imported from now on.

    Args:
        packages: full names, of packages that are not imported yet.
    """
    # The hook writes `@jaxtyping.jaxtyped(...)` above each; for a dataclass that decorator calls
    # itself by the name it has in its own module.
    jaxtyping.jaxtyped = jaxtyping._decorator.jaxtyped = jaxtyped
    jaxtyping.install_import_hook(packages, f"{checked.__module__}.{checked.__name__}")


def jaxtyped(function: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """Stand in for jaxtyping's decorator, and leave it out where no shape is named."""
    if function is None:
        return partial(jaxtyped, typechecker=typechecker)
    if not any(map(_names_shape, inspect.get_annotations(function).values())):
        return function
    with_checks = _jaxtyped(function, typechecker=typechecker)
    return _limited(function, with_checks) if inspect.isfunction(function) else with_checks


def _limited(function: Callable[..., Any], with_checks: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that checks its first calls."""

    @wraps(function)
    def limited(*args: Any, **options: Any) -> Any:
        if _called[function] >= CALLS:
            return function(*args, **options)
        _called[function] += 1
        return with_checks(*args, **options)

    return limited


def _names_shape(hint: Any) -> bool:
    if isinstance(hint, str):  # what it stands for may be defined further down
        return True
    if get_origin(hint) is Literal:  # whose words are none of these
        return False
    if isinstance(hint, list):  # of a callable's parameters
        return any(map(_names_shape, hint))
    if inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(map(_names_shape, get_args(hint)))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check a function's annotations at each call.

    jaxtyping hands over methods one by one, and beartype knows what ``Self`` means only when it
    sees the class; a method that names ``Self`` goes unchecked.
    """
    try:
        return beartype(function)
    except BeartypeDecorHintPep673Exception:
        return function
