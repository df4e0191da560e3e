"""What third parties run on theirs: of each kind a plug-in that passes, and one that does not."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

import probekit
from probekit import testing
from probekit.base import plugins
from probekit.errors import PluginError
from probekit.features import Location
from probekit.metrics import METRICS
from probekit.metrics.class_metrics import Accuracy
from probekit.probe.decoders import DECODERS
from probekit.probe.decoders.linear import Linear
from probekit.probe.fitters import FITTERS
from probekit.probe.fitters.contract import Fitter
from probekit.probe.heads import HEADS
from probekit.probe.normalization import NORMALIZATIONS
from probekit.probe.normalization.contract import Normalization
from probekit.results.trackers import TRACKERS, Tracker, TrackerSpec
from probekit.tasks import TASKS, get_task
from probekit.tasks.corpora.entities import demo_ner
from probekit.tasks.task import Task
from probekit.train.sweeps.specs import TrainSpec
from tests.planted import MODEL, TASK, plant_all


@dataclass(frozen=True, kw_only=True)
class Plain(Linear):
    """A linear decoder under another name."""

    name: ClassVar[str] = "plain"


@dataclass(frozen=True, kw_only=True)
class Silent(Plain):
    """It decodes kinds that there are not."""

    kinds: ClassVar[frozenset[str]] = frozenset({"smells"})


@dataclass(frozen=True, kw_only=True)
class Needy(Plain):
    """Nobody knows its rank."""

    rank: int


class Halved(Normalization):
    """Half of everything."""

    name = "halved"

    def forward(self, z):
        return (z.transpose(0, 1).float() / 2).transpose(0, 1)


class Trained(Halved):
    """It has a parameter."""

    def __init__(self, layers):
        super().__init__(layers)
        self.w = nn.Parameter(torch.ones(1))


class Right(Accuracy):
    """Accuracy under another name."""

    name: ClassVar[str] = "right"

    def score(self, predicted):
        return {"right": super().score(predicted)["accuracy"]}


class Wrong(Right):
    """It counts errors, and says that more is better."""

    def score(self, predicted):
        return {"right": 1 - super().score(predicted)["right"]}


@dataclass(frozen=True, kw_only=True)
class Sgd(Fitter):
    """Plain gradient descent."""

    name: ClassVar[str] = "sgd"
    summary: ClassVar[str] = "plain gradient descent"
    numerics: ClassVar[int] = 1
    solves: ClassVar[bool] = False

    def unsuited(self, head, decoder, *, frozen):
        return None

    def optimizer(self, groups, weight_decay):
        return torch.optim.SGD(groups, weight_decay=weight_decay or 0.0)


class Uphill(Sgd):
    """It climbs."""

    def optimizer(self, groups, weight_decay):
        return torch.optim.SGD(groups, maximize=True)


class Notes(Tracker):
    """It notes everything."""

    seen: ClassVar[list] = []

    def start(self, name, record, options):
        self.seen.append(record.key)

    def log(self, values, step):
        self.seen.append(values)

    def finish(self, scores):
        self.seen.append(scores)


@dataclass(frozen=True, kw_only=True)
class Notebook(TrackerSpec):
    """It opens them."""

    name: ClassVar[str] = "notebook"
    summary: ClassVar[str] = "a list"

    def open(self, out):
        return Notes()


@dataclass(frozen=True, kw_only=True)
class Talkative(Notebook):
    """It logs curves."""

    curves: bool = True


def news() -> Task:
    """Return the corpus of the demo under another name."""
    found = demo_ner()
    return Task(name="news", metrics=found.metrics, splits=found.splits, corpus=found.corpus)


def unnamed() -> Task:
    """Return a task that is called otherwise."""
    return demo_ner()


CASES = {
    "decoder": (Plain, Silent, "it decodes smells; kinds are tagging"),
    "normalization": (Halved, Trained, "it has no parameters. But it has w"),
    "metric": (Right, Wrong, "all right scores 0, random predictions"),
    "fitter": (Sgd, Uphill, "20 steps down x"),
    "task": (news, unnamed, "it is called 'demo-ner', and typed 'news'"),
    "tracker": (Notebook, Talkative, "it logs curves unless told not to"),
}
REGISTRIES = {
    one.kind: one for one in (DECODERS, NORMALIZATIONS, METRICS, FITTERS, TASKS, TRACKERS)
}


@pytest.mark.parametrize("kind", [*sorted(REGISTRIES.keys() - {"task"}), "head"])
def test_every_one_is_listed_under_its_name(kind):
    for name, plugin in (REGISTRIES | {"head": HEADS})[kind].items():
        assert plugin.name == name


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    monkeypatch.setattr(plugins, "_GIVEN", {kind: {} for kind in plugins.KINDS})


@pytest.mark.parametrize("kind", CASES)
def test_one_passes_and_one_is_told_what_it_did(kind):
    good, bad, message = CASES[kind]
    name = "news" if kind == "task" else good.name
    getattr(testing, f"check_{kind}")(good)
    register = getattr(probekit, f"register_{kind}")
    with pytest.raises(PluginError, match=message):
        register(name, bad)
    assert name not in REGISTRIES[kind]
    register(name, good)
    assert list(REGISTRIES[kind])[-1] == name
    for odd in (3, dict):
        with pytest.raises(PluginError, match=f"^{kind} 'odd': .*expected"):
            REGISTRIES[kind].register("odd", odd)


@pytest.mark.parametrize("kind", ["decoder", "normalization", "metric", "fitter", "tracker"])
def test_the_name_is_that_of_the_class(kind):
    with pytest.raises(PluginError, match=r"the class says name = '\w+'; say 'other'"):
        getattr(probekit, f"register_{kind}")("other", CASES[kind][0])


def test_what_another_process_checked_is_not_checked_again(monkeypatch):
    probekit.register_decoder("plain", Plain)
    load = plugins.pickled_plugins()
    monkeypatch.setattr(plugins, "_GIVEN", {kind: {} for kind in plugins.KINDS})
    plugins.take_over(load)
    monkeypatch.setattr(Plain, "kinds", Silent.kinds)
    assert DECODERS["plain"] is Plain


def test_what_cannot_be_made_without_options_is_refused():
    with pytest.raises(PluginError, match=r"Needy\(\) without options failed: .*rank"):
        testing.check_decoder(Needy)


def test_the_checks_of_every_kind_are_there():
    for kind in plugins.KINDS:
        assert len(getattr(testing, f"{kind.upper()}_CHECKS")) >= 2


@pytest.mark.parametrize("name", FITTERS)
@pytest.mark.parametrize("check", testing.FITTER_CHECKS, ids=lambda check: check.__name__)
def test_contract_of_fitters(name, check):
    check(FITTERS[name])


@pytest.mark.parametrize("name", TASKS)
def test_contract_of_tasks(name):
    testing.check_task(TASKS[name], name)


def test_contract_of_a_task_with_its_files(tmp_path):
    for split in news().splits:
        (tmp_path / f"{split}.conll").write_text("Rome B-LOC\n\n", "utf-8")
    testing.check_task(lambda: get_task(str(tmp_path)))


@pytest.mark.parametrize("check", testing.TRACKER_CHECKS, ids=lambda check: check.__name__)
def test_contract_of_a_tracker(check):
    check(TRACKERS["tensorboard"])


def test_a_tracker_of_ones_own_is_shown_runs(tmp_path):
    probekit.register_tracker("notebook", Notebook)
    Notes.seen.clear()
    location = Location(cache=plant_all(tmp_path / "cache"))
    spec = TrainSpec(model=MODEL, task=TASK, head="last")
    options = {"out": tmp_path / "runs.jsonl", "location": location, "track": "notebook"}
    (record,) = probekit.sweep([spec], **options)
    key, logged, scores = Notes.seen
    assert key == record.key
    assert logged == scores and scores[f"dev/{record.metric}"] == record.eval_score


def test_a_run_of_nothing_but_plug_ins(tmp_path):
    for kind in ("decoder", "normalization", "fitter"):
        getattr(probekit, f"register_{kind}")(CASES[kind][0].name, CASES[kind][0])
    location = Location(cache=plant_all(tmp_path / "cache"))
    given = {"decoder": "plain", "normalize": "halved", "fit": "sgd", "lr": 0.5, "epochs": 4}
    spec = TrainSpec(model=MODEL, task=TASK, head="last", **given)
    (record,) = probekit.sweep([spec], out=tmp_path / "runs.jsonl", location=location)
    assert record.plugins.keys() == {"decoder", "normalization", "fitter"}
    assert (record.fitter, record.optimizer) == ("sgd", "sgd")
    assert record.eval_score > 0.3
    adam = TrainSpec(model=MODEL, task=TASK, head="last", **given | {"fit": "adam"})
    (other,) = probekit.sweep([adam], out=tmp_path / "runs.jsonl", location=location)
    assert np.isfinite(other.eval_score) and other.curve != record.curve
