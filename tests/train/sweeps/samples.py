"""Specs of planted features, and saved heads that runs start from."""

from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from tests.planted import MODEL, TASK

HEAD = "attention-fusion"
PLAIN = "linear:dropout=0"
TEXTS = ("glue/sst2", "glue/rte", "glue/stsb")
"""Tasks of single texts, of pairs, and of numbers."""


def spec(**options):
    """A probe of the last layer."""
    return TrainSpec(**{"model": MODEL, "task": TASK, "head": "last"} | options)


def fused(**options):
    """A fusion that is trained by steps."""
    return spec(**{"head": HEAD, "decoder": PLAIN, "epochs": 6, "lr": 1e-2} | options)


def save(root, location, name="head", **options):
    """Train a fusion, and return the folder that it is saved in."""
    folder = root / name
    sweep([fused(**options)], out=root / f"{name}.jsonl", location=location, save=folder)
    return folder
