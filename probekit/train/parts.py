"""Which drawn examples a fit sees, and which of them choose between fits."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from probekit.base.numbers.seeding import numpy_generator
from probekit.base.selection import Selection, share_of
from probekit.errors import OptionError
from probekit.features import FeatureView
from probekit.train.sampling import type_names

_SEED = 0
"""Folds and held-out shares are the same for every seed of a run."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of the drawn examples: the first one is all of them, each other one chooses.

    Attributes:
        seen: whether a part sees an example.
        judged: the part that does not see an example and judges it; 0 where none does.
    """

    seen: Bool[np.ndarray, "parts examples"]
    judged: Int64[np.ndarray, " examples"]


def make_parts(view: FeatureView, select: Selection | None) -> Parts:
    """Return the parts that a selection needs: all, and for every fold all but that fold.

    Raises:
        OptionError: no class has an example for every fold, or there is nothing to hold out.
    """
    n_examples = view.n_examples
    judged = np.zeros(n_examples, np.int64)
    if select is not None and select.kind == "cv":
        if counts := class_counts(view):
            select.check_classes(max(counts.values()))
        order = numpy_generator(_SEED, "folds", select.folds).permutation(n_examples)
        judged[order] = np.arange(n_examples) % select.folds + 1
    elif select is not None and select.kind == "hold-out":
        judged[held_out(n_examples, select.share)] = 1
    seen = np.stack([judged != part if part else judged >= 0 for part in range(judged.max() + 1)])
    return Parts(seen, judged)


def held_out(n_examples: int, share: float) -> Int64[np.ndarray, " held"]:
    """Return the positions of the drawn examples that choose, ascending.

    Raises:
        OptionError: there are fewer than two examples.
    """
    order = numpy_generator(_SEED, "hold-out", repr(share)).permutation(n_examples)
    return np.sort(order[: share_of(share, n_examples)])


def class_counts(view: FeatureView) -> dict[str, int]:
    """Return how many examples each class has, types of chunks without ``O``; empty of numbers."""
    if not len(view.labels):
        return {}
    types = type_names(view.all_names)
    owners = np.repeat(np.arange(view.n_examples), view.lengths)
    pairs = set(zip(owners.tolist(), view.targets.tolist(), strict=True))
    found: dict[str, set[int]] = {}
    for example, target in pairs:
        found.setdefault(types[target], set()).add(example)
    return {name: len(examples) for name, examples in found.items() if name != "O"}


def check_two_classes(view: FeatureView) -> None:
    """Refuse a draw with one class.

    Raises:
        OptionError: there is nothing to tell apart.
    """
    present = np.unique(view.targets)
    if len(present) < 2:
        name = view.all_names[int(present[0])] if len(present) else "none"
        raise OptionError(
            f"all {view.n_examples} examples that were drawn have one class ({name}), and a probe "
            "tells classes apart: draw more with --shots or --fraction, or take another --seeds."
        )
