"""A model whose blocks lie in several places: here the host's memory and the disk."""

import gc
import tempfile

import pytest
import torch

from probekit.backbone import inspect_backbone, load_backbone, placement
from probekit.backbone import model as backbone_model
from probekit.base.replacing import is_workshop
from probekit.errors import BackboneError, OptionError
from probekit.extraction import ExtractOptions, ExtractTarget, extract
from probekit.extraction.maintenance import verify_rows
from tests import tiny
from tests.backbone import test_text_towers as towers
from tests.extraction.extracted import all_rows
from tests.pretended_gpu import pretended_gpu

pytest.importorskip("accelerate", reason="the optional extra device-map is not installed")

TEXTS = [(sentence.split(), ["O"] * len(sentence.split())) for sentence in tiny.SENTENCES]
ENDS = {"embed_tokens": "disk", "rotary_emb": "cpu", "layers.0": "cpu", "norm": "disk"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(tiny.build("llama", tmp_path_factory.mktemp("llama") / "llama", layers=2))


def extracted(model, cache, **how):
    wanted = ExtractOptions(compute_dtype="float32", dtype="float32")
    return extract(model, "mine", examples=TEXTS, cache=cache, options=wanted, **how)[0]


@pytest.fixture(scope="module")
def plain(model, tmp_path_factory):
    return extracted(model, tmp_path_factory.mktemp("plain"), device="cpu")


def computed(entry):
    (way,) = entry.manifest.extra["computed"]
    return way["device"]


@pytest.mark.parametrize("device_map", ["auto", {"": "cpu"}])
def test_a_layout_on_one_device_is_that_device(model, plain, device_map, tmp_path):
    entry = extracted(model, tmp_path, device_map=device_map)
    assert entry.manifest.key == plain.manifest.key and computed(entry) == computed(plain) == "cpu"
    assert torch.equal(all_rows(entry), all_rows(plain))


def test_parts_on_the_disk_give_the_same_rows_under_the_same_key(model, plain, tmp_path):
    places = {**ENDS, "layers.1": "disk"}
    entry = extracted(model, tmp_path, device_map=places)
    assert entry.manifest.key == plain.manifest.key
    assert computed(entry) == "disk (3), cpu (2)"
    torch.testing.assert_close(all_rows(entry), all_rows(plain), rtol=1e-5, atol=1e-5)
    assert verify_rows(plain, 5, device_map=places).passed
    assert entry.manifest.final_norm
    kept, expected = (
        {file.name: file.read_bytes() for file in (one.path / "backbone").iterdir()}
        for one in (entry, plain)
    )
    assert kept == expected


def test_the_folder_of_what_is_on_the_disk_goes_with_the_model(model, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    backbone = load_backbone(
        inspect_backbone(model), compute_dtype="float32", device_map={**ENDS, "layers.1": "disk"}
    )
    (folder,) = tmp_path.iterdir()
    assert is_workshop(folder.name)  # so the next one removes what a kill leaves
    expected = load_backbone(inspect_backbone(model), compute_dtype="float32").tied_head()
    assert torch.equal(backbone.tied_head().weight, expected.weight)
    del backbone
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_states_are_gathered_from_where_their_blocks_are(model, monkeypatch):
    run = backbone_model.hidden_states

    def on_two_devices(*args, **options):
        first, *others = run(*args, **options)
        return [first.cpu(), *others]

    with pretended_gpu(monkeypatch) as gpu:
        inspection = inspect_backbone(model)
        backbone = load_backbone(inspection, device=str(gpu), compute_dtype="float32")
        monkeypatch.setattr(backbone_model, "hidden_states", on_two_devices)
        states = backbone.layers(torch.arange(9, 17)[None], torch.tensor([8]))
        assert {state.device for state in states} == {gpu}


def test_the_text_model_of_several_lies_where_the_whole_was_laid_out(tmp_path):
    towers.build("llava").save_pretrained(tmp_path)
    towers.TOKENIZER.save_pretrained(tmp_path)
    places = {"vision_tower": "cpu", "multi_modal_projector": "cpu", "language_model": "disk"}
    ids, lengths = torch.arange(9, 17)[None], torch.tensor([8])
    inspection = inspect_backbone(str(tmp_path))
    spread = load_backbone(inspection, compute_dtype="float32", device_map=places)
    plain = load_backbone(inspection, compute_dtype="float32")
    assert "disk" in spread.computed_on
    for one, other in zip(spread.layers(ids, lengths), plain.layers(ids, lengths), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_a_layout_in_words():
    layout = {"embed": 0, "layers.0": 0, "layers.1": 1, "layers.2": "cpu", "norm": "cpu"}
    assert placement.describe_layout(layout) == "cuda:0 (2), cuda:1 (1), cpu (2)"
    command = ExtractTarget(model="m", task="t", device_map="auto").command(ExtractOptions())
    assert command == "probekit extract m t --device-map auto"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"device_map": "cuda"},
            "unknown --device-map 'cuda'. Choose from: auto, balanced, balanced_low_0, sequential",
        ),
        ({"device_map": {"": "nowhere"}}, "unknown --device 'nowhere'"),
        ({"device_map": {"": 99}}, "--device 'cuda:99': . CUDA devices are available"),
        ({"device_map": "auto", "device": "cpu"}, "--device cpu were both given"),
        ({"device_map": "auto", "workers": 2}, "each of --workers 2 would take all devices"),
        ({"device_map": "auto", "given": object()}, "a model in memory stays on its device"),
    ],
)
def test_what_cannot_be_laid_out(how, message):
    with pytest.raises(OptionError, match=message):
        ExtractTarget(model="m", task="t", **how)


def test_without_accelerate_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(placement, "find_spec", lambda name: None)
    with pytest.raises(BackboneError, match=r"the package accelerate. Run `pip .*\[device-map\]"):
        ExtractTarget(model="m", task="t", device_map="auto")
