"""``probekit predict``: text from files of every form and from stdin, and its page of tokens."""

import json
import re
import shutil

import pyarrow.parquet as pq
import pytest

from probekit.page.report_page import ColouredText, write_token_page
from tests.cli.conftest import FLOAT32
from tests.cli.console import done, refused
from tests.saved_heads import changed_head


@pytest.fixture(scope="module")
def head(bert, corpus, entries, tmp_path_factory):
    """A saved head, with the dev predictions of its training beside its record."""
    root = tmp_path_factory.mktemp("head")
    words = ("--epochs", "20", "--save", root / "head", "--predictions", "--out", root / "r.jsonl")
    done("train", bert, corpus, "--cache", entries, "--head", "p32", *words)
    return root / "head"


@pytest.fixture(scope="module")
def sentences(corpus):
    """The rows of dev: word, part of speech and entity."""
    blocks = (corpus / "dev.conll").read_text("utf-8").strip("\n").split("\n\n")
    return [[line.split("\t") for line in block.splitlines()] for block in blocks]


def test_predictions_equal_those_of_training_in_files_of_every_form(head, corpus, sentences, here):
    words = [[row[0] for row in sentence] for sentence in sentences]
    records = [{"tokens": [r[0] for r in s], "tags": [r[2] for r in s]} for s in sentences]
    table = [f"{n};{row[0]};{row[1]};{row[2]}" for n, s in enumerate(sentences) for row in s]
    (here / "a.jsonl").write_text("\n".join(map(json.dumps, records)), "utf-8")
    (here / "b.json").write_text(json.dumps(records), "utf-8")
    (here / "c.csv").write_text("\n".join(["sent_id;token;pos;ner", *table]), "utf-8")
    (here / "d.txt").write_text((corpus / "dev.conll").read_text("utf-8"), "utf-8")
    rows = done("predict", head, "-", "--json", text="\n".join(map(" ".join, words))).rows
    (file,) = head.parent.glob("**/*.parquet")
    assert [row["words"] for row in rows] == words
    assert [row["labels"] for row in rows] == pq.read_table(file)["predicted"].to_pylist()
    for row in rows:
        assert [next(iter(word)) for word in row["probabilities"]] == row["labels"]
        totals = [sum(word.values()) for word in row["probabilities"]]
        assert totals == pytest.approx([1] * len(totals), abs=1e-5)
    for file in (corpus / "dev.conll", "a.jsonl", "b.json", "c.csv"):
        assert done("predict", head, file, "--json").rows == rows, file
    assert done("predict", head, "d.txt", "--text", "0", "--json").rows == rows


def test_stdin_as_a_table_of_words_and_labels(head):
    outcome = done("predict", head, "-", text="\ufeffMaria left\r\nthe\u2028river bank\x0c\n")
    blocks = [block.split("\n") for block in outcome.out.strip("\n").split("\n\n")]
    pairs = [[line.split("\t") for line in block] for block in blocks]
    words = [["Maria", "left"], ["the\u2028river", "bank"]]
    assert [[word for word, _ in block] for block in pairs] == words
    assert {label for block in pairs for _, label in block} <= {"O", "B-LOC"}
    assert outcome.err == ""


def test_what_cannot_be_predicted(head, corpus, here):
    labelled = (corpus / "dev.conll").read_text("utf-8").replace("\t", " ")
    (here / "eng.testb").write_text(f"-DOCSTART- -X- O\n\n{labelled}", "utf-8")
    (here / "latin.txt").write_bytes(b"caf\xe9\n")
    (here / "texts.csv").write_text("text,label\na fine film,good\n")
    table = "holds words and their labels in columns, but plain text is expected. Name it .conll"
    for file, text, message in (
        ("none.txt", None, "none.txt: no such file."),
        ("latin.txt", None, "latin.txt, line 1: not UTF-8 ("),
        ("eng.testb", None, f"eng.testb {table}"),
        ("texts.csv", None, "texts.csv: the column of words holds whole texts, such as"),
        ("-", "\n \n", "there is no text to label; give one per line."),
        ("-", b"a b\ncaf\xe9\n", "stdin, line 2: not UTF-8 ("),
        ("-", '{"tokens": ["a"]}\n', "stdin holds JSON objects, but plain text is expected; name"),
    ):
        assert refused("predict", head, file, text=text).startswith(message), file
    message = refused("predict", head, "-", "--text", "0", text="a")
    assert message.startswith("--text does not apply to stdin, which has a text per line")
    message = refused("predict", "none", "-", text="a")
    assert message.startswith("none: no saved head here (no config.json). `probekit train --save")


@pytest.mark.parametrize("name", ["./models/bert", "models/bert"])
def test_a_model_that_has_moved(head, bert, here, name):
    """The second one would pass for a repository of the Hub, where it is not to be looked for."""
    shutil.copytree(head, here / "head")
    config = json.loads((head / "config.json").read_text("utf-8"))
    model = config["model"] | {"name": name}
    changed_head(here / "head", weights=config["weights"], model=model)
    message = refused("predict", "head", "-", text="Maria left")
    assert message.startswith(f"model {name!r}: no such file or folder.")
    assert message.endswith(" If it has moved, give its new path with --model.")
    shown = done("predict", "head", "-", "--model", bert, text="Maria left").out
    assert shown.startswith("Maria\t")


