"""Which model and which text are meant, from extraction to prediction: no other of the name."""

import json
import shutil
from pathlib import Path

import pytest

from probekit.store.builder import EntryBuilder
from probekit.store.entry import Entry
from tests import tiny
from tests.cli.conftest import FLOAT32
from tests.cli.console import done, refused, run
from tests.extraction.corpus import write_corpus
from tests.extraction.extracted import interrupted_after

FAR = {"rope_type": "default", "rope_theta": 7.0}
TRAIN = ("--head", "last", "--epochs", "2")


def unlike(*arguments):
    """Verify the rows of an entry against a model that is another one; return what is said."""
    outcome = run("cache", "verify", *arguments, "--rows", "3")
    assert outcome.code == 1 and outcome.out == ""
    return outcome.err


def edit(folder, file, **values):
    text = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(text | values))


@pytest.fixture
def text(here):
    return write_corpus(here / "ner", sentences=8)


def records():
    with open("runs.jsonl") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture
def runs(here, text):
    """Two checkpoints in folders of one name, the first of them extracted."""
    for seed in (1, 2):
        tiny.build("bert", here / f"run{seed}" / "checkpoint-100", seed=seed)
    done("extract", "run1/checkpoint-100", text, *FLOAT32)
    return here


def test_a_model_of_the_same_folder_name_does_not_stand_in(runs, text):
    message = refused("train", "run2/checkpoint-100", text, *TRAIN)
    assert "made with another model than the one that lies at run2/checkpoint-100 now" in message
    assert "Type: probekit extract run2/checkpoint-100" in message
    for command in (("sweep", "--head", "p32"), ("depth",)):
        name, *rest = command
        assert "another model" in refused(name, "run2/checkpoint-100", text, *rest)
    assert "no cache entry matches" in refused("cache", "rm", "-y", "run2/checkpoint-100", text)

    said = "another model is called checkpoint-100 in cache as well; --name NAME tells them apart."
    assert done("extract", "run2/checkpoint-100", text, *FLOAT32).err.count(said) == 1
    for one in ("run1", "run2"):
        options = ("--out", "runs.jsonl", "--save", f"{one}/head")
        done("train", f"{one}/checkpoint-100", text, *TRAIN, *options)
    first, second = records()
    assert first["entry"] != second["entry"] and first["scores"] != second["scores"]
    for one in ("run1", "run2"):
        about = json.loads((runs / one / "head" / "config.json").read_text())
        assert about["model"]["name"] == f"{one}/checkpoint-100"


def test_weights_that_were_replaced_are_another_model(runs, text):
    shutil.copy("run2/checkpoint-100/model.safetensors", "run1/checkpoint-100/")
    assert "another model" in refused("train", "run1/checkpoint-100", text, *TRAIN)
    assert "weights" in unlike("checkpoint-100", text, "train")


@pytest.mark.parametrize("left", [(), ("config.json",), ("model.safetensors",)])
def test_a_folder_that_tells_no_model_is_none_of_its_name(runs, text, left):
    """Such as that of a PEFT checkpoint, or one whose weights are still to come."""
    shutil.copytree("run1/checkpoint-100", "run3/checkpoint-100")
    for file in Path("run3/checkpoint-100").iterdir():
        if file.name not in left:
            file.unlink()
    for command in ("train", "depth"):
        outcome = run(command, "run3/checkpoint-100", text, *TRAIN)
        told = "run3/checkpoint-100 tells no model (config.json or weights are not there)"
        assert outcome.code == 1 and told in outcome.err
    outcome = run("cache", "rm", "-y", "run3/checkpoint-100")
    assert outcome.code == 1 and "cannot be said any more" in outcome.err
    Path("run1/checkpoint-100/model.safetensors").unlink()  # to save room, once it is extracted
    done("train", "run1/checkpoint-100", text, *TRAIN, "--out", "runs.jsonl")
    done("train", "checkpoint-100", text, *TRAIN, "--out", "runs.jsonl")
    assert len(records()) == 1


def test_a_copy_is_the_same_model_whatever_its_folder_is_called(runs, text):
    shutil.copytree("run1/checkpoint-100", "elsewhere/best")
    assert "complete already" in done("extract", "elsewhere/best", text, *FLOAT32).err
    done("train", "elsewhere/best", text, *TRAIN, "--out", "runs.jsonl")
    assert len(records()) == 1
    shutil.rmtree("run1")  # the name alone, of a model that has gone
    done("train", "checkpoint-100", text, *TRAIN, "--out", "runs.jsonl")
    assert len(records()) == 1


