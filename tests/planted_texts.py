"""Synthetic entries of whole texts: one pooled row per text that holds its label's direction."""

import json
from pathlib import Path

import numpy as np
import torch

from probekit.base.fingerprint import digest
from probekit.base.numbers.ragged import bounds_of
from probekit.store import ArraySpec, Entry, EntryBuilder, ExampleTable, Manifest
from probekit.store.labels import write_labels
from probekit.store.layout import entry_folder, labels_folder
from tests.planted import CONFIG, DIM, IDENTITY, LAYERS, MODEL, built_once

KINDS = {
    "glue/sst2": ("sentence", ("0", "1")),
    "glue/rte": ("pair", ("entailment", "not_entailment")),
    "glue/stsb": ("regression", ()),
}
MORE = {
    "glue/mnli": ("pair", ("contradiction", "entailment", "neutral")),
    "glue/mrpc": ("pair", ("0", "1")),
}
"""Tasks that not every head is tried on."""

SIZES = {"train": 120, "dev": 60, "test": 50}


@built_once
def plant_texts(
    root: Path,
    task: str = "glue/sst2",
    split: str = "train",
    *,
    count: int | None = None,
    seed: int = 0,
    signal: tuple[str, ...] = ("cls", "mean", "last"),
    causal: bool = False,
    shuffled: bool = False,
    labelled: bool = True,
    values: list[str] | None = None,
    keep: tuple[str, ...] = ("cls", "mean", "last", "tokens"),
) -> Entry:
    """Build one entry whose layers 2 and 3 show the label, in the arrays of ``signal``.

    Args:
        root: the cache root.
        task: a key of ``KINDS`` or ``MORE``.
        split: the split's name.
        count: N; ``SIZES[split]`` if None.
        seed: of labels and noise.
        signal: arrays that show the label; ``tokens`` shows what ``cls`` does, in its first row.
        causal: say that the model is causal.
        shuffled: store labels that have nothing to do with the rows.
        labelled: store labels at all.
        values: labels to store instead.
        keep: the arrays.
    """
    kind, names = (KINDS | MORE)[task]
    count = SIZES[split] if count is None else count
    rng = np.random.default_rng([seed, len(split), 3])
    direction = np.random.default_rng(11).normal(0, 1, DIM) / np.sqrt(DIM)
    strength = (
        rng.uniform(0, 5, count) if kind == "regression" else rng.integers(0, len(names), count)
    )
    pooled = {}
    for name in ("cls", "mean", "last"):
        rows = rng.normal(0, 0.1, (len(LAYERS), count, DIM)).astype(np.float32)
        if name in signal:
            rows[2:] += (strength[:, None] * direction).astype(np.float32)
        pooled[name] = rows
    lengths = rng.integers(3, 7, count)
    tokens = rng.normal(0, 0.1, (1, int(lengths.sum()), DIM)).astype(np.float32)
    tokens[0, bounds_of(lengths)[:-1]] = pooled["cls"][-1]
    shown = rng.permutation(strength) if shuffled else strength
    labels = [f"{v:.3f}" if kind == "regression" else names[int(v)] for v in shown]
    blocks = {name: block for name, block in {**pooled, "tokens": tokens}.items() if name in keep}
    entry = _write(root, task, split, kind, blocks, lengths, causal)
    if labelled:
        own = [(label,) for label in (values or labels)]
        folder = labels_folder(entry.path)
        write_labels(
            folder,
            split,
            "label",
            entry.examples.ids,
            own,
            text=entry.manifest.request["text"],
            kind=kind,
            metric="spearman" if kind == "regression" else "accuracy",
            fingerprint=digest(own),
        )
    return entry


def plant_all_texts(root: Path, task: str = "glue/sst2", **options) -> Path:
    """Build train, dev and test entries; return the cache root."""
    for seed, split in enumerate(SIZES):
        plant_texts(root, task, split, **{"seed": seed} | options)
    return root


def _write(root, task, split, kind, blocks, lengths, causal):
    count = len(lengths)
    specs = {
        name: ArraySpec(
            name=name,
            rows=-(-block.shape[1] // 32) * 32,
            layers=LAYERS if name != "tokens" else LAYERS[-1:],
            dim=DIM,
            dtype="float32",
            chunk_rows=32,
        )
        for name, block in blocks.items()
    }
    asked = {
        "model": IDENTITY,
        "text": digest([task, split]),
        "task": task,
        "keep": sorted(blocks),
        "layers": list(LAYERS),
        "causal": causal,
    }
    path = entry_folder(root, MODEL, task.replace("/", "-"), split, digest(asked))
    ids = [f"{split}-{n}" for n in range(count)]
    pairs = kind != "sentence"
    bounds = bounds_of(lengths)
    examples = ExampleTable.from_columns(
        {
            "id": ids,
            "words": [[] for _ in ids],
            "row_start": [-1] * count,
            "n_rows": [0] * count,
            "valid": [[] for _ in ids],
            "token_start": bounds[:-1] if "tokens" in blocks else [-1] * count,
            "n_tokens": lengths.astype(np.int32),
            "subwords": [[1] * n for n in lengths],
            "word_map": [[-1, *range(n - 2), -1] for n in lengths],
            "windows": [[n] for n in lengths],
            "text": [f"text {name}" for name in ids],
            "text_pair": [f"other {name}" if pairs else None for name in ids],
            "pooled_start": np.arange(count),
        }
    )
    manifest = Manifest(
        key=digest(asked),
        request=asked,
        model=MODEL,
        task=task,
        split=split,
        kind=kind,
        backend="zarr",
        dtype="float32",
        compute_dtype="float32",
        pooling="first",
        arrays=tuple(specs.values()),
        n_blocks=3,
        dim=DIM,
        causal=causal,
        final_norm=False,
        counts={"examples": count},
        statistics={},
        model_info={"source": "folder", "revision": None, "identity": IDENTITY},
        origin="planted",
        versions={},
        created="2026-01-01T00:00:00Z",
    )
    plan = {"arrays": [spec.to_json() for spec in specs.values()], "backend": "zarr", "units": [0]}
    with EntryBuilder(path, plan=plan) as builder:
        tensors = {name: torch.from_numpy(block) for name, block in blocks.items()}
        builder.write_unit(0, dict.fromkeys(blocks, 0), tensors)
        return builder.complete(
            manifest, examples.table, {"config.json": json.dumps(CONFIG).encode()}
        )
