"""The door for third parties: names, entry points, broken packages, what is carried."""

import logging
import pickle
from functools import partial
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest
from torch import nn

from probekit.base import plugins
from probekit.base.fingerprint import PluginOrigin, source_hash
from probekit.base.plugins import pickled_plugins, take_over, trusting
from probekit.base.registry import choose
from probekit.errors import PluginError, UnknownNameError
from probekit.metrics import METRICS
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS, register_head
from probekit.probe.normalization import NORMALIZATIONS
from probekit.results import append_record, load_records
from probekit.results.comparison.pairing import recorded_metric
from tests.plugged import Layered, Mixed, Rogue
from tests.results.samples import make_record


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Nothing is registered, and nothing installed; both are as before afterwards."""
    monkeypatch.setattr(plugins, "_GIVEN", {kind: {} for kind in plugins.KINDS})
    offer(monkeypatch)
    yield
    plugins._offers.cache_clear()


def offer(monkeypatch, **packages):
    """Install packages that offer entry points, by name: ``probekit_a={"head.mine": "m:X"}``."""
    points = [
        EntryPoint(name, value, plugins.GROUP)._for(SimpleNamespace(name=package, version="0.3"))
        for package, own in packages.items()
        for name, value in own.items()
    ]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)
    plugins._offers.cache_clear()


def test_a_head_of_a_package_stands_behind_probekits_own(monkeypatch):
    before = list(HEADS)
    offer(monkeypatch, mine={"head.mine": "tests.plugged:Layered"})
    assert list(HEADS) == [*before, "mine"]
    assert HEADS["mine"]().name == "mine"
    assert HEADS.origin("mine").package == "mine 0.3"
    assert HEADS.origin("last") is None
    offer(monkeypatch, mine={"head.mine": "no_such_module:X"})
    assert "mine" in HEADS and "mine" in list(HEADS), "names alone import nothing"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:X", r"head 'mine': the package mine 0.3 offers it as no_such_module:X, "),
        ("tests.plugged:Rogue", "of the package mine 0.3: it breaks the contract of a head: What"),
        ("tests.plugged:NUMBER", "found a int; expected a HeadSpec, a torch.nn.Module's class"),
    ],
)
def test_a_broken_package_is_named_and_the_rest_goes_on(monkeypatch, caplog, value, message):
    offer(monkeypatch, mine={"head.mine": value})
    with pytest.raises(PluginError, match=message):
        choose("head", "mine", HEADS)
    with caplog.at_level(logging.WARNING):
        plugins._offers.cache_clear()
        assert "mine" not in dict(HEADS.items())
    assert "It is left out" in caplog.text
    assert HEADS["last"]().name == "last"


def test_names_that_packages_cannot_have(monkeypatch, caplog):
    both = {"head.mine": "tests.plugged:Layered"}
    odd = {"heads.x": "a:B", "mine": "a:B", "head.last": "tests.plugged:Layered"}
    offer(monkeypatch, a=both, b=both, c=odd)
    with caplog.at_level(logging.WARNING):
        assert "mine" in HEADS
    assert caplog.text.count("expected KIND.NAME") == 2
    assert "the package c 0.3 offers a head 'last', a name that probekit uses" in caplog.text
    with pytest.raises(PluginError, match=r"a 0\.3 and b 0\.3 both offer it; uninstall one"):
        HEADS["mine"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("last", "'last' exists: it is probekit's own. Register tests.plugged:Layered as"),
        ("majority", "'majority' exists"),
        ("taken", "'taken' exists: it is tests.plugged:Mixed"),
        ("offered", "'offered' exists: it is that of the package mine 0.3"),
        ("a:b", "a name starts with a letter or digit"),
        ("", "a name starts"),
    ],
)
def test_a_name_that_cannot_be_taken(monkeypatch, name, message):
    offer(monkeypatch, mine={"head.offered": "tests.plugged:Mixed"})
    register_head("taken", Mixed)
    with pytest.raises(PluginError, match=message):
        register_head(name, Layered)


def test_the_same_class_is_registered_again_and_again():
    register_head("mine", Layered)
    first = HEADS["mine"]
    register_head("mine", Layered)
    assert HEADS["mine"] is first
    register_head("mine", Layered, version="2")
    assert HEADS.origin("mine").code == "version 2"


def test_what_a_call_refuses_is_not_known():
    with pytest.raises(PluginError, match="breaks the contract of a head"):
        register_head("mine", Rogue)
    assert "mine" not in HEADS


def test_what_is_carried_is_known_where_it_is_taken_over(monkeypatch):
    assert pickled_plugins() is None
    register_head("mine", Layered)
    there = pickled_plugins()
    origin = HEADS.origin("mine")
    monkeypatch.setattr(plugins, "_GIVEN", {kind: {} for kind in plugins.KINDS})
    assert "mine" not in HEADS
    take_over(there)
    assert HEADS.origin("mine") == origin


def test_a_class_that_cannot_be_carried_is_said():
    class Held(nn.Module):
        lock = (one for one in ())

        def __init__(self, dim):
            super().__init__()
            self.map = nn.Linear(dim, 2)

        def forward(self, z):
            return self.map(z.mean(1))

    register_head("held", Held)
    with pytest.raises(PluginError, match=r"head 'held' .* cannot be sent to worker processes"):
        pickled_plugins()
    with pytest.raises(PluginError, match="a worker cannot import a registered plug-in"):
        take_over(b"cno_such_module\nX\n.")
    pickle.loads(pickle.dumps(HEADS.origin("held")))


def test_what_a_file_names_is_imported_only_where_it_is_trusted(caplog):
    path = {"path": "tests.plugged:Layered", "code": source_hash(Layered)}
    with pytest.raises(UnknownNameError, match=r"^unknown head 'mine': the file names a plug-in"):
        HEADS.recall("mine", path)
    with trusting(True):
        HEADS.recall("mine", path)
        assert HEADS["mine"]().name == "mine" and not caplog.records
    HEADS.recall("mine", path)  # it is known from here on
    HEADS.recall("mine", {**path, "code": "0" * 64})
    assert "has changed since" in caplog.text
    METRICS.recall("span-f1", None)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere:X", "cannot be imported .* on PYTHONPATH"),
        ("__main__:Gone", "cannot be imported .* probekit.register_head first"),
        ("", "cannot be imported"),
        ("tests.plugged:NUMBER", "is not a head class"),
        ("http.server:test", "is not a head class"),
        ("collections:OrderedDict", "is not a head class"),
    ],
)
def test_nothing_but_a_class_of_the_contract_is_called(path, message):
    origin = {"path": path, "package": "mine 0.3", "another": "thing"}
    with trusting(True), pytest.raises(UnknownNameError, match=message) as found:
        HEADS.recall("other", origin)
    assert "pip" not in str(found.value)


def test_a_file_runs_no_module_beside_it(tmp_path, monkeypatch):
    (tmp_path / "beside_heads.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    origin = {"path": "beside_heads:X", "code": "0"}
    for registry in (HEADS, METRICS, DECODERS, NORMALIZATIONS):
        with pytest.raises(UnknownNameError, match="trust"):
            registry.recall("other", origin)
    assert not (tmp_path / "ran").exists()
    line = make_record("last", metric="other", plugins={"metric": origin})
    append_record(tmp_path / "runs.jsonl", line)
    with pytest.raises(UnknownNameError, match="trust"):
        recorded_metric(load_records(tmp_path / "runs.jsonl")[0])
    assert not (tmp_path / "ran").exists()
    with pytest.raises(UnknownNameError, match="cannot be imported"):
        load_records(tmp_path / "runs.jsonl", trust_plugins=True)
    assert (tmp_path / "ran").exists()


def test_source_counts_and_so_does_what_it_names(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    base = "class Base:\n    pass\n"
    text = (
        f"N = 1\n{base}def helper(): return N\nclass A(Base):\n    def f(self): return helper()\n"
    )
    versions = {
        "same": text, "own": text.replace("return helper()", "return helper() + 1"),
        "helper": text.replace("return N", "return -N"), "constant": text.replace("N = 1", "N = 2"),
        "base": text.replace("pass", "x = 1"), "unnamed": text + "def other(): pass\n",
    }  # fmt: skip
    found = {}
    for name, one in versions.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "hashed.py").write_text(one)
        space = _import(folder, monkeypatch)
        found[name] = source_hash(space.A)
    assert found["same"] == found["unnamed"]
    assert len(set(found.values())) == 5


def _import(folder, monkeypatch):
    import importlib.util
    import sys

    spec = importlib.util.spec_from_file_location("hashed", folder / "hashed.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "hashed", module)
    spec.loader.exec_module(module)
    return module


def test_source_of_a_partial_has_what_it_was_given():
    two, three = (source_hash(partial(Layered, hidden=n)) for n in (2, 3))
    assert None not in (two, three) and two != three
    space = {}
    exec("class NoSource: pass", space)
    assert source_hash(space["NoSource"]) is None
    with pytest.raises(PluginError, match='Give its version when you register it: version="1"'):
        PluginOrigin.of(space["NoSource"])
