"""A record: the options and the outcome of one training run."""

import json
import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from types import NoneType
from typing import Annotated, Any, Self, get_args, get_origin

from probekit.base.layers import LAYER_NUMBERS
from probekit.base.markup import spelled_out
from probekit.base.selection import PROTOCOL_DEFAULTS, Selection
from probekit.errors import RecordError, clause_of, upgrade_to
from probekit.metrics.number_metrics import ENDLESS
from probekit.version import is_newer

logger = logging.getLogger(__name__)

BY_MEAN, BY_REFIT = "mean", "refit"
"""How a layer is left out: its rows are their mean, or the head is fitted again on the others."""

Layer = Annotated[int, "the number of a layer"]

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
        entry: the cache entry that train was read from.
        texts: sha256 (64 hex digits) of the ids and texts of each split that was read, whatever
            their labels; empty in records of earlier versions.
        method: what was trained of the model (``full``, ``lora:rank=4``), or ``frozen`` of one that
            ran and stayed as it was; None of a run from the cache.
        head: name of the head.
        decoder: name of the decoder.
        layers: layer numbers that the head read, ascending.
        depth: largest layer the head was allowed to see; None when not truncated.
        normalize: how each layer was treated before the head.
        pooling: which row of a text was read (``cls``, ``mean``, ``last``); None for words.
        options: settings of head and decoder that are not the default, as ``decoder.hidden: 128``,
            and of a model that is trained its dropout, as ``model.attention_dropout: 0.3``.
        spec: all options of the run as they were settled, by name and as JSON values, without
            model, task and the folder of a saved head; empty in records of earlier versions.
        init: what the saved head that the run started from was trained on, such as
            ``wikiann/en ner 1a2b3c4d``, and ``with decoder`` where all of it was taken; ``solved``
            where head and decoder were solved before the model was trained; None for a fresh start.
        freeze: whether what was taken from there was kept as it was.
        protocol: how the training sentences were chosen, such as ``full`` or ``few-shot``.
        shots: K of the few-shot protocol; None elsewhere.
        fraction: share of the training split, in 0..1; None elsewhere.
        seed: seed of the sample and of the initialisation.
        fitter: name of the fitter (``adam``, ``lbfgs``, ``ridge``); ``none`` of a baseline.
        select: what chose strength, checkpoint or rate: ``dev``, ``cv:5``, ``hold-out:0.1``; None
            where nothing was chosen.
        l2: strength of L2 that was asked for; None where it was chosen among several.
        epochs: passes over the training sentences; this and the next ones are None of a solver.
        evals: number of points at which dev was scored; None is 10.
        lr: peak learning rate.
        rates: peak learning rates of groups of parameters, such as ``mixing`` or ``transitions``;
            all others have ``lr``.
        rate_from: where the rates are from: ``published`` (of a protocol), ``fixed`` (by default or
            by the user) or ``searched``; None of what has no rate.
        trial: whether the run is a trial of a search, which tables and figures leave out.
        left_out: layer of another run that this one leaves out, for the ablation of that one;
            tables and figures leave it out as well. None of any other run.
        batch_size: sentences per step.
        batch_tokens: most subwords that ran through a live model at once; None is 4,096.
        optimizer: name of the optimizer.
        diagnosis: how the fit went, by name: see ``results.diagnosis``.
        environment: device, dtypes and versions of what computed; no part of the key.
        plugins: where plug-ins that are not probekit's own are from (``path``, ``code``,
            ``package``), by kind (``head``, ``metric``).
        seen: ``examples`` and ``rows`` that were fitted on, ``of_examples`` and ``of_rows`` that
            the cache holds of that split, ``dtype`` and ``format`` in which it is stored,
            ``blocks``, the number of the backbone's layers, ``limit``, where the cache was
            limited, and where groups stay together, ``groups``, their number among the drawn
            sentences, ``largest_group``, the sentences of the largest, and ``in_groups``, those in
            groups of two or more.
        duplicates: by scored split, and by what it is compared with (``train``, which is what was
            drawn of it, or the split that chose): its ``texts``, how many of them occur there
            ``exact``, how many ``normalised``, and of pairs how many are ``sharing`` a text with
            one there. ``train`` is compared with itself where a part of it chose: counted are
            texts that occur twice.
        metric: name of the metric that all scores below are in.
        eval_score: best dev score: in 0..1 for most metrics, from 1 on for perplexity.
        eval_last: dev score after the last step.
        best_epoch: epoch of the best dev score; a fraction when an epoch has several evaluations.
        test_score: test score of the best checkpoint; None when not scored.
        scores: all scores by name, as ``dev/loss``; ``loss``, ``ece`` and ``brier`` are those of
            ``metrics.OF_PROBABILITIES``, of a regression ``loss`` is the mean squared error.
        curve: points (step, loss, score on what chooses: dev, or held-out sentences), in order of
            steps.
        weights: weight of each layer, by layer number; empty for a head that has none.
        raw_weights: the same before the softmax; None when the head has no such values.
        class_weights: mean weight of each layer over the dev rows of each gold class, by name.
        initial_weights: mean weight of each layer over the dev rows before anything was trained;
            empty for a head that gives all rows the same weights.
        shares: share of each layer in the variance of the dev logits, which sum to 1 and may be
            negative; empty where the logits are no sum over layers.
        ablation: dev loss without a layer less that with all, by layer number; empty when not asked
            for.
        ablated: how a layer was left out: ``mean`` (its rows are their mean, nothing is fitted
            again) or ``refit`` (fitted again on the other layers); None when not asked for.
        diverged: whether the loss or a trained value ceased to be finite. The best checkpoint is
            from before; where none was, the scores are arbitrary, and weights that are not finite
            are left out.
        confusion: dev rows by gold class (``rows``) and predicted class (``columns``): ``counts``.
        n_params: trained parameters, of head, decoder and model together.
        n_backbone_params: those of the model; 0 of a run from the cache.
        backbone_share: their share of all parameters of the model; of a method that leaves most of
            them as they were, of those that differ.
        train_seconds: wall-clock seconds of training; linear probes that step together share their
            time equally.
        predictions: path of the side file with predictions; None when not asked for.
        predictions_digest: sha256 of that file; None in records of earlier versions.
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
    texts: Mapping[str, str] = field(default_factory=dict)
    method: str | None = None
    head: str
    decoder: str
    layers: Sequence[Layer]
    depth: Layer | None = None
    normalize: str
    pooling: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    init: str | None = None
    freeze: bool = False
    protocol: str
    shots: int | None = None
    fraction: float | None = None
    seed: int
    fitter: str = "adam"
    select: str | None = None
    l2: float | None = None
    epochs: int | None = None
    evals: int | None = None
    lr: float | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    rate_from: str | None = None
    trial: bool = False
    left_out: Layer | None = None
    batch_size: int | None = None
    batch_tokens: int | None = None
    optimizer: str
    diagnosis: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    plugins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    seen: Mapping[str, Any] = field(default_factory=dict)
    duplicates: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    metric: str
    eval_score: float
    eval_last: float
    best_epoch: float
    test_score: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    curve: Sequence[CurvePoint] = ()
    weights: Mapping[Layer, float] = field(default_factory=dict)
    raw_weights: Mapping[Layer, float] | None = None
    class_weights: Mapping[str, Mapping[Layer, float]] = field(default_factory=dict)
    initial_weights: Mapping[Layer, float] = field(default_factory=dict)
    shares: Mapping[Layer, float] = field(default_factory=dict)
    ablation: Mapping[Layer, float] = field(default_factory=dict)
    ablated: str | None = None
    diverged: bool = False
    confusion: Mapping[str, Any] | None = None
    n_params: int
    n_backbone_params: int = 0
    backbone_share: float = 0.0
    train_seconds: float
    predictions: str | None = None
    predictions_digest: str | None = None
    version: str
    key: str

    def __post_init__(self) -> None:
        """Check every value and make it plain."""
        for name, make_plain in _PLAIN.items():
            try:
                value = make_plain(getattr(self, name))
            except (TypeError, ValueError, OverflowError, AttributeError, RuntimeError) as error:
                raise RecordError(f"record field {name!r}: {error}") from None
            object.__setattr__(self, name, value)

    @property
    def troubles(self) -> tuple[str | None, ...]:
        """What is wrong with the run: of each kind of trouble, in a fixed order, words or None."""
        says, edge = self.diagnosis, self.diagnosis.get("edge")
        by_dev = Selection.recorded(self.select) == Selection("dev") or "thresholds_by" in says
        on_dev = by_dev and self.test_score is None
        troubles = {
            "diverged": self.diverged,
            "not converged": says.get("converged") is False,
            f"best at the edge of the search ({edge})": bool(edge),
            "one class predicted": says.get("one_class") is True,
            "one value predicted, or true": says.get("one_value") is True,
            "best score is that of the last step": says.get("best_is_last") is True,
            "loss still falling at the end": says.get("falling") is True,
            "selected on the reported split": on_dev,
        }
        return tuple(text if wrong else None for text, wrong in troubles.items())

    def stated(self) -> dict[str, Any] | None:
        """Return the options of a run as they are typed; None of one of an earlier version.

        What the file of a protocol states, where it is not the default, is a table of them.
        """
        if not self.spec:
            return None
        stated = {name: value for name, value in self.spec.items() if value is not False}
        stated.pop("freeze_fusion", None)  # of a saved head, whose folder no record knows
        if rates := stated.pop("rates", ()):
            stated["lr"] = ",".join(
                [f"{stated['lr']}", *(f"{name}={rate}" for name, rate in rates)]
            )
        details = {name: stated.pop(name) for name in PROTOCOL_DEFAULTS if name in stated}
        changed = {
            name: detail for name, detail in details.items() if detail != PROTOCOL_DEFAULTS[name]
        }
        if changed:
            stated["protocol"] = changed
        if "folds" in self.diagnosis:  # the default, of which the draw allowed less
            stated.pop("select", None)
        return stated

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values; layer numbers that are keys become strings.

        Fields that came with a later version are left out where they say nothing, so that records
        which do without them stay as they were.
        """
        values = {
            name: value
            for name, value in vars(self).items()
            if value or name not in _WRITTEN_IF_SET
        }
        return dict(json.loads(json.dumps(values)))  # which makes lists of tuples, and keys text

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the record that ``to_json`` wrote.

        Fields that this version does not know are left out with a logged note, so that files of
        newer versions stay readable.

        Raises:
            RecordError: a field is missing or has a value that cannot be used.
        """
        if unknown := sorted(data.keys() - FIELDS):
            logger.info("ignored unknown record fields: %s", ", ".join(unknown))
        return cls.from_known(data)

    @classmethod
    def from_known(cls, data: Mapping[str, Any]) -> Self:
        """Return the record in ``data`` as ``from_json`` does, without the note."""
        missing = [name for name in _REQUIRED if name not in data]
        try:
            if missing:
                raise RecordError(f"not a probekit record: it lacks {', '.join(missing)}.")
            return cls(**{name: data[name] for name in _PLAIN if name in data})
        except RecordError as error:
            if not is_newer(data.get("version")):
                raise
            raise RecordError(f"{clause_of(error)}; {upgrade_to(data['version'])}.") from None


