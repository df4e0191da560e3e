"""Synthetic cache entries for the tests of features, training and sweeps.

``plant`` builds entries whose rows hold the label's own direction, plus noise, in chosen layers.
"""

import functools
import itertools
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import numpy as np
import torch
from safetensors.torch import save
from transformers import BertConfig

from probekit.base.fingerprint import digest
from probekit.store import ArraySpec, Entry, EntryBuilder, ExampleTable, Manifest
from probekit.store.labels import GROUPS, write_labels
from probekit.store.layout import entry_folder, labels_folder

MODEL = "planted"
TASK = "conll"
LAYERS = (0, 1, 2, 3)
DIM = 16
CONFIG = BertConfig(
    hidden_size=DIM, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, vocab_size=9
).to_dict()
IDENTITY = {"weights": "0" * 64, "configuration": {}, "max_length": 64, "random_init": None}
NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")

Options = ParamSpec("Options")


def built_once(build: Callable[Options, Entry]) -> Callable[Options, Entry]:
    """Keep the files of what a builder of entries built, and write them again for the next test.

    The first argument is the cache root. Every test has files of its own, which it may change.
    """
    kept: dict[str, tuple[Path, dict[Path, bytes]]] = {}

    @functools.wraps(build)
    def build_again(root: Path, *args, **options) -> Entry:
        asked = repr((args, sorted(options.items())))
        if asked not in kept:
            with tempfile.TemporaryDirectory() as made:
                entry = build(Path(made), *args, **options).path.relative_to(made)
                files = [path for path in Path(made).rglob("*") if path.is_file()]
                kept[asked] = entry, {p.relative_to(made): p.read_bytes() for p in files}
        entry, contents = kept[asked]
        for path, content in contents.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        return Entry.open(root / entry)

    return build_again


@built_once
def plant(
    root: Path,
    split: str = "train",
    *,
    sentences: int = 60,
    signal: tuple[int, ...] = (2, 3),
    noise: float = 0.3,
    seed: int = 0,
    dtype: str = "float32",
    shuffled: bool = False,
    names: tuple[str, ...] = NAMES,
    final_norm: bool = False,
    invalid: float = 0.0,
    request: str = "",
    layers: tuple[int, ...] = LAYERS,
    types: int | None = None,
    model: str = MODEL,
    same: bool = False,
) -> Entry:
    """Build one entry of a model on ``TASK`` with its ``ner`` labels.

    Args:
        root: the cache root.
        split: the split's name.
        sentences: N.
        signal: layers whose rows show the label; the others are noise.
        noise: deviation of the noise; the label's direction has length 1 per label.
        seed: of labels and noise; the directions are the same for all seeds.
        dtype: how rows are stored.
        shuffled: store labels that have nothing to do with the rows.
        names: the labels.
        final_norm: say that the model has a final norm, and store one.
        invalid: share of words marked invalid, with rows of zeros.
        request: anything that tells this entry from another of the same split.
        layers: layers that are stored.
        types: how many different words there are, each of any label; None is a word of its own
            for every row of a split.
        model: the name of the model.
        same: every layer has the same rows.
    """
    rng = np.random.default_rng([seed, len(split)])
    lengths = rng.integers(3, 12, sentences)
    n_rows = int(lengths.sum())
    classes = rng.integers(0, len(names), n_rows)
    valid = rng.random(n_rows) >= invalid
    rows = rng.normal(0, noise, (len(layers), n_rows, DIM)).astype(np.float32)
    directions = np.random.default_rng(7).normal(0, 1, (len(names), DIM))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for place, layer in enumerate(layers):
        if layer in signal:
            rows[place] += directions[classes]
    rows[:, ~valid] = 0
    if same:
        rows[:] = rows[-1]
    shown = rng.integers(0, len(names), n_rows) if shuffled else classes
    labels = [names[number] for number in shown]
    chosen = rng.integers(0, types, n_rows) if types else range(n_rows)
    words = [f"w{number}" for number in chosen]
    place = root, model, split
    return _write(place, rows, lengths, valid, words, labels, dtype, final_norm, request, layers)


