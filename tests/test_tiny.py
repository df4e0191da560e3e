"""The tiny models that other tests stand on load with plain ``from_pretrained``."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from tests import tiny


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_model_and_tokenizer_load(kind: str, tmp_path: Path) -> None:
    folder = tiny.build(kind, tmp_path / kind, layers=2, dim=16)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.is_fast
    assert tokenizer.model_max_length == 64
    model = AutoModel.from_pretrained(folder)
    part = model.get_encoder() if kind == "t5" else model
    ids = torch.tensor([tokenizer("EU rejects German call")["input_ids"]])
    states = part(ids, output_hidden_states=True).hidden_states
    assert [tuple(s.shape) for s in states] == [(1, ids.shape[1], 16)] * 3
    assert all(torch.isfinite(s).all() for s in states)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_saved_tokenizer_equals_built_one(kind: str, tmp_path: Path) -> None:
    folder = tiny.build(kind, tmp_path / kind, layers=1, dim=16)
    text = " ".join(tiny.SENTENCES)
    loaded = AutoTokenizer.from_pretrained(folder)
    ids = tiny.tokenizer_of(kind).backend_tokenizer.encode(text).ids
    assert loaded.backend_tokenizer.encode(text).ids == ids
    assert len(set(ids)) > 30, "the vocabulary must not send everything to [UNK]"


def test_same_seed_same_weights(tmp_path: Path) -> None:
    first, again, other = (
        AutoModel.from_pretrained(tiny.build("bert", tmp_path / name, layers=1, dim=16, seed=seed))
        for name, seed in [("a", 1), ("b", 1), ("c", 2)]
    )
    weights = [model.embeddings.word_embeddings.weight for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