FIELDS = frozenset(item.name for item in fields(Record))


def _path(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r}")
    return value


def _text(value: Any) -> str:
    """Return text, control characters spelled out: it comes to stand in tables and figures."""
    return spelled_out(_path(value))


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, found {value!r}")
    return value


def _whole(value: Any) -> int:
    """Return a whole number of 64 bits, also NumPy's, as an ``int``."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"expected a whole number, found {value!r}")
    integer = operator.index(value)
    if not -(2**63) <= integer < 2**63:
        raise ValueError("expected a whole number of 64 bits")
    return integer


def _layer(value: Any) -> int:
    """Return the number of a layer: JSON has no integer keys, so these come back as text."""
    number = _whole(int(value) if isinstance(value, str) else value)
    if not 0 <= number < LAYER_NUMBERS:  # so no reader of records counts up to more
        raise ValueError(f"expected the number of a layer, found {number}")
    return number


def _number(value: Any) -> float:
    """Return a number, also NumPy's or a 0-d tensor, as a ``float`` whose square is finite."""
    if isinstance(value, str | bool) or value is None:
        raise TypeError(f"expected a number, found {value!r}")
    real = float(value)
    if not abs(real) <= ENDLESS:
        raise ValueError(f"expected a finite number, at most {ENDLESS:g}, found {real}")
    return real


