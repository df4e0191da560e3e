"""The identity of weights and tokenizer: what changes it, and what must not."""

import json
import shutil

import pytest
from transformers import AutoModel, AutoTokenizer

from probekit.backbone import inspect_backbone, load_backbone
from probekit.backbone.facts import tokenizer_digest
from tests import tiny


def test_other_weights_have_another_identity(tiny_folder, tmp_path):
    other = tiny.build("bert", tmp_path / "other", seed=1)
    first, second = (inspect_backbone(str(path)).info for path in (tiny_folder("bert"), other))
    assert first.identity.weights != second.identity.weights
    assert first.identity.word_tokenizer == second.identity.word_tokenizer


def test_shards_are_read_in_the_order_of_their_names(tiny_folder, tmp_path):
    model = AutoModel.from_pretrained(tiny_folder("bert"))
    model.save_pretrained(tmp_path, max_shard_size="40KB")
    tiny.tokenizer_of("bert").save_pretrained(tmp_path)
    inspection = inspect_backbone(str(tmp_path))
    names = [file.name for file in inspection.checkpoint.weights]
    assert len(names) > 1
    assert names == sorted(names)
    before = inspection.info.identity.weights
    load_backbone(inspection, compute_dtype="float32")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps(json.loads(index.read_text()), indent=1, sort_keys=True))
    assert inspect_backbone(str(tmp_path)).info.identity.weights == before
    (tmp_path / names[1]).write_bytes(b"x")
    assert inspect_backbone(str(tmp_path)).info.identity.weights != before


def test_a_bin_file_serves_where_there_is_nothing_else(tiny_folder, tmp_path):
    import torch

    folder = shutil.copytree(tiny_folder("bert"), tmp_path / "bin")
    state = AutoModel.from_pretrained(folder).state_dict()
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    found = load_backbone(inspect_backbone(str(folder)), compute_dtype="float32")
    reference = load_backbone(inspect_backbone(str(tiny_folder("bert"))), compute_dtype="float32")
    ids, lengths = torch.tensor([[5, 6, 7]]), torch.tensor([3])
    for one, other in zip(found.layers(ids, lengths), reference.layers(ids, lengths), strict=True):
        assert torch.equal(one, other)


@pytest.fixture
def tokenizer(tiny_folder):
    return AutoTokenizer.from_pretrained(tiny_folder("bert"))


def test_vocabulary_and_roles_are_part_of_a_tokenizer(tokenizer):
    before = tokenizer_digest(tokenizer)
    tokenizer.sep_token = "[CLS]"
    role = tokenizer_digest(tokenizer)
    tokenizer.add_tokens(["brand-new"])
    assert len({before, role, tokenizer_digest(tokenizer)}) == 3


def test_the_tokenizer_is_free_of_what_its_file_pads_and_cuts(tiny_folder, tmp_path):
    folder = shutil.copytree(tiny_folder("bert"), tmp_path / "padded")
    state = json.loads((folder / "tokenizer.json").read_text())
    cut = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    (folder / "tokenizer.json").write_text(json.dumps(state | {"truncation": cut}))
    found, plain = inspect_backbone(str(folder)), inspect_backbone(str(tiny_folder("bert")))
    assert found.info.identity.word_tokenizer == plain.info.identity.word_tokenizer
    text = "EU rejects German call to boycott"
    assert found.tokenizer(text)["input_ids"] == plain.tokenizer(text)["input_ids"]
