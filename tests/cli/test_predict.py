"""``probekit predict``: from a file and from stdin, equal to training-time predictions."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from tests.cli.console import done, refused
from tests.saved_heads import changed_head


@pytest.fixture
def head(bert, corpus, cache, here):
    """A saved head, with the dev predictions of its training beside its record."""
    done(
        "train", bert, corpus, "--head", "p32", "--epochs", "20", "--save", "head", "--predictions"
    )
    return here / "head"


@pytest.fixture
def predictions(head, here):
    (file,) = here.glob("runs/**/*.parquet")
    return {row["id"]: row["predicted"] for row in pq.read_table(file).to_pylist()}


def dev_sentences(corpus):
    blocks = (corpus / "dev.conll").read_text("utf-8").strip("\n").split("\n\n")
    return [[line.split("\t")[0] for line in block.splitlines()] for block in blocks]


def test_predictions_equal_those_of_training(head, corpus, predictions, here):
    sentences = dev_sentences(corpus)
    (here / "new.txt").write_text("\n".join(map(" ".join, sentences)), "utf-8")
    rows = done("predict", head, "new.txt", "--json").rows
    assert [row["words"] for row in rows] == sentences
    assert [row["labels"] for row in rows] == list(predictions.values())
    assert {label for row in rows for label in row["labels"]} == {"O", "B-LOC"}
    for row in rows:
        assert [next(iter(word)) for word in row["probabilities"]] == row["labels"]
        assert all(
            sum(word.values()) == pytest.approx(1, abs=1e-5) for word in row["probabilities"]
        )


def test_stdin_as_a_table_of_words_and_labels(head):
    outcome = done("predict", head, "-", text="Maria left Paris\n\nthe river bank\n")
    blocks = [block.splitlines() for block in outcome.out.strip("\n").split("\n\n")]
    words = [[line.split("\t")[0] for line in block] for block in blocks]
    assert words == [["Maria", "left", "Paris"], ["the", "river", "bank"]]
    assert all(line.split("\t")[1] in ("O", "B-LOC") for block in blocks for line in block)
    assert outcome.err == ""


def test_what_cannot_be_predicted(head, here):
    message = refused("predict", head, "none.txt")
    assert message == "none.txt: no such file."
    message = refused("predict", "none", "-", text="a")
    assert message.startswith("none: no saved head here (no config.json). `probekit train --save")
    message = refused("predict", head, "-", text="\n \n")
    assert message == "there is no text to label; give one sentence per line."
    (here / "latin.txt").write_bytes(b"caf\xe9\n")
    assert refused("predict", head, "latin.txt").startswith("latin.txt, line 1: not UTF-8 (")
    message = refused("predict", head, "-", text=b"a b\ncaf\xe9\n")
    assert message.startswith("stdin, line 2: not UTF-8 (")
    message = refused("predict", head, "-", "--model", "./moved", text="a")
    assert message.startswith("model './moved': no such file or folder.")


@pytest.mark.parametrize("name", ["./models/bert", "models/bert"])
def test_a_model_that_has_moved(head, bert, here, name):
    """The second one would pass for a repository of the Hub, where it is not to be looked for."""
    config = json.loads((head / "config.json").read_text("utf-8"))
    changed_head(head, weights=config["weights"], model=config["model"] | {"name": name})
    message = refused("predict", head, "-", text="Maria left")
    assert message.startswith(f"model {name!r}: no such file or folder.")
    assert message.endswith(" If it has moved, say where it lies now: --model.")
    assert done("predict", head, "-", "--model", bert, text="Maria left").out.startswith("Maria\t")


def test_a_model_that_was_extracted_from_another_folder(bert, corpus, here, monkeypatch):
    """The entry knows a relative path, which leads nowhere from here; what was given does."""
    shutil.copytree(bert, here / "models" / "bert")
    done("extract", "models/bert", corpus, "--cache", here / "cache")
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    model = here / "models" / "bert"
    done("train", model, corpus, "--head", "mean", "--cache", here / "cache", "--save", "head")
    assert done("predict", "head", "-", text="Maria left").out.startswith("Maria\t")


@pytest.mark.parametrize("given", ["file", "stdin"])
def test_lines_end_at_line_feeds_alone(head, here, given):
    text = "\ufeffMaria left\r\nthe\u2028river bank\x0c\n".encode()
    (here / "new.txt").write_bytes(text)
    words = ("predict", head, "new.txt" if given == "file" else "-", "--json")
    rows = done(*words, text=None if given == "file" else text).rows
    assert [row["words"] for row in rows] == [["Maria", "left"], ["the\u2028river", "bank"]]


def test_one_label_per_text(own_texts):
    bert, *own = own_texts
    done("train", bert, "own", *own, "--head", "p32", "--epochs", "2", "--save", "one")
    found = done("predict", "one", "-", "--json", text="Maria left\n\nthe river\n").rows
    assert [row["text"] for row in found] == ["Maria left", "the river"]
    lines = done("predict", "one", "-", text="Maria left\nthe river\n").out.splitlines()
    assert lines == [f"{row['text']}\t{row['label']}" for row in found]
    assert {row["label"] for row in found} <= {"M", "P", "L"}
    message = refused("predict", "one", "-", text="the river\n\nMaria\tleft\n")
    assert message.startswith("line 3: this head labels single texts, and a TAB stands between")


def test_a_number_of_a_pair_of_texts(bert, here):
    rows = "".join(f"{word} left,{word} came,{n}.5\n" for n, word in enumerate(("Maria", "Lake")))
    (here / "own").mkdir()
    for split in ("train", "dev"):
        (here / "own" / f"{split}.csv").write_text("a,b,score\n" + rows)
    own = ("--kind", "regression", "--text", "a,b", "--label", "score")
    done("extract", bert, "own", "--compute-dtype", "float32", *own)
    done("train", bert, "own", *own, "--head", "p32", "--epochs", "2", "--save", "two")
    (found,) = done("predict", "two", "-", "--json", text="Maria left\tthe river\n").rows
    assert (found["text"], found["text_pair"]) == ("Maria left", "the river")
    message = refused("predict", "two", "-", text="Maria left\tthe river\nMaria left\n")
    assert message == "line 2: expected two texts with one TAB between them; found 1."
