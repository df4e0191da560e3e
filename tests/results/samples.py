"""Records with made-up outcomes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probekit.results import Record

TYPES = ("LOC", "MISC", "ORG", "PER")
HEADS = ("last", "mean", "p32", "scalar-mix", "attention-fusion", "concat", "dwatt")


BY_ROW = ("attention-fusion", "dwatt")


def make_record(head: str = "p32", seed: int = 0, n_blocks: int = 4, **changes: Any) -> Record:
    """Return a record of a head on a model with ``n_blocks`` blocks; ``changes`` override it."""
    depth = changes.get("depth")
    top = n_blocks if depth is None else depth
    layers = [top] if head == "last" else list(range(head != "scalar-mix", top + 1)) or [0]
    raw = np.cos(np.array(layers) + seed)
    soft = np.exp(raw) / np.exp(raw).sum()
    score = 0.5 + 0.3 * np.sin(top / n_blocks * 2) + 0.01 * seed + 0.001 * len(head)
    values: dict[str, Any] = {
        "model": "org/tiny-model", "task": "conll", "label": "ner", "labels_fingerprint": "ab" * 32,
        "entry": "train-01234567", "head": head, "decoder": "linear", "layers": layers,
        "normalize": "none", "protocol": "full", "seed": seed, "epochs": 5, "lr": 2e-3,
        "batch_size": 16, "optimizer": "adamw", "metric": "span-f1", "eval_score": score,
        "eval_last": score - 0.01, "best_epoch": 4, "test_score": score - 0.05,
        "scores": _class_scores(score), "confusion": _confusion(score, seed),
        "class_weights": _class_weights(layers, seed) if head in BY_ROW else {},
        "curve": [[10 * step, 1 / step, score * step / 5] for step in range(1, 6)],
        "weights": dict(zip(layers, soft, strict=True)),
        "raw_weights": dict(zip(layers, raw, strict=True)) if head == "p32" else None,
        "n_params": 1000 + len(layers), "train_seconds": 1.5, "version": "0.1.0",
    } | changes  # fmt: skip
    options = [
        values.get(name)
        for name in ("model", "method", "task", "label", "head", "depth", "shots", "fraction")
    ]
    options += [values["normalize"], values["lr"], seed]
    return Record(**{"key": repr(options), "spec": _spec(values)} | values)


def _spec(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run that has a record of these values."""
    names: tuple[str, ...] = ("label", "head", "decoder", "normalize", "method")
    names += ("shots", "fraction", "depth", "seed")
    spec = {name: values[name] for name in names if values.get(name) is not None}
    spec |= {"start": "solved"} if values.get("init") == "solved" else {}
    return spec | ({"freeze_fusion": True} if values.get("freeze") else {})


def _class_scores(score: float) -> dict[str, float]:
    return {
        f"{split}/f1/{name}": score - 0.02 * place - 0.05 * (split == "test")
        for split in ("dev", "test")
        for place, name in enumerate(TYPES)
    }


def _confusion(score: float, seed: int) -> dict[str, Any]:
    names = (*TYPES, "O")
    sizes = np.array([300, 120, 200, 280, 4000 + seed])
    counts = np.outer(sizes, 1 - score + np.arange(5)) // 50
    np.fill_diagonal(counts, sizes - counts.sum(1) + counts.diagonal())
    return {"rows": names, "columns": names, "counts": counts.astype(int)}


def _class_weights(layers: list[int], seed: int) -> dict[str, dict[int, float]]:
    names = [*(f"{prefix}-{name}" for name in TYPES for prefix in "BI"), "O"]
    raw = {n: np.sin(np.array(layers) / 2 + place + seed / 9) for place, n in enumerate(names)}
    return {
        n: dict(zip(layers, np.exp(row) / np.exp(row).sum(), strict=True)) for n, row in raw.items()
    }
