"""What an entry holds besides its rows: manifest, example table, labels."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from probekit.backbone import Backbone
from probekit.base.fingerprint import canonical_json
from probekit.data.stored import columns_of
from probekit.extraction.extract_target import Place
from probekit.extraction.plan import Plan
from probekit.extraction.units import example_row_starts
from probekit.store.entry import Entry
from probekit.store.labels import write_labels
from probekit.store.layout import labels_folder
from probekit.store.manifest import Manifest
from probekit.store.tables import STARTS, ExampleTable
from probekit.tasks import Example, Split, Task, is_own
from probekit.version import __version__

_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "zarr", "h5py")


def make_manifest(
    place: Place,
    split: Split,
    task: Task,
    plan: Plan,
    backbone: Backbone,
    unit_stats: Sequence[Mapping[str, Any]],
) -> Manifest:
    """Describe a complete entry.

    Args:
        place: where it lies, and what was asked for.
        split: the split.
        task: its task.
        plan: what was written.
        backbone: the model.
        unit_stats: what its units say of themselves, in their order.
    """
    info = backbone.info
    arrays = tuple(plan.arrays.values())
    return Manifest(
        key=place.key,
        request=place.request,
        model=place.model,
        task=task.slug if is_own(task) else task.name,
        split=split.name,
        kind=task.kind,
        backend=place.request["format"],
        dtype=arrays[0].dtype,
        compute_dtype=backbone.compute_dtype_name,
        pooling=plan.pooling,
        arrays=arrays,
        n_blocks=info.n_blocks,
        dim=info.dim,
        causal=info.causal,
        final_norm=info.final_norm,
        counts=plan.encoded.counts,
        statistics=total_statistics(unit_stats),
        model_info=info.to_json(),
        origin=split.origin,
        versions={"probekit": __version__, **{name: version(name) for name in _LIBRARIES}},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        extra={
            "limit": split.limit,
            "computed": _ways_of_computing(unit_stats),
            "batching": asdict(backbone.batching),
            "units": [unit.start for unit in plan.units],
        },
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
    examples = _repeated(split.examples, len(encoded.ids))
    starts = example_row_starts(plan.units, {name: encoded.rows[name] for name in plan.arrays})
    absent = np.full(len(encoded.ids), -1, np.int64)
    columns = {
        **columns_of(encoded),
        "words": [list(example.words) for example in examples],
        "row_start": absent,
        "token_start": absent,
        **_first_rows(starts),
    }
    for name in ("text", "text_pair"):
        texts = [getattr(example, name) for example in examples]
        if any(text is not None for text in texts):
            columns[name] = texts
    return ExampleTable.from_columns(columns)


def _first_rows(starts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the columns of first rows; arrays that share a column have the same."""
    return {
        column: starts[name]
        for column, arrays in STARTS.items()
        for name in arrays
        if name in starts
    }


def _repeated(examples: Sequence[Example], count: int) -> list[Example]:
    """Return each example as often as it is read, its passes one after the other."""
    passes = count // max(len(examples), 1)
    return [example for example in examples for _ in range(passes)]


def write_split_labels(entry: Entry, split: Split, task: Task) -> None:
    """Write the labels of a split beside its entry, one file per label column.

    Raises:
        StorageError: the folder cannot be written.
    """
    for column, labels in split.labels.items():
        write_labels(
            labels_folder(entry.path),
            split.name,
            column,
            ids=[example.id for example in split.examples],
            values=labels,
            text=entry.manifest.request["text"],
            kind=task.kind_of(column),
            metric=task.metrics[column],
            fingerprint=split.labels_fingerprint(column),
        )
