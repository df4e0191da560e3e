"""Folders with random models of any family, whose every weight matters, and a BERT tokenizer."""

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel

from tests import tiny

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
OPTIONS = {
    "fnet": {},
    "mobilebert": {
        "embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16,
    },
    "convbert": {"embedding_size": 32},
    "nystromformer": {"num_landmarks": 8, "segment_means_seq_len": 8},
    "big_bird": {"num_random_blocks": 1},
    "llama": {"num_key_value_heads": 2},
    "gpt2": {"n_positions": 64},
    "bert": {},
}  # fmt: skip


def save_family(family: str, folder: Path, **options: object) -> str:
    """Save a random model; return its folder as users write it.

    Args:
        family: one of ``OPTIONS``.
        folder: created when it does not exist.
        options: more entries of its configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tiny.build_tokenizer("bert")
    given = {**SIZES, "vocab_size": len(tokenizer), **OPTIONS[family], **options}
    tokenizer.model_max_length = given["max_position_embeddings"]
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModel.from_config(AutoConfig.for_model(family, **given))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape), alpha=0.15)
    assert sum(parameter.numel() for parameter in model.parameters()) < tiny.MAX_PARAMETERS
    model.save_pretrained(folder)
    return str(folder)
