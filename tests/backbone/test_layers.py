"""Running a backbone: equality with transformers, padding, batches, wrong input."""

import logging
import os

import pytest
import torch
from transformers import AutoModel

from probekit.backbone import inspect_backbone, load_backbone, loading
from probekit.base.machine import Heap
from probekit.errors import BackboneError, EntryError, OptionError, UnknownNameError
from probekit.probe.model_parts import FinalNorm

KINDS = ("bert", "roberta", "gpt2", "llama", "deberta-v2")
SENTENCES = tuple(
    text.split()
    for text in (
        "EU rejects German call .",
        "Peter Blackburn",
        "The village choir of Washington won 3 - 1 against Jordan on Sunday night !",
    )
)


@pytest.fixture(scope="module")
def loaded(tiny_folder):
    cache = {}

    def load(kind, dtype="float32"):
        if (kind, dtype) not in cache:
            inspection = inspect_backbone(str(tiny_folder(kind)))
            cache[kind, dtype] = load_backbone(inspection, compute_dtype=dtype)
        return cache[kind, dtype]

    return load


def _encode(backbone, sentences=SENTENCES):
    encoded = [
        backbone.inspection.tokenizer(words, is_split_into_words=True)["input_ids"]
        for words in sentences
    ]
    return [torch.tensor(ids) for ids in encoded]


def _pad(rows, pad_id):
    lengths = torch.tensor([len(row) for row in rows])
    batch = torch.full((len(rows), int(lengths.max())), pad_id)
    for target, row in zip(batch, rows, strict=True):
        target[: len(row)] = row
    return batch, lengths


@pytest.mark.parametrize(
    ("kind", "dtype"), [*((kind, "float32") for kind in KINDS), ("llama", "bfloat16")]
)
def test_layers_are_hidden_states_bit_for_bit(kind, dtype, loaded, tiny_folder):
    backbone = loaded(kind, dtype)
    reference = AutoModel.from_pretrained(tiny_folder(kind), dtype=getattr(torch, dtype)).eval()
    batch, lengths = _pad(_encode(backbone), backbone.inspection.pad_id)
    mask = (torch.arange(batch.shape[1]) < lengths[:, None]).long()
    with torch.no_grad():
        padded = reference(batch, attention_mask=mask, output_hidden_states=True)
        whole = reference(batch[2:], attention_mask=mask[2:], output_hidden_states=True)
    for ids, sizes, expected in ((batch, lengths, padded), (batch[2:], lengths[2:], whole)):
        found = backbone.layers(ids, sizes)
        assert len(found) == backbone.info.n_blocks + 1 == len(expected.hidden_states)
        for layer, state in zip(found, expected.hidden_states, strict=True):
            assert layer.dtype == getattr(torch, dtype)
            assert torch.equal(layer, state)


def test_keep_gives_exactly_the_layers_asked_for(loaded):
    backbone = loaded("bert")
    batch, lengths = _pad(_encode(backbone), backbone.inspection.pad_id)
    every = backbone.layers(batch, lengths)
    found = backbone.layers(batch, lengths, keep=(3, 0, 0))
    assert len(found) == 3
    for state, layer in zip(found, (3, 0, 0), strict=True):
        assert torch.equal(state, every[layer])


@pytest.mark.parametrize("keep", [(4,), (-1,), (0, 99), ()])
def test_a_layer_that_does_not_exist_is_refused(keep, loaded):
    backbone = loaded("bert")
    with pytest.raises(OptionError, match=r"layers .* has layers 0 \(embeddings\) to 3"):
        backbone.layers(torch.tensor([[5, 6]]), torch.tensor([2]), keep=keep)


def test_a_token_id_without_embedding_is_refused(loaded):
    backbone = loaded("bert")
    ids = torch.tensor([[5, backbone.info.vocab_size]])
    with pytest.raises(BackboneError, match="tokenizer belongs to another model"):
        backbone.layers(ids, torch.tensor([2]))


def test_loading_says_nothing(tiny_folder, capfd):
    inspection = inspect_backbone(str(tiny_folder("bert")))
    before = logging.getLogger("transformers").level
    load_backbone(inspection, compute_dtype="float32")
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("transformers").level == before


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_final_norm_is_read_back_from_its_file(kind, loaded, tmp_path):
    norm, rows = loaded(kind).final_norm, torch.randn(3, loaded(kind).info.dim)
    assert norm.kind == ("layernorm" if kind == "gpt2" else "rmsnorm")
    assert loaded("bert").final_norm is None and not loaded("bert").info.final_norm
    assert FinalNorm.from_file(tmp_path / "norm.safetensors") is None
    (tmp_path / "norm.safetensors").write_bytes(norm.to_file())
    again = FinalNorm.from_file(tmp_path / "norm.safetensors")
    assert (again.kind, again.eps) == (norm.kind, norm.eps)
    assert torch.equal(again(rows), norm(rows))
    (tmp_path / "norm.safetensors").write_bytes(norm.to_file()[:-3])
    with pytest.raises(EntryError, match=r"cannot be read .* --overwrite"):
        FinalNorm.from_file(tmp_path / "norm.safetensors")


@pytest.mark.parametrize(
    ("dtype", "device", "text"),
    [
        ("float64", "cpu", "unknown --compute-dtype 'float64'"),
        ("auto", "gpu", "unknown --device 'gpu'"),
        ("auto", "cuda:99", "CUDA devices are available"),
    ],
)
def test_wrong_dtype_or_device(dtype, device, text, tiny_folder):
    inspection = inspect_backbone(str(tiny_folder("bert")))
    with pytest.raises((OptionError, UnknownNameError), match=text):
        load_backbone(inspection, device=device, compute_dtype=dtype)


@pytest.mark.parametrize("native", [True, False])
def test_auto_is_bfloat16_where_it_is_native(native, monkeypatch):
    monkeypatch.setattr(loading, "native_bfloat16", lambda device: native)
    expected = torch.bfloat16 if native else torch.float32
    assert loading.resolve_compute_dtype("auto") == expected


def test_memory_that_batches_leave_free_is_looked_for_before_each(loaded, monkeypatch):
    calls, backbone = [], loaded("bert")  # opening it runs batches too
    monkeypatch.setattr(Heap, "trim", lambda self: calls.append(self))
    for ids in _encode(backbone):
        backbone.layers(ids[None], torch.tensor([len(ids)]))
    assert len(calls) == len(SENTENCES) and len(set(map(id, calls))) == 1


def test_a_loaded_backbone_keeps_few_kernels_in_memory(tiny_folder, monkeypatch):
    setting = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    monkeypatch.setenv(setting, "")  # so that it is put back
    monkeypatch.delenv(setting)
    load_backbone(inspect_backbone(str(tiny_folder("bert"))))
    assert int(os.environ[setting]) < 1024
