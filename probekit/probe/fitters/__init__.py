"""Fitters: how a head and its decoder are fitted to rows, by steps or to the optimum.

To add a fitter to probekit, write one file with a `Fitter`, and one line in ``_OWN``.
"""

from collections.abc import Mapping

from probekit.base.plugins import Registry
from probekit.probe.fitters.contract import LBFGS, Adam, Fitter, Ridge, SaeProbes

_OWN: Mapping[str, Fitter] = {
    "adam": Adam(),
    "lbfgs": LBFGS(),
    "ridge": Ridge(),
    "sae-probes": SaeProbes(),
}

AUTO = "auto"
"""What leaves the choice to the problem."""

FITTERS = Registry(
    "fitter", _OWN, admit="probekit.testing.other_checks:admit_fitter", reserved=(AUTO, "none")
)


def solves(name: str) -> bool:
    """Say whether a fitter solves for the optimum; ``auto`` is not settled, and does not yet."""
    return name != AUTO and FITTERS[name].solves


def register_fitter(
    name: str, fitter: Fitter | type[Fitter], *, version: str | None = None
) -> None:
    """Add a fitter of your own, for this process and its workers.

    Args:
        name: as ``--fit`` and `TrainSpec` take it.
        fitter: a `Fitter` of this name, or its class.
        version: what tells it from an earlier one in the keys of records; None is its source.

    Raises:
        PluginError: the name is taken, or the fitter breaks its contract.
    """
    FITTERS.register(name, fitter, version=version)


__all__ = ["AUTO", "FITTERS", "Fitter", "register_fitter", "solves"]
