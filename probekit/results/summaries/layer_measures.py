"""What a record can say of each layer, by name: one line per measure, and the number that is shown.

A weight or a share says how a head divides one whole among the layers that it reads, so that heads
on models of different depth can only be compared by its lift over an equal part: the number times
the number of layers read, which is 1 where all count the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from probekit.errors import OptionError, RecordError
from probekit.results.record import Record
from probekit.results.summaries.grouping import full_depth

_WEIGHING = (
    "run `probekit train` with a head that weighs layers, such as --head p32 or "
    "--head attention-fusion."
)


@dataclass(frozen=True, slots=True)
class LayerMeasure:
    """One number per layer of a record.

    Attributes:
        values: a record to its numbers by layer; empty where it has none.
        what: its name, for messages.
        remedy: what to run where no record has it.
        lifted: whether it is a part of one whole, so that its lift is shown.
        signed: whether a number below zero is as telling as one above it.
    """

    values: Callable[[Record], Mapping[int, float]]
    what: str
    remedy: str
    lifted: bool = True
    signed: bool = False

    def shown(self, record: Record) -> dict[int, float]:
        """Return a record's numbers by layer as they are shown: lifted or as they are."""
        factor = len(record.layers) if self.lifted else 1
        return {layer: value * factor for layer, value in self.values(record).items()}


MEASURES: Mapping[str, LayerMeasure] = {
    "weights": LayerMeasure(lambda record: record.weights, "layer weights", _WEIGHING),
    "initial": LayerMeasure(
        lambda record: record.initial_weights,
        "layer weights before training",
        "run `probekit train` with a head that weighs the layers of each row, such as --head "
        "attention-fusion.",
    ),
    "shares": LayerMeasure(
        lambda record: record.shares,
        "shares of the layers in the logits",
        "run `probekit train` with a head whose logits are a sum over layers, such as --head p32 "
        "with --decoder linear.",
        signed=True,
    ),
    "ablation": LayerMeasure(
        lambda record: record.ablation,
        "losses without each layer",
        "run `probekit train` with --ablate.",
        lifted=False,
        signed=True,
    ),
}

RAW = LayerMeasure(
    lambda record: record.raw_weights or {},
    "weights before the softmax",
    _WEIGHING,
    lifted=False,
    signed=True,
)
"""Of heads that have a softmax with trained values in front of it."""


def with_measure(records: Sequence[Record], measure: LayerMeasure) -> list[Record]:
    """Return the records that have a measure; of full and truncated depths, the full ones.

    Raises:
        RecordError: no record has it.
    """
    held = [record for record in records if measure.values(record)]
    if not held:
        raise RecordError(f"none of {len(records)} records holds {measure.what}; {measure.remedy}")
    return full_depth(held)


def one_ablation(records: Sequence[Record]) -> str:
    """Return how layers were left out of some records, in words.

    Raises:
        OptionError: in more than one way.
    """
    ways = sorted({record.ablated or "mean" for record in records})
    if len(ways) > 1:
        raise OptionError(
            "some records leave a layer out by its mean and others by fitting again, which are two "
            "measures; choose one: --where ablated=mean or --where ablated=refit."
        )
    return {"mean": "its rows set to their mean", "refit": "the head fitted again"}[ways[0]]
