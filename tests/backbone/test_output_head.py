"""A head taken out of a checkpoint gives the logits of the model it came from."""

import dataclasses
import functools
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
)

from probekit.backbone import inspect_backbone, load_backbone
from probekit.backbone.final_parts import read_output_head
from probekit.errors import BackboneError, EntryError
from probekit.probe.model_parts import OutputHead
from tests import random_models, tiny

SIZES = {**random_models.SIZES, "num_hidden_layers": 2}
NARROW = {"embedding_size": 16}
DISTIL = {"dim": 32, "hidden_dim": 48, "n_heads": 4, "n_layers": 2}
# family -> (tokenizer, what its configuration needs besides SIZES)
MASKED = {
    "bert": ("bert", {}), "roberta": ("roberta", {}), "distilbert": ("bert", DISTIL),
    "modernbert": ("roberta", {"pad_token_id": 1}), "albert": ("bert", NARROW),
    "deberta-v2": ("deberta-v2", {}),
}  # fmt: skip
CAUSAL = {
    "llama": ("llama", {"tie_word_embeddings": False}),
    "llama-tied": ("llama", {"tie_word_embeddings": True}),
    "gpt2": ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4}),
    "opt": ("gpt2", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "granite": ("llama", {"num_key_value_heads": 2, "logits_scaling": 6.0}),
}
FAMILIES = MASKED | CAUSAL


def _save(family, folder, *, dtype="float32", **changes):
    """Save a random language model with all its weights away from their initial values."""
    kind, extra = FAMILIES[family]
    tokenizer = tiny.tokenizer_of(kind)
    config = AutoConfig.for_model(
        family.removesuffix("-tied"),
        vocab_size=len(tokenizer),
        **{**SIZES, "pad_token_id": tokenizer.pad_token_id, **extra, **changes},
    )
    auto = AutoModelForMaskedLM if family in MASKED else AutoModelForCausalLM
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = auto.from_config(config, dtype=torch.float32)
        for parameter in model.parameters():
            nn.init.normal_(parameter, 0.1, 0.2)
    assert sum(parameter.numel() for parameter in model.parameters()) < 100_000
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model.eval()


def _relative(found, expected):
    return ((found - expected).abs().max() / expected.abs().max()).item()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a family's random language model, and the folder where it lies."""

    @functools.cache
    def save(family):
        folder = tmp_path_factory.mktemp(family)
        return _save(family, folder), folder

    return save


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_the_models_own(family, saved):
    model, folder = saved(family)
    inspection = inspect_backbone(str(folder))
    head = read_output_head(inspection)
    assert head.kind == ("masked" if family in MASKED else "causal")
    assert (head.activation is None) == (family in CAUSAL)
    ids = torch.tensor([[5, 9, 17, 30, 7, 8]])
    with torch.no_grad():
        expected = model(input_ids=ids).logits[0]
    backbone = load_backbone(inspection, compute_dtype="float32")
    rows = backbone.layers(ids, torch.tensor([6]), keep=[2])[0][0]  # what the cache stores
    assert _relative(head(rows), expected) < 1e-5


@pytest.mark.parametrize(("family", "dtype"), [("bert", "float16"), ("llama-tied", "bfloat16")])
def test_tensors_keep_the_stored_dtype(family, dtype, tmp_path):
    model = _save(family, tmp_path, dtype=dtype)
    head = read_output_head(inspect_backbone(str(tmp_path)))
    assert head.weight.dtype == getattr(torch, dtype)
    assert torch.equal(head.weight, model.get_output_embeddings().weight)
    assert not head.weight.requires_grad
    rows = torch.randn(4, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        state = model.float().cls(rows) if family == "bert" else model.float().lm_head(rows)
    assert _relative(head(rows), state) < 1e-5


@pytest.mark.parametrize("activation", ["gelu_new", "gelu_pytorch_tanh", "relu", "silu"])
def test_the_activation_is_found(activation, saved, tmp_path):
    folder = shutil.copytree(saved("bert")[1], tmp_path / "bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": activation}))
    expected = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh"}
    found = read_output_head(inspect_backbone(str(folder))).activation
    assert found == expected.get(activation, activation)


