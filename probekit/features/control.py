"""Control tasks: random but consistent labels, which only memory can learn.

A probe that does well on them would do well on anything; what it scores above them is its
selectivity (Hewitt & Liang 2019, section 2).
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from probekit.base.fingerprint import digest
from probekit.base.numbers.seeding import derive
from probekit.errors import OptionError
from probekit.features.joining import SplitLabels
from probekit.store import Entry
from probekit.tasks import KindName
from probekit.tasks.label_names import NO_LABEL


def control_labels(
    entries: Mapping[str, Entry], labels: Mapping[str, SplitLabels], kind: KindName, *, seed: int
) -> dict[str, SplitLabels]:
    """Replace every label by one drawn for the word's type, whatever its context.

    A type (the word as it is written) has one label in all splits, drawn from how often labels
    occur in train, by the seed and the word alone. A word without a label gets none.

    Args:
        entries: the entry of each labelled split.
        labels: the real labels, by split.
        kind: what they label.
        seed: decides the draw.

    Raises:
        OptionError: labels of whole texts, whose types do not recur.
    """
    if kind != "tagging":
        raise OptionError(
            "a control task gives every word type a random label, so it needs labels of words; "
            f"these are of kind {kind}."
        )
    counts = sorted(Counter(filter(None, labels["train"].values)).items())
    names = [name for name, _ in counts]
    bounds = np.cumsum([count for _, count in counts])
    found = {}
    for split, real in labels.items():
        types = entries[split].examples.flat("words").tolist()
        drawn = _draw(types, names, bounds, seed)
        for place in np.flatnonzero(~real.given):
            drawn[place] = NO_LABEL
        about = digest([real.fingerprint, "control", seed])
        found[split] = SplitLabels(drawn, about, f"{real.where} (control)")
    return found


def _draw(types: Sequence[str], names: Sequence[str], bounds: np.ndarray, seed: int) -> list[str]:
    """Return the label of each word, one draw per type."""
    total = int(bounds[-1])
    chosen = {
        word: names[int(np.searchsorted(bounds, derive(seed, "control", word) % total, "right"))]
        for word in set(types)
    }
    return [chosen[word] for word in types]
