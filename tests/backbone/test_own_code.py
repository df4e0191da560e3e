"""Code of a model's own: refused until it is typed that it may run, and part of the identity."""

import json
from dataclasses import replace
from functools import partial

import pytest
import torch
from transformers import BertConfig, BertModel

from probekit import Location, TrainedHead, TrainSpec, fit, predict, sweep
from probekit.backbone import inspect_backbone, load_backbone, remembered
from probekit.errors import BackboneError, OptionError
from probekit.extraction import extract
from probekit.extraction.maintenance import verify_rows
from probekit.extraction.request_options import ExtractOptions
from tests import tiny
from tests.extraction.corpus import write_corpus
from tests.hub_server import HubServer

CODE = """
from pathlib import Path

from transformers import BertConfig, BertModel

from .halved import halve

Path(RAN).write_text("ran")


class MineConfig(BertConfig):
    model_type = "mine"


class MineModel(BertModel):
    config_class = MineConfig

    def __init__(self, config, add_pooling_layer=False):
        super().__init__(config, add_pooling_layer=False)
        halve(self.embeddings.LayerNorm)
"""
HALVED = """
def halve(norm):
    norm.register_forward_hook(lambda module, given, output: output / 2)
"""


@pytest.fixture(scope="session")
def modules(tmp_path_factory):
    """Where transformers copies code to: one place, as its package is imported once."""
    return str(tmp_path_factory.mktemp("modules"))


@pytest.fixture
def folder(tmp_path, monkeypatch, modules):
    """A BERT with half the embeddings, by code of its own that leaves a trace where it runs."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", modules)
    monkeypatch.syspath_prepend(modules)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    made = tiny.build("bert", tmp_path / "mine")
    config = json.loads((made / "config.json").read_text("utf-8"))
    auto_map = {"AutoConfig": "mine.MineConfig", "AutoModel": "mine.MineModel"}
    config |= {"model_type": "mine", "architectures": ["MineModel"], "auto_map": auto_map}
    (made / "config.json").write_text(json.dumps(config), "utf-8")
    trace = json.dumps(str(tmp_path / "trace"))
    (made / "mine.py").write_text(CODE.replace("RAN", trace, 1), "utf-8")
    (made / "halved.py").write_text(HALVED, "utf-8")
    return made


def test_it_does_not_run_unless_that_is_typed(folder, tmp_path):
    line = r"runs its own code.*Read it \(.*mine: halved\.py, mine\.py\).*trust-remote"
    with pytest.raises(BackboneError, match=line):
        inspect_backbone(str(folder))
    assert remembered.identity_at(str(folder)) is None
    assert not (tmp_path / "trace").exists()


def test_its_states_are_those_of_the_code(folder, tmp_path):
    inspection = inspect_backbone(str(folder), trust_remote_code=True)
    assert (tmp_path / "trace").exists()
    info = inspection.info
    assert (info.identity.architecture, info.n_blocks, info.causal) == ("MineModel", 3, False)
    backbone = load_backbone(inspection, compute_dtype="float32")
    ids = torch.tensor([[2, 30, 31, 32, 3]])
    found = backbone.layers(ids, torch.tensor([5]))
    plain = json.loads((folder / "config.json").read_text("utf-8")) | {"model_type": "bert"}
    model = BertModel.from_pretrained(folder, config=BertConfig(**plain)).eval()
    with torch.no_grad():
        first = model.embeddings(ids) / 2
        expected = model.encoder(first, output_hidden_states=True, return_dict=True)
    torch.testing.assert_close(found[0], first)
    last = expected["last_hidden_state"]
    torch.testing.assert_close(found[-1], last, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("file", ["mine.py", "halved.py"])
def test_the_identity_is_of_all_the_code(file, folder):
    def identity():
        return inspect_backbone(str(folder), trust_remote_code=True).info.identity

    one = identity()
    path = folder / file
    path.write_text(path.read_text("utf-8") + "\n# other code\n", "utf-8")
    two = identity()
    assert one.code != two.code and one.to_json()["code"] == one.code
    (difference,) = one.differences(two)
    assert difference.startswith(f"code {one.code[:12]}")


def test_a_model_without_code_is_not_trusted(tiny_folder):
    with pytest.raises(OptionError, match=r"--trust-remote-code: model .* has no code of its own"):
        inspect_backbone(str(tiny_folder("bert")), trust_remote_code=True)


@pytest.mark.parametrize(
    ("auto_map", "line"),
    [
        ({"AutoConfig": "mine.MineConfig"}, "has no AutoModel"),
        (
            {"AutoConfig": "org/code--mine.MineConfig", "AutoModel": "org/code--mine.MineModel"},
            r"in another repository \(org/code\)",
        ),
    ],
)
def test_code_that_cannot_serve(auto_map, line, folder):
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8")) | {"auto_map": auto_map}
    path.write_text(json.dumps(config), "utf-8")
    with pytest.raises(BackboneError, match=line):
        inspect_backbone(str(folder), trust_remote_code=True)


WORDS = [["Maria", "left", "Paris"]]


def test_an_entry_a_head_and_a_method_run_it_where_it_is_trusted(folder, tmp_path):
    corpus, cache = str(write_corpus(tmp_path / "corpus", sentences=8)), tmp_path / "cache"
    asked = {"task": corpus, "label": "2", "cache": cache, "device": "cpu"}
    asked["options"] = ExtractOptions()
    untrusted = partial(pytest.raises, BackboneError, match="give --trust-remote-code")
    entry = extract(str(folder), trust_remote_code=True, **asked)[0]
    assert entry.manifest.request["model"]["code"]
    assert verify_rows(entry, 10, trust_remote_code=True).passed
    with untrusted():
        verify_rows(entry, 10)
    with untrusted():
        extract(str(folder), **asked)

    spec = TrainSpec(model=str(folder), task=corpus, label="2", head="last", epochs=1)
    how = {"location": Location(cache=cache), "device": "cpu"}
    tuned, run = replace(spec, method="full"), str(tmp_path / "run")
    fit(spec, save=tmp_path / "head", **how)
    with untrusted():
        fit(tuned, save=run, **how)
    assert fit(tuned, save=run, trust_remote_code=True, **how).backbone_share == 1
    for saved in (TrainedHead.from_pretrained(tmp_path / "head"), run):
        with untrusted():
            predict(saved, WORDS, device="cpu")
        assert len(predict(saved, WORDS, device="cpu", trust_remote_code=True)[0]) == 3
    with untrusted():
        extract(run, **asked)
    assert extract(run, trust_remote_code=True, **asked)[0].manifest.model == "mine-full"
    # the whole model has the code beside it
    whole = inspect_backbone(f"{run}/backbone", trust_remote_code=True)
    assert whole.info.identity.architecture == "MineModel"
    with pytest.raises(OptionError, match="no run of this plan runs a model"):
        sweep([spec], out=tmp_path / "r.jsonl", trust_remote_code=True, location=how["location"])


def test_code_of_a_repository_is_fetched_where_it_is_trusted(folder, tmp_path, monkeypatch):
    with HubServer({"models/org/mine": folder}) as hub:
        hub.redirect(monkeypatch, tmp_path / "hub")
        with pytest.raises(BackboneError, match=r"Read it \(the \.py files of its repository\)"):
            inspect_backbone("org/mine")
        assert not any(".py" in request for request in hub.requests)
        found = inspect_backbone("org/mine", trust_remote_code=True)
    local = inspect_backbone(str(folder), trust_remote_code=True)
    assert found.info.identity == local.info.identity
