"""Open a session over a text and a model, and forecast what extracting it would take."""

import logging
import math
import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from probekit.backbone import Backbone, Inspection, choose_device, inspect_backbone, load_backbone
from probekit.backbone.final_parts import read_output_head
from probekit.backbone.remembered import inspect_and_remember
from probekit.base.kinds import ARRAYS, OUTPUT_HEAD
from probekit.base.machine import available_memory
from probekit.base.replacing import workshop
from probekit.base.tensors import ReusedMemory
from probekit.data.encoded import EncodedSplit
from probekit.errors import DataError, MissingFileError, OptionError, StorageError
from probekit.extraction.compute import Progress
from probekit.extraction.entry_session import EntrySession
from probekit.extraction.estimate import (
    check_conversations,
    check_free_space,
    describe_cuts,
    describe_without,
    missing_bytes,
    seconds_of,
    tokens_per_second,
)
from probekit.extraction.extract_target import EntryAddress, ExtractTarget
from probekit.extraction.plan import Plan
from probekit.extraction.request import ask_model, choose_max_length
from probekit.extraction.request_options import ExtractOptions
from probekit.probe.model_parts import OutputHead
from probekit.store.files import NO_SPACE, WholeFiles, free_bytes
from probekit.tasks import Split, Task, examples_task, get_task, is_own
from probekit.tasks.split_parts import SplitParts, read_split
from probekit.tasks.task import Choice

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Session(EntrySession):
    """Extracts with a model that runs, and is loaded when first needed.

    Attributes:
        inspection: the model's facts and tokenizers.
        device: where the model runs; where a small copy is tried, if the target lays it out.
    """

    inspection: Inspection
    device: str

    @cached_property
    def backbone(self) -> Backbone:
        """The model, loaded."""
        return load_backbone(
            self.inspection,
            device=self.device,
            compute_dtype=self.request.options.compute_dtype,
            device_map=self.target.device_map,
        )

    @cached_property
    def output_head(self) -> OutputHead | None:
        """The output head that entries keep, if any.

        Raises:
            BackboneError: the model has none.
        """
        if OUTPUT_HEAD not in self.request.keep:
            return None
        if self.request.options.tie is not None:
            return self.backbone.tied_head()
        return read_output_head(self.inspection)

    @property
    def chat_template(self) -> str | None:
        """The sha256 of the tokenizer's chat template, if it has one."""
        return self.inspection.chat_template

    def encode(self, split: Split) -> EncodedSplit:
        """Tokenise a split, its words, its texts or blocks with predictions.

        Raises:
            BackboneError: the tokenizer does not fit the form of prediction.
            OptionError: a limit that the model does not have, or that leaves no room for text.
            DataError: an example cannot be read, or is too long and ``overlong`` is ``error``; or
                no token is predicted.
        """
        request, options = self.request, self.request.options
        masking, limit = request.masking, choose_max_length(options, request.info)
        check_conversations(split, predicted=masking is not None, only=options.only)
        encoded = self.inspection.encode(
            split.examples,
            max_length=limit,
            overlong=options.overlong,
            masking=masking,
            only=options.only,
            conversations=split.of_conversations,
        )
        counts = encoded.counts
        if options.only is not None and (without := describe_without(split, encoded, options.only)):
            logger.warning("%s", without)
        if masking is not None and not counts["predicted"]:
            every = f", every {masking['every']}th position (--every)" if "every" in masking else ""
            raise DataError(
                f"{split.origin}: no token is predicted{every}; the texts of {split.name} are too "
                "short or too few."
            )
        if cuts := describe_cuts(split.title, counts, limit):
            logger.warning("%s", cuts)
        return encoded


def open_session(
    target: ExtractTarget,
    options: ExtractOptions | None = None,
    *,
    task: Task | None = None,
    progress: bool = False,
    heard: Callable[[int], object] = lambda count: None,
) -> tuple[Session, list[Split | SplitParts]]:
    """Read a task's text and the model's facts; nothing is computed yet.

    Errors are those of `extract`.

    Args:
        target: model and task, and where entries go.
        options: what is asked for.
        task: that of the target, where it is known.
        progress: show progress on stderr.
        heard: called with the number of subwords that were just read.

    Returns:
        the session and the splits, in their order; of one that is too large to be read at once
        what reads it in parts.
    """
    options = options or ExtractOptions()
    task = read_task(target, task)
    inspection = inspect_target(target, options)
    request = ask_model(inspection, task, options)
    texts = read_texts(target, task, options.limit)
    device = choose_device(inspection, target.device)
    reused = ReusedMemory(pinned=device.startswith("cuda"))
    listener = Progress(progress, heard)
    session = Session(
        target=target, request=request, inspection=inspection, device=device, reused=reused,
        progress=listener,
    )  # fmt: skip
    return session, texts


