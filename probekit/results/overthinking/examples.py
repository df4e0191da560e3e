"""Sentences to look at: what each depth predicts of them, destructive ones first."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from probekit.base.numbers.seeding import numpy_generator
from probekit.errors import OptionError, RecordError
from probekit.results.overthinking.depth_predictions import DepthPredictions, probabilities_of


@dataclass(frozen=True, kw_only=True)
class ShownRow:
    """One word, or a whole text.

    Attributes:
        word: the word; None of a whole text.
        gold: its label.
        kind: ``destructive``, ``wasteful``, ``right`` at the last depth alone, or ``wrong``
            everywhere.
        predicted: by depth, the label.
        probability: by depth, that of the label; None where it is not among those kept.
    """

    word: str | None
    gold: str
    kind: str
    predicted: tuple[str, ...]
    probability: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class ShownExample:
    """One sentence, as the first seed's probes see it.

    Attributes:
        id: its id.
        text: the text; the words of a sentence, apart by spaces.
        text_pair: the second one of a pair of texts.
        seed: the seed.
        depths: ascending.
        rows: its words, or the text itself.
    """

    id: str
    text: str
    text_pair: str | None = None
    seed: int
    depths: tuple[int, ...]
    rows: tuple[ShownRow, ...]

    @property
    def told(self) -> tuple[ShownRow, ...]:
        """The rows to be told of: the destructive ones, else those that depths differ on."""
        first = [row for row in self.rows if row.kind == "destructive"]
        return tuple(first or [row for row in self.rows if len(set(row.predicted)) > 1])


def choose_examples(found: DepthPredictions, count: int, seed: int = 0) -> list[ShownExample]:
    """Return some sentences in an order that the seed decides, destructive ones first.

    Args:
        found: the predictions; of several seeds the first is shown.
        count: how many.
        seed: of the choice.

    Raises:
        OptionError: a negative number.
        RecordError: the side files hold no texts or no probabilities.
    """
    check_count(count)
    if count == 0:
        return []
    reference = found.found[0][0]
    if not reference.texts:
        raise RecordError(
            f"{found.curve.probes[found.depths[0]].records[0].predictions} holds predictions "
            "without their texts (of an earlier version): delete the file and train again with "
            "--predictions."
        )
    right = found.right[0]
    destructive = ~right[-1] & right[:-1].any(0)
    sums = np.concatenate([[0], np.cumsum(destructive)])[found.scorer.gold.offsets]
    order = numpy_generator(seed, "examples", found.n_sentences).permutation(found.n_sentences)
    none = np.diff(sums)[order] == 0
    ordered = np.concatenate([order[~none], order[none]])[:count].tolist()
    probabilities_of(found, 0)  # refuses side files that have none
    probability = np.stack([group[0].probability_of_predicted() for group in found.found])
    return [_example(found, place, right, probability) for place in ordered]


def check_count(count: int) -> None:
    """Refuse a negative number of examples.

    Raises:
        OptionError: it is one.
    """
    if count < 0:
        raise OptionError(f"--examples {count}: give the number of sentences, 0 or more.")


def _example(
    found: DepthPredictions,
    place: int,
    right: np.ndarray,
    probability: Float[np.ndarray, "depths rows"],
) -> ShownExample:
    reference, gold = found.found[0][0], found.scorer.gold
    text = reference.texts[place]
    start, stop = gold.offsets[place : place + 2].tolist()
    # "the words of its rows", or one row for a text or for two of them
    paired = not isinstance(text, str) and len(text) == 2 and stop - start == 1
    words = None if isinstance(text, str) or paired else text
    rows = tuple(
        ShownRow(
            word=None if words is None else words[row - start],
            gold=gold.names[gold.ids[row]],
            kind=_kind(right[:, row]),
            predicted=tuple(gold.names[one] for one in found.predicted[0, :, row]),
            probability=tuple(None if np.isnan(p) else float(p) for p in probability[:, row]),
        )
        for row in range(start, stop)
    )
    return ShownExample(
        id=reference.ids[place],
        text=text if isinstance(text, str) else text[0] if paired else " ".join(text),
        text_pair=text[1] if paired else None,
        seed=found.seeds[0],
        depths=found.depths,
        rows=rows,
    )


def _kind(right: np.ndarray) -> str:
    if right[:-1].any():
        return "wasteful" if right[-1] else "destructive"
    return "right" if right[-1] else "wrong"
