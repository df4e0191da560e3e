"""Forecast what extracting would take, from a short pass of the model and one file on the disk."""

import logging
import math
import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from probekit.base.kinds import ARRAYS
from probekit.base.machine import available_memory
from probekit.base.replacing import workshop
from probekit.errors import StorageError
from probekit.extraction.compute import seconds_of, tokens_per_second
from probekit.extraction.drafting import Work
from probekit.extraction.entry_session import check_free_space
from probekit.extraction.opening import Session
from probekit.store.files import NO_SPACE, WholeFiles, free_bytes
from probekit.tasks import Split
from probekit.tasks.split_parts import SplitParts

logger = logging.getLogger(__name__)

_RERUN_BATCH = 16
"""Windows of a batch in training that runs the model."""

_MEMORY_SHARE = 0.5
"""Share of the free memory that a cache may fill and still be read from there."""

_MEASURED_BYTES, _LEAST_MEASURED = 64 * 2**20, 2**20


class DiskSpeed(NamedTuple):
    """Bytes per second.

    Attributes:
        write: onto the disk, past the page cache where the system can; HDF5 goes through it, and
            may take longer.
        read: from the disk, or from memory where a cache fits there and after its first reading.
    """

    write: float
    read: float


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """One split, from a short pass of the model and one file on the disk.

    Attributes:
        split: its name.
        path: its entry's folder.
        complete: whether the entry is there already.
        begun: share of its subwords that an unfinished extraction has done, which is continued.
        examples: number of examples.
        rows: rows of each array.
        nbytes: bytes on the disk.
        seconds: time to extract what is missing of it; 0 if it is complete.
        units: parts of it that are kept when an extraction is interrupted.
        unit_seconds: time that the largest of them takes to compute.
        rerun_seconds: an epoch that runs the backbone for every batch of 16 examples, in the order
            of the data, padding included, at the speed of extraction's batches: an accelerator is
            slower on small ones. The heads' own time comes on top of this and of ``read_seconds``.
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
    units: int
    unit_seconds: float
    rerun_seconds: float
    read_seconds: float

    @property
    def saved(self) -> float:
        """Seconds that the cache saves in an epoch; negative where it loses."""
        return self.rerun_seconds - self.read_seconds

    def times(self, share: float) -> Self:
        """Return the forecast of so many times as much text."""
        if share == 1:
            return self
        counts = {
            name: round(share * getattr(self, name)) for name in ("examples", "nbytes", "units")
        }
        seconds = {
            name: share * getattr(self, name)
            for name in ("seconds", "rerun_seconds", "read_seconds")
        }
        rows = {name: round(share * count) for name, count in self.rows.items()}
        return replace(self, rows=rows, **counts, **seconds)

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
    return next((forecast for forecast in forecasts if forecast.split == "train"), forecasts[0])


def forecast(session: Session, splits: Sequence[Split | SplitParts]) -> list[Forecast]:
    """Measure model and disk once, and forecast the extraction of some splits; nothing is kept.

    Args:
        session: model, task and options; of a shard, its share of the work is forecast.
        splits: at least one; one that is read in parts is judged by the first of them.

    Raises:
        StorageError: the cache's folder cannot be written.
    """
    read = [next(s.read()) if isinstance(s, SplitParts) else s for s in splits]
    works = [Work(split=s, plan=session.plan(s), address=session.address(s)) for s in read]
    session.say_taken()
    complete = list(map(session.is_finished, splits))
    shares = [_share(session, split, work) for split, work in zip(splits, works, strict=True)]
    left = zip(works, shares, complete, strict=True)
    missing = sum(work.missing_bytes * share for work, share, done in left if not done)
    try:
        check_free_space(session.target.cache, int(missing))
    except StorageError as error:
        logger.warning("%s", error)
    nbytes = sum(work.plan.nbytes * share for work, share in zip(works, shares, strict=True))
    resident = nbytes <= _MEMORY_SHARE * available_memory()
    disk = measure_disk(session.target.cache, resident=resident)
    largest = max((work.plan for work in works), key=lambda plan: plan.tokens)
    speed = tokens_per_second(session.backbone, largest)
    return [
        _forecast_split(session, work, disk, speed, complete=done).times(share)
        for work, done, share in zip(works, complete, shares, strict=True)
    ]


def _share(session: Session, split: Split | SplitParts, work: Work) -> float:
    """Return how much this process extracts, as a multiple of what was read of a split."""
    shard = session.target.shard
    if not isinstance(split, SplitParts):
        units = replace(work, shard=shard).units
        return sum(map(work.plan.unit_tokens, units)) / max(work.plan.tokens, 1)
    count = split.parts.count
    if split.limit is not None:
        count = min(math.ceil(split.limit / len(work.split.examples)), count)
    return len([n for n in range(count) if shard is None or shard.has_part(n)])


def _forecast_split(
    session: Session, work: Work, disk: DiskSpeed, speed: float, *, complete: bool
) -> Forecast:
    plan = work.plan
    begun = 0.0 if complete else work.begun(session.shared(session.resumed(work)))
    last = plan.nbytes / len(plan.units) / disk.write  # no unit is computed while it is written
    seconds = max(plan.tokens / speed, plan.nbytes / disk.write - last) * (1.0 - begun) + last
    lengths = plan.encoded.window_lengths
    starts = np.arange(0, len(lengths), _RERUN_BATCH)
    padded = np.maximum.reduceat(lengths, starts) * np.diff([*starts, len(lengths)])
    read = [array.nbytes for array in plan.arrays.values() if not ARRAYS[array.name].last_only]
    return Forecast(
        split=work.split.name,
        path=str(work.address.folder),
        complete=complete,
        begun=begun,
        examples=len(work.split.examples),
        rows={name: int(plan.encoded.rows[name].sum()) for name in plan.arrays},
        nbytes=plan.nbytes,
        seconds=0.0 if complete else seconds,
        units=len(plan.units),
        unit_seconds=plan.unit_tokens(plan.largest_first[0]) / speed,
        rerun_seconds=float(padded.sum()) / speed,
        read_seconds=max(read, default=plan.nbytes) / disk.read,
    )


def measure_disk(folder: Path, *, resident: bool) -> DiskSpeed:
    """Write 64 MiB beside a folder and read them back, or what there is room for; nothing stays.

    Args:
        folder: where something is to be written; parents that do not exist yet are skipped.
        resident: read them from memory, where a file stays while there is room.

    Raises:
        StorageError: nothing can be written there.
    """
    existing = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
    room = min(_MEASURED_BYTES, free_bytes(existing) // 2 // mmap.PAGESIZE * mmap.PAGESIZE)
    if room < _LEAST_MEASURED:
        return _assumed(folder)
    content = mmap.mmap(-1, room)  # begins with a page, as extraction's chunks do
    content[:] = os.urandom(room)
    try:
        with workshop(existing) as made:
            path = made / "speed"
            write = seconds_of(lambda: WholeFiles().write(path, memoryview(content)))
            if hasattr(os, "posix_fadvise"):
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            read = seconds_of(path.read_bytes)
            if resident:
                read = seconds_of(path.read_bytes)
    except OSError as error:
        if error.errno in NO_SPACE:
            return _assumed(folder)
        raise StorageError(
            f"cannot write to {existing}: {error.strerror}. Choose another folder with --cache."
        ) from error
    return DiskSpeed(room / write, room / read)


def _assumed(folder: Path) -> DiskSpeed:
    """Return the speed of a usual disk in place of one that is full, and say so."""
    logger.warning("%s has no room for measuring the speed of its disk; 1 GB/s is assumed.", folder)
    return DiskSpeed(1e9, 1e9)
