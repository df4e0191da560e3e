"""What an entry says of itself: manifest, example table and the model's small files."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors.torch import save

from probekit import __version__
from probekit.backbone import Backbone
from probekit.data.units import example_row_starts
from probekit.extraction.plan import Plan
from probekit.extraction.run import total_statistics
from probekit.fingerprint import digest
from probekit.store.layout import model_slug
from probekit.store.manifest import Manifest
from probekit.store.tables import ExampleTable
from probekit.tasks import Split, Task

_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "zarr", "h5py")


def make_manifest(
    *,
    split: Split,
    task: Task,
    plan: Plan,
    request: Mapping[str, Any],
    backbone: Backbone,
    backend: str,
    unit_stats: Sequence[Mapping[str, Any]],
) -> Manifest:
    """Describe a complete entry."""
    info = backbone.info
    arrays = tuple(plan.arrays.values())
    return Manifest(
        key=digest(dict(request)),
        request=request,
        model=model_slug(info.name),
        task=task.name,
        split=split.name,
        kind=task.kind,
        backend=backend,
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
        extra={"batch_tokens": plan.batch_tokens, "device": str(backbone.device)},
    )


def example_table(split: Split, plan: Plan) -> ExampleTable:
    """Return the examples with their rows and subwords; -1 where an array was not kept."""
    encoded = plan.encoded
    starts = example_row_starts(plan.units, {name: encoded.rows[name] for name in plan.arrays})
    absent = np.full(len(encoded.ids), -1, np.int64)
    return ExampleTable.from_columns(
        {
            "id": list(encoded.ids),
            "words": [list(example.words) for example in split.examples],
            "row_start": starts.get("words", absent),
            "n_rows": encoded.rows["words"].astype(np.int32),
            "valid": _ragged(encoded.valid, encoded.example_words),
            "token_start": starts.get("tokens", absent),
            "n_tokens": encoded.rows["tokens"].astype(np.int32),
            "subwords": _ragged(encoded.subwords, encoded.example_tokens),
            "word_map": _ragged(encoded.word_map, encoded.example_tokens),
            "windows": _ragged(encoded.window_lengths, encoded.example_windows),
        }
    )


def _ragged(values: np.ndarray, bounds: np.ndarray) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), pa.array(values))


def small_files(backbone: Backbone) -> dict[str, bytes]:
    """Return what later steps need of the model: its configuration and its final norm.

    ``final_norm.safetensors`` (weight, bias; kind and eps in its metadata) is there if the model
    has a norm after its last block.
    """
    files = {"config.json": json.dumps(backbone.config_json(), indent=1, default=str).encode()}
    if (norm := backbone.final_norm) is not None:
        metadata = {name: str(value) for name, value in norm.to_json().items()}
        files["final_norm.safetensors"] = save(norm.tensors(), metadata=metadata)
    return files
