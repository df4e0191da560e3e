"""Overthinking of every curve of some records, and sentences to look at."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from probekit.base.numbers.seeding import numpy_generator
from probekit.errors import OptionError, RecordError
from probekit.results.comparison.resampling import Bootstrap, Estimate
from probekit.results.overthinking.chosen_depth import ChosenDepth, choose_depth
from probekit.results.overthinking.depth_predictions import (
    CurveReport,
    DepthPredictions,
    depth_curves,
    probabilities_of,
    read_reported,
)
from probekit.results.overthinking.shares import (
    Share,
    SharesByDepth,
    mean_of_rows,
    shares,
    shares_by_depth,
)
from probekit.results.record import Record


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


def choose_examples(probes: DepthPredictions, count: int, seed: int = 0) -> list[ShownExample]:
    """Return some sentences in an order that the seed decides, destructive ones first.

    Args:
        probes: of a curve; of several seeds the first is shown.
        count: how many.
        seed: of the choice.

    Raises:
        OptionError: a negative number.
        RecordError: the side files hold no texts or no probabilities.
    """
    check_count(count)
    if count == 0:
        return []
    reference = probes.found[0][0]
    if not reference.texts:
        first = probes.curve.records[0]
        raise RecordError(
            f"{first.predictions} holds predictions without their texts (of an earlier version): "
            "delete the file and train again with --predictions."
        )
    right = probes.right[0]
    destructive = ~right[-1] & right[:-1].any(0)
    sums = np.concatenate([[0], np.cumsum(destructive)])[probes.scorer.gold.offsets]
    order = numpy_generator(seed, "examples", probes.n_sentences).permutation(probes.n_sentences)
    none = np.diff(sums)[order] == 0
    ordered = np.concatenate([order[~none], order[none]])[:count].tolist()
    probabilities_of(probes, 0)  # refuses side files that have none
    probability = np.stack([group[0].probability_of_predicted() for group in probes.found])
    return [_example(probes, sentence, right, probability) for sentence in ordered]


def check_count(count: int) -> None:
    """Refuse a negative number of examples.

    Raises:
        OptionError: it is one.
    """
    if count < 0:
        raise OptionError(f"--examples {count}: give the number of sentences, 0 or more.")


def _example(
    probes: DepthPredictions,
    sentence: int,
    right: np.ndarray,
    probability: Float[np.ndarray, "depths rows"],
) -> ShownExample:
    reference, gold = probes.found[0][0], probes.scorer.gold
    text = reference.texts[sentence]
    start, stop = gold.offsets[sentence : sentence + 2].tolist()
    # "the words of its rows", or one row for a text or for two of them
    paired = not isinstance(text, str) and len(text) == 2 and stop - start == 1
    words = None if isinstance(text, str) or paired else text
    rows = tuple(
        ShownRow(
            word=None if words is None else words[row - start],
            gold=gold.names[gold.ids[row]],
            kind=_kind(right[:, row]),
            predicted=tuple(gold.names[label] for label in probes.predicted[0, :, row]),
            probability=tuple(None if np.isnan(p) else float(p) for p in probability[:, row]),
        )
        for row in range(start, stop)
    )
    return ShownExample(
        id=reference.ids[sentence],
        text=text if isinstance(text, str) else text[0] if paired else " ".join(text),
        text_pair=text[1] if paired else None,
        seed=probes.seeds[0],
        depths=probes.depths,
        rows=rows,
    )


def _kind(right: np.ndarray) -> str:
    if right[:-1].any():
        return "wasteful" if right[-1] else "destructive"
    return "right" if right[-1] else "wrong"


@dataclass(frozen=True, kw_only=True)
class Overthinking(CurveReport):
    """Overthinking of one head on one task; shares are of all rows, means over the seeds.

    Attributes:
        depths: ascending; the last is that of the whole model.
        n_sentences: sentences of the split, which the intervals are over.
        n_rows: what has a label in them.
        unit: what that is: words or texts.
        n_seeds: seeds.
        right: rows that the last depth has right.
        shares: wasteful, destructive and cumulative, and the layers wasted.
        by_depth: what each depth has right, and the earlier ones where the last is wrong.
        chosen: the one earlier depth that selection chose.
        examples: sentences to look at.
    """

    depths: tuple[int, ...]
    n_sentences: int
    n_rows: int
    unit: str
    n_seeds: int
    right: Estimate
    shares: tuple[Share, ...]
    by_depth: SharesByDepth
    chosen: ChosenDepth
    examples: tuple[ShownExample, ...] = ()


def overthinking(
    records: Sequence[Record],
    *,
    split: str | None = None,
    examples: int = 0,
    samples: int = 10_000,
    seed: int = 0,
) -> list[Overthinking]:
    """Measure overthinking from the predictions of the probes of every depth.

    Args:
        records: of ``probekit depth``, with predictions.
        split: ``test`` or ``dev``; None is test where all have one, else dev.
        examples: how many sentences to show, destructive ones first.
        samples: bootstrap samples.
        seed: of the bootstrap, of the halves of a split and of the examples.

    Raises:
        OptionError: too few samples, or a negative number of examples.
        UnknownNameError: no such split.
        RecordError: depths, predictions, probabilities or classes are missing; the message says
            which.
        MissingFileError: a side file of predictions does not exist.
    """
    bootstrap = Bootstrap(samples=samples, seed=seed)
    measured = []
    for curve in depth_curves(records):
        reported, dev = read_reported(curve, split)
        (right,) = bootstrap.estimates(
            reported.groups, mean_of_rows(reported, reported.right[:, -1].mean(0)[:, None])
        )
        measured.append(
            Overthinking(
                **reported.about,
                n_sentences=reported.n_sentences,
                n_rows=len(reported.scorer.gold.ids),
                unit=reported.unit,
                n_seeds=len(reported.seeds),
                right=right,
                shares=tuple(shares(reported, bootstrap)),
                by_depth=shares_by_depth(reported, bootstrap),
                chosen=choose_depth(reported, dev, bootstrap),
                examples=tuple(choose_examples(reported, examples, seed)),
            )
        )
    return measured
