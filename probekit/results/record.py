"""A record: the options and the outcome of one training run."""

import logging
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self

from probekit.errors import RecordError

logger = logging.getLogger(__name__)

CurvePoint = Sequence[float]
"""One evaluation during training: step, mean training loss since the last one, dev score."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """The options and the outcome of one training run; one JSON line of a results file.

    Values are checked and made plain on construction: NumPy and 0-d tensor numbers become
    Python's, sequences become tuples, and layer numbers become ``int``. NaN and infinity are
    refused, so that whatever was written can be read by any JSON parser.

    Attributes:
        model: name of the backbone.
        task: name of the task, such as ``wikiann/de``.
        label: label column that was learned.
        labels_fingerprint: sha256 (64 hex digits) of the labels that were used.
        entry: the cache entry that was read.
        head: name of the head.
        decoder: name of the decoder.
        layers: layer numbers that the head read, ascending.
        depth: largest layer the head was allowed to see; None when not truncated.
        normalize: how each layer was treated before the head.
        protocol: how the training sentences were chosen, such as ``full`` or ``few-shot``.
        shots: K of the few-shot protocol; None elsewhere.
        fraction: share of the training split, in 0..1; None elsewhere.
        seed: seed of the sample and of the initialisation.
        epochs: passes over the training sentences.
        lr: peak learning rate.
        mix_lr: peak learning rate of the mixing weights; None when it is ``lr``.
        batch_size: sentences per step.
        optimizer: name of the optimizer.
        metric: name of the metric that all scores below are in.
        eval_score: best dev score (0..1).
        eval_last: dev score after the last step (0..1).
        best_epoch: epoch of the best dev score; a fraction when an epoch has several evaluations.
        test_score: test score of the best checkpoint (0..1); None when not scored.
        scores: other scores by name.
        curve: points (step, loss, dev score), in order of steps.
        weights: weight of each layer, by layer number; empty for a head that has none.
        raw_weights: the same before the softmax; None when the head has no such values.
        n_params: trained parameters, head and decoder together.
        train_seconds: wall-clock seconds of training.
        predictions: path of the side file with predictions; None when not asked for.
        version: version of probekit that wrote the record.
        key: fingerprint of the options; two records with one key are the same run.

    Raises:
        RecordError: a value has the wrong type, or is NaN or infinite.
    """

    model: str
    task: str
    label: str
    labels_fingerprint: str
    entry: str
    head: str
    decoder: str
    layers: Sequence[int]
    depth: int | None = None
    normalize: str
    protocol: str
    shots: int | None = None
    fraction: float | None = None
    seed: int
    epochs: int
    lr: float
    mix_lr: float | None = None
    batch_size: int
    optimizer: str
    metric: str
    eval_score: float
    eval_last: float
    best_epoch: float
    test_score: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    curve: Sequence[CurvePoint] = ()
    weights: Mapping[int, float] = field(default_factory=dict)
    raw_weights: Mapping[int, float] | None = None
    n_params: int
    train_seconds: float
    predictions: str | None = None
    version: str
    key: str

    def __post_init__(self) -> None:
        """Check every value and make it plain."""
        for name, plain in _PLAIN.items():
            try:
                value = plain(getattr(self, name))
            except (TypeError, ValueError, AttributeError, RuntimeError) as error:
                raise RecordError(f"record field {name!r}: {error}") from None
            object.__setattr__(self, name, value)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values; the keys of ``weights`` become strings."""
        return {name: _json_value(getattr(self, name)) for name in _PLAIN}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the record that ``to_json`` wrote.

        Fields that this version does not know are left out with a logged note, so that files of
        newer versions stay readable.

        Raises:
            RecordError: a field is missing or has a value that cannot be used.
        """
        unknown = unknown_fields(data)
        if unknown:
            logger.info("ignored unknown record fields: %s", ", ".join(unknown))
        return cls.from_known(data)

    @classmethod
    def from_known(cls, data: Mapping[str, Any]) -> Self:
        """Return the record in ``data`` as ``from_json`` does, without the note."""
        missing = [name for name in _REQUIRED if name not in data]
        if missing:
            raise RecordError(f"not a probekit record: it lacks {', '.join(missing)}.")
        return cls(**{name: data[name] for name in _PLAIN if name in data})


def unknown_fields(data: Mapping[str, Any]) -> list[str]:
    """Return the names in ``data`` that are no field of a record, sorted."""
    return sorted(name for name in data if name not in _PLAIN)


def _json_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, tuple):
        return [_json_value(item) for item in value]
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r}")
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError(f"expected a whole number, found {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"expected a whole number, found {value!r}") from None


def _number(value: Any) -> float:
    if isinstance(value, str | bool) or value is None:
        raise TypeError(f"expected a number, found {value!r}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, found {number}")
    return number


def _optional(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else plain(value)


def _layers(value: Any) -> tuple[int, ...]:
    return tuple(_whole(layer) for layer in value)


def _curve(value: Any) -> tuple[tuple[int, float, float], ...]:
    return tuple(
        (_whole(step), _number(loss), _number(score))
        for step, loss, score in (tuple(point) for point in value)
    )


def _scores(value: Any) -> dict[str, float]:
    return {_text(name): _number(score) for name, score in value.items()}


def _weights(value: Any) -> dict[int, float]:
    # JSON has no integer keys, so layer numbers come back as text.
    return {int(layer): _number(weight) for layer, weight in value.items()}


_OTHER: dict[str, Callable[[Any], Any]] = {
    "layers": _layers,
    "scores": _scores,
    "curve": _curve,
    "weights": _weights,
    "raw_weights": _optional(_weights),
}
_BY_TYPE: dict[Any, Callable[[Any], Any]] = {
    str: _text,
    int: _whole,
    float: _number,
    str | None: _optional(_text),
    int | None: _optional(_whole),
    float | None: _optional(_number),
}
_PLAIN: dict[str, Callable[[Any], Any]] = {
    item.name: _OTHER.get(item.name) or _BY_TYPE[item.type] for item in fields(Record)
}
_REQUIRED = tuple(
    item.name
    for item in fields(Record)
    if item.default is MISSING and item.default_factory is MISSING
)