@pytest.mark.parametrize("kind", ["sentence", "pair", "regression"])
def test_labels_of_whole_texts(bert, here, kind):
    rows = [f"{w} left\t{w} came\t{n}.5" for n, w in enumerate(("Maria", "Paris", "Lake"))]
    (here / "own").mkdir()
    for split in ("train", "dev"):
        (here / "own" / f"{split}.tsv").write_text("\n".join(["a\tb\tclass", *rows]))
    text, pair = ("a", False) if kind == "sentence" else ("a,b", True)
    own = ("--kind", kind, "--text", text, "--label", "class")
    done("extract", bert, "own", *FLOAT32, *own)
    done("train", bert, "own", *own[4:], "--head", "last", "--epochs", "2", "--save", "head")
    found = done("predict", "head", "own/dev.tsv", "--text", text, "--json").rows
    cells = [row.split("\t") for row in rows]
    assert [row["text"] for row in found] == [a for a, *_ in cells]
    assert [row.get("text_pair") for row in found] == [b if pair else None for _, b, _ in cells]
    typed = ["\t".join(row[: 1 + pair]) for row in cells]
    shown = done("predict", "head", "-", text="\n".join(typed)).out.splitlines()
    assert shown == [f"{line}\t{row['label']}" for line, row in zip(typed, found, strict=True)]
    message = refused("predict", "head", "-", text=f"{typed[0]}\nMaria{chr(9) * (not pair)} left\n")
    assert message.startswith("line 2: ") and "TAB" in message


def test_what_extract_is_told_no_other_command_needs(bert, here):
    words = [("Maria", "B-PER"), ("left", "O"), ("Paris", "B-LOC")]
    rows = [f"{n}^{word}^{tag}" for n, (word, tag) in enumerate(words)]
    (here / "own").mkdir()
    for split in ("train", "dev"):
        (here / "own" / f"{split}.csv").write_text("\n".join(["key^word^tag", *rows]))
    options = ("--sentences", "key", "--separator", "^", "--text", "word")
    dry = done("extract", bert, "own", *options, "--label", "tag", "--dry-run", "--json").rows
    assert [row["examples"] for row in dry] == [3, 3]
    done("extract", bert, "own", *options, "--label", "tag", *FLOAT32)
    head = ("--head", "last", "--epochs", "2", "--save", "head")
    done("train", bert, "own", "--label", "tag", *head)
    found = done("predict", "head", "own/dev.csv", "--json").rows
    assert [row["words"] for row in found] == [[word] for word, _ in words]


ROWS = [("a warm film", "good"), ("a dull film", "bad"), ("warm", "good"), ("dull", "bad")] * 3
TEXTS = "a warm <b>film</b>\na dull one\n"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    file = tmp_path_factory.mktemp("texts") / "train.jsonl"
    lines = [json.dumps({"text": text, "label": label}) for text, label in ROWS]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


def cells(page):
    """The numbers of each line of a page, by its name."""
    lines = re.findall(r'<p class="said">(?:<i><bdi>(.*?)</bdi></i>)?(.*?)</p>', page, re.DOTALL)
    return [(name, re.findall(r'title="([0-9.]+)">([^<]*)</b>', line)) for name, line in lines]


def test_each_depth_has_a_line_of_tokens(bert, here, texts):
    own = ("--kind", "sentence", "--text", "text", "--label", "label")
    done("extract", bert, texts, *own, "--keep", "tokens", "--layers", "1,3")
    read = ("--token-head", "mean", "--layers", "1,3", "--hold-out", "0.5")
    done("depth", bert, texts, *read, "--save", "heads")
    outcome = done("predict", "heads", "-", "--tokens", "--page", "out.html", text=TEXTS)
    assert (outcome.out, outcome.err.splitlines()[-1]) == ("", "out.html")
    page = (here / "out.html").read_text("utf-8")
    lines = cells(page)
    assert [name for name, _ in lines] == ["depth1", "depth3"] * 2
    (folder,) = (here / "heads").glob("*depth3*")
    said = done("predict", folder, "-", "--tokens", "--json", text=TEXTS).rows
    for row, (_, shown) in zip(said, lines[1::2], strict=True):
        expected = [f"{token['probabilities']['good']:.3f}" for token in row["tokens"]]
        assert [number for number, _ in shown] == expected
    done("predict", folder, "-", "--tokens", "--page", "one.html", text=TEXTS)
    assert [name for name, _ in cells((here / "one.html").read_text("utf-8"))] == ["", ""]
    message = refused("predict", folder, "-", "--page", "one.html", text=TEXTS)
    assert message == "--page shows what a head finds in each token: add --tokens."
    words = ("predict", folder, "-", "--tokens", "--page", "one.html", "--json")
    assert (
        refused(*words, text=TEXTS) == "--page writes a file and --json prints: give one of them."
    )
    message = refused("predict", folder, "-", "--tokens", "--page", "one.txt", text=TEXTS)
    assert "give FILE.html" in message


def test_texts_are_shown_as_texts(tmp_path):
    out, rows = tmp_path / "page.html", {"<u>": [("<script>", 0.5)]}
    write_token_page(out, "<em>", [ColouredText(label="<s>", rows=rows | {"x": []})])
    page = out.read_text("utf-8")
    for name in ("em", "s", "u", "script"):
        assert f"<{name}>" not in page
        assert f"&lt;{name}&gt;" in page
