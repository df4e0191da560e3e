"""Heads of third parties from end to end: fitted, swept by workers, recorded, saved and loaded."""

import importlib
import json
import sys

import pytest
import torch

import probekit
from probekit.base import plugins
from probekit.errors import OptionError, PluginError, UnknownNameError
from probekit.probe.heads import HEADS
from probekit.probe.heads.dwatt import DWAtt
from probekit.train.saved.head import TrainedHead
from probekit.train.sweeps.run import spec_of
from probekit.train.sweeps.specs import TrainSpec, product
from tests.planted import DIM, MODEL, TASK
from tests.plugged import Layered, Mixed
from tests.saved_heads import unsealed

WHERE = {"model": MODEL, "task": TASK}


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    monkeypatch.setattr(plugins, "_GIVEN", {kind: {} for kind in plugins.KINDS})


@pytest.fixture
def fitted(words):
    """Fit a head, by options of its run."""

    def fit_here(head, save, **options):
        where = {"location": words, "device": "cpu", "save": save}
        return probekit.fit(head=head, **WHERE, options=options, **where)

    return fit_here


def test_a_class_is_fitted_saved_and_loaded(fitted, tmp_path):
    result = fitted(Layered, tmp_path, epochs=8, lr=0.01)
    assert result.eval_score > 0.5 and result.weights == {}
    z = torch.randn(5, 4, DIM, generator=torch.Generator().manual_seed(0))
    before = TrainedHead.from_pretrained(tmp_path).predict(z)
    plugins._GIVEN["head"].clear()
    with pytest.raises(UnknownNameError, match="not known here"):
        TrainedHead.from_pretrained(tmp_path)
    loaded = TrainedHead.from_pretrained(tmp_path, trust_plugins=True)
    assert loaded.predict(z) == before and "Layered" in HEADS
    config = unsealed(tmp_path)
    assert config["plugins"]["head"]["path"] == "tests.plugged:Layered"
    plugins._GIVEN["head"].clear()
    config["plugins"]["head"]["path"] = "tests.plugged:Gone"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnknownNameError, match=r"'tests\.plugged:Gone', .* cannot be imported"):
        TrainedHead.from_pretrained(tmp_path, trust_plugins=True)


@pytest.mark.parametrize("kind", ["head", "decoder", "normalization"])
@pytest.mark.parametrize("start", ["init_from", "fusion_from"])
def test_a_start_of_an_unknown_plugin_names_it(fitted, saved, kind, start):
    config = unsealed(saved)
    config |= {kind: {"name": "elsewhere"}, "plugins": {kind: {"path": "a.b:C", "code": "0"}}}
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnknownNameError, match=rf"^unknown {kind} 'elsewhere': .*not known here"):
        fitted("last", None, **{start: str(saved)})


def test_workers_know_what_was_registered_and_change_no_number(swept, monkeypatch):
    class Local(Mixed):
        """A class that no other process can import."""

    monkeypatch.setattr("probekit.engines.local.usable_cores", lambda: 2)
    probekit.register_head("local", Local)
    probekit.register_head("mine", Layered)
    base = TrainSpec(**WHERE, head="mine", epochs=1)
    plan = product(base, {"head": ["mine:hidden=4", "local", "p32"], "seeds": 2})
    records = swept(plan, device="cpu", workers=2)
    alone = swept(plan, "alone", device="cpu")
    for one, other in zip(records, alone, strict=True):
        assert one.to_json() | {"train_seconds": other.train_seconds} == other.to_json()
    assert [one.head for one in records] == ["mine", "mine", "local", "local", "p32", "p32"]
    assert records[0].options == {"head.hidden": 4} and records[2].weights.keys() == {0, 1, 2, 3}
    assert records[0].plugins["head"]["path"] == "tests.plugged:Layered"


SOURCE = """
from torch import nn
class Edited(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.map = nn.Linear(dim, 4)
    def forward(self, z):
        return self.map(z.mean(1)).{}()
"""


def test_a_class_that_changed_is_another_run(swept, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def recorded(function, version=None):
        (tmp_path / "edited.py").write_text(SOURCE.format(function))
        sys.modules.pop("edited", None)
        importlib.invalidate_caches()
        module = importlib.import_module("edited")
        probekit.register_head("edited", module.Edited, version=version)
        (record,) = swept([TrainSpec(**WHERE, head="edited", epochs=1)], device="cpu")
        return record

    first, again, changed = recorded("relu"), recorded("relu"), recorded("tanh")
    assert first == again
    assert first.key != changed.key and first.scores != changed.scores
    assert recorded("relu", "1").key == recorded("tanh", "1").key != first.key
    assert len(probekit.load_records(tmp_path / "r.jsonl")) == 3


def test_heads_in_every_form():
    assert spec_of("p32", **WHERE).head == "p32"
    assert spec_of(DWAtt, **WHERE).head == "dwatt"
    assert spec_of(DWAtt(d_pos=8), **WHERE).head == "dwatt:d_pos=8"
    assert spec_of(Layered, **WHERE, options={"seed": 3}).seed == 3
    with pytest.raises(OptionError, match="found an instance of Mixed; give its class"):
        spec_of(Mixed(2), **WHERE)
    with pytest.raises(PluginError, match="has no name for records"):
        spec_of(lambda dim: Mixed(dim), **WHERE)
    with pytest.raises(UnknownNameError, match=r"option 'epoch'\. Did you mean 'epochs'"):
        spec_of("last", **WHERE, options={"epoch": 3})
    with pytest.raises(OptionError, match=r"expected a name; .*probekit.register_head\("):
        TrainSpec(**WHERE, head=Layered)
    with pytest.raises(OptionError, match="fit needs a TrainSpec, or head=, task= and model="):
        probekit.fit(head="last")
    with pytest.raises(OptionError, match="not both"):
        probekit.fit(TrainSpec(**WHERE, head="last"), task=TASK)
