"""Linear layers in 8 and 4 bits: refused where they make no sense, and run on the CPU for real."""

from dataclasses import replace
from importlib.util import find_spec

import pytest

from probekit.backbone import inspect_backbone, load_backbone, miniature, padding, placement
from probekit.data.batches import PADDED, Batching
from probekit.errors import BackboneError, OptionError, UnknownNameError
from probekit.extraction import ExtractOptions, extract
from probekit.extraction.maintenance import verify_rows
from probekit.features import Location
from probekit.train.saved.labelling import predict
from probekit.train.sweeps.run import fit
from probekit.train.sweeps.specs import TrainSpec
from tests import tiny
from tests.extraction.extracted import all_rows

needs_bitsandbytes = pytest.mark.skipif(
    find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed (probekit[quantize])"
)
WORDS = [sentence.split() for sentence in tiny.SENTENCES]
TEXTS = [(words, ["B" if word[0].isupper() else "O" for word in words]) for words in WORDS]


def extracted(model, cache, **options):
    wanted = ExtractOptions(**{"compute_dtype": "float32", "dtype": "float32"} | options)
    splits = {"train": TEXTS, "dev": TEXTS[:4]}
    return extract(model, "mine", examples=splits, cache=cache, options=wanted, device="cpu")[0]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A Llama whose width is one that 4 bits have blocks for."""
    folder = tmp_path_factory.mktemp("llama") / "llama"
    return str(tiny.build("llama", folder, dim=64, layers=2))


@pytest.fixture(scope="module")
def plain(model, tmp_path_factory):
    return extracted(model, tmp_path_factory.mktemp("plain"))


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(placement, "find_spec", lambda name: object())


@needs_bitsandbytes
@pytest.mark.parametrize(("quantize", "least", "most"), [("8bit", 1e-3, 0.03), ("4bit", 0.03, 0.3)])
def test_rows_are_those_of_few_bits_in_an_entry_of_its_own(
    model, plain, quantize, least, most, tmp_path
):
    entry = extracted(model, tmp_path, quantize=quantize)
    assert entry.manifest.key != plain.manifest.key and entry.manifest.model == f"llama-{quantize}"
    assert entry.manifest.request["model"]["quantize"] == quantize
    expected = all_rows(plain)
    error = (all_rows(entry) - expected).norm(dim=-1) / expected.norm(dim=-1)
    assert float(error[:, 0].max()) == 0 and least < float(error[:, 2].median()) < most
    assert verify_rows(entry, 20).passed  # loads it in few bits again
    spec = TrainSpec(model=entry.manifest.model, task="mine", head="last", epochs=1)
    fit(spec, location=Location(cache=tmp_path), device="cpu", save=tmp_path / "head")
    assert len(predict(tmp_path / "head", WORDS, device="cpu")) == len(WORDS)


@needs_bitsandbytes
def test_the_padding_proof_finds_that_8_bits_mix_the_rows_of_a_batch(model, monkeypatch):
    alone = Batching(padded_to=0, alone=True)
    for quantize, expected in (("8bit", alone), ("4bit", PADDED)):
        found = load_backbone(inspect_backbone(model, quantize=quantize), compute_dtype="float32")
        assert found.batching == expected
    monkeypatch.setattr(padding, "_found", {})
    # no channel is an outlier, so that none mixes
    monkeypatch.setattr(miniature, "STAND_IN_OUTLIER", 100.0)
    found = load_backbone(inspect_backbone(model, quantize="8bit"), compute_dtype="float32")
    assert found.batching == PADDED


def test_bits_are_in_the_key_and_a_plain_key_is_what_it_was(model, installed):
    plain, few = (inspect_backbone(model, quantize=bits).info.identity for bits in (None, "4bit"))
    assert "quantize" not in plain.to_json() and few == replace(plain, quantize="4bit")
    assert plain.differences(few) == ["quantize None, now 4bit"]


def test_a_model_in_memory_is_not_quantized(model, tmp_path, installed):
    from transformers import AutoModel, AutoTokenizer

    given = AutoModel.from_pretrained(model).eval()
    tokenizer = AutoTokenizer.from_pretrained(model, add_prefix_space=True)
    with pytest.raises(OptionError, match="--quantize 4bit: model 'mine' is in memory"):
        extract(
            given, "texts", tokenizer=tokenizer, name="mine", examples=TEXTS, cache=tmp_path,
            options=ExtractOptions(quantize="4bit"),
        )  # fmt: skip


def test_a_gguf_file_is_not_quantized(tmp_path, installed):
    pytest.importorskip("gguf", reason="the optional extra gguf is not installed")
    from tests.backbone import tiny_gguf

    path = tiny_gguf.write(tmp_path / "tiny.gguf")
    with pytest.raises(OptionError, match=r"tiny.gguf' is a GGUF file, whose weights are unpacked"):
        inspect_backbone(str(path), quantize="8bit")


def test_what_was_saved_quantized_is_not_quantized_again(tmp_path, installed):
    tiny.build("bert", tmp_path)
    config = (tmp_path / "config.json").read_text()
    said = '{"quantization_config": {"quant_method": "gptq", "bits": 4},'
    (tmp_path / "config.json").write_text(config.replace("{", said, 1))
    with pytest.raises(OptionError, match=r"was saved quantized \(gptq\). Leave it out"):
        inspect_backbone(str(tmp_path), quantize="8bit")


def test_without_bitsandbytes_it_says_what_to_install(model, monkeypatch):
    monkeypatch.setattr(placement, "find_spec", lambda name: None)
    with pytest.raises(BackboneError, match=r"bitsandbytes and accelerate. Run .*\[quantize\]"):
        inspect_backbone(model, quantize="8bit")


def test_other_numbers_of_bits():
    with pytest.raises(UnknownNameError, match=r"'2bit'\. .*Choose from: 4bit, 8bit"):
        ExtractOptions(quantize="2bit")
