"""Runs of planted features that start from a saved head."""

from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from tests.planted import MODEL, TASK

HEAD = "attention-fusion"
PLAIN = "linear:dropout=0"


def spec(**options):
    defaults = {"model": MODEL, "task": TASK, "label": "ner", "head": HEAD, "epochs": 6, "lr": 1e-2}
    return TrainSpec(**defaults | {"decoder": PLAIN} | options)


def save(root, location, name="head", **options):
    folder = root / name
    sweep([spec(**options)], out=root / f"{name}.jsonl", location=location, save=folder)
    return folder
