"""Blocks over several places, and linear layers in few bits: on the CPU, where both run for real."""

import pytest
import torch

from probekit.backbone import inspect_backbone, load_backbone
from probekit.backbone.placement import describe_layout
from probekit.errors import BackboneError, OptionError
from probekit.extraction import ExtractOptions, extract
from tests import tiny
from tests.extraction.extracted import all_rows

SPREAD = {
    "embeddings": "cpu",
    "encoder.layer.0": "disk",
    "encoder.layer.1": "cpu",
}
TEXTS = [(sentence.split(), ["O"] * len(sentence.split())) for sentence in tiny.SENTENCES]
PLAIN = {"compute_dtype": "float32", "dtype": "float32"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A BERT whose width is one that 4 bits have blocks for."""
    return str(tiny.build("bert", tmp_path_factory.mktemp("bert") / "bert", dim=64, layers=2))


def extracted(model, cache, options=None, **how):
    wanted = ExtractOptions(**PLAIN | (options or {}))
    return extract(model, "mine", examples=TEXTS, cache=cache, options=wanted, **how)[0]


@pytest.fixture(scope="module")
def plain(model, tmp_path_factory):
    return extracted(model, tmp_path_factory.mktemp("plain"), device="cpu")


def computed(entry):
    (way,) = entry.manifest.extra["computed"]
    return way["device"]


@pytest.mark.parametrize("device_map", ["auto", {"": "cpu"}])
def test_all_blocks_on_the_cpu_are_the_same_bytes(model, plain, device_map, tmp_path):
    entry = extracted(model, tmp_path, device_map=device_map)
    assert entry.manifest.key == plain.manifest.key and computed(entry) == "cpu"
    assert torch.equal(all_rows(entry), all_rows(plain))


def test_a_block_that_lies_on_the_disk(model, plain, tmp_path):
    entry = extracted(model, tmp_path, device_map=SPREAD)
    assert entry.manifest.key == plain.manifest.key
    assert computed(entry) == "cpu (embeddings), disk (encoder.layer.0), cpu (encoder.layer.1)"
    torch.testing.assert_close(all_rows(entry), all_rows(plain), rtol=1e-4, atol=1e-4)
