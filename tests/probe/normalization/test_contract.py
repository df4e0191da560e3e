"""What every normalisation in ``NORMALIZATIONS`` must do: the exported contract."""

import pytest

from probekit.errors import UnknownNameError
from probekit.probe.normalization import NORMALIZATIONS, normalization_from_json
from probekit.testing.normalization_checks import DIM, LAYERS, NORMALIZATION_CHECKS


@pytest.mark.parametrize("check", NORMALIZATION_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_contract(name: str, check) -> None:
    check(NORMALIZATIONS[name])


def test_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="standardize"):
        normalization_from_json({"name": "standardise"}, LAYERS, DIM)
