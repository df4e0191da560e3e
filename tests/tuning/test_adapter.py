"""Bottleneck adapters: where they are, what they add, and what is trained beside them."""

import pytest
import torch
from torch.nn import functional
from transformers import AutoModel

from probekit.errors import OptionError
from probekit.tuning.adapter import Adapter, Bottleneck
from tests import tiny
from tests.random_models import save_random
from tests.tuning.cases import IDS, LENGTHS, attached, learning

OTHERS = {
    "distilbert": {
        "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "hidden_size": None,
        "num_hidden_layers": None, "num_attention_heads": None, "intermediate_size": None,
    },
    "modernbert": {}, "bloom": {}, "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
}  # fmt: skip


def adapted(folder, name="adapter:size=4"):
    backbone = learning(folder)
    return backbone, attached(name, backbone.model)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_families_have_two_in_a_block_that_change_nothing_at_first(kind, tmp_path):
    folder = save_random(kind, tmp_path, **OTHERS[kind])
    backbone, values = adapted(folder)
    adapters = [one for one in backbone.model.modules() if isinstance(one, Bottleneck)]
    assert len(adapters) == 2 * 3 and sum(".adapter." in name for name in values) == 4 * 2 * 3
    with torch.no_grad():
        before, after = (one.layers(IDS, LENGTHS) for one in (learning(folder), backbone))
        assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))
        for adapter in adapters:
            adapter.up_bias += torch.arange(32)
        moved = backbone.layers(IDS, LENGTHS)
    assert torch.equal(moved[0], after[0]) and (moved[1] != after[1]).any(-1).all()


def test_a_block_of_bert_by_hand(tmp_path):
    tiny.build("bert", tmp_path)
    backbone, values = adapted(tmp_path)
    with torch.no_grad():
        for value in values.values():
            value += 0.1 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1))
        first, second = backbone.layers(IDS, LENGTHS, [0, 1])
        block = backbone.model.encoder.layer[0]

        def put_through(adapter, h):
            inner = functional.gelu(h @ adapter.down.T + adapter.down_bias)
            return h + inner @ adapter.up.T + adapter.up_bias

        seen = block.attention.self(first)[0]
        out, own = block.attention.output, block.attention.output.dropout.adapter
        middle = out.LayerNorm(put_through(own, out.dense(seen)) + first)
        fed = block.output.dense(block.intermediate(middle))
        last = block.output.LayerNorm(put_through(block.output.dropout.adapter, fed) + middle)
    torch.testing.assert_close(second, last, rtol=1e-5, atol=1e-6)
    assert {name for name in values if "LayerNorm" in name} == {
        name for name, _ in AutoModel.from_pretrained(tmp_path).named_parameters()
        if "LayerNorm" in name
    }  # fmt: skip


def test_one_in_a_block_and_where_a_family_ends_its_layers_must_be_known(tmp_path):
    _, values = adapted(tiny.build("bert", tmp_path), "adapter:size=4:after=feed-forward")
    places = {name.partition(".adapter.")[0] for name in values if ".adapter." in name}
    assert places == {f"encoder.layer.{block}.output.dropout" for block in range(3)}
    with pytest.raises(OptionError, match=r"blocks of AlbertModel\. Choose another"):
        adapted(save_random("albert", tmp_path / "albert", embedding_size=16))
    with pytest.raises(OptionError, match="size must be at least 1; found 0"):
        Adapter(size=0)
