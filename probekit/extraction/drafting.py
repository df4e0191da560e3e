"""What an entry holds besides rows: drafted before they are there, sealed when they all are."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from probekit.backbone import StateSource
from probekit.base.fingerprint import canonical_json
from probekit.data.encoded import columns_of
from probekit.errors import EntryError
from probekit.extraction.extract_target import EntryAddress
from probekit.extraction.plan import Plan
from probekit.extraction.units import example_row_starts
from probekit.store import json_types
from probekit.store.builder import EntryBuilder
from probekit.store.entry import Entry
from probekit.store.labels import GROUPS, write_labels
from probekit.store.layout import ArraySpec, labels_folder
from probekit.store.manifest import Manifest
from probekit.store.tables import STARTS, ExampleTable
from probekit.store.unfinished import Draft
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


def make_draft(
    address: EntryAddress,
    split: Split,
    task: Task,
    plan: Plan,
    backbone: StateSource,
    files: Mapping[str, bytes],
) -> Draft:
    """Describe an entry before its rows are there.

    Args:
        address: where it lies, and what was asked for.
        split: the split.
        task: its task.
        plan: what is written.
        backbone: the model.
        files: what is kept of it, by file name.
    """
    info = backbone.info
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
        extra=_read_as(task)
        | {
            "limit": split.limit,
            "computed": [],
            "batching": asdict(backbone.batching),
            "units": [unit.start for unit in plan.units],
        }
        | ({} if plan.attention_heads is None else {"attention_heads": plan.attention_heads}),
    )
    return Draft(manifest=manifest, examples=example_table(split, plan).table, files=files)


def _read_as(task: Task) -> dict[str, Any]:
    """Return how the user's own text was read, as an entry keeps it; nothing of other tasks."""
    corpus = task.corpus
    if not isinstance(corpus, OwnCorpus) or isinstance(corpus, GivenExamples):
        return {}
    return {"read": corpus.choice.given}


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
    wrong = [
        unit
        for unit, unit_stats in enumerate(stats)
        if not _is_told(unit_stats, draft.manifest.arrays)
    ]
    if wrong:
        raise EntryError(
            f"{builder.partial}: unit {wrong[0]} does not say how its rows were computed or what "
            "their range is. Remove what is begun (`probekit cache rm`), and extract again."
        )
    manifest = draft.sealed(total_statistics(stats), computed=_ways_of_computing(stats))
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


def total_statistics(unit_stats: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Combine the statistics of all units into the manifest's form, a number for each layer."""
    of_units = [stats["statistics"] for stats in unit_stats]
    return {
        what: {
            name: [total(layer) for layer in zip(*(of[name][what] for of in of_units), strict=True)]
            for name in sorted(of_units[0])  # marks that are read again have another order
        }
        for what, total in (("max_abs", max), ("non_finite", sum))
    }


def _ways_of_computing(unit_stats: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return how units were computed: each way once, with the numbers of its units."""
    ways: dict[str, dict[str, Any]] = {}
    for unit, stats in enumerate(unit_stats):
        computed = dict(sorted(stats["computed"].items()))  # a mark that is read again is sorted
        way = ways.setdefault(canonical_json(computed), {**computed, "units": []})
        way["units"].append(unit)
    return list(ways.values())


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
