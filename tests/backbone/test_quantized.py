"""Linear layers in 8 and 4 bits: refused where they make no sense, and run on the CPU for real."""

from importlib.util import find_spec

import pytest
import torch

from probekit.backbone import inspect_backbone, load_backbone
from probekit.backbone.quantized import quantization
from probekit.errors import BackboneError, OptionError
from probekit.extraction import ExtractOptions, extract
from probekit.extraction.maintenance.row_errors import verify_rows
from tests import tiny
from tests.backbone.tiny_gguf import *
from tests.extraction.extracted import all_rows

needs_bitsandbytes = pytest.mark.skipif(
    find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed (probekit[quantize])"
)
TEXTS = [(sentence.split(), ["O"] * len(sentence.split())) for sentence in tiny.SENTENCES]
PLAIN = {"compute_dtype": "float32", "dtype": "float32"}


def extracted(model, cache, **options):
    wanted = ExtractOptions(**PLAIN | options)
    how = {"examples": TEXTS, "cache": cache, "options": wanted, "device": "cpu"}
    return extract(model, "mine", **how)[0]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A BERT whose width is one that 4 bits have blocks for."""
    return str(tiny.build("bert", tmp_path_factory.mktemp("bert") / "bert", dim=64, layers=2))


@needs_bitsandbytes
@pytest.mark.parametrize(("quantize", "off"), [("8bit", (0.001, 0.05)), ("4bit", (0.02, 0.3))])
@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_rows(model, kind, quantize, off, tmp_path):
    if kind != "bert":
        model = str(tiny.build(kind, tmp_path / kind, dim=64, layers=2))
    plain = extracted(model, tmp_path)
    entry = extracted(model, tmp_path, quantize=quantize)
    print(entry.manifest.extra, entry.manifest.model, entry.path)
    a,b=all_rows(entry),all_rows(plain)
    print(((a-b).norm(dim=-1)/b.norm(dim=-1)).amax(0))
    print(verify_rows(entry,5))
