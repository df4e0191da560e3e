"""What is to be made, and what an entry holds besides rows: drafted first, sealed at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from probekit.backbone import StateSource
from probekit.base.fingerprint import canonical_json, digest
from probekit.base.notices import human_bytes, human_time, short_time
from probekit.data.encoded import columns_of
from probekit.errors import EntryError
from probekit.extraction.extract_target import EntryAddress, Shard
from probekit.extraction.plan import Plan, Unit, example_row_starts
from probekit.store import json_types
from probekit.store.builder import EntryBuilder
from probekit.store.entry import Entry
from probekit.store.files import disk_bytes
from probekit.store.labels import GROUPS, write_labels
from probekit.store.layout import PARTIAL, ArraySpec, beside, labels_folder
from probekit.store.manifest import Manifest
from probekit.store.tables import STARTS, ExampleTable
from probekit.store.unfinished import Draft, unfinished_plan, unfinished_units
from probekit.tasks import Split, Task, is_own
from probekit.tasks.given_examples import GivenExamples
from probekit.tasks.sentences import DOCUMENT
from probekit.tasks.user_files import OwnCorpus
from probekit.version import __version__

_RANGE = {
    "max_abs": json_types.list_of(json_types.number),
    "non_finite": json_types.list_of(json_types.whole(0, 2**53)),
}
_STATS = {
    "statistics": json_types.table_of(json_types.fields_of(_RANGE)),
    "computed": json_types.fields_of(
        {"device": json_types.text, "batch_tokens": json_types.whole(1, 2**53)}
    ),
}
"""What the mark of a unit says besides its chunks."""

_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "zarr", "h5py")


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """An entry that is to be made of a split, or of a part of one.

    Attributes:
        split: the split.
        address: where the entry is to lie.
        plan: its layout.
        shard: which of several processes this is; None makes all of it.
    """

    split: Split
    address: EntryAddress
    plan: Plan
    shard: Shard | None = None

    @cached_property
    def units(self) -> list[Unit]:
        """The units that this process writes, largest first."""
        if self.shard is None:
            return self.plan.largest_first
        return self.shard.units_of(self.plan, self.address.key)

    @property
    def title(self) -> str:
        """What is made, for people."""
        title = self.split.title
        return title if self.shard is None else f"{title}, shard {self.shard}"

    @property
    def missing_bytes(self) -> int:
        """The bytes of the entry that are still to be written.

        What is unfinished is there already when the build is resumed, and given back when it
        begins afresh.
        """
        return self.plan.nbytes - disk_bytes(beside(self.address.folder, PARTIAL))

    def begun(self, shared: object) -> float:
        """Return the share of the units' subwords that an earlier, unfinished run has done.

        Args:
            shared: what that run must share with this one; else extraction begins afresh, from 0.
        """
        folder, tokens = self.address.folder, self.plan.unit_tokens
        same = digest(unfinished_plan(folder)) == digest(shared)
        marked = unfinished_units(folder) if same else frozenset()
        done = sum(tokens(unit) for unit in self.units if unit.index in marked)
        return done / max(sum(map(tokens, self.units)), 1)

    def describe(self, speed: float, begun: float) -> str:
        """Return one line for people: what is read, what is written, where, and the time it takes.

        Args:
            speed: of the forward pass, tokens per second as measured.
            begun: share of the subwords that an earlier run has done.
        """
        # "12,345 words x 7 layers x 384 and 23,456 tokens x 1 layer x 384"
        plan, units = self.plan, self.units
        arrays = " and ".join(
            f"{plan.encoded.rows[name].sum():,} {name} x {len(array.layers)} "
            f"layer{'' if len(array.layers) == 1 else 's'} x {array.dim}"
            for name, array in plan.arrays.items()
        )
        all_units = len(plan.units)
        some = "" if len(units) == all_units else f"{len(units)} of {all_units} units of "
        tokens = [plan.unit_tokens(unit) for unit in units]
        seconds, largest = (1 - begun) * sum(tokens) / speed, max(tokens, default=0) / speed
        of_units = f", units of {short_time(largest)}" if len(units) > 1 else ""
        there = f"; {begun:.0%} of it is there already" if begun >= 0.005 else ""
        return (
            f"{self.title}: {len(plan.encoded.ids):,} examples; writing {some}{arrays} "
            f"({human_bytes(plan.nbytes)}) to {self.address.folder} in about "
            f"{human_time(seconds)} ({speed:,.0f} tokens/s{of_units}){there}"
        )


def make_draft(work: Work, task: Task, backbone: StateSource, files: Mapping[str, bytes]) -> Draft:
    """Describe an entry before its rows are there.

    Args:
        work: the entry.
        task: its task.
        backbone: the model.
        files: what is kept of it, by file name.
    """
    info, address, split, plan = backbone.info, work.address, work.split, work.plan
    corpus, read = task.corpus, {}
    if isinstance(corpus, OwnCorpus) and not isinstance(corpus, GivenExamples):
        read = {"read": corpus.choice.given}
    manifest = Manifest(
        key=address.key,
        request=address.request,
        model=address.model,
        task=task.slug if is_own(task) else task.name,
        split=split.name,
        kind=task.kind,
        backend=address.request["format"],
        dtype=plan.dtype,
        compute_dtype=backbone.compute_dtype_name,
        pooling=plan.pooling,
        arrays=tuple(plan.arrays.values()),
        n_blocks=info.n_blocks,
        dim=info.dim,
        causal=info.causal,
        final_norm=info.final_norm,
        counts=plan.encoded.counts,
        statistics={},
        model_info=info.to_json(),
        origin=split.origin,
        versions={"probekit": __version__, **{name: version(name) for name in _LIBRARIES}},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        extra={
            **read,
            "limit": split.limit,
            "computed": [],
            "batching": asdict(backbone.batching),
            "units": [unit.start for unit in plan.units],
            **({} if plan.attention_heads is None else {"attention_heads": plan.attention_heads}),
        },
    )
    return Draft(manifest=manifest, examples=example_table(split, plan).table, files=files)


def seal(builder: EntryBuilder, draft: Draft) -> Entry:
    """Make the entry of what was drafted and of units that are all written.

    Args:
        builder: the entry under construction.
        draft: what it holds besides rows.

    Raises:
        EntryError: units are missing, or one does not say what was found when it was computed.
        StorageError: no space left, or no permission.
    """
    builder.check_whole()
    stats = [builder.marks[unit].stats for unit in sorted(builder.marks)]
    ways: dict[str, dict[str, Any]] = {}
    for unit, told in enumerate(stats):
        if not _is_told(told, draft.manifest.arrays):
            raise EntryError(
                f"{builder.partial}: unit {unit} does not say how its rows were computed or what "
                "their range is. Remove what is begun (`probekit cache rm`), and extract again."
            )
        computed = dict(sorted(told["computed"].items()))  # a mark that is read again is sorted
        way = ways.setdefault(canonical_json(computed), {**computed, "units": []})
        way["units"].append(unit)
    found = [told["statistics"] for told in stats]
    names = sorted(spec.name for spec in draft.manifest.arrays)
    statistics = {
        what: {n: [*map(total, zip(*(of[n][what] for of in found), strict=True))] for n in names}
        for what, total in (("max_abs", max), ("non_finite", sum))
    }
    manifest = draft.sealed(statistics, computed=list(ways.values()))
    return builder.complete(manifest, draft.examples, draft.files)


def _is_told(stats: Mapping[str, Any], arrays: Sequence[ArraySpec]) -> bool:
    """Say whether a mark, which may be anybody's, says of its unit what `write_units` does."""
    if json_types.mistyped(stats, _STATS) or not stats.keys() >= _STATS.keys():
        return False
    statistics = stats["statistics"]
    return all(
        spec.name in statistics
        and all(len(statistics[spec.name].get(of, ())) == len(spec.layers) for of in _RANGE)
        for spec in arrays
    )


