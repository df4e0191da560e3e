"""What an extraction would take, and after how many epochs it has paid for itself."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from probekit.backbone import Backbone
from probekit.base.machine.hardware import available_memory
from probekit.base.numbers.seeding import numpy_generator
from probekit.data.token_batch import TokenBatch, whole_batch
from probekit.errors import StorageError
from probekit.extraction.estimate import check_free_space
from probekit.extraction.plan import Plan
from probekit.extraction.session import Session
from probekit.extraction.speed import DiskSpeed, measure_disk
from probekit.extraction.write import forward_seconds, tokens_per_second
from probekit.store.unfinished import unfinished_bytes
from probekit.tasks import Split

logger = logging.getLogger(__name__)

_BATCH = 16
_BATCHES = 4
_MEMORY = 0.5
"""Share of the free memory that a cache may fill and still be read from there."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """One split, from short measurements on this machine.

    Attributes:
        split: its name.
        path: its entry's folder.
        complete: whether the entry is there already.
        begun: share of its subwords that an unfinished extraction has done, which is continued.
        examples: number of examples.
        rows: rows of each array.
        nbytes: bytes on the disk.
        seconds: time to extract what is missing of it; 0 if it is complete.
        rerun_seconds: an epoch that runs the backbone for every batch of 16 examples, in the order
            of the data; the heads' own time comes on top of this and of ``read_seconds``.
        read_seconds: an epoch that reads every stored layer of the rows that most heads read: of a
            text's first token, mean and last token the largest alone, and no single subwords. The
            first one after an extraction comes from the disk, and takes longer than this where the
            rows fit in memory.
    """

    split: str
    path: str
    complete: bool
    begun: float
    examples: int
    rows: Mapping[str, int]
    nbytes: int
    seconds: float
    rerun_seconds: float
    read_seconds: float

    @property
    def saved(self) -> float:
        """Seconds that the cache saves in an epoch; negative where it loses."""
        return self.rerun_seconds - self.read_seconds

    def to_json(self) -> dict[str, Any]:
        """Return the attributes as a JSON-like dict."""
        return asdict(self)


def break_even(forecasts: Sequence[Forecast]) -> float | None:
    """Return the epochs after which extracting all splits has paid for itself.

    Epochs are of one head on train (on the first split where there is no train), against training
    that runs the backbone again. None means never: an epoch from the cache is no faster.
    """
    fitted = training_split(forecasts)
    if fitted.saved <= 0:
        return None
    return sum(forecast.seconds for forecast in forecasts) / fitted.saved


def training_split(forecasts: Sequence[Forecast]) -> Forecast:
    """Return the split that heads are trained on: train, or the first one."""
    return next((one for one in forecasts if one.split == "train"), forecasts[0])


def forecast(session: Session, splits: Sequence[Split]) -> list[Forecast]:
    """Measure model and disk, and forecast the extraction of some splits; nothing is kept.

    Args:
        session: model, task and options.
        splits: at least one.

    Raises:
        StorageError: the cache's folder cannot be written.
    """
    disk = measure_disk(session.cache)
    plans = {split.name: session.plan(split) for split in splits}
    states = {split.name: session.state(split) for split in splits}  # hashes the whole text
    missing = sum(
        plan.nbytes - unfinished_bytes(states[name][0])
        for name, plan in plans.items()
        if not states[name][1]
    )
    _warn_of_space(session.cache, missing)
    total = sum(plan.nbytes for plan in plans.values())
    resident = total <= _MEMORY * available_memory()
    read = disk.cached if resident else disk.read
    return [
        _forecast(session, split, plans[split.name], states[split.name], disk=disk, read=read)
        for split in splits
    ]


def _warn_of_space(cache: Path, missing: int) -> None:
    """Say that the disk cannot hold the bytes that are not there yet, where it cannot."""
    try:
        check_free_space(cache, missing)
    except StorageError as error:
        logger.warning("%s", error)


def _forecast(
    session: Session,
    split: Split,
    plan: Plan,
    state: tuple[Path, bool],
    *,
    disk: DiskSpeed,
    read: float,
) -> Forecast:
    folder, complete = state
    tokens = int(plan.encoded.counts["tokens"])
    begun = 0.0 if complete else session.begun(split, plan)
    forward = tokens / tokens_per_second(session.backbone, plan)
    last = _unit_bytes(plan) / disk.write  # the others are written side by side with the model
    writing = max(plan.nbytes / disk.write - last, 0.0)
    return Forecast(
        split=split.name,
        path=str(folder),
        complete=complete,
        begun=begun,
        examples=len(split.examples),
        rows={name: int(plan.encoded.rows[name].sum()) for name in plan.arrays},
        nbytes=plan.nbytes,
        seconds=0.0 if complete else max(forward, writing) * (1.0 - begun) + last,
        rerun_seconds=tokens / _training_speed(session.backbone, plan),
        read_seconds=_epoch_bytes(plan) / read,
    )


def _unit_bytes(plan: Plan) -> float:
    """Return the bytes of the last unit, which is written when the model has nothing to do."""
    rows = plan.units[-1].rows
    return sum(array.nbytes / array.rows * rows[name] for name, array in plan.arrays.items())


def _epoch_bytes(plan: Plan) -> int:
    """Return the bytes that an epoch of most heads reads."""
    rows = [array.nbytes for name, array in plan.arrays.items() if name != "tokens"]
    return max(rows, default=plan.nbytes)


def _training_speed(backbone: Backbone, plan: Plan) -> float:
    """Measure the subwords per second of batches as a training loop has them."""
    last = max(len(plan.encoded.ids) - _BATCH, 0)
    starts = numpy_generator(0, "forecast").integers(0, last + 1, _BATCHES)
    batches = [_batch(backbone, plan, int(start)) for start in starts]
    _run(backbone, batches[0])  # also pays for allocation and kernel selection
    seconds = sum(_run(backbone, batch) for batch in batches)
    return sum(int(batch.lengths.sum()) for batch in batches) / seconds


def _batch(backbone: Backbone, plan: Plan, start: int) -> TokenBatch:
    stop = min(start + _BATCH, len(plan.encoded.ids))
    return whole_batch(plan.encoded, start, stop, pad_id=backbone.pad_id)


def _run(backbone: Backbone, batch: TokenBatch) -> float:
    return forward_seconds(backbone, batch.input_ids, batch.lengths, None, batch.token_types)