def _write(place, rows, lengths, valid, words, labels, dtype, final_norm, request, layers):
    root, model, split = place
    blocks = {"words": (rows, layers), "tokens": (with_specials(rows[-1:], lengths), layers[-1:])}
    asked = {
        "note": request, "text": digest([len(labels), split]), "keep": list(blocks),
        "layers": list(layers), "model": IDENTITY,
    }  # fmt: skip
    if model != MODEL:
        asked["model"] = IDENTITY | {"weights": model}
    if drawn := re.fullmatch(rf"{MODEL}-random(\d+)", model):
        asked["model"] = asked["model"] | {"random_init": int(drawn[1])}
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    pieces = list(itertools.pairwise(bounds))
    columns = {
        "words": [words[a:b] for a, b in pieces], "row_start": bounds[:-1],
        "n_rows": lengths.astype(np.int32), "valid": [valid[a:b].tolist() for a, b in pieces],
        "token_start": bounds[:-1] + 2 * np.arange(len(lengths)),
        "n_tokens": (lengths + 2).astype(np.int32),
        "subwords": [[1] * (b - a + 2) for a, b in pieces],
        "word_map": [word_map(valid[a:b]) for a, b in pieces],
        "windows": [[b - a + 2] for a, b in pieces],
    }  # fmt: skip
    files = {}
    if final_norm:
        weight = {"weight": torch.linspace(0.5, 2, DIM), "bias": torch.zeros(DIM)}
        files["final_norm.safetensors"] = save(weight, {"kind": "rmsnorm", "eps": "1e-06"})
    entry = write_entry(
        root, TASK, split, asked, blocks, columns, files, model=model, kind="tagging",
        dtype=dtype, final_norm=final_norm, causal=False, counts={"words": len(labels)},
    )  # fmt: skip
    store_labels(entry, [labels[a:b] for a, b in pieces], digest(labels))
    return entry


def write_entry(root, task, split, asked, blocks, columns, files, *, model, counts, **about):
    """Write an entry of rows that are given.

    Args:
        root: the cache root.
        task: its name.
        split: the split's name.
        asked: what was asked for, whose digest is the key.
        blocks: of every array, its rows (layers, rows, dim) and their layers.
        columns: of the table of examples, but for their ids.
        files: more files of the model than its configuration.
        model: the name of the model.
        counts: more than that of the examples.
        about: of the manifest.
    """
    specs = {
        name: ArraySpec(
            name=name, rows=-(-rows.shape[1] // 32) * 32, layers=tuple(layers), dim=DIM,
            dtype=about["dtype"], chunk_rows=32,
        )
        for name, (rows, layers) in blocks.items()
    }  # fmt: skip
    key = digest(asked)
    path = entry_folder(root, model, task.replace("/", "-"), split, key)
    ids = [f"{split}-{n}" for n in range(len(columns["windows"]))]
    examples = ExampleTable.from_columns({"id": ids, **columns})
    manifest = Manifest(
        key=key, request=asked, model=model, task=task, split=split, backend="zarr",
        compute_dtype="float32", pooling="first", arrays=tuple(specs.values()), n_blocks=3,
        dim=DIM, counts={"examples": len(ids), **counts}, statistics={}, origin="planted",
        model_info={"source": "folder", "revision": None, "identity": asked["model"]},
        versions={}, created="2026-01-01T00:00:00Z", **about,
    )  # fmt: skip
    plan = {"arrays": [spec.to_json() for spec in specs.values()], "backend": "zarr", "units": [0]}
    files = {"config.json": json.dumps(CONFIG).encode(), **files}
    with EntryBuilder(path, plan=plan) as builder:
        tensors = {name: torch.from_numpy(rows) for name, (rows, _) in blocks.items()}
        builder.write_unit(0, dict.fromkeys(blocks, 0), tensors)
        return builder.complete(manifest, examples.table, files)


def store_labels(entry: Entry, labels, fingerprint: str, text: str | None = None) -> None:
    """Store `ner` labels of an entry's split, for its own text or for another."""
    write_labels(
        labels_folder(entry.path), entry.manifest.split, "ner", entry.examples.ids, labels,
        text=text or entry.manifest.request["text"], kind="tagging", metric="span-f1",
        fingerprint=fingerprint,
    )  # fmt: skip


def store_groups(entry: Entry, groups, column: str = "document") -> None:
    """Store the group of each example of an entry's split, such as its document."""
    write_labels(
        labels_folder(entry.path), entry.manifest.split, column, entry.examples.ids,
        [(group,) for group in groups], text=entry.manifest.request["text"], kind=GROUPS, metric="",
        fingerprint=digest(list(groups)),
    )  # fmt: skip


def with_specials(rows, lengths):
    """Put a row of ones before and after the words of each sentence: its special tokens."""
    special = np.ones((len(rows), 1, DIM), np.float32)
    pieces = np.split(rows, np.cumsum(lengths)[:-1], axis=1)
    return np.concatenate([part for piece in pieces for part in (special, piece, special)], axis=1)


def word_map(valid):
    """Return the word of each subword: one each, between two specials; none for a deleted word."""
    return [-1, *(n if there else -1 for n, there in enumerate(valid)), -1]


def plant_all(root: Path, **options) -> Path:
    """Build train, dev and test entries; return the cache root."""
    sizes = {"train": 60, "dev": 30, "test": 25}
    for seed, (split, sentences) in enumerate(sizes.items()):
        plant(root, split, **{"sentences": sentences, "seed": seed} | options)
    return root