def read_task(target: ExtractTarget, task: Task | None = None) -> Task:
    """Return the task that is meant.

    Raises:
        OptionError: a folder of published files for data of the user's own.
    """
    if task is None and target.examples is None:
        task = get_task(target.task, target.own, target.label)
    elif task is None:
        choice = Choice(label=target.label, **target.own.given)
        task = examples_task(target.examples, target.task, choice)
    if target.data is not None and is_own(task):
        raise OptionError(f"{target.task} is the data already. Leave --data {target.data} out.")
    return task


def inspect_target(target: ExtractTarget, options: ExtractOptions) -> Inspection:
    """Learn the model's facts, and whether it can go by its name.

    Raises:
        OptionError: a revision of a model in memory, or a name that is another model's.
    """
    how: dict[str, Any] = {
        "random_init": options.random_init,
        "part": options.part,
        "quantize": options.quantize,
        "trust_remote_code": target.trust_remote_code,
    }
    if target.given is None:
        return inspect_and_remember(target.model, revision=target.revision, **how)
    if target.revision is not None:
        raise OptionError(
            f"--revision {target.revision} is for a model of the Hub, and this one was given in "
            "memory. Leave it out."
        )
    inspection = inspect_backbone(target.given, **how)
    target.check_name(inspection.info.identity.to_json())
    return inspection


def read_texts(target: ExtractTarget, task: Task, limit: int | None) -> list[Split | SplitParts]:
    """Read the splits that are asked for; of all, those that are there.

    Returns:
        the splits; what reads one in parts, where it is too large to be read at once.

    Raises:
        OptionError: none is asked for.
        MissingFileError: one is not there, or none is.
    """
    if target.splits is not None and not target.splits:
        raise OptionError(f"--split names no split of {task.name}: {', '.join(task.splits)}.")
    texts: list[Split | SplitParts] = []
    missing: list[MissingFileError] = []
    for name in task.splits if target.splits is None else target.splits:
        try:
            texts.append(read_split(task, name, target.data, limit))
        except MissingFileError as error:
            if target.splits is not None:
                raise
            missing.append(error)
    if not texts:
        raise missing[0]
    for reason in missing:
        logger.info("left out: %s", reason)
    return texts


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
    plans = [session.plan(split) for split in read]
    session.say_taken()
    addresses = [session.address(split) for split in read]
    complete = list(map(session.is_finished, splits))
    shares = [
        _share(session, *planned) for planned in zip(splits, read, plans, addresses, strict=True)
    ]
    left = zip(plans, addresses, shares, complete, strict=True)
    missing = sum(missing_bytes(p, address) * share for p, address, share, done in left if not done)
    try:
        check_free_space(session.target.cache, int(missing))
    except StorageError as error:
        logger.warning("%s", error)
    nbytes = sum(plan.nbytes * share for plan, share in zip(plans, shares, strict=True))
    resident = nbytes <= _MEMORY_SHARE * available_memory()
    disk = measure_disk(session.target.cache, resident=resident)
    speed = tokens_per_second(session.backbone, max(plans, key=lambda plan: plan.tokens))
    return [
        _forecast_split(session, split, plan, address, disk, speed, complete=done).times(share)
        for split, plan, address, done, share in zip(
            read, plans, addresses, complete, shares, strict=True
        )
    ]


def _share(
    session: Session, split: Split | SplitParts, read: Split, plan: Plan, address: EntryAddress
) -> float:
    """Return how much this process extracts, as a multiple of what was read of a split."""
    shard = session.target.shard
    if not isinstance(split, SplitParts):
        units = plan.units if shard is None else shard.units_of(plan, address.key)
        return sum(map(plan.unit_tokens, units)) / max(plan.tokens, 1)
    count = split.parts.count
    if split.limit is not None:
        count = min(math.ceil(split.limit / len(read.examples)), count)
    return len([n for n in range(count) if shard is None or shard.has_part(n)])


def _forecast_split(
    session: Session,
    split: Split,
    plan: Plan,
    address: EntryAddress,
    disk: DiskSpeed,
    speed: float,
    *,
    complete: bool,
) -> Forecast:
    begun = 0.0 if complete else session.begun(split, plan, address, plan.units)
    last = plan.nbytes / len(plan.units) / disk.write  # no unit is computed while it is written
    work = max(plan.tokens / speed, plan.nbytes / disk.write - last)
    lengths = plan.encoded.window_lengths
    starts = np.arange(0, len(lengths), _RERUN_BATCH)
    padded = np.maximum.reduceat(lengths, starts) * np.diff([*starts, len(lengths)])
    read = [array.nbytes for array in plan.arrays.values() if not ARRAYS[array.name].last_only]
    return Forecast(
        split=split.name,
        path=str(address.folder),
        complete=complete,
        begun=begun,
        examples=len(split.examples),
        rows={name: int(plan.encoded.rows[name].sum()) for name in plan.arrays},
        nbytes=plan.nbytes,
        seconds=0.0 if complete else work * (1.0 - begun) + last,
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
