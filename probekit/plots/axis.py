"""Axes that several figures share."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    MaxNLocator,
    MultipleLocator,
    NullLocator,
)


def layer_axis(axes: Axes, layers: Sequence[int]) -> None:
    """Make the x axis one of layer numbers, from the embeddings to the largest of ``layers``."""
    axes.set_xlabel("layer (0 = emb)")
    top = max(layers)
    axes.set_xlim(-0.4 - top * 0.01, top + 0.4 + top * 0.01)
    axes.xaxis.set_major_locator(MultipleLocator(_layer_step(top)))
    axes.xaxis.set_minor_locator(FixedLocator(range(top + 1)))


def _layer_step(top: int) -> int:
    """Return a distance of labels that gives at most nine, if possible with one at the top."""
    steps = [step for step in range(1, top + 2) if top / step <= 8]
    return next((step for step in steps[:4] if top % step == 0), steps[0])


def shots_axis(axes: Axes, shots: Sequence[int]) -> None:
    """Make the x axis one of shots, in powers of two, with a tick at every number that was run."""
    axes.set_xscale("log", base=2)
    axes.set_xlabel("shots (sentences per class)")
    axes.xaxis.set_major_locator(FixedLocator(shots))
    axes.xaxis.set_major_formatter(FixedFormatter([str(number) for number in shots]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(min(shots) / 2**0.3, max(shots) * 2**0.3)


def step_axis(axes: Axes, label: str) -> None:
    """Make the x axis one of training steps or epochs, from zero."""
    axes.set_xlabel(label)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 2.5, 5, 10]))
