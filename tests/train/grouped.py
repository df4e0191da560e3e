"""Planted features, and members and streams made from single options instead of whole groups."""

from dataclasses import fields

import torch

from probekit.base.layers import parse_layers
from probekit.base.registry import parse
from probekit.features import Location, open_features
from probekit.metrics import METRICS
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.probe.heads.contract import BackboneFacts
from probekit.probe.normalization import normalization_from_json
from probekit.train.fit import fit_group
from probekit.train.member import Member, MemberSpec
from probekit.train.option_groups import Descent, Steps
from probekit.train.stream import StreamSpec
from tests.planted import CONFIG, DIM, MODEL, TASK, plant_all

FACTS = BackboneFacts(n_blocks=3, dim=DIM, config=CONFIG)


def opened(root, task=TASK, label="ner"):
    """The features of a task that is planted in a folder."""
    return open_features(MODEL, task, label, Location(cache=root))


def splits_in(root, **options):
    """The features of words that are planted with some options."""
    return opened(plant_all(root, **options))


def member_spec(**options):
    descent = taken(Descent, options)
    return MemberSpec(**options, descent=descent)


def stream_spec(**options):
    steps = taken(Steps, options)
    return StreamSpec(**options, steps=steps)


def taken(group, options):
    """The group of the options that are its own, which are taken out."""
    return group(**{f.name: options.pop(f.name) for f in fields(group) if f.name in options})


def member(head="last", decoder="linear", layers=None, **options):
    """A member whose head and decoder are named, over the head's own layers by default."""
    spec = HEADS[head]().bind(FACTS) if isinstance(head, str) else head
    chosen = layers or parse_layers(spec.default_layers, 3)
    given = {"head": spec, "decoder": parse("decoder", decoder, DECODERS), "layers": chosen}
    return member_spec(**given | options)


def built(splits, spec):
    """The member of a spec, before its first step."""
    view = splits.view("train", valid_only=True)
    none = normalization_from_json({"name": "none"}, spec.layers, DIM)
    return Member(spec, none, seed=0, train=view, device=torch.device("cpu"))


def stream(splits, *members, **options):
    """Steps over train for some members."""
    defaults = {"train": splits.view("train", valid_only=True), "seed": 0}
    return stream_spec(**defaults | options, members=members)


def fit(splits, *streams, metric="accuracy", **options):
    """The results of every stream, scored on dev."""
    return fit_group(streams, splits.view("dev"), metric=METRICS[metric], **options)


def same(one, other):
    """Check that two results are of the same numbers, to the bit."""
    assert one.state.keys() == other.state.keys()
    for name, value in one.state.items():
        assert torch.equal(value, other.state[name]), name
    assert one.curve == other.curve
    assert (one.eval_score, one.test_score) == (other.eval_score, other.test_score)
    assert one.weights == other.weights
