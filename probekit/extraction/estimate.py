"""What an extraction writes, how long it takes, and after how many epochs it has paid off."""

import logging
import mmap
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probekit.backbone import Backbone
from probekit.base.kinds import ARRAYS
from probekit.base.machine.hardware import available_memory
from probekit.base.messages.quantities import human_bytes, human_time
from probekit.data.token_batch import TokenBatch
from probekit.errors import StorageError
from probekit.extraction.compute import batches_of
from probekit.extraction.extract_target import Place
from probekit.extraction.plan import Plan
from probekit.store.files import free_bytes
from probekit.store.unfinished import unfinished_bytes
from probekit.store.whole_files import WholeFiles
from probekit.tasks import Split

if TYPE_CHECKING:
    from probekit.extraction.session import Session

logger = logging.getLogger(__name__)

_MOST_TOKENS = 512
"""Tokens of the measured pass on a CPU, where more take long and go no faster."""

_LEAST_TOKENS = 128
"""The same where so many are a large part of the entry; fewer would go slower than a batch does."""

_BATCH = 16
"""Examples of a batch in training that runs the model."""

_MEMORY = 0.5
"""Share of the free memory that a cache may fill and still be read from there."""

_FILE_BYTES = 64 * 2**20


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


def forecast(session: "Session", splits: Sequence[Split]) -> list[Forecast]:
    """Measure model and disk once, and forecast the extraction of some splits; nothing is kept.

    Args:
        session: model, task and options.
        splits: at least one.

    Raises:
        StorageError: the cache's folder cannot be written.
    """
    plans = [session.plan(split) for split in splits]
    places = [session.place(split) for split in splits]
    missing = sum(
        plan.nbytes - unfinished_bytes(place.folder)
        for plan, place in zip(plans, places, strict=True)
        if session.finished(place) is None
    )
    try:
        check_free_space(session.target.cache, missing)
    except StorageError as error:
        logger.warning("%s", error)
    resident = sum(plan.nbytes for plan in plans) <= _MEMORY * available_memory()
    disk = measure_disk(session.target.cache, resident=resident)
    speed = tokens_per_second(session.backbone, max(plans, key=lambda plan: plan.tokens))
    return [
        _forecast(session, split, plan, place, disk, speed)
        for split, plan, place in zip(splits, plans, places, strict=True)
    ]


def _forecast(
    session: "Session", split: Split, plan: Plan, place: Place, disk: DiskSpeed, speed: float
) -> Forecast:
    complete = session.finished(place) is not None
    begun = 0.0 if complete else session.begun(split, plan, place)
    last = plan.nbytes / len(plan.units) / disk.write  # no unit is computed while it is written
    work = max(plan.tokens / speed, plan.nbytes / disk.write - last)
    lengths = plan.encoded.window_lengths
    starts = np.arange(0, len(lengths), _BATCH)
    padded = np.maximum.reduceat(lengths, starts) * np.diff([*starts, len(lengths)])
    read = [array.nbytes for array in plan.arrays.values() if not ARRAYS[array.name].last_only]
    return Forecast(
        split=split.name,
        path=str(place.folder),
        complete=complete,
        begun=begun,
        examples=len(split.examples),
        rows={name: int(plan.encoded.rows[name].sum()) for name in plan.arrays},
        nbytes=plan.nbytes,
        seconds=0.0 if complete else work * (1.0 - begun) + last,
        rerun_seconds=float(padded.sum()) / speed,
        read_seconds=max(read, default=plan.nbytes) / disk.read,
    )


def measure_disk(folder: Path, *, resident: bool) -> DiskSpeed:
    """Write 64 MiB beside a folder and read them back; nothing stays.

    Args:
        folder: where something is to be written; parents that do not exist yet are skipped.
        resident: read them from memory, where a file stays while there is room.

    Raises:
        StorageError: nothing can be written there.
    """
    existing = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
    content = mmap.mmap(-1, _FILE_BYTES)  # begins with a page, as extraction's chunks do
    content[:] = os.urandom(_FILE_BYTES)
    try:
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".probekit-") as file:
            path = Path(file.name)
            write = _seconds(lambda: WholeFiles().write(path, memoryview(content)))
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            read = _seconds(path.read_bytes)
            if resident:
                read = _seconds(path.read_bytes)
    except OSError as error:
        raise StorageError(
            f"cannot write to {existing}: {error.strerror}. Choose another folder with --cache."
        ) from error
    return DiskSpeed(_FILE_BYTES / write, _FILE_BYTES / read)


