"""QLoRA: matrices beside 4 bits, which a model has for the run or for its entry."""

import pytest
import torch
from transformers import AutoModel

from probekit.backbone import placement
from probekit.base.registry import parse
from probekit.errors import BackboneError, OptionError
from probekit.extraction import ExtractOptions, extract
from probekit.features import Location
from probekit.train.live.live_model import open_live
from probekit.train.saved.labelling import predict
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from probekit.tuning import METHODS
from tests import tiny
from tests.tuning.cases import IDS, LENGTHS, predicted

pytest.importorskip("bitsandbytes", reason="the optional extra finetune is not installed")
pytest.importorskip("peft", reason="the optional extra finetune is not installed")
from bitsandbytes.functional import dequantize_4bit, quantize_4bit

WORDS = [sentence.split() for sentence in tiny.SENTENCES]
TEXTS = [(words, ["B" if word[0].isupper() else "O" for word in words]) for words in WORDS]


def extracted(model, cache, **options):
    wanted = ExtractOptions(compute_dtype="float32", dtype="float32", **options)
    splits = {"train": TEXTS, "dev": TEXTS[:4]}
    return extract(model, "mine", examples=splits, cache=cache, options=wanted, device="cpu")[0]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A Llama whose width is one that 4 bits have blocks for."""
    folder = tmp_path_factory.mktemp("llama") / "llama"
    return str(tiny.build("llama", folder, dim=64, layers=2))


@pytest.fixture(scope="module")
def caches(model, tmp_path_factory):
    """The same rows of the plain model, of it in 4 bits and in 8."""
    root = tmp_path_factory.mktemp("caches")
    return {bits: extracted(model, root / str(bits), quantize=bits) for bits in (None, "4bit")}


def live(entry, name="qlora"):
    about, method = entry.manifest.model_info, parse("method", name, METHODS)
    return open_live(entry, about, method, layers=[1, 2], seed=0, batch_tokens=4096)


def test_until_the_first_step_it_is_the_model_in_4_bits(model, caches):
    plain = AutoModel.from_pretrained(model).eval()
    whole = sum(value.numel() for value in plain.parameters())
    with torch.no_grad():
        first = plain(IDS).last_hidden_state
        for module in plain.modules():
            if isinstance(module, torch.nn.Linear):
                few, how = quantize_4bit(module.weight, quant_type="nf4", blocksize=64)
                module.weight.copy_(dequantize_4bit(few, how))
        wanted = plain(IDS, output_hidden_states=True).hidden_states
    for entry in caches.values():
        found = live(entry)
        with torch.no_grad():
            states = found.backbone.layers(IDS, LENGTHS)
        for one, other in zip(states, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        assert (states[-1] - first).abs().max() > 0.01
        values = sum(value.numel() for value in found.tuned.parameters())
        assert found.tuned.n_model == whole + values, "two values of a byte count as two"


def test_after_steps_its_matrices_have_moved_and_nothing_else(caches):
    found = live(caches[None])
    model, tuned = found.backbone.model, found.tuned
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    with torch.no_grad():  # what has run in evaluation takes gradients after that
        first = found.backbone.layers(IDS, LENGTHS)[-1]
    optimizer = torch.optim.Adam(tuned.parameters(), lr=1e-2)
    for _ in range(20):
        optimizer.zero_grad()
        tuned.train()
        found.backbone.layers(IDS, LENGTHS)[-1].square().mean().backward()
        optimizer.step()
    tuned.eval()
    moved = {name for name, value in model.named_parameters() if not value.equal(before[name])}
    assert moved == {name.replace("/", ".") for name, _ in tuned.named_parameters()}
    assert (found.backbone.layers(IDS, LENGTHS)[-1] - first).abs().max() > 1e-3


def test_a_saved_run_says_what_it_scored(model, caches, tmp_path):
    for bits, entry in caches.items():
        cache, folder = tmp_path.parent / entry.path.parents[2], tmp_path / str(bits)
        spec = TrainSpec(
            model=entry.manifest.model if bits else model, task="mine", head="last", epochs=5,
            method="qlora:rank=2", fit="adam",
        )  # fmt: skip
        (record,) = sweep([spec], location=Location(cache=cache), out=folder / "runs.jsonl",
                          predictions=True, save=folder / "head")  # fmt: skip
        assert record.method == "qlora:rank=2" and 0 < record.backbone_share < 0.2
        assert predict(folder / "head", WORDS[:4]) == predicted(record)


def test_8_bits_take_no_gradients_and_4_bits_those_of_qlora(model, caches, tmp_path, monkeypatch):
    with pytest.raises(OptionError, match=r"are in 4bit and cannot be trained.*--method qlora"):
        live(caches["4bit"], "lora")
    with pytest.raises(OptionError, match="are in 8bit and cannot be trained"):
        live(extracted(model, tmp_path, quantize="8bit"))
    monkeypatch.setattr(placement, "find_spec", lambda name: None)
    with pytest.raises(BackboneError, match=r"--method qlora: .* bitsandbytes and accelerate. Run"):
        live(caches[None])


def test_weights_of_a_gguf_file_are_unpacked_and_not_quantized(tmp_path, caplog):
    pytest.importorskip("gguf", reason="the optional extra gguf is not installed")
    from tests.backbone import tiny_gguf

    path = tiny_gguf.write(tmp_path / "tiny.gguf")
    entry = extracted(str(path), tmp_path / "cache")
    with pytest.raises(OptionError, match=r"--method qlora: .* is a GGUF file, whose weights are"):
        live(entry)
    for name in ("full", "lora:rank=2"):
        with caplog.at_level("INFO"):
            found = live(entry, name)
        assert "unpacked to float32, and what is trained is saved in safetensors" in caplog.text
        assert {value.dtype for value in found.tuned.parameters()} == {torch.float32}
        caplog.clear()
