"""Packed linear layers: the same numbers, whatever the family does with its weights."""

import platform

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel
from transformers.pytorch_utils import Conv1D

from probekit.backbone import inspect_backbone, load_backbone
from probekit.backbone.placement import PackedLinear, pack_linear_layers
from tests.probe.blocks.families import CONFIGS, tiny_model

pytestmark = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64")
    or not torch.backends.mkldnn.is_available(),
    reason="linear layers are packed on x86 processors",
)
needs_bfloat16 = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    reason="needs oneDNN's products in bfloat16",
)
DTYPES = [torch.float32, pytest.param(torch.bfloat16, marks=needs_bfloat16)]


def _layer(kind, rows, columns, dtype):
    layer = Conv1D(columns, rows) if kind == "conv" else nn.Linear(rows, columns, kind == "linear")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    return layer.to(dtype).requires_grad_(False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["linear", "no bias", "conv"])
@pytest.mark.parametrize("shape", [(50, 33), (7, 1), (768, 384)])
def test_a_layer_computes_what_it_did(kind, shape, dtype):
    torch.manual_seed(0)
    layer = _layer(kind, *shape, dtype)
    packed = PackedLinear(layer)
    assert (packed.in_features, packed.out_features) == shape
    for size in [(4,), (1,), (0,), (2, 3), (2, 2, 3), (300,)]:
        x = torch.randn(*size, shape[0]).to(dtype)
        found, expected = packed(x), layer(x)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        weight = layer.weight if kind == "conv" else layer.weight.t()
        exact = x.double() @ weight.double() + (0 if layer.bias is None else layer.bias)
        rounding = 2**-8 if dtype == torch.bfloat16 else 1e-5  # of the result; sums are of float32
        torch.testing.assert_close(found.double(), exact, rtol=rounding, atol=1e-4)
    assert torch.equal(packed.weight, layer.weight), "it can be read back"


@pytest.mark.parametrize("family", ["bert", "deberta-v2", "falcon", "gpt2", "llama", "t5", "mamba"])
def test_every_family_computes_what_it_did(family):
    """Falcon has a class of its own, Mamba multiplies by the weight of a layer, T5 asks for it."""
    model = _model(family)
    ids = torch.randint(4, 60, (3, 7), generator=torch.Generator().manual_seed(1))
    before = model(input_ids=ids, output_hidden_states=True).hidden_states
    pack_linear_layers(model)
    after = model(input_ids=ids, output_hidden_states=True).hidden_states
    packed = any(isinstance(module, PackedLinear) for module in model.modules())
    assert packed == (family != "falcon")
    assert not any(type(module) in (nn.Linear, Conv1D) for module in model.modules())
    assert len(before) == len(after) > 2
    for expected, found in zip(before, after, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def _model(family):
    if family in CONFIGS:
        return tiny_model(family)
    sizes = {"vocab_size": 60, "num_hidden_layers": 3, "num_layers": 3, "hidden_size": 32}
    config = AutoConfig.for_model(family, **sizes, d_model=32, d_kv=8, num_heads=4, d_ff=64)
    torch.manual_seed(0)
    model = AutoModel.from_config(config).eval().requires_grad_(False)
    return model.get_encoder() if family == "t5" else model


def test_other_layers_stay(monkeypatch):
    class Special(nn.Linear):
        """May do more than its base class."""

    def model():
        return nn.Sequential(
            nn.Linear(4, 4), Special(4, 4), nn.Linear(4, 4).double(), nn.Linear(4, 4).half()
        )

    one = model()
    pack_linear_layers(one)
    assert [type(layer) for layer in one] == [PackedLinear, Special, nn.Linear, nn.Linear]
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    other = model()
    pack_linear_layers(other)
    assert type(other[0]) is nn.Linear


def test_a_backbone_on_a_cpu_is_packed(tiny_folder):
    inspection = inspect_backbone(str(tiny_folder("gpt2")))
    found = [type(m) for m in load_backbone(inspection, compute_dtype="float32").model.modules()]
    assert found.count(PackedLinear) == 4 * inspection.info.n_blocks
    assert Conv1D not in found and nn.Linear not in found
