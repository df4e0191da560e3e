"""Tiny random models of any family, every weight of which matters, saved with a tokenizer."""

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel

from tests import tiny

SIZES = {
    "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
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
"""What the configuration of families with ways of their own needs."""


def save_random(family, folder, *, tokenizer="bert", model_class=None, **options) -> Path:
    """Save a model and a tokenizer; return ``folder``.

    Args:
        family: ``model_type``.
        folder: created when it does not exist.
        tokenizer: one of ``tiny.KINDS``, or a tokenizer.
        model_class: what to save; ``AutoModel``'s, if None.
        options: of the configuration; None leaves one out of the common sizes.
    """
    vocabulary = tiny.tokenizer_of(tokenizer) if isinstance(tokenizer, str) else tokenizer
    given = {**SIZES, "vocab_size": len(vocabulary), **options}
    config = AutoConfig.for_model(family, **{k: v for k, v in given.items() if v is not None})
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = model_class(config) if model_class else AutoModel.from_config(config)
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.15)
    assert sum(parameter.numel() for parameter in model.parameters()) < tiny.MAX_PARAMETERS
    model.save_pretrained(folder)
    vocabulary.save_pretrained(folder)
    return folder


def save_family(family, folder, **options) -> str:
    """Save a model of one of ``OPTIONS``, whose tokenizer knows its length; return the folder."""
    given = {"bos_token_id": 1, "eos_token_id": 2, **OPTIONS[family], **options}
    tokenizer = tiny.build_tokenizer("bert")
    tokenizer.model_max_length = (SIZES | given)["max_position_embeddings"]
    return str(save_random(family, folder, tokenizer=tokenizer, **given))
