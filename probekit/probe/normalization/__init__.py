"""How rows are normalised, layer by layer, before a head reads them.

To add one to probekit, write one file with a `Normalization`, and one line in ``_OWN``.
"""

from collections.abc import Mapping
from typing import Any

from probekit.base.plugins import Registry
from probekit.base.registry import choose
from probekit.probe.normalization.contract import (
    FinalNormalization,
    NoNormalization,
    Normalization,
    RowFacts,
    RowNormalization,
)
from probekit.probe.normalization.standardization import Standardization

_OWN: Mapping[str, type[Normalization]] = {
    "none": NoNormalization,
    "layernorm": RowNormalization,
    "standardize": Standardization,
    "final-norm": FinalNormalization,
}

NORMALIZATIONS = Registry(
    "normalization",
    _OWN,
    admit="probekit.testing.row_checks:NORMALIZATION.admit",
    contracts=[f"{__name__}.contract:Normalization"],
)


def register_normalization(
    name: str, normalization: type[Normalization], *, version: str | None = None
) -> None:
    """Add a normalisation of your own, for this process and its workers.

    Args:
        name: as ``--normalize`` and `TrainSpec` take it.
        normalization: a `Normalization` of this name.
        version: what tells it from an earlier one in the keys of records; None is its source.

    Raises:
        PluginError: the name is taken, or it breaks its contract.
    """
    NORMALIZATIONS.register(name, normalization, version=version)


def normalization_from_json(
    value: Mapping[str, Any], layers: tuple[int, ...], dim: int
) -> Normalization:
    """Return the normalisation that ``to_json`` described, ready for ``load_state_dict``.

    Args:
        value: what `Normalization.to_json` returned.
        layers: layer numbers along axis 1.
        dim: width d.

    Raises:
        UnknownNameError: no normalisation has this name.
    """
    kind = choose("normalization", str(value.get("name", "")), NORMALIZATIONS)
    return kind.from_json(value, layers, dim)


__all__ = [
    "NORMALIZATIONS",
    "Normalization",
    "RowFacts",
    "normalization_from_json",
    "register_normalization",
]
