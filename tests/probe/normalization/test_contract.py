"""What every normalisation in ``NORMALIZATIONS`` must do: the exported contract."""

import pytest
import torch

from probekit.errors import UnknownNameError
from probekit.probe.normalization import NORMALIZATIONS, normalization_from_json
from probekit.testing.normalization_checks import (
    DIM,
    LAYERS,
    NORMALIZATION_CHECKS,
    sample_rows,
)
from tests.probe.normalization.cases import fit


@pytest.mark.parametrize("check", NORMALIZATION_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_contract(name: str, check) -> None:
    check(NORMALIZATIONS[name])


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_is_found_by_its_name(name: str) -> None:
    assert fit(name).name == name
    assert type(normalization_from_json(fit(name).to_json(), LAYERS, DIM)) is NORMALIZATIONS[name]


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_half_precision_rows_become_float32(name: str) -> None:
    z = sample_rows(torch.float16)
    assert fit(name, z)(z).dtype == (torch.float16 if name == "none" else torch.float32)


def test_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="standardize"):
        normalization_from_json({"name": "standardise"}, LAYERS, DIM)
