"""Synthetic entries of whole texts: one pooled row per text that holds its label's direction."""

from pathlib import Path

import numpy as np

from probekit.base.fingerprint import digest
from probekit.base.numbers import bounds_of
from probekit.store import Entry
from probekit.store.labels import write_labels
from probekit.store.layout import labels_folder
from tests.planted import DIM, IDENTITY, LAYERS, MODEL, built_once, write_entry

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
            folder, split, "label", entry.examples.ids, own, text=entry.manifest.request["text"],
            kind=kind, metric="spearman" if kind == "regression" else "accuracy",
            fingerprint=digest(own),
        )  # fmt: skip
    return entry


def plant_all_texts(root: Path, task: str = "glue/sst2", **options) -> Path:
    """Build train, dev and test entries; return the cache root."""
    for seed, split in enumerate(SIZES):
        plant_texts(root, task, split, **{"seed": seed} | options)
    return root


def _write(root, task, split, kind, blocks, lengths, causal):
    count, bounds = len(lengths), bounds_of(lengths)
    asked = {
        "model": IDENTITY, "text": digest([task, split]), "task": task, "keep": sorted(blocks),
        "layers": list(LAYERS), "causal": causal,
    }  # fmt: skip
    names = [f"{split}-{n}" for n in range(count)]
    columns = {
        "words": [[] for _ in names], "row_start": [-1] * count, "n_rows": [0] * count,
        "valid": [[] for _ in names],
        "token_start": bounds[:-1] if "tokens" in blocks else [-1] * count,
        "n_tokens": lengths.astype(np.int32), "subwords": [[1] * n for n in lengths],
        "word_map": [[-1, *range(n - 2), -1] for n in lengths], "windows": [[n] for n in lengths],
        "text": [f"text {name}" for name in names],
        "text_pair": [f"other {name}" if kind != "sentence" else None for name in names],
        "pooled_start": np.arange(count),
    }  # fmt: skip
    stored = {
        name: (rows, LAYERS if name != "tokens" else LAYERS[-1:]) for name, rows in blocks.items()
    }
    return write_entry(
        root, task, split, asked, stored, columns, {}, model=MODEL, kind=kind, dtype="float32",
        final_norm=False, causal=causal, counts={},
    )  # fmt: skip
