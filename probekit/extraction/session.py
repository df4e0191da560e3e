"""Extract the splits of one task: key, estimate, units, manifest, labels."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from probekit.backbone import Backbone, Inspection, load_backbone
from probekit.backbone.final_parts import read_output_head
from probekit.base.fingerprint import digest
from probekit.base.kinds import OUTPUT_HEAD
from probekit.base.layers import parse_layers
from probekit.base.machine.buffers import ReusedMemory
from probekit.base.messages.once import warn_once
from probekit.base.registry import choose
from probekit.errors import EntryError, OptionError, StateRangeError
from probekit.extraction.compute import ComputedUnit, compute_unit
from probekit.extraction.describe import make_manifest
from probekit.extraction.estimate import check_free_space, describe_cuts, describe_work
from probekit.extraction.example_table import example_table
from probekit.extraction.keep import arrays_of, resolve_keep
from probekit.extraction.modelling import check_fits, check_predicts, check_tie, masking_request
from probekit.extraction.plan import Plan, make_plan, plan_json
from probekit.extraction.request import entry_model, make_request, word_pooling
from probekit.extraction.request_options import ExtractOptions
from probekit.extraction.statistics import all_fit
from probekit.extraction.write import token_bar, tokens_per_second, write_units
from probekit.probe.model_parts.kept import KeptBackbone
from probekit.probe.model_parts.output_head import OutputHead
from probekit.store.backends import BACKENDS
from probekit.store.builder import EntryBuilder, check_buildable, check_resumable
from probekit.store.entry import Entry
from probekit.store.entry_names import MANIFEST
from probekit.store.labels import write_labels
from probekit.store.layout import entry_folder, folder_of_key, labels_folder, list_entries
from probekit.store.mapping import check_mappable
from probekit.store.unfinished import asked_of, unfinished_bytes, unfinished_plan, unfinished_units
from probekit.tasks import Split, Task, is_own

logger = logging.getLogger(__name__)

_FORECAST_SHARE = 0.01
"""Of an entry's tokens, what the forecast of its time is measured on."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """One model, one task and one set of options; the model is loaded when first needed.

    Attributes:
        inspection: the model's facts and tokenizer.
        task: the task.
        options: what is asked for.
        device: where the model runs.
        cache: root of the feature cache.
        name: what to call the model in the cache; None is the name of its folder or repository.
        overwrite: replace a complete entry of the same key.
        restart: throw away what an unfinished extraction with other options has finished.
        remedy: the command to rerun when a state does not fit the stored dtype.
        progress: show progress on stderr.
    """

    inspection: Inspection
    task: Task
    options: ExtractOptions
    device: str
    cache: Path
    name: str | None
    overwrite: bool
    restart: bool
    remedy: str
    progress: bool

    def __post_init__(self) -> None:
        """Check what the options mean for this task and this model.

        Raises:
            OptionError: an option, or something to keep, means nothing for them.
        """
        check_fits(self.options, self.task, self.inspection.info)
        check_tie(self.options, self._keep)
        self._check_widths()

    @cached_property
    def backbone(self) -> Backbone:
        """The model, loaded."""
        return load_backbone(
            self.inspection, device=self.device, compute_dtype=self.options.compute_dtype
        )

    @cached_property
    def output_head(self) -> OutputHead | None:
        """The output head that entries keep, if any.

        Raises:
            BackboneError: the model has none.
        """
        if OUTPUT_HEAD not in self._keep:
            return None
        if self.options.tie is not None:
            return self.backbone.tied_head()
        return read_output_head(self.inspection)

    def _check_widths(self) -> None:
        """Refuse what is not of the model's width, before anything is computed."""
        info, structure = self.inspection.info, self.inspection.structure
        structure.check_layers(info.name, parse_layers(self.options.layers, info.n_blocks))
        of_last = [name for name in ("tokens", OUTPUT_HEAD) if name in self._keep]
        if of_last and info.n_blocks in structure.odd:
            raise OptionError(
                f"--keep {of_last[0]}: it belongs to layer {info.n_blocks}, and in {info.name} "
                f"that is {structure.odd[info.n_blocks]} and the others {info.dim} wide. Leave it "
                "out."
            )

    def extract(self, split: Split) -> Entry:
        """Return the entry of one split, complete; what exists is not computed again.

        Raises:
            EntryLockedError: another process is writing the entry.
            StateRangeError: a hidden state does not fit the stored dtype.
            StorageError: the disk is full, or the folder cannot be written.
            EntryError: the entry is damaged, or a folder of its name holds another.
        """
        request, folder = self._place(split)
        entry = None if self.overwrite else _complete(folder, digest(request))
        if entry is None:
            self._say_namesakes(folder)
            entry = self._build(split, request, folder)
        else:
            logger.info("%s: complete already, at %s", split.name, entry.path)
        for column, labels in split.labels.items():
            write_labels(
                labels_folder(entry.path),
                split.name,
                column,
                ids=[example.id for example in split.examples],
                values=labels,
                text=entry.manifest.request["text"],
                kind=self.task.kind_of(column),
                metric=self.task.metrics[column],
                fingerprint=split.labels_fingerprint(column),
            )
        if not split.labels and self.task.kind != "language-modelling":
            logger.info(
                "%s: no labels in %s, so there is nothing to train on or to score. Once there are "
                "some, extract again: the model does not run a second time.",
                split.name,
                split.origin,
            )
        return entry

    def state(self, split: Split) -> tuple[Path, bool]:
        """Return the folder of a split's entry, and whether it is complete.

        Raises:
            EntryError: it is damaged.
        """
        request, folder = self._place(split)
        return folder, not self.overwrite and _complete(folder, digest(request)) is not None

    def plan(self, split: Split) -> Plan:
        """Tokenise a split and lay out its entry.

        Raises:
            OptionError: a layer that does not exist, a limit that the model does not have, or more
                files than a process can map.
            DataError: an example is too long, and ``overlong`` is ``error``.
        """
        info = self.inspection.info
        limit = self._max_length()
        encoded = self.inspection.encode(
            split.examples,
            max_length=limit,
            overlong=self.options.overlong,
            masking=self._masking,
        )
        if self._masking is not None:
            check_predicts(split, encoded, self._masking)
        if cuts := describe_cuts(split.name, encoded.counts, limit):
            logger.warning("%s", cuts)
        pooling = word_pooling(self.options, info)
        plan = make_plan(encoded, info, self.options, arrays_of(self._keep), pooling)
        check_mappable(choose("backend", self.options.format, BACKENDS), plan.arrays.values())
        return plan

    def begun(self, split: Split, plan: Plan) -> float:
        """Return the share of a plan's subwords that an earlier, unfinished run has done.

        It is 0 where that run had another plan, so that extraction begins afresh.
        """
        return self._begun(split, plan, *self._place(split))

    def _begun(self, split: Split, plan: Plan, request: Mapping[str, Any], folder: Path) -> float:
        plan = self._in_dtype(plan, folder)
        if digest(unfinished_plan(folder)) != digest(self._identity(split, plan, request)):
            return 0.0
        done = sum(plan.unit_tokens(plan.units[unit]) for unit in unfinished_units(folder))
        return done / sum(plan.unit_tokens(unit) for unit in plan.units)

    def _identity(self, split: Split, plan: Plan, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a resumed run must share with the run that it continues."""
        return plan_json(plan, request, self.backbone, split.limit)

    def _place(self, split: Split) -> tuple[dict[str, Any], Path]:
        """Return what the key of a split's entry hashes, and the entry's folder.

        It is the folder that holds such an entry already, whatever the model, and the user's own
        data, are called there; a task by name is looked for under its name.
        """
        info, masking = self.inspection.info, self._masking
        request = make_request(self.options, info, self._keep, split.text_fingerprint(), masking)
        model, key = self.name or entry_model(info), digest(request)
        folder = entry_folder(self.cache, model, self.task.slug, split.name, key)
        task = None if is_own(self.task) else self.task.slug
        found = folder_of_key(self.cache, split.name, key, task) or folder
        if self.name and found.parent.parent.name != self.name:
            raise OptionError(
                f"--name {self.name}: what it would name is in the cache already, at {found}. "
                f"Remove it first (probekit cache rm {key[:8]}), or call it by that name: "
                f"{found.parent.parent.name}, with --entry {key[:8]} where that has several."
            )
        return request, found

    def _say_namesakes(self, folder: Path) -> None:
        """Say that the cache calls another model by the name of this one, where it does."""
        name, own = folder.parent.parent.name, self.inspection.info.identity.to_json()
        for other in list_entries(self.cache):
            model = asked_of(other.path).get("model") if other.model == name else None
            if model not in (None, own):
                warn_once(
                    logger,
                    "another model is called %s in %s as well; --name NAME tells them apart.",
                    name,
                    self.cache,
                )
                return

    def _build(self, split: Split, request: Mapping[str, Any], folder: Path) -> Entry:
        output_head = self.output_head  # first: a model without one costs no work
        plan = self.plan(split)
        check_free_space(folder, plan.nbytes - unfinished_bytes(folder))
        check_buildable(folder)
        if not self.restart:
            check_resumable(folder, self._identity(split, self._in_dtype(plan, folder), request))
        speed = tokens_per_second(self.backbone, plan, share=_FORECAST_SHARE)
        begun = self._begun(split, plan, request, folder)
        logger.info("%s", describe_work(split.name, plan, folder, speed, begun))
        plan, computed = self._settle_dtype(plan, folder, split.name)
        identity = self._identity(split, plan, request)
        with EntryBuilder.open(
            folder, plan=identity, overwrite=self.overwrite, restart=self.restart
        ) as builder:
            self._write(split, plan, builder, computed)
            manifest = make_manifest(
                split=split,
                task=self.task,
                plan=plan,
                request=request,
                backbone=self.backbone,
                backend=self.options.format,
                model=folder.parent.parent.name,
                unit_stats=builder.unit_stats,
            )
            examples = example_table(split, plan)
            backbone = self.backbone
            files = KeptBackbone.content(backbone.config_json(), backbone.final_norm, output_head)
            return builder.complete(manifest, examples.table, files)

    def _write(
        self, split: Split, plan: Plan, builder: EntryBuilder, computed: dict[int, ComputedUnit]
    ) -> None:
        try:
            write_units(
                self.backbone,
                plan,
                builder,
                computed=computed,
                reused=self._reused,
                remedy=self.remedy,
                progress=self.progress,
                title=split.name,
            )
        except StateRangeError:  # resuming would meet the same value again
            builder.discard()
            raise

    def _settle_dtype(
        self, plan: Plan, folder: Path, title: str
    ) -> tuple[Plan, dict[int, ComputedUnit]]:
        """Choose what ``auto`` is stored as, before anything is on the disk.

        float16 keeps three more bits than bfloat16 but ends at 65,504; the largest unit decides. A
        resumed run keeps what the first one chose. Returns the plan and what was computed, by unit.
        """
        if self.options.dtype != "auto":
            return plan, {}
        if not self.restart and unfinished_plan(folder) is not None:
            return self._in_dtype(plan, folder), {}
        with token_bar(plan, title, leave=False, progress=self.progress) as bar:
            largest = plan.largest_first[0]
            first = compute_unit(self.backbone, plan, largest, bar.update, self._reused)
        if all_fit(first.statistics, plan.dtype):
            return plan, {first.unit.index: first}
        logger.warning("states exceed float16's range (65,504): storing bfloat16 instead")
        return plan.with_dtype("bfloat16"), {first.unit.index: first}

    def _in_dtype(self, plan: Plan, folder: Path) -> Plan:
        """Return a plan in the dtype that an unfinished extraction chose for ``auto``, if any."""
        earlier = unfinished_plan(folder) if self.options.dtype == "auto" else None
        return plan if earlier is None else plan.with_dtype(earlier["arrays"][0]["dtype"])

    @cached_property
    def _reused(self) -> ReusedMemory:
        """Memory for units, of all splits."""
        return ReusedMemory(pinned=torch.device(self.device).type == "cuda")

    @property
    def _keep(self) -> tuple[str, ...]:
        keep = resolve_keep(self.options.keep, self.task)
        if (
            self.options.keep is None
            and self.inspection.info.n_blocks in self.inspection.structure.odd
        ):
            return tuple(name for name in keep if name != "tokens")
        return keep

    @property
    def _masking(self) -> dict[str, Any] | None:
        """What is predicted, for language modelling."""
        if self.task.kind != "language-modelling":
            return None
        return masking_request(self.options, self.inspection.info)

    def _max_length(self) -> int:
        limit = self.inspection.info.max_length
        asked = self.options.max_length
        if asked is not None and asked > limit:
            raise OptionError(
                f"--max-length {asked}: {self.inspection.info.name} reads at most {limit} subwords."
            )
        return asked or limit


def _complete(folder: Path, key: str) -> Entry | None:
    """Return the entry if it is complete; a damaged one is an error, an unfinished one is not."""
    if not (folder / MANIFEST).exists():
        return None
    entry = Entry.open(folder)
    if entry.manifest.key != key:
        raise EntryError(
            f"{folder} holds another entry, whose key begins in the same way ({key[:16]}... is "
            f"wanted, {entry.manifest.key[:16]}... is there). Choose another --cache, or --name."
        )
    return entry
