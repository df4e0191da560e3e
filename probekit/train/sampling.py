"""Which training sentences a run sees, and which of them choose between its fits.

Every draw is a function of its seed and size alone, so all heads of one seed see one sample.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from probekit.base.numbers import numpy_generator
from probekit.base.selection import Selection
from probekit.errors import OptionError
from probekit.features import FeatureView

_SEED = 0
"""Splits, folds and held-out shares are the same for every seed of a run."""

_CHUNK_TAG = re.compile(r"^[BI](-.+)?$")


def count_classes(label_names: Sequence[str]) -> int:
    """Return C of the few-shot protocol (DWAtt section 5.2: four for CoNLL-2003 entities).

    Where every label is ``O``, ``B-type`` or ``I-type``, C is the number of types (one, where tags
    have none); elsewhere the number of labels.

    Args:
        label_names: every label of the full train split.
    """
    types = type_names(label_names)
    are_chunks = types != list(label_names)
    return len(set(types) - {"O"} if are_chunks else set(types))


def type_names(label_names: Sequence[str]) -> list[str]:
    """Return the type of each label: ``PER`` of ``B-PER`` and ``I-PER``, elsewhere the label.

    Labels are tags of chunks where each is ``O``, ``B-type`` or ``I-type`` and not all are ``O``.
    Tags without a type (``B``, ``I``) are of type ``_``, as seqeval calls it.
    """
    chunks = [_CHUNK_TAG.match(name) for name in label_names if name != "O"]
    if not chunks or not all(chunks):
        return list(label_names)
    return [name if name == "O" else name[2:] or "_" for name in label_names]


def draw(
    n_examples: int, *, n_classes: int, shots: int | None, fraction: float | None, seed: int
) -> Int64[np.ndarray, " drawn"]:
    """Draw training examples uniformly without replacement, not stratified.

    Args:
        n_examples: N, the examples that can be drawn.
        n_classes: C.
        shots: K; K x C examples are drawn.
        fraction: share of the N examples, at least one example unless it is 0.
        seed: the run's seed.

    Returns:
        Positions of the drawn examples, ascending; all of them without shots and fraction.

    Raises:
        OptionError: K x C is more than N; the message names the largest K.
    """
    if shots is not None:
        wanted = shots * n_classes
        if wanted > n_examples:
            raise OptionError(
                f"--shots {shots}: {shots} x {n_classes} classes = {wanted} sentences, but the "
                f"train split holds {n_examples}; the largest K here is {n_examples // n_classes}."
            )
        return _sample(n_examples, wanted, seed, f"shots={shots}")
    if fraction is not None and fraction < 1:
        wanted = max(1, round(fraction * n_examples)) if fraction else 0
        return _sample(n_examples, wanted, seed, f"fraction={fraction!r}")
    return np.arange(n_examples)


Groups = Int64[np.ndarray, " examples"] | None
"""Number of the group of each example; None where every example stands for itself."""


def hold_out(
    n_examples: int, share: float, groups: Groups = None
) -> tuple[Int64[np.ndarray, " kept"], Int64[np.ndarray, " held"]]:
    """Split N train examples into a train and a dev part, the same one for every seed.

    Args:
        n_examples: N.
        share: of the examples, or of the groups, that is held out.
        groups: which examples go to the same part.

    Returns:
        Positions of the kept and of the held-out examples, each ascending.

    Raises:
        OptionError: one of the two parts would be empty.
    """
    units, owner = _units(n_examples, groups)
    wanted = round(share * units)
    if not 0 < wanted < units:
        unit_names = "train sentences" if groups is None else "groups of train sentences"
        raise OptionError(f"--hold-out {share:g} of {units} {unit_names} leaves one side empty.")
    held = np.flatnonzero(np.isin(owner, _sample(units, wanted, _SEED, "hold-out")))
    return np.setdiff1d(np.arange(n_examples), held), held


def _units(n_examples: int, groups: Groups) -> tuple[int, Int64[np.ndarray, " examples"]]:
    """Return how many units there are to choose from, and the unit of each example."""
    # examples of the groups 4 7 4: two units, and they are 0 1 0
    if groups is None:
        return n_examples, np.arange(n_examples)
    names, owner = np.unique(groups, return_inverse=True)
    return len(names), owner


def fold_numbers(
    n_examples: int, folds: int, groups: Groups = None
) -> Int64[np.ndarray, " examples"]:
    """Return the fold of each example, from 1 on; the same for every seed.

    Without groups they are dealt out in a random order; groups go whole to the fold with the fewest
    examples, the largest group first (as ``sklearn.model_selection.GroupKFold`` does).
    """
    units, owner = _units(n_examples, groups)
    order = numpy_generator(_SEED, "folds", folds).permutation(units)
    numbers = np.zeros(units, np.int64)
    if groups is None:
        numbers[order] = np.arange(units) % folds + 1
        return numbers
    # Groups of 3, 1 and 2 examples in two folds: the first fold gets the 3, the second the 2, and
    # then, as it is the smaller one, the 1.
    sizes, filled = np.bincount(owner), np.zeros(folds, np.int64)
    for unit in order[np.argsort(-sizes[order], kind="stable")]:
        fold = int(filled.argmin())
        numbers[unit], filled[fold] = fold + 1, filled[fold] + sizes[unit]
    return numbers[owner]


def _sample(n_examples: int, wanted: int, seed: int, name: str) -> Int64[np.ndarray, " drawn"]:
    order = numpy_generator(seed, "sample", name).permutation(n_examples)
    return np.sort(order[:wanted])


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
    # Four drawn examples in two folds, which the draw gives to them as 1 2 1 2:
    #
    #   judged   1 2 1 2       the part that does not see an example
    #   seen     1 1 1 1       part 0 sees all of them
    #            0 1 0 1       part 1 not those that it judges
    #            1 0 1 0       nor does part 2
    #
    # A held-out share is a single fold, and 0 for what stays: 0 1 0 0.
    n_examples = view.n_examples
    judged = np.zeros(n_examples, np.int64)
    if select is not None and select.kind == "cv":
        if counts := class_counts(view):
            select.check_classes(max(counts.values()))
        judged = fold_numbers(n_examples, select.folds, view.groups)
    elif select is not None and select.kind == "hold-out":
        judged[held_out(n_examples, select.share, view.groups)] = 1
    seen = np.stack([judged != part if part else judged >= 0 for part in range(judged.max() + 1)])
    return Parts(seen, judged)


def held_out(n_examples: int, share: float, groups: Groups = None) -> Int64[np.ndarray, " held"]:
    """Return the positions of the drawn examples that choose, ascending: one at least, not all.

    Args:
        n_examples: how many were drawn.
        share: of the examples, or of the groups, that chooses.
        groups: which examples go to the same side.

    Raises:
        OptionError: there are fewer than two examples, or groups.
    """
    units, owner = _units(n_examples, groups)
    if units < 2:
        unit_names = "examples" if groups is None else "groups"
        raise OptionError(
            f"--select hold-out:{share:g} needs two {unit_names} or more, and {units} was drawn; "
            "draw more, or give --select dev."
        )
    count = min(max(1, math.floor(share * units + 0.5)), units - 1)
    order = numpy_generator(_SEED, "hold-out", repr(share)).permutation(units)
    return np.flatnonzero(np.isin(owner, order[:count]))


def class_counts(view: FeatureView) -> dict[str, int]:
    """Return how many examples each class has, types of chunks without ``O``; empty of numbers.

    Of sets of labels those of each label are counted, of which an example may have several.
    """
    if not len(view.labels):
        return {}
    if view.of_sets:
        sums = view.targets.sum(0, dtype=np.int64).tolist()
        return {name: count for name, count in zip(view.all_names, sums, strict=True) if count}
    types = np.array(type_names(view.all_names), dtype=object)[view.targets].tolist()
    owners = np.repeat(np.arange(view.n_examples), view.lengths).tolist()
    counts = Counter(name for name, _ in set(zip(types, owners, strict=True)) if name != "O")
    return dict(counts)


def check_two_classes(view: FeatureView) -> None:
    """Refuse a draw with one class.

    Raises:
        OptionError: there is nothing to tell apart.
    """
    differ = np.ptp(view.targets, axis=0).any() if len(view.targets) else False
    if not differ:
        what = "the same labels" if view.of_sets else "the same class"
        raise OptionError(
            f"all {view.n_examples} examples that were drawn have {what}, and a probe needs "
            "examples that differ: draw more with --shots or --fraction, take another --seeds, or "
            "another label column."
        )
