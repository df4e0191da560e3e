"""The checker itself: shapes where a signature names them, and types everywhere."""

from dataclasses import dataclass

import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from probekit.probe.model_parts.final_norm import FinalNorm
from probekit.store.layout import labels_folder
from tests.shape_checks import checked, jaxtyped

check = jaxtyped(typechecker=checked)
Rows = Float[Tensor, "rows dim"]


@check
def sums(x: Rows, more: int = 0) -> Float[Tensor, " rows"]:
    return x.new_zeros(len(x) + more)


@check
def as_long(x: Rows, others: list[tuple[Rows, str]]) -> None:
    pass


@check
def length(text: str, times: int = 1) -> int:
    return len(text) * times if times else ""


@check
@dataclass
class Named:
    name: str


@check
@dataclass
class Pair:
    x: Rows
    y: Rows


def test_shapes_are_checked_where_they_are_named():
    two, three = torch.zeros(2, 4), torch.zeros(3, 4)
    assert sums(two).shape == (2,) and Pair(two, two).x is two
    as_long(two, [(two, "too")])
    for wrong in (
        lambda: sums(torch.zeros(2)),
        lambda: sums(two, more=1),
        lambda: as_long(two, [(three, "longer")]),
        lambda: Pair(two, three),
    ):
        with pytest.raises(TypeCheckError):
            wrong()


def test_types_are_checked_everywhere():
    assert length("abc", 2) == 6 and Named("x").name == "x"
    for wrong in (lambda: length(3), lambda: length("abc", "2"), lambda: length("a", 0)):
        with pytest.raises(BeartypeCallHintViolation):
            wrong()
    with pytest.raises(BeartypeCallHintViolation):
        Named(3)


def test_the_package_is_checked():
    with pytest.raises(BeartypeCallHintViolation):
        labels_folder("a string")
    with pytest.raises(TypeCheckError):
        FinalNorm(kind="layernorm", eps=0.0, weight=torch.zeros(2), bias=torch.zeros(3))
