"""The program that the kill tests kill: builds an entry unit by unit, in its own process.

The pages it writes are larger than those of `synthetic`, so that a kill often falls inside a unit.
"""

import time

import torch

from probekit.store.arrays import ArraySpec
from probekit.store.builder import EntryBuilder
from probekit.store.tables import ExampleTable
from tests.store import synthetic

N_UNITS = 10
CHUNK_ROWS = 64
CHUNKS_PER_UNIT = 3
ROWS = CHUNK_ROWS * CHUNKS_PER_UNIT - 5


def spec(dtype):
    """One array of six layers."""
    return ArraySpec(
        name="words",
        rows=N_UNITS * CHUNKS_PER_UNIT * CHUNK_ROWS,
        layers=tuple(range(6)),
        dim=96,
        dtype=dtype,
        chunk_rows=CHUNK_ROWS,
    )


def build(path, backend, dtype, pause=0.0):
    """Build the entry, or finish what an earlier process left; pause after each unit."""
    array = spec(dtype)
    plan = {"backend": backend, "arrays": [array.to_json()], "units": list(range(N_UNITS))}
    with EntryBuilder(path, plan=plan) as builder:
        for unit in sorted(set(range(N_UNITS)) - builder.marks.keys()):
            block = torch.randn(6, ROWS, 96, generator=torch.Generator().manual_seed(unit))
            start = unit * CHUNKS_PER_UNIT * CHUNK_ROWS
            builder.write_unit(
                unit, {"words": start}, {"words": block}, {"sum": float(block.sum())}
            )
            time.sleep(pause)
        stats = [builder.marks[unit].stats for unit in range(N_UNITS)]
        manifest = _manifest(array, backend, stats)
        empty = ExampleTable.from_columns({n: [] for n in synthetic.examples().table.column_names})
        builder.complete(manifest, empty.table, {"config.json": b"{}"})


def _manifest(array, backend, stats):
    fields = vars(synthetic.manifest(backend, array.dtype))
    return type(synthetic.manifest(backend, array.dtype))(
        **{**fields, "arrays": (array,), "statistics": {"sums": [s["sum"] for s in stats]}}
    )