@pytest.mark.parametrize(
    ("kind", "file", "change", "says"),
    [
        ("bert", "config.json", {"hidden_act": "relu"}, "hidden_act"),
        ("llama", "config.json", {"rope_parameters": FAR}, "rope_parameters"),
        ("bert", "tokenizer_config.json", {"model_input_names": ["input_ids"]}, "token types"),
        ("bert", "tokenizer_config.json", {"model_max_length": 12}, "max length"),
    ],
    ids=["activation", "rotary base", "token types", "longest input"],
)  # fmt: skip
def test_an_edited_copy_is_another_model_everywhere(kind, file, change, says, here, text):
    for name in ("near", "far"):
        tiny.build(kind, here / name)
    edit(here / "far", file, **change)
    for name in ("near", "far"):
        done("extract", name, text, *FLOAT32)
        done("train", name, text, *TRAIN, "--out", "runs.jsonl", "--save", f"{name}-head")
    assert len({record["key"] for record in records()}) == 2
    (here / "new.txt").write_text("Maria left Paris\n")
    message = refused("predict", "near-head", "new.txt", "--model", "far")
    assert says in message and "Give the right model with --model" in message
    assert says in unlike("near", text, "train", "--model", "far")


def test_running_text_has_a_tokenizer_of_its_own(here):
    (here / "texts.jsonl").write_text(
        "\n".join(json.dumps({"text": f"left Paris {n}", "label": str(n % 2)}) for n in range(6))
    )
    for name, prefix in (("without", False), ("with", True)):
        tiny.build("gpt2", here / name)
        edit(here / name, "tokenizer_config.json", add_prefix_space=prefix)
        done("extract", name, "texts.jsonl", "--kind", "sentence", *FLOAT32)
    keys = {row["key"] for row in done("cache", "ls", "--json").rows}
    assert len(keys) == 2
    assert "text tokenizer" in unlike("without", "texts.jsonl", "--model", "with")


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_an_adapter_is_applied_and_known(here, text):
    from tests.backbone.test_identity_of_models import with_adapter

    tiny.build("bert", here / "plain")
    with_adapter(here / "plain", here / "adapted")
    done("extract", "plain", text, *FLOAT32)
    assert (
        "the adapter beside its weights is applied"
        in done("extract", "adapted", text, *FLOAT32).err
    )
    assert len({row["key"] for row in done("cache", "ls", "--json").rows}) == 4
    assert (
        "within tolerance" in done("cache", "verify", "adapted", text, "train", "--rows", "5").out
    )
    done("train", "plain", text, *TRAIN, "--save", "head")
    (here / "new.txt").write_text("Maria left Paris\n")
    assert "adapter None, now" in refused("predict", "head", "new.txt", "--model", "adapted")


def test_data_that_was_renamed_or_moved_is_known_again(runs, text):
    model = "run1/checkpoint-100"
    (runs / "moved").mkdir()
    shutil.move(text, runs / "moved" / "people")
    assert "complete already" in done("extract", model, "moved/people", *FLOAT32).err
    done("train", model, "moved/people", *TRAIN, "--out", "runs.jsonl")
    done("train", model, "moved/people", *TRAIN)
    shutil.copytree(runs / "moved" / "people", runs / "again")
    done("train", model, "again", *TRAIN)
    (own,) = (runs / "runs" / "checkpoint-100").glob("*.jsonl")
    assert own.name.startswith("people-") and len(own.read_text().splitlines()) == 1
    shutil.move("cache", runs / "moved" / "cache")
    shutil.rmtree("run1")
    cache = ("--cache", "moved/cache")
    done("train", "checkpoint-100", "moved/people", *TRAIN, *cache, "--out", "runs.jsonl")
    assert len(records()) == 1
    shutil.rmtree(runs / "moved" / "people")
    (row, *_) = done("cache", "ls", *cache, "--json").rows
    assert row["task"].startswith("ner-")
    (entry,) = (runs / "moved" / "cache").glob("*/*/train-????????")
    for named in (("checkpoint-100", row["task"], *cache), (entry,)):
        done("train", *named, *TRAIN, "--out", "runs.jsonl")
    assert len(records()) == 1
    # The text of another file of the same name is another one.
    other = write_corpus(runs / "ner", sentences=5)
    assert "The text of" in refused("train", "checkpoint-100", other, *TRAIN, *cache)


def test_a_first_look_gives_way_to_the_whole(runs, text):
    model = "run2/checkpoint-100"
    done("extract", model, text, *FLOAT32, "--limit", "4")
    done("train", model, text, *TRAIN, "--out", "runs.jsonl")
    done("extract", model, text, *FLOAT32)
    outcome = done("train", model, text, *TRAIN, "--out", "runs.jsonl")
    assert outcome.err.count("whole splits are taken, not their first 4 examples (--entry") == 1
    part, whole = records()
    assert part["seen"]["limit"] == 4 and "limit" not in whole["seen"]
    done("train", model, text, *TRAIN, "--entry", part["entry"][:8], "--out", "runs.jsonl")
    assert len(records()) == 2