def tokens_per_second(backbone: Backbone, plan: Plan, *, share: float = 1.0) -> float:
    """Measure the forward pass on some of the entry's own sentences of middling length.

    Args:
        backbone: the frozen model.
        plan: of the entry.
        share: of the entry's tokens, how many are measured on a CPU: 128 at least, 512 at most,
            after a warm-up with a quarter as many. Elsewhere it is a batch.
    """
    batches = batches_of(backbone, plan, plan.largest_first[0])
    batch = batches[len(batches) // 2]
    count = len(batch.lengths)
    if backbone.device.type == "cpu":
        most = min(_MOST_TOKENS, max(int(share * plan.tokens), _LEAST_TOKENS))
        count = min(count, max(1, most // batch.input_ids.shape[1]))
    # a few first: they pay for allocation and kernel selection
    run_pass(backbone, plan, batch, -(-count // 4))
    seconds = _seconds(lambda: run_pass(backbone, plan, batch, count))
    return int(batch.lengths[:count].sum()) / seconds


def run_pass(backbone: Backbone, plan: Plan, batch: TokenBatch, count: int) -> None:
    """Run the model over the first windows of a batch, and wait for it."""
    lengths = batch.lengths[:count]
    ids = batch.input_ids[:count, : int(lengths.max())]
    types = None if batch.token_types is None else batch.token_types[:count, : ids.shape[1]]
    states = backbone.layers(ids, lengths, plan.layers, types)
    states[-1][0, 0, 0].item()  # an accelerator returns before it is done; this waits for it


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def describe_work(
    split: str, plan: Plan, folder: Path, tokens_per_second: float, begun: float = 0.0
) -> str:
    """Return one line for people: what is read, what is written and where, and the time it takes.

    Args:
        split: the split's name.
        plan: the layout.
        folder: the entry's folder.
        tokens_per_second: measured speed of the forward pass.
        begun: share of the subwords that an earlier run has done.
    """
    arrays = " and ".join(
        f"{plan.encoded.rows[name].sum():,} {name} x {_layers(len(array.layers))} x {array.dim}"
        for name, array in plan.arrays.items()
    )
    seconds = (1 - begun) * plan.tokens / tokens_per_second
    there = f"; {begun:.0%} of it is there already" if begun >= 0.005 else ""
    return (
        f"{split}: {len(plan.encoded.ids):,} examples; writing {arrays} "
        f"({human_bytes(plan.nbytes)}) to {folder} in about "
        f"{human_time(seconds)} ({tokens_per_second:,.0f} tokens/s){there}"
    )


def describe_cuts(split: str, counts: Mapping[str, int], limit: int) -> str | None:
    """Return what a split loses to the limit, for people; None if it loses nothing.

    Args:
        split: the split's name.
        counts: of its manifest.
        limit: most subwords of a window.
    """
    if texts := counts.get("truncated_examples"):
        return f"{split}: {texts:,} of {counts['examples']:,} texts are cut at {limit} subwords."
    if words := counts.get("truncated_words"):
        return (
            f"{split}: {words:,} of {counts['words']:,} words do not fit into windows of {limit} "
            "subwords. What is cut off a word takes no part in its states; a word that is cut off "
            "whole has none: it is not trained on, and counts in scoring as any other word, with a "
            "row of zeros."
        )
    return None


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"


def check_free_space(folder: Path, needed: int) -> None:
    """Refuse to start when the disk cannot hold the entry.

    Args:
        folder: where the entry will be built; it need not exist yet.
        needed: bytes still to be written.

    Raises:
        StorageError: fewer than ``needed`` bytes are free.
    """
    free = free_bytes(folder)
    if free < needed:
        raise StorageError(
            f"the disk of {folder} has {human_bytes(free)} free, and this extraction writes "
            f"{human_bytes(needed)}. Free some space, choose another --cache, or store less: "
            "--dtype int8 halves it, --layers and --limit narrow it."
        )
