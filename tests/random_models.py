"""Tiny random models of any family, saved with a tokenizer that fits."""

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel

from tests import tiny

_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}


def save_random(family, folder, *, tokenizer="bert", model_class=None, **options) -> Path:
    """Save a model whose every parameter matters, and a tokenizer of a kind; return ``folder``.

    Args:
        family: ``model_type``.
        folder: created when it does not exist.
        tokenizer: one of ``tiny.KINDS``.
        model_class: what to save; ``AutoModel``'s, if None.
        options: of the configuration; None leaves one out of the common sizes.
    """
    vocabulary = tiny.tokenizer_of(tokenizer)
    given = {**_SIZES, "vocab_size": len(vocabulary), **options}
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
