"""What a method trains, counted on a model and by the equation of its paper."""

from functools import cache
from importlib.util import find_spec

import pytest
import torch
from transformers import BertConfig, BertModel

from probekit.base.registry import parse
from probekit.tuning import METHODS

D, M, L, N = 32, 5, 3, 7
"""Width, bottleneck, blocks and virtual tokens of the small model."""
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
PRINTED_MODEL = 340e6
"""Values of BERT-large (Devlin et al. 2019): the paper's shares are of these, not of its 335 M."""


def bert(**sizes):
    return BertModel(BertConfig(**sizes), add_pooling_layer=False)


@cache
def trained(name, large):
    """Return the number of values that a method trains, by the last part of their names."""
    with torch.device("meta" if large else "cpu"):
        small = {"hidden_size": D, "num_hidden_layers": L, "num_attention_heads": 4}
        sizes = LARGE | {"intermediate_size": 4096} if large else small | {"intermediate_size": 64}
        model = bert(**sizes, **({} if large else {"vocab_size": 50}))
        model.requires_grad_(False)
    values = parse("method", name, METHODS).attach(model, torch.Generator().manual_seed(0))
    assert all(value.requires_grad for value in values.values())
    return {name: value.numel() for name, value in values.items()}


def total(counts, part=""):
    return sum(count for name, count in counts.items() if part in name)


NORMS = 2 * D * (2 * L + 1)
OWN = 50 * D + 512 * D + 2 * D + L * (4 * (D * D + D) + 2 * 64 * D + 64 + D) + NORMS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("full", OWN), ("bitfit", L * (7 * D + 64) + D), ("lora:rank=4", L * 2 * 4 * (D + D)),
        ("qlora:rank=4", L * 4 * (4 * (D + D) + 2 * (D + 64))),
        (f"adapter:size={M}", 2 * L * (2 * M * D + D + M) + NORMS),
        (f"adapter:size={M}:after=feed-forward", L * (2 * M * D + D + M) + NORMS),
        (f"prompt:length={N}", N * D), (f"prefix:length={N}", 2 * L * N * D),
        (f"prefix:length={N}:of=states", L * N * D), ("diff-prune", 2 * OWN), ("frozen", 0),
    ],
)  # fmt: skip
def test_by_the_equations_of_the_papers(name, expected):
    if name.partition(":")[0] in ("lora", "qlora", "prompt", "prefix") and not find_spec("peft"):
        pytest.skip("the optional extra finetune is not installed")
    assert total(trained(name, False)) == expected


def test_bert_large_as_the_attention_fusion_paper_prints_it():
    biases = trained("bitfit", True)  # 270 K, 0.08 %: the norm of the embeddings has 1,024 more
    assert total(biases) - 1024 == 24 * (7 * 1024 + 4096) == 270_336
    assert round(100 * total(biases) / PRINTED_MODEL, 2) == 0.08
    # 12.6 million: num_layers (2 m d + m + d) counts one adapter in a block, and no norms
    one = trained("adapter:size=256:after=feed-forward", True)
    assert total(one, "adapter") == 24 * (2 * 1024 * 256 + 1024 + 256) == 12_613_632
    assert total(one) - total(one, "adapter") == 2 * 1024 * (2 * 24 + 1)
    assert total(trained("adapter:size=256", True), "adapter") == 2 * 12_613_632
