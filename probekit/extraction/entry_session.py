"""Make the entries of one task, wherever states come from: units, manifest, labels."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from probekit.backbone import StateSource
from probekit.base.fingerprint import digest
from probekit.base.notices import info_once, warn_once
from probekit.base.tensors import ReusedMemory
from probekit.data.encoded import EncodedSplit
from probekit.errors import EntryError, OptionError, StateRangeError
from probekit.extraction.compute import (
    BeyondFloat16Error,
    ComputedUnit,
    Progress,
    all_fit,
    compute_unit,
    counted_tokens,
    tokens_per_second,
    write_units,
)
from probekit.extraction.drafting import Work, make_draft, seal, write_split_labels
from probekit.extraction.extract_target import EntryAddress, ExtractTarget
from probekit.extraction.plan import Plan, make_plan
from probekit.extraction.request import Request
from probekit.probe.model_parts import KeptBackbone, OutputHead
from probekit.store.builder import EntryBuilder, Share
from probekit.store.entry import Entry, folder_of_key, list_entries
from probekit.store.files import check_room
from probekit.store.layout import MANIFEST, entry_folder, model_slug
from probekit.store.lock import EntryLock, tidy
from probekit.store.parted import parted_splits, write_mark
from probekit.store.unfinished import Draft, check_resumable, unfinished_plan
from probekit.tasks import Split, is_own
from probekit.tasks.split_parts import SplitParts

logger = logging.getLogger(__name__)

_FORECAST_SHARE = 0.01
"""Of an entry's tokens, what the forecast of its time is measured on."""