def example_table(split: Split, plan: Plan) -> ExampleTable:
    """Return the examples with their rows and subwords; -1 where an array was not kept."""
    encoded = plan.encoded
    passes = len(encoded.ids) // max(len(split.examples), 1)  # one after the other
    examples = [example for example in split.examples for _ in range(passes)]
    starts = example_row_starts(plan.units, {name: encoded.rows[name] for name in plan.arrays})
    absent = np.full(len(encoded.ids), -1, np.int64)
    columns = {
        **columns_of(encoded),
        "words": [list(example.words) for example in examples],
        "row_start": absent,
        "token_start": absent,
        **{  # arrays that share a column have the same first rows
            column: starts[name]
            for column, arrays in STARTS.items()
            for name in arrays
            if name in starts
        },
    }
    for name in ("text", "text_pair"):
        texts = [getattr(example, name) for example in examples]
        if any(text is not None for text in texts):
            columns[name] = texts
    return ExampleTable.from_columns(columns)


def write_split_labels(folder: Path, text: str, split: Split, task: Task) -> None:
    """Write the labels of a split beside its entry, a file per column, and its documents.

    Args:
        folder: the entry's; it need not be there yet.
        text: fingerprint of the split's text.
        split: as it was read.
        task: says what its columns are.

    Raises:
        StorageError: the folder cannot be written.
    """
    ids = [example.id for example in split.examples]
    write = partial(write_labels, labels_folder(folder), split.name, ids=ids, text=text)
    for column, labels in split.labels.items():
        write(
            column=column,
            values=labels,
            kind=task.kinds[column],
            metric=task.metrics[column],
            fingerprint=split.labels_fingerprint(column),
        )
    if split.documents:
        write(
            column=DOCUMENT,
            values=[(document,) for document in split.documents],
            kind=GROUPS,
            metric="",
            fingerprint=split.documents_fingerprint(),
        )
