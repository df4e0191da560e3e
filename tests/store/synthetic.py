"""Synthetic entries: small, deterministic, with every awkward size in them."""

import itertools
from pathlib import Path

import numpy as np
import torch

from probekit.base.fingerprint import digest
from probekit.store.builder import EntryBuilder
from probekit.store.layout import ArraySpec
from probekit.store.manifest import Manifest
from probekit.store.tables import ExampleTable

LAYERS = (0, 1, 2, 4)
DIM = 24
# Rows of each unit per array: whole chunks, a single row, and tails of every kind.
ROWS = {"words": (29, 16, 1, 40, 32), "tokens": (50, 32, 3, 64, 33)}
CHUNK_ROWS = {"words": 16, "tokens": 32}
IDENTITY = {"weights": "0" * 64, "configuration": {}, "max_length": 64, "random_init": None}
N_UNITS = len(ROWS["words"])


def slots(name):
    """Rows that each unit takes in storage."""
    size = CHUNK_ROWS[name]
    return [-(-rows // size) * size for rows in ROWS[name]]


def row_start(unit):
    """First row of a unit per array."""
    return {name: sum(slots(name)[:unit]) for name in ROWS}


def specs(dtype):
    """The two arrays of the entry."""
    return tuple(
        ArraySpec(
            name=name, rows=sum(slots(name)), layers=LAYERS if name == "words" else LAYERS[-1:],
            dim=DIM, dtype=dtype, chunk_rows=CHUNK_ROWS[name],
        )
        for name in ROWS
    )  # fmt: skip


def block(unit, name):
    """Float32 (layers, rows, dim) of one unit, with a massive channel and a constant-zero one."""
    generator = torch.Generator().manual_seed(unit * 2 + (name == "tokens"))
    layers = len(LAYERS) if name == "words" else 1
    values = torch.randn(layers, ROWS[name][unit], DIM, generator=generator)
    values[..., 3] *= 100
    values[..., 5] = 0
    return values


def reference(name):
    """What was given to the store, float32 (rows, layers, dim), unused tails zero."""
    spec = next(spec for spec in specs("float32") if spec.name == name)
    whole = np.zeros((spec.rows, len(spec.layers), DIM), dtype=np.float32)
    for unit in range(N_UNITS):
        start = row_start(unit)[name]
        whole[start : start + ROWS[name][unit]] = block(unit, name).permute(1, 0, 2).numpy()
    return whole


def plan(backend, dtype, **changes):
    """A plan as the builder wants it."""
    arrays = [spec.to_json() for spec in specs(dtype)]
    return {"backend": backend, "arrays": arrays, "units": list(range(N_UNITS)), **changes}


def manifest(backend, dtype, split="train", limit=None, **request):
    """A manifest of the entry; ``request`` varies its key."""
    text = f"of {split}, {limit}"
    own = {"dtype": dtype, "format": backend, "text": text, "model": IDENTITY, "keep": list(ROWS)}
    own["layers"] = list(LAYERS)
    request = own | request
    return Manifest(
        key=digest(request), request=request, model="tiny", task="demo", split=split,
        kind="tagging", backend=backend, dtype=dtype, compute_dtype="float32", pooling="first",
        arrays=specs(dtype), n_blocks=4, dim=DIM, causal=False, final_norm=False,
        counts={"examples": N_UNITS}, statistics={"max_abs": {"words": [1.0] * len(LAYERS)}},
        model_info={"source": "tiny"}, origin="synthetic", versions={"probekit": "0"},
        created="2026-01-01T00:00:00+00:00", extra={"limit": limit},
    )  # fmt: skip


def examples():
    """One example per unit."""
    starts = [row_start(unit) for unit in range(N_UNITS)]
    words = [[f"w{i}" for i in range(rows)] for rows in ROWS["words"]]
    return ExampleTable.from_columns(
        {
            "id": [f"train-{unit}" for unit in range(N_UNITS)], "words": words,
            "row_start": [start["words"] for start in starts], "n_rows": list(ROWS["words"]),
            "valid": [[i % 7 != 6 for i in range(rows)] for rows in ROWS["words"]],
            "token_start": [start["tokens"] for start in starts], "n_tokens": list(ROWS["tokens"]),
            "subwords": [list(range(rows)) for rows in ROWS["tokens"]],
            "word_map": [[-1] * rows for rows in ROWS["tokens"]],
            "windows": [[rows] for rows in ROWS["tokens"]],
        }
    )  # fmt: skip


def write(builder, units):
    """Write some units of the entry."""
    for unit in units:
        blocks = {name: block(unit, name) for name in ROWS}
        builder.write_unit(unit, row_start(unit), blocks, {"unit": unit})


def finish(builder, backend, dtype, **request):
    """Write what is missing and seal the entry."""
    write(builder, sorted(set(range(N_UNITS)) - builder.marks.keys()))
    small = {"config.json": b"{}"}
    return builder.complete(manifest(backend, dtype, **request), examples().table, small)


def build(path, backend, dtype, overwrite=False, **request):
    """Build a whole entry."""
    with EntryBuilder(path, plan=plan(backend, dtype), overwrite=overwrite) as builder:
        return finish(builder, backend, dtype, **request)


def folder_bytes(path: Path) -> dict[str, bytes]:
    """Every file of an entry by relative path."""
    files = itertools.chain([path], path.rglob("*"))
    return {str(f.relative_to(path)): f.read_bytes() for f in files if f.is_file()}
