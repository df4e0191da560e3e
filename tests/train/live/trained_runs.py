"""Runs that train a tiny model, each saved once, and the states of such models."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from probekit import Location, TrainSpec, fit
from probekit.backbone import inspect_backbone, load_backbone
from probekit.extraction import ExtractOptions, extract
from tests.saved_heads import changed_head
from tests.tiny import build
from tests.train.saved.test_prediction import COLUMNS, write_corpus, write_texts
from tests.tuning.cases import IDS, LENGTHS, installed

LR = (("backbone", 3e-3),)
FLOAT32 = ExtractOptions(compute_dtype="float32", dtype="float32")


SMALL = {
    "lora": "lora:rank=2", "qlora": "qlora:rank=2", "adapter": "adapter:size=4",
    "prompt": "prompt:length=5", "prefix": "prefix:length=5", "diff-prune": "diff-prune:share=0.1",
}  # fmt: skip
"""Methods with settings for tiny models; others as they are."""


def asked(name, kind):
    """Return a method as a test asks for it, which is skipped where it cannot be had."""
    installed(name)
    if (name, kind) in (("bitfit", "llama"), ("prefix", "bert")):
        pytest.skip("this family has no such thing")
    return SMALL.get(name, name)


def prepared(root, family="bert", *, kind=None, dtype="float32", layers="all", **sizes):
    """Write a model and a corpus, of words or of a kind of texts, and extract its features.

    Args:
        root: the folder of all that; what is there already stays.
        family: one of ``tiny.KINDS``.
        kind: one of ``COLUMNS``, or None for words.
        dtype: how rows are stored, and the name of the cache.
        layers: those that are stored.
        sizes: of the model.

    Returns:
        The spec of a run over the features, and where they are.
    """
    model, corpus = root / "model", root / "corpus"
    if not model.exists():
        build(family, model, **sizes)
        write_texts(corpus, kind) if kind else write_corpus(corpus)
    named = {"kind": kind, "text": COLUMNS[kind]} if kind else {}
    at = {"cache": root / dtype, "device": "cpu", "label": "label" if kind else None}
    options = ExtractOptions(compute_dtype="float32", dtype=dtype, layers=layers)
    extract(str(model), str(corpus), **at, **named, options=options)
    spec = TrainSpec(model=str(model), task=str(corpus), head="last")
    return spec, Location(cache=root / dtype, **named)


def moved(run, folder, name):
    """Copy a saved run whose model is said to lie somewhere else; return the folder."""
    shutil.copytree(run, folder)
    config = json.loads((Path(folder) / "config.json").read_text("utf-8"))
    model = config["model"] | {"name": str(name)}
    changed_head(Path(folder), weights=config["weights"], model=model)
    return folder


class Runs:
    """A model, a corpus, its entry, and runs that train the model, each saved once."""

    def __init__(self, kind, root):
        self.root, self.kind, self.model = root, kind, root / "model"
        self.cached, self.location = prepared(root, kind)
        self.spec = replace(self.cached, fit="adam", epochs=2, evals=1, rates=LR)
        self.done = {}

    def saved(self, method, depth=None):
        """Return the folder of a run and its result; without a method it trains a head alone."""
        if (method, depth) not in self.done:
            folder = self.root / f"{method}-{depth}".replace(":", "-")
            spec = replace(self.spec, method=method, depth=depth)
            if not spec.tunes:
                spec = replace(spec, rates=())
            self.done[method, depth] = folder, fit(spec, location=self.location, save=folder)
        return self.done[method, depth]

    def tuned(self, method, depth=None):
        """Return the states that probekit computes of a saved run, layer by layer."""
        inspection = inspect_backbone(str(self.saved(method, depth)[0]))
        backbone = load_backbone(inspection, compute_dtype="float32")
        assert backbone.info.n_blocks == backbone.inspection.structure.n_blocks == (depth or 3)
        return backbone.layers(IDS, LENGTHS)
