"""Fitters: how a head and its decoder are fitted to rows, by steps or to the optimum.

To add a fitter, write one file with a `Fitter`, and one line in ``FITTERS``.
"""

from probekit.probe.fitters.contract import LBFGS, Adam, Fitter, Ridge

FITTERS: dict[str, Fitter] = {"adam": Adam(), "lbfgs": LBFGS(), "ridge": Ridge()}

SOLVERS = tuple(name for name, fitter in FITTERS.items() if fitter.solves)
"""Those that solve for the optimum."""

__all__ = ["FITTERS", "SOLVERS", "Fitter"]
