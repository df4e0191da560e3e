"""The forward pass of every family of the tests on a GPU that is not there, and its rows."""

import pytest
import torch
from transformers import AutoConfig, AutoModel

from probekit.backbone.forward import hidden_states
from probekit.data.batches import Picks, pool
from probekit.errors import BackboneError
from tests.fake_gpu import CUDA_IS_REAL, fake_gpu, gpu, on_fake_gpu
from tests.random_models import OPTIONS, SIZES

HEADS = {"num_key_value_heads": 2, "head_dim": 8}
FAMILIES = {
    **{name: OPTIONS[name] for name in ("fnet", "big_bird", "llama", "gpt2", "bert")},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_heads": 4},
    "gemma2": HEADS,
    "modernbert": {"cls_token_id": 1, "sep_token_id": 2},
}
INT = torch.int64
pytestmark = CUDA_IS_REAL


def tiny_model(family):
    sizes = {**SIZES, "vocab_size": 200, **FAMILIES[family]}
    model = AutoModel.from_config(AutoConfig.for_model(family, **sizes)).eval()
    return model.get_encoder() if model.config.is_encoder_decoder else model


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_of_a_family(family):
    model = tiny_model(family)
    with fake_gpu():
        there, ids = on_fake_gpu(model), gpu(2, 8, dtype=INT)
        for mask in (None, gpu(2, 8, dtype=INT)):
            states = hidden_states(family, there, ids, mask)
            assert len(states) == 4 and {state.device.type for state in states} == {"cuda"}


@pytest.mark.parametrize("buffer", ["cuda", "cpu"])
@pytest.mark.parametrize("average", [False, True])
def test_rows_of_a_batch(buffer, average):
    with fake_gpu():
        counts = torch.ones(3, dtype=INT) if average else None
        source = torch.zeros(3, dtype=INT)
        picks = Picks(source=source, target=torch.zeros(3, dtype=INT), counts=counts)
        out = torch.zeros(5, 32, device=buffer)
        pool(gpu(2, 8, 32), picks.to(torch.device("cuda:0"), out.device), out)


def test_a_tensor_left_behind_is_refused():
    model = tiny_model("llama")
    with fake_gpu():
        there = on_fake_gpu(model)
        there.norm.weight = model.norm._parameters["weight"] = torch.nn.Parameter(torch.ones(32))
        with pytest.raises(BackboneError, match="device"):
            hidden_states("llama", there, gpu(2, 8, dtype=INT))
