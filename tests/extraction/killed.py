"""A process that extracts, to be killed; preloaded by a fork server so that starting is cheap."""

import os
from pathlib import Path

from probekit.extraction import ExtractOptions, extract, units
from probekit.extraction import plan as plan_module


def extract_in_small_units(
    model: str, corpus: str, cache: Path, backend: str, shard: str | None
) -> None:
    """Extract the train split in some twenty units of a few chunks each."""
    units.UNIT_BYTES = 8_000
    plan_module.chunk_rows_for = lambda dim, dtype, rows: 16
    extract(
        model,
        corpus,
        kind="tagging",
        label="2",
        splits=["train"],
        cache=cache,
        options=ExtractOptions(format=backend, compute_dtype="float32", batch_tokens=64),
        device="cpu",
        shard=shard,
    )


def run(model: str, corpus: str, cache: Path, backend: str, shard: str | None = None) -> None:
    """Extract with one thread, as a child process."""
    os.environ["OMP_NUM_THREADS"] = "1"
    extract_in_small_units(model, corpus, cache, backend, shard)