@pytest.mark.parametrize("family", ["bert", "modernbert", "llama"])
def test_a_file_brings_the_same_head_back(family, saved, tmp_path):
    head = read_output_head(inspect_backbone(str(saved(family)[1])))
    head = dataclasses.replace(head, weight=head.weight.bfloat16())
    path = tmp_path / "output_head.safetensors"
    path.write_bytes(head.to_file())
    again = OutputHead.from_file(path)
    for name, value in vars(head).items():
        other = getattr(again, name)
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, other) and value.dtype == other.dtype
        else:
            assert value == other
    rows = torch.randn(3, 32, generator=torch.Generator().manual_seed(1))
    assert torch.equal(head(rows), again(rows))


def test_a_file_that_is_no_head(tmp_path):
    with pytest.raises(EntryError, match=r"holds no output head.* --keep predicted,output-head"):
        OutputHead.from_file(tmp_path / "missing.safetensors")
    path = tmp_path / "output_head.safetensors"
    path.write_bytes(OutputHead(kind="causal", weight=torch.ones(4, 2)).to_file()[:-3])
    with pytest.raises(EntryError, match=r"is damaged .* --overwrite"):
        OutputHead.from_file(path)
    save_file({"weight": torch.ones(4, 2)}, path)
    with pytest.raises(EntryError, match="not an output head"):
        OutputHead.from_file(path)


def _bare(saved, family, folder):
    """Save a model without the head that it was built with."""
    model, whole = saved(family)
    model.base_model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(whole).save_pretrained(folder)
    return model, inspect_backbone(str(folder))


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_checkpoint_without_a_head_is_refused(family, saved, tmp_path):
    what = "masked-language-model head" if family in MASKED else "language-model head"
    with pytest.raises(BackboneError, match=rf"has no {what}: the checkpoint lacks .*--tie input"):
        read_output_head(_bare(saved, family, tmp_path)[1])


def test_a_head_that_is_the_input_embeddings_is_not_missing(saved, tmp_path):
    model, bare = _bare(saved, "llama-tied", tmp_path)
    assert torch.equal(read_output_head(bare).weight, model.get_input_embeddings().weight)


def test_a_head_that_lost_one_tensor_is_refused(saved, tmp_path):
    folder = shutil.copytree(saved("bert")[1], tmp_path / "bert")
    path = folder / "model.safetensors"
    tensors = load_file(path)
    del tensors["cls.predictions.transform.dense.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(BackboneError, match=r"lacks cls\.predictions\.transform\.dense\.weight"):
        read_output_head(inspect_backbone(str(folder)))


def test_logits_that_the_model_bends_are_refused(tmp_path):
    """Gemma 2 caps its logits with a tanh after the projection."""
    extra = {"head_dim": 8, "num_key_value_heads": 4, "final_logit_softcapping": 0.5}
    tokenizer = tiny.tokenizer_of("llama")
    config = AutoConfig.for_model("gemma2", vocab_size=len(tokenizer), **SIZES, **extra)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(BackboneError, match="Gemma2ForCausalLM is of a form"):
        read_output_head(inspect_backbone(str(tmp_path)))


def test_tied_to_input(saved, tiny_folder):
    backbone = load_backbone(inspect_backbone(str(tiny_folder("bert"))), compute_dtype="float32")
    head = backbone.tied_head()
    expected = AutoModel.from_pretrained(tiny_folder("bert")).get_input_embeddings().weight
    assert head.kind == "tied-input" and head.activation is None and head.eps is None
    assert torch.equal(head.weight, expected)
    narrow = load_backbone(inspect_backbone(str(saved("albert")[1])), compute_dtype="float32")
    with pytest.raises(BackboneError, match=r"input embeddings are 16 wide .* hidden states 32"):
        narrow.tied_head()
