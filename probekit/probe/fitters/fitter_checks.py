"""The contract of fitters as checks, and the door through which those of third parties come in."""

from typing import Any

import torch
from torch import nn

from probekit.base.contract_checks import Check, demand, run_checks
from probekit.errors import PluginError
from probekit.probe.decoders import DECODERS
from probekit.probe.fitters.contract import Fitter
from probekit.probe.heads import HEADS


def describes_itself(fitter: Fitter) -> None:
    """It says its name and summary, whether it solves, and the version of its arithmetic."""
    for what in ("name", "summary"):
        text = getattr(type(fitter), what)
        demand(isinstance(text, str) and bool(text), f"its {what} is {text!r}")
    demand(type(fitter.solves) is bool, f"solves is {fitter.solves!r}, neither True nor False")
    demand(type(fitter.numerics) is int, f"numerics is {fitter.numerics!r}, no whole number")


def says_what_it_suits(fitter: Fitter) -> None:
    """``unsuited`` gives None or a reason in words, the same each time, and suits something."""
    suited = False
    for head in (HEADS["last"](), HEADS["scalar-mix"](), HEADS["concat"]()):
        for decoder in (DECODERS[name]() for name in ("linear", "mlp", "crf", "regression")):
            for frozen in (False, True):
                found = fitter.unsuited(head, decoder, frozen=frozen)
                words = found is None or (isinstance(found, str) and bool(found.strip()))
                demand(words, f"unsuited gives {found!r}")
                again = fitter.unsuited(head, decoder, frozen=frozen)
                demand(found == again, f"unsuited gives {found!r}, then {again!r}")
                suited = suited or found is None
    demand(suited, "it suits none of probekit's heads and decoders")


def says_what_does_the_work(fitter: Fitter) -> None:
    """One that descends may bring an optimizer, which goes down; one that solves, a `PathFit`."""
    if fitter.solves:
        for trains_head in (False, True):
            kind = fitter.path_fit(trains_head=trains_head)
            demand(kind is None or isinstance(kind, type), f"path_fit gives {kind!r}, no class")
        return
    value = nn.Parameter(torch.full((3,), 2.0))
    own = fitter.optimizer([{"params": [value], "lr": 0.05}], None)
    if own is None:
        return
    demand(isinstance(own, torch.optim.Optimizer), f"optimizer gives a {type(own).__name__}")
    rates = [group["lr"] for group in own.param_groups]
    demand(rates == [0.05], f"given a group of rate 0.05, its groups have the rates {rates}")
    for _ in range(20):
        torch.autograd.backward(value.square().sum())
        own.step()
        own.zero_grad()
    demand(float(value.square().sum().detach()) < 12, "20 steps down x^2 from 2 do not lower it")


FITTER_CHECKS: tuple[Check[Fitter], ...] = (
    describes_itself, says_what_it_suits, says_what_does_the_work,
)  # fmt: skip
"""What holds for every fitter."""


def check_fitter(fitter: Fitter | type[Fitter]) -> None:
    """Check a fitter, or its class, against its contract.

    Raises:
        PluginError: it breaks the contract; the message has the promise and what it did.
    """
    run_checks("fitter", fitter() if isinstance(fitter, type) else fitter, FITTER_CHECKS)


def admit_fitter(name: str, fitter: Any, checked: bool) -> Fitter:
    """Return a fitter that is added, once its contract holds.

    Raises:
        PluginError: it is none, is called otherwise, or breaks the contract.
    """
    made = fitter() if isinstance(fitter, type) and issubclass(fitter, Fitter) else fitter
    if not isinstance(made, Fitter):
        raise PluginError(f"expected a Fitter, or a class that derives from it; found {fitter!r}.")
    if made.name != name:
        raise PluginError(f"the class says name = {made.name!r}; say {name!r}.")
    if not checked:
        check_fitter(made)
    return made
