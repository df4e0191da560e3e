"""The user's own files in every form, through extract, train and predict."""

import json

import pytest

from tests.cli.conftest import FLOAT32
from tests.cli.console import done, refused
from tests.hub_server import HubServer

WORDS = [("Maria", "B-PER"), ("left", "O"), ("Paris", "B-LOC")]
OWN = ("--sentences", "key", "--separator", "^", "--encoding", "cp1251", "--text", "word")


@pytest.fixture
def data(here):
    """Three sentences of one word, in a table that needs every option."""
    rows = [f"{n}^{word}^{tag}" for n, (word, tag) in enumerate(WORDS)]
    (here / "own").mkdir()
    for split in ("train", "dev"):
        (here / "own" / f"{split}.csv").write_text("\n".join(["key^word^tag", *rows]), "cp1251")
    return "own"


def test_what_extract_is_told_no_other_command_needs(bert, here, data):
    dry = done("extract", bert, data, *OWN, "--label", "tag", "--dry-run", "--json").rows
    assert [row["examples"] for row in dry] == [3, 3]
    done("extract", bert, data, *OWN, "--label", "tag", *FLOAT32)
    words = ("--label", "tag", "--head", "last", "--epochs", "2", "--save", "head")
    done("train", bert, data, *words)
    rows = done("predict", "head", "own/dev.csv", "--json").rows
    assert [row["words"] for row in rows] == [[word] for word, _ in WORDS]


@pytest.fixture
def head(bert, corpus, cache, here):
    done("train", bert, corpus, "--head", "last", "--epochs", "2", "--save", "head")
    return "head"


def test_predict_reads_labelled_files_as_extract_does(head, corpus, here):
    blocks = (corpus / "dev.conll").read_text("utf-8").strip("\n").split("\n\n")
    sentences = [[line.split("\t") for line in block.splitlines()] for block in blocks]
    words = [[row[0] for row in sentence] for sentence in sentences]
    records = [{"tokens": [r[0] for r in s], "tags": [r[2] for r in s]} for s in sentences]
    table = [f"{n};{row[0]};{row[1]};{row[2]}" for n, s in enumerate(sentences) for row in s]
    (here / "a.jsonl").write_text("\n".join(map(json.dumps, records)), "utf-8")
    (here / "b.json").write_text(json.dumps(records), "utf-8")
    (here / "c.csv").write_text("\n".join(["sent_id;token;pos;ner", *table]), "utf-8")
    (here / "d.txt").write_text("\n\n".join(blocks), "utf-8")
    running = "\n".join(map(" ".join, words))
    expected = done("predict", head, "-", "--json", text=running).rows
    assert [row["words"] for row in expected] == words
    for file in (corpus / "dev.conll", "a.jsonl", "b.json", "c.csv"):
        assert done("predict", head, file, "--json").rows == expected, file
    assert done("predict", head, "d.txt", "--text", "0", "--json").rows == expected


def test_predict_refuses_what_is_a_table_by_its_content(head, corpus, here):
    labelled = (corpus / "dev.conll").read_text("utf-8").replace("\t", " ")
    (here / "eng.testb").write_text(f"-DOCSTART- -X- O\n\n{labelled}", "utf-8")
    for file, text in (("eng.testb", None), ("-", labelled)):
        message = refused("predict", head, file, text=text)
        assert "every line ends in a label, so that this is a table" in message
        assert message.endswith("give a .conll file, or --text 0 with this one.")
    message = refused("predict", head, "-", text='{"tokens": ["a"]}\n')
    assert message == "stdin: JSON objects, and running text is expected; name it .jsonl."
    message = refused("predict", head, "-", "--text", "0", text="a")
    nothing = "--text says nothing about stdin, which has a text per line; leave it out."
    assert message == nothing
    message = refused("predict", head, "none.jsonl")
    assert message == "none.jsonl: no such file."
    (here / "empty.conll").write_text("")
    assert refused("predict", head, "empty.conll") == "empty.conll: there is no text to label."
    (here / "texts.csv").write_text("text,label\na fine film,good\n")
    assert "holds texts, such as 'a fine film'" in refused("predict", head, "texts.csv")


@pytest.mark.parametrize("kind", ["sentence", "pair"])
def test_predict_reads_labelled_texts(bert, here, kind):
    rows = [{"a": f"{w} left", "b": f"{w} came", "class": w[0]} for w in ("Maria", "Paris", "Lake")]
    (here / "own").mkdir()
    lines = ["a\tb\tclass", *("\t".join(row.values()) for row in rows)]
    for split in ("train", "dev"):
        (here / "own" / f"{split}.tsv").write_text("\n".join(lines))
    own = ("--kind", kind, "--text", "a,b" if kind == "pair" else "a", "--label", "class")
    done("extract", bert, "own", *FLOAT32, *own)
    done("train", bert, "own", *own, "--head", "last", "--epochs", "2", "--save", "head")
    found = done("predict", "head", "own/dev.tsv", *own[2:4], "--json").rows
    assert [row["text"] for row in found] == [row["a"] for row in rows]
    assert [row.get("text_pair") for row in found] == [
        row["b"] if kind == "pair" else None for row in rows
    ]
    if kind == "sentence":
        (here / "a.txt").write_text("\n".join(f"{row['a']},{row['class']}" for row in rows))
        assert "every line ends in a label" in refused("predict", "head", "a.txt")
    (here / "words.conll").write_text("a O\nb O\n")
    message = refused("predict", "head", "words.conll")
    assert "unknown format '.conll'" in message
    assert message.endswith("For .conll use --kind tagging.")


def test_a_data_set_of_the_hub(bert, here, monkeypatch):
    rows = [{"review": f"{w} left", "stars": w[0]} for w in ("Maria", "Paris", "Lake")]
    (here / "repo").mkdir()
    for split in ("train", "validation"):
        (here / "repo" / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    own = ("org/reviews", "--kind", "sentence", "--text", "review", "--label", "stars")
    with HubServer({"datasets/org/reviews": here / "repo"}) as hub:
        hub.redirect(monkeypatch, here / "home")
        done("extract", bert, *own, *FLOAT32)
        (row,) = done("train", bert, *own, "--head", "last", "--epochs", "2", "--json").rows
    assert row["task"] == "org/reviews"


def test_treebanks_of_a_folder(here):
    (here / "en_ewt-ud-dev.conllu").write_text("")
    assert done("tasks", "ud", "--data", here, "--json").rows == [{"task": "ud/en_ewt"}]
    assert refused("tasks", "--data", here).startswith("--data lists the treebanks of a folder:")
