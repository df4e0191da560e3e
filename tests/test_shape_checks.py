"""The checker itself: shapes are checked where a signature names them."""

import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from probekit.probe.model_parts import FinalNorm
from tests.shape_checks import checked, jaxtyped

check = jaxtyped(typechecker=checked)
Rows = Float[Tensor, "rows dim"]


@check
def sums(x: Rows, more: int = 0) -> Float[Tensor, " rows"]:
    return x.new_zeros(len(x) + more)


@check
def as_long(x: Rows, others: list[tuple[Rows, str]]) -> None:
    pass


def test_shapes_are_checked_where_they_are_named():
    two, three = torch.zeros(2, 4), torch.zeros(3, 4)
    assert sums(two).shape == (2,)
    as_long(two, [(two, "too")])
    for wrong in (
        lambda: sums(torch.zeros(2)),
        lambda: sums(two, more=1),
        lambda: as_long(two, [(three, "longer")]),
        lambda: FinalNorm(kind="layernorm", eps=0.0, weight=two[0], bias=torch.zeros(3)),
    ):
        with pytest.raises(TypeCheckError):
            wrong()