def _point(value: Any) -> tuple[int, float, float]:
    step, loss, score = value
    return _whole(step), _number(loss), _number(score)


def _settings(value: Any) -> dict[str, Any]:
    """Return plain values (text, numbers, truth values, None, or lists of these) by name."""
    return {_text(name): _setting(value[name]) for name in sorted(value)}


def _setting(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Sequence):
        return tuple(map(_setting, value))
    if isinstance(value, Mapping):
        raise TypeError(f"expected a plain value, found {value!r}")
    try:
        return _whole(value)
    except TypeError:
        return _number(value)


def _count(value: Any) -> int:
    count = _whole(value)
    if count < 0:
        raise ValueError(f"expected a count, found {count}")
    return count


_SEEN: Mapping[str, Callable[[Any], Any]] = {
    "blocks": _layer,
    "dtype": _text,
    "format": _text,
    **dict.fromkeys(("examples", "rows", "of_examples", "of_rows", "limit"), _count),
    **dict.fromkeys(("groups", "largest_group", "in_groups"), _count),
}


def _seen(value: Any) -> dict[str, Any]:
    """Return what a run has seen: counts, and the names of how it is stored."""
    values = _settings(value)
    return {name: _SEEN[name](item) if name in _SEEN else item for name, item in values.items()}