@dataclass(frozen=True, kw_only=True)
class EntrySession(ABC):
    """Makes entries of one model, one task and one set of options, unit by unit.

    Where the states come from is what subclasses differ in.

    Attributes:
        target: model and task as they were named, and where entries go.
        request: what is asked of them.
        reused: memory for units, of all splits.
        progress: who hears of it.
    """

    target: ExtractTarget
    request: Request
    reused: ReusedMemory
    progress: Progress

    @property
    @abstractmethod
    def backbone(self) -> StateSource:
        """Where the states come from."""

    @property
    def output_head(self) -> OutputHead | None:
        """The output head that entries keep, if any."""
        return None

    @property
    def chat_template(self) -> str | None:
        """The sha256 of what writes conversations for the model; None where none can be read."""
        return None

    @abstractmethod
    def encode(self, split: Split) -> EncodedSplit:
        """Return a split as the states are of it, and say what a limit cuts."""

    def plan(self, split: Split) -> Plan:
        """Settle what of a split is read, and lay out its entry; errors are those of `encode`.

        Raises:
            OptionError: a process could not map so many files.
        """
        return make_plan(self.encode(split), self.request)

    def extract(self, split: Split | SplitParts) -> Entry | None:
        """Return the entry of one split, complete; what exists is not computed again.

        A split that is too large to be read at once has an entry for each of its parts, which are
        read as one; of several shards each makes some of them.

        Returns:
            the entry; None where this is a shard, and others have not done theirs.

        Raises:
            EntryLockedError: another process is writing the entry.
            StateRangeError: a hidden state does not fit the stored dtype.
            StorageError: the disk is full, or the folder cannot be written.
            EntryError: the entry is damaged, or a folder of its name holds another.
        """
        self.say_taken()
        if isinstance(split, Split):
            return self._extract(split, self.address(split), None)
        if not self.target.overwrite and (entry := self.joined(split)) is not None:
            logger.info("%s: complete already, in %d parts", split.name, len(entry.parts))
            return entry
        for part, address, plan in one_ahead(self._planned_parts(split)):
            self._extract(part, address, plan)
        if (entry := self.joined(split)) is None:
            logger.info("%s: done. Parts of other shards are still missing.", split.name)
        return entry

    def _planned_parts(
        self, split: SplitParts
    ) -> Iterator[tuple[Split, EntryAddress, Plan | None]]:
        """Yield the parts that this shard makes, each with its plan where it is not there yet."""
        shard = self.target.shard
        for part in split.read(lambda number: shard is None or shard.has_part(number)):
            address = self.address(part)
            plan = self.plan(part) if self.finished(address) is None else None
            yield part, address, plan

    def joined(self, split: SplitParts) -> Entry | None:
        """Return the entries of all parts as one; None where one is missing."""
        asked, template = self.request.to_json(split.text_fingerprint()), self.chat_template
        alike = (asked, {**asked, "chat_template": template})  # whichever the texts are
        for parts in parted_splits(
            folder
            for folder in list_entries(self.target.cache)
            if folder.split == split.name and {**folder.asked, "text": asked["text"]} in alike
        ):
            if parts.source == asked["text"] and parts.whole:
                return parts.open()
        return None

    def _extract(self, split: Split, address: EntryAddress, plan: Plan | None) -> Entry | None:
        """Return the entry of a split, or of a part of one, whose plan may be made already."""
        entry = self.finished(address)
        if entry is None:
            if split.part is None or split.part.number == 0:  # it looks at every entry
                self._say_namesakes(address)
            entry = self._build(split, address, plan)
        else:
            logger.info("%s: complete already, at %s", split.title, entry.path)
        text = address.request["text"]
        write_split_labels(address.folder, text, split, self.request.task)
        if split.part is not None:
            write_mark(address.folder, split.name, text, *astuple(split.part))
            return entry
        if not split.labels and self.request.masking is None:
            logger.info(
                "%s: %s has no labels, so no head can be trained or scored on it. Once it has "
                "some, extract again; the model will not run a second time.",
                split.name,
                split.origin,
            )
        return entry

    def say_taken(self) -> None:
        """Say what was taken of the user's own data, once; workers leave it to who starts them."""
        is_worker = self.target.shard is not None and self.target.workers > 1
        for note in () if is_worker else self.request.task.notes:
            info_once(logger, "%s", note)

    def address(self, split: Split) -> EntryAddress:
        """Return where the entry of a split lies, or is to lie.

        It is the folder that holds such an entry already, whatever the model, and the user's own
        files, are called there; a task by name, and examples in memory, are looked for under their
        name.

        Raises:
            OptionError: ``name`` is given, and the cache has the entry under another one.
        """
        target, task = self.target, self.request.task
        template = self.chat_template if split.of_conversations else None
        asked = self.request.to_json(split.text_fingerprint(), template)
        name, key = None if target.name is None else model_slug(target.name), digest(asked)
        moved = is_own(task) and target.examples is None  # those have no path to be known by
        existing = folder_of_key(target.cache, split.name, key, None if moved else task.slug)
        model = name or self.request.info.called
        folder = existing or entry_folder(target.cache, model, task.slug, split.name, key)
        called = folder.parent.parent.name
        if name and called != name:
            raise OptionError(
                f"--name {name}: the cache has this entry already under the name {called}, at "
                f"{folder}. Use that name, or remove the entry first: probekit cache rm {key[:8]}."
            )
        return EntryAddress(request=asked, key=key, folder=folder, model=called)

    def _say_namesakes(self, address: EntryAddress) -> None:
        """Say that the cache calls another model by the name of this one, where it does."""
        called, cache = address.model, self.target.cache
        alike = (folder.asked for folder in list_entries(cache) if folder.model == called)
        if any(asked.get("model") not in (None, address.request["model"]) for asked in alike):
            warn_once(
                logger,
                "%s is also the name of another model in %s; tell them apart with --name NAME.",
                called,
                cache,
            )

    def is_finished(self, split: Split | SplitParts) -> bool:
        """Say whether the entry of a split, or of all its parts, is complete."""
        if isinstance(split, SplitParts):
            return not self.target.overwrite and self.joined(split) is not None
        return self.finished(self.address(split)) is not None

    def finished(self, address: EntryAddress) -> Entry | None:
        """Return the entry of an address if it is complete, and not to be computed again.

        Raises:
            EntryError: it is damaged, or another one is there.
        """
        if self.target.overwrite or not (address.folder / MANIFEST).exists():
            return None
        entry = Entry.open(address.folder)
        if entry.manifest.key != address.key:
            raise EntryError(
                f"{address.folder} holds another entry, whose key begins with the same digits: "
                f"{entry.manifest.key[:16]}..., not {address.key[:16]}... Choose another --cache, "
                "or --name."
            )
        tidy(address.folder)
        return entry

    def shared(self, work: Work) -> dict[str, Any]:
        """Return what a resumed run must share with the run that it continues.

        Device and batch size move the last bits at most; units remember theirs.
        """
        request, plan = work.address.request, work.plan
        return {
            "request": dict(request),
            "backend": request["format"],
            "limit": work.split.limit,
            "compute_dtype": self.backbone.compute_dtype_name,
            "arrays": [array.to_json() for array in plan.arrays.values()],
            "units": [[unit.start, unit.stop] for unit in plan.units],
        }

    def resumed(self, work: Work) -> Work:
        """Return it in the dtype that an unfinished extraction chose for ``auto``, if any."""
        auto = self.request.options.dtype == "auto"
        earlier = unfinished_plan(work.address.folder) if auto else None
        if earlier is None:
            return work
        return replace(work, plan=work.plan.with_dtype(earlier["arrays"][0]["dtype"]))

    def _build(self, split: Split, address: EntryAddress, plan: Plan | None) -> Entry | None:
        target, folder = self.target, address.folder
        shard = target.shard if split.part is None else None  # a part is made by one alone
        output_head = self.output_head  # first: a model without one costs no work
        plan = self.plan(split) if plan is None else plan
        work = Work(split=split, address=address, plan=plan, shard=shard)
        check_free_space(folder, work.missing_bytes)
        # before any costly work: raises where another process builds the entry, or nobody can
        EntryLock(folder, None if shard is None else shard.place).release()
        shared = self.shared(self.resumed(work))
        if not target.restart:
            check_resumable(folder, shared)
        speed = tokens_per_second(self.backbone, plan, share=_FORECAST_SHARE)
        logger.info("%s", work.describe(speed, work.begun(shared)))
        work, computed = self._settle_dtype(work)
        shared = self.shared(work)
        if shard is None:
            with EntryBuilder(
                folder, plan=shared, overwrite=target.overwrite, restart=target.restart
            ) as builder:
                self._write(work, computed, builder)
                return seal(builder, self._draft(work, output_head))
        share = Share(shard.place, frozenset(unit.index for unit in work.units))
        try:
            beside_others = EntryBuilder(
                folder, plan=shared, share=share, draft=lambda: self._draft(work, output_head)
            )
        except EntryError:  # another shard may have completed it since it was looked for
            if (entry := self.finished(address)) is None:
                raise
            return entry
        with beside_others as builder:
            self._write(work, computed, builder)
            return _complete_together(builder, work.title)

    def _draft(self, work: Work, output_head: OutputHead | None) -> Draft:
        backbone, task = self.backbone, self.request.task
        files = KeptBackbone.content(backbone.config_json(), backbone.final_norm, output_head)
        return make_draft(work, task, backbone, files)

    def _write(self, work: Work, computed: dict[int, ComputedUnit], builder: EntryBuilder) -> None:
        """Write the units; a value that does not fit is said with the command that stores it."""
        try:
            write_units(
                self.backbone,
                work.plan,
                work.units,
                builder,
                computed=computed,
                reused=self.reused,
                progress=self.progress,
                title=work.title,
            )
        except StateRangeError as error:
            if len(work.units) == len(work.plan.units):  # what other shards write is theirs
                builder.discard()  # resuming would meet the same value again
            if isinstance(error, BeyondFloat16Error):
                again = self.target.command(replace(self.request.options, dtype="bfloat16"))
                raise StateRangeError(f"{error} Rerun: {again}") from None
            raise

    def _settle_dtype(self, work: Work) -> tuple[Work, dict[int, ComputedUnit]]:
        """Choose what ``auto`` is stored as, before anything is on the disk.

        float16 keeps three more bits than bfloat16 but ends at 65,504; the largest unit decides,
        also for a shard that does not write it. A resumed run keeps what the first one chose, and
        so do the shards that come later. Returns the work and what was computed, by unit.
        """
        plan = work.plan
        if self.request.options.dtype != "auto":
            return work, {}
        if not self.target.restart and unfinished_plan(work.address.folder) is not None:
            return self.resumed(work), {}
        largest = plan.largest_first[0]
        # what is not this shard's is no part of what it does
        progress = self.progress if largest in work.units else Progress(self.progress.shown)
        with counted_tokens(plan, [largest], work.title, leave=False, progress=progress) as report:
            first = compute_unit(self.backbone, plan, largest, report, self.reused)
        if not all_fit(first.statistics, plan.dtype):
            logger.warning(
                "hidden states exceed the range of float16 (65,504): storing bfloat16 instead"
            )
            work = replace(work, plan=plan.with_dtype("bfloat16"))
        return work, {largest.index: first}


def check_free_space(folder: Path, needed: int) -> None:
    """Refuse to start when the disk cannot hold what is to be written; see `check_room`."""
    check_room(
        folder,
        needed,
        "this extraction",
        "choose another --cache, or store less (--dtype int8 halves it; see also --layers and "
        "--limit)",
    )


T = TypeVar("T")


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield what an iterator does, whose next item is made while the last one is used."""
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, items, None)
        while (item := following.result()) is not None:
            following = thread.submit(next, items, None)
            yield item


def _complete_together(builder: EntryBuilder, title: str) -> Entry | None:
    """Return the entry if this shard was the last, or another one is by now; else say what is left.

    Args:
        builder: of a shard, whose units are written.
        title: which shard this is.
    """
    entry = builder.join()
    if entry is None and not builder.left:
        entry = seal(builder, Draft.read(builder.partial))
    if entry is None:
        left, done = len(builder.left), len(builder.marks)
        logger.info(
            "%s: done. %d of %d units are still missing; the shard that writes the last one "
            "completes the entry. If a shard was killed, run it again.",
            title,
            left,
            left + done,
        )
    return entry