def test_a_name_tells_models_of_one_folder_name_apart(runs, text):
    done("extract", "run2/checkpoint-100", text, *FLOAT32, "--name", "second")
    assert {row["model"] for row in done("cache", "ls", "--json").rows} == {
        "checkpoint-100",
        "second",
    }
    for model in ("run2/checkpoint-100", "second"):
        done("train", model, text, *TRAIN, "--out", "runs.jsonl")
    (record,) = records()
    assert record["model"] == "second"
    message = refused("extract", "run2/checkpoint-100", text, *FLOAT32, "--name", "third")
    assert "is in the cache already" in message and "call it by that name: second," in message


def test_keys_as_the_list_prints_them_name_entries(runs, text):
    rows = done("cache", "ls", "--json").rows
    key = rows[0]["key"]
    assert done("cache", "path", key).out.strip().endswith(key)
    done("cache", "rm", "-y", key)
    assert [row["key"] for row in done("cache", "ls", "--json").rows] == [rows[1]["key"]]


def test_own_data_is_removed_by_its_text_and_not_by_its_name(runs, text):
    model = "run1/checkpoint-100"
    other = write_corpus(runs / "other" / "ner", sentences=5)
    assert "no cache entry matches" in refused("cache", "rm", "-y", model, other)
    assert len(done("cache", "ls", "--json").rows) == 2
    renamed = shutil.copytree(text, runs / "people")
    assert len(done("cache", "path", model, renamed).out.splitlines()) == 2
    done("cache", "rm", "-y", model, renamed)
    assert done("cache", "ls", "--json").rows == []


def test_what_a_model_was_cannot_be_said_and_nothing_is_removed(runs, text):
    (runs / "run1" / "checkpoint-100" / "model.safetensors").unlink()
    outcome = run("cache", "rm", "-y", "run1/checkpoint-100", text)
    assert outcome.code == 1 and "Give keys or paths of entries" in outcome.err
    assert len(done("cache", "ls", "--json").rows) == 2


def test_an_unfinished_entry_of_another_model_is_not_in_the_way(runs, text, monkeypatch):
    monkeypatch.setattr(EntryBuilder, "write_unit", interrupted_after(0))
    with pytest.raises(AssertionError):
        done("extract", "run2/checkpoint-100", text, *FLOAT32, "--split", "dev")
    monkeypatch.undo()
    monkeypatch.chdir(runs)
    (unfinished,) = (runs / "cache").glob("*/*/dev-*.partial")
    done("cache", "rm", "-y", next((runs / "cache").glob("*/*/dev-????????")))
    done("train", "run1/checkpoint-100", text, *TRAIN, "--hold-out", "0.3")
    assert "no entry of run2" in refused("train", "run2/checkpoint-100", text, *TRAIN)
    assert "no cache entry matches" in refused(
        "cache", "rm", "-y", "run1/checkpoint-100", text, "dev"
    )
    assert unfinished.is_dir()


def test_a_task_by_name_is_not_taken_for_own_data_of_the_same_text(runs, here):
    done("extract", "run1/checkpoint-100", "demo-ner", *FLOAT32, "--limit", "6")
    examples = done("cache", "path", "run1/checkpoint-100", "demo-ner", "train").out.strip()
    words = Entry.open(here / examples).examples
    lines = ("\n".join(f"{word}\tO" for word in words.words(i)) for i in range(len(words)))
    (here / "copied.conll").write_text("\n\n".join(lines) + "\n")
    done("extract", "run1/checkpoint-100", "copied.conll", *FLOAT32)
    done("cache", "rm", "-y", "run1/checkpoint-100", "demo-ner")
    done("extract", "run1/checkpoint-100", "copied.conll", *FLOAT32)
    done("extract", "run1/checkpoint-100", "demo-ner", *FLOAT32, "--limit", "6")
    done("train", "run1/checkpoint-100", "demo-ner", *TRAIN, "--hold-out", "0.3")


def test_the_path_of_an_entry_says_its_task(runs, text):
    (entry,) = (runs / "cache").glob("*/*/train-????????")
    assert "leave TASK out" in refused("train", entry, text, *TRAIN)


def test_a_damaged_entry_of_another_model_is_not_in_the_way(runs, text):
    done("extract", "run2/checkpoint-100", text, *FLOAT32, "--name", "second")
    (slug,) = {folder.name for folder in (runs / "cache" / "second").iterdir()}
    for entry in (runs / "cache" / "second").glob("*/*-????????"):
        (entry / "manifest.json").write_text("{")
    done("train", "checkpoint-100", slug, *TRAIN)