def _confusion(value: Any) -> dict[str, Any] | None:
    """Return counts with the names of their rows (gold) and columns (predicted)."""
    if value is None:
        return None
    if set(value) != {"rows", "columns", "counts"}:
        raise ValueError(f"expected rows, columns and counts, found {', '.join(sorted(value))}")
    rows, columns = (tuple(map(_text, value[side])) for side in ("rows", "columns"))
    counts = tuple(tuple(map(_whole, row)) for row in value["counts"])
    if [len(row) for row in counts] != [len(columns)] * len(rows):
        raise ValueError(f"expected {len(rows)} rows of {len(columns)} counts")
    return {"rows": rows, "columns": columns, "counts": counts}


_OF_TYPE: Mapping[Any, Callable[[Any], Any]] = {
    str: _text,
    int: _whole,
    bool: _truth,
    float: _number,
    Layer: _layer,
    CurvePoint: _point,
    Mapping[str, Any]: _settings,
}


def _plain_of(kind: Any) -> Callable[[Any], Any]:
    """Return what makes values of a type plain: what any JSON parser reads, and nothing else."""
    if kind in _OF_TYPE:
        return _OF_TYPE[kind]
    first, *more = (_plain_of(part) for part in get_args(kind) if part is not NoneType)
    if NoneType in get_args(kind):
        return lambda value: None if value is None else first(value)
    if get_origin(kind) is Mapping:
        return lambda value: {first(name): more[0](item) for name, item in value.items()}
    return lambda value: tuple(map(first, value))


_PLAIN: dict[str, Callable[[Any], Any]] = {
    item.name: _plain_of(item.type) for item in fields(Record)
} | {
    "predictions": lambda value: None if value is None else _path(value),
    "rates": lambda value: dict(sorted(_plain_of(Mapping[str, float])(value).items())),
    "seen": _seen,
    "confusion": _confusion,
}
_REQUIRED = tuple(
    item.name
    for item in fields(Record)
    if item.default is MISSING and item.default_factory is MISSING
)
_WRITTEN_IF_SET = (
    "evals", "pooling", "options", "init", "freeze", "class_weights", "diverged", "confusion",
    "select", "l2", "rates", "rate_from", "trial", "diagnosis", "environment", "seen",
    "initial_weights", "shares", "ablation", "ablated", "left_out",
    "plugins", "duplicates", "method", "n_backbone_params", "backbone_share", "batch_tokens",
    "predictions_digest", "texts", "spec",
)  # fmt: skip
