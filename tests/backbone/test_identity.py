"""What makes two models one, and what does not: judged by the states that they compute."""

import functools
import json
import os
import re
import shutil
import time

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoTokenizer

from probekit.backbone import inspect_backbone, load_backbone, remembered
from probekit.backbone.facts import computing_options, tokenizer_digest
from probekit.errors import BackboneError
from tests import tiny
from tests.backbone.running import states_of

FAR = {"rope_type": "default", "rope_theta": 7.0}
# Of peft, which asks transformers in an old way.
quiet_peft = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


def edited(source, folder, file="config.json", **values):
    copy = shutil.copytree(source, folder)
    text = json.loads((copy / file).read_text())
    (copy / file).write_text(json.dumps(text | values))
    return copy


def identity(folder):
    return inspect_backbone(str(folder)).info.identity


@pytest.fixture(scope="module")
def plain(tiny_folder):
    """Return the identity of a tiny model of a kind."""
    return functools.cache(lambda kind: identity(tiny_folder(kind)))


@pytest.mark.parametrize(
    ("kind", "file", "change", "names"),
    [
        ("bert", "config.json", {"hidden_act": "relu"}, ["hidden_act the default, now relu"]),
        ("bert", "config.json", {"layer_norm_eps": 0.1}, ["layer_norm_eps"]),
        ("bert", "config.json", {"type_vocab_size": 1}, ["token types", "type_vocab_size"]),
        ("llama", "config.json", {"rope_parameters": FAR}, ["rope_parameters"]),
        ("bert", "tokenizer_config.json", {"model_max_length": 16}, ["max length 64, now 16"]),
        ("bert", "tokenizer_config.json", {"model_input_names": ["input_ids"]}, ["token types"]),
        ("gpt2", "tokenizer_config.json", {"add_prefix_space": True}, ["text tokenizer"]),
        ("bert", "tokenizer_config.json", {"split_special_tokens": True}, ["word tokenizer"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_changes_states_changes_the_identity(
    kind, file, change, names, plain, tiny_folder, tmp_path
):
    two = identity(edited(tiny_folder(kind), tmp_path / "edited", file, **change))
    differences = plain(kind).differences(two)
    assert plain(kind) != two
    for name in names:
        assert any(name in difference for difference in differences), differences


def test_what_cannot_change_states_does_not(plain, tiny_folder, tmp_path):
    changes = {
        "hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.3, "classifier_dropout": 0.2,
        "id2label": {"0": "O", "1": "B-PER"}, "label2id": {"O": 0, "B-PER": 1},
        "_name_or_path": "elsewhere", "architectures": ["BertForMaskedLM"], "use_cache": False,
        "transformers_version": "4.0.0", "dtype": "bfloat16", "initializer_range": 0.5,
        "output_attentions": True, "problem_type": "regression",
    }  # fmt: skip
    changed = edited(tiny_folder("bert"), tmp_path / "edited", **changes)
    assert identity(changed).differences(plain("bert")) == []


def test_options_that_equal_their_default_are_left_out(tiny_folder):
    config = AutoConfig.from_pretrained(tiny_folder("bert"))
    found = computing_options(config)
    assert found["model_type"] == "bert" and found["hidden_size"] == 32
    assert "hidden_act" not in found and "layer_norm_eps" not in found
    config.an_option_of_the_next_version = None
    assert computing_options(config) == found | {"an_option_of_the_next_version": None}


def with_adapter(source, folder, seed=0):
    peft = pytest.importorskip("peft", reason="the optional extra adapters is not installed")
    model = AutoModel.from_pretrained(source)
    torch.manual_seed(seed)
    options = peft.LoraConfig(r=2, target_modules=["query", "value"], init_lora_weights=False)
    shutil.copytree(source, folder)
    peft.get_peft_model(model, options).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def adapted(tiny_folder, tmp_path_factory):
    """A model with an adapter beside its weights."""
    return with_adapter(tiny_folder("bert"), tmp_path_factory.mktemp("adapted") / "bert")


@quiet_peft
def test_an_adapter_beside_the_weights_is_part_of_the_identity(
    plain, tiny_folder, adapted, tmp_path
):
    none, one = plain("bert"), identity(adapted)
    two = identity(with_adapter(tiny_folder("bert"), tmp_path / "two", 2))
    assert len({none.adapter, one.adapter, two.adapter}) == 3
    assert none.differences(one) == [f"adapter None, now {one.adapter[:12]}..."]


@quiet_peft
@pytest.mark.parametrize(
    ("said", "form"),
    [
        ({"use_dora": True}, "use_dora"),
        ({"peft_type": "VERA"}, "VERA"),
        ({"peft_type": "ADALORA"}, "ADALORA"),
        ({"alora_invocation_tokens": [7]}, "alora_invocation_tokens"),
        ({"init_lora_weights": "pissa_niter_4"}, "pissa_niter_4"),
        ({"layer_replication": [[0, 2], [1, 3]]}, "layer_replication"),
        ({"megatron_config": {"a": 1}, "megatron_core": "tests.plugged"}, "megatron_config"),
        ({"peft_type": "PROMPT_TUNING"}, "PROMPT_TUNING"),
        ({"peft_type": "PREFIX_TUNING"}, "PREFIX_TUNING"),
    ],
)
def test_an_adapter_of_another_form_is_named(adapted, tmp_path, said, form):
    folder = edited(adapted, tmp_path / "other", "adapter_config.json", **said)
    with pytest.raises(BackboneError, match=re.escape(f"beside its weights ({form}). Merge it")):
        load_backbone(inspect_backbone(str(folder)))


@quiet_peft
def test_an_adapter_without_its_configuration_is_none(plain, adapted, tmp_path):
    folder = shutil.copytree(adapted, tmp_path / "bert")
    (folder / "adapter_config.json").unlink()
    assert load_backbone(inspect_backbone(str(folder))).info.identity == plain("bert")


@quiet_peft
def test_an_adapter_without_its_package_or_its_weights(adapted, tmp_path, monkeypatch):
    folder = shutil.copytree(adapted, tmp_path / "bert")
    monkeypatch.setattr("probekit.backbone.checkpoint.find_spec", lambda name: None)
    with pytest.raises(BackboneError, match=r"applying the adapter .* package peft\. Run `pip"):
        inspect_backbone(str(folder))
    monkeypatch.undo()
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(BackboneError, match=r"adapter_model\.safetensors is missing"):
        inspect_backbone(str(folder))


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "probekit" / "identities"


def aged(folder):
    """Wait until a change of the folder's files is sure to show in their times."""
    changed = max(file.stat().st_ctime for file in folder.iterdir())
    time.sleep(max(0.0, changed + 0.06 - time.time()))


@pytest.fixture
def hashed(monkeypatch):
    calls = []
    monkeypatch.setattr(remembered, "_SETTLED", 0.05)
    original = inspect_backbone

    def counting(model, **options):
        calls.append(model)
        return original(model, **options)

    monkeypatch.setattr("probekit.backbone.inspect_backbone", counting)
    return calls


def test_an_identity_is_remembered_until_a_file_changes(tmp_path, memory, hashed):
    folder = tiny.build("bert", tmp_path / "model")
    aged(folder)
    first = remembered.identity_at(str(folder))
    assert first == identity(folder).to_json()
    assert remembered.identity_at(str(folder)) == first and len(hashed) == 1
    assert len(list(memory.iterdir())) == 1

    weights = load_file(folder / "model.safetensors")
    name = next(iter(weights))
    times = (folder / "model.safetensors").stat()
    save_file({**weights, name: weights[name] + 1}, folder / "model.safetensors", {"format": "pt"})
    os.utime(folder / "model.safetensors", ns=(times.st_atime_ns, times.st_mtime_ns))
    changed = remembered.identity_at(str(folder))
    assert changed["weights"] != first["weights"] and len(hashed) == 2


def test_a_torn_or_unwritable_memory_costs_time_alone(tmp_path, memory, hashed):
    folder = tiny.build("bert", tmp_path / "model")
    aged(folder)
    first = remembered.identity_at(str(folder))
    (file,) = memory.iterdir()
    file.write_text("{")
    assert remembered.identity_at(str(folder)) == first and len(hashed) == 2
    shutil.rmtree(memory)
    memory.write_text("a file")
    assert remembered.identity_at(str(folder)) == first and len(hashed) == 3


def test_no_model_on_this_disk_has_no_identity(tmp_path, memory, caplog):
    assert remembered.identity_at("org/name") is None
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "bert"}')
    assert remembered.identity_at(str(tmp_path / "model")) is None
    assert (
        "no weights" in caplog.text
        and "Looking for entries that were extracted from it" in caplog.text
    )


def test_other_weights_have_another_identity(tiny_folder, tmp_path):
    other = tiny.build("bert", tmp_path / "other", seed=1)
    first, second = identity(tiny_folder("bert")), identity(other)
    assert first.weights != second.weights and first.word_tokenizer == second.word_tokenizer


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
    assert identity(tmp_path).weights == before
    (tmp_path / names[1]).write_bytes(b"x")
    assert identity(tmp_path).weights != before


def test_a_bin_file_serves_where_there_is_nothing_else(tiny_folder, tmp_path):
    folder = shutil.copytree(tiny_folder("bert"), tmp_path / "bin")
    state = AutoModel.from_pretrained(folder).state_dict()
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    found, plain = inspect_backbone(str(folder)), inspect_backbone(str(tiny_folder("bert")))
    assert torch.equal(states_of(found), states_of(plain))


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
