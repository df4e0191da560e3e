"""GGUF files: a tiny Llama through the same door as every other model."""

import hashlib

import pytest
import torch
from transformers import AutoModel

from probekit.backbone import checkpoint, inspect_backbone, load_backbone
from probekit.errors import BackboneError


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    pytest.importorskip("gguf", reason="the optional extra gguf is not installed")
    pytest.importorskip("accelerate", reason="the optional extra gguf is not installed")
    from tests.backbone import tiny_gguf

    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def inspection(path):
    return inspect_backbone(str(path))


def test_facts(inspection, path):
    info = inspection.info
    assert (info.source, info.identity.architecture) == ("gguf", "LlamaModel")
    assert (info.n_blocks, info.dim, info.identity.max_length) == (2, 32, 48)
    assert info.causal
    assert info.final_norm
    assert info.identity.weights == hashlib.sha256(path.read_bytes()).hexdigest()


def test_words_are_not_glued_together(inspection):
    found = inspection.tokenizer(["EU", "rejects", "German"], is_split_into_words=True)
    starts = [found.word_to_tokens(word).start for word in range(3)]
    assert all(found.tokens()[start].startswith("Ġ") for start in starts)


def test_layers_are_hidden_states(inspection, path, capfd):
    backbone = load_backbone(inspection, compute_dtype="float32")
    assert capfd.readouterr() == ("", "")
    reference = AutoModel.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        expected = reference.eval()(ids, output_hidden_states=True).hidden_states
    for one, other in zip(backbone.layers(ids, torch.tensor([4])), expected, strict=True):
        assert torch.equal(one, other)
    assert backbone.final_norm.kind == "rmsnorm"
    assert backbone.final_norm.eps == pytest.approx(1e-5)


@pytest.mark.parametrize("package", ["gguf", "accelerate"])
def test_a_missing_package_says_how_to_install_it(package, tmp_path, monkeypatch):
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(checkpoint, "find_spec", lambda name: None if name == package else object())
    with pytest.raises(BackboneError, match=rf"needs the package {package}\. Run `pip install"):
        inspect_backbone(str(tmp_path / "x.gguf"))


def test_a_damaged_file(path, tmp_path):
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(path.read_bytes()[:200])
    with pytest.raises(BackboneError, match="cannot be used") as caught:
        inspect_backbone(str(damaged))
    assert "\n" not in str(caught.value)


def test_a_count_of_blocks_of_no_model_is_refused_before_lists_are_made_of_it(path, tmp_path):
    content, name = path.read_bytes(), b"llama.block_count"
    at = content.index(name) + len(name) + 4  # behind its type
    (tmp_path / "x.gguf").write_bytes(content[:at] + b"\xff" * 4 + content[at + 4 :])
    with pytest.raises(BackboneError, match=r"layers = 4,294,967,295, and no model has more"):
        inspect_backbone(str(tmp_path / "x.gguf"))
