"""Suites and the corpora that came with them: SentEval, BLiMP, true and false statements."""

import json

import pytest

from probekit.errors import DataError, MissingFileError, UnknownNameError
from probekit.tasks import get_task, variants_of
from probekit.tasks.suites import SUITES, published_lines


def test_senteval_reads_its_marks(tmp_path):
    lines = ["tr\t5\tone , two .", "va\t3\tthree", "te\t5\tfour", "tr\t2\tfive"]
    (tmp_path / "tree_depth.txt").write_text("\n".join(lines) + "\n", "utf-8")
    task = get_task("senteval/tree_depth")
    read = {split: task.read(split, tmp_path) for split in ("train", "dev", "test")}
    assert [e.text for e in read["train"].examples] == ["one , two .", "five"]
    assert [label for (label,) in read["train"].labels["label"]] == ["5", "2"]
    assert [e.text for e in read["dev"].examples] == ["three"]
    assert [e.text for e in read["test"].examples] == ["four"]
    for line, message in (("xx\t1\ttext", "expected tr, va or te"), ("tr\t1", "3 TAB-separated")):
        (tmp_path / "tree_depth.txt").write_text(f"{line}\n", "utf-8")
        with pytest.raises(DataError, match=message):
            task.read("train", tmp_path)


def test_blimp_keeps_pairs_together(tmp_path):
    pairs = [{"sentence_good": f"good {n}", "sentence_bad": f"bad {n}"} for n in range(1000)]
    text = "".join(f"{json.dumps(pair)}\n" for pair in pairs)
    (tmp_path / "wh_island.jsonl").write_text(text, "utf-8")
    task, told = get_task("blimp/wh_island"), {}
    for split in ("train", "dev", "test"):
        read = task.read(split, tmp_path)
        told[split] = [e.text for e in read.examples]
        assert [label for (label,) in read.labels["acceptable"]] == ["yes", "no"] * (
            len(told[split]) // 2
        )
    assert {split: len(texts) for split, texts in told.items()} == {
        "train": 1200, "dev": 400, "test": 400,
    }  # fmt: skip
    assert [*told["train"], *told["dev"], *told["test"]] == [
        f"{kind} {n}" for n in range(1000) for kind in ("good", "bad")
    ]
    groups = task.groups("dev", "pair", tmp_path)
    assert list(groups.values())[:4] == ["601", "601", "602", "602"]
    assert variants_of("blimp", tmp_path) == ["blimp/wh_island"]
    (tmp_path / "wh_island.jsonl").write_text('{"sentence_good": "alone"}\n', "utf-8")
    with pytest.raises(DataError, match="line 1: not a pair of BLiMP"):
        get_task("blimp/wh_island").read("train", tmp_path)
    with pytest.raises(MissingFileError, match="Give --data DIR"):
        variants_of("blimp", tmp_path / "none")


def test_truth_is_tested_on_its_negation(tmp_path):
    for name, text in (("cities", "is in"), ("neg_cities", "is not in")):
        rows = f'statement,label\n"Lima, a city, {text} Peru.",1\nLima {text} Chad.,0\n'
        (tmp_path / f"{name}.csv").write_text(rows, "utf-8")
    for name, other in (("cities", "is not in"), ("neg_cities", "is in")):
        test = get_task(f"truth/{name}").read("test", tmp_path)
        assert [e.text for e in test.examples] == [
            f"Lima, a city, {other} Peru.",
            f"Lima {other} Chad.",
        ]
        assert [label for (label,) in test.labels["label"]] == ["true", "false"]
    for text, message in (("statement,label\nx,2\n", "label 0 or 1"), ("a,b\n1,2\n", "statements")):
        (tmp_path / "cities.csv").write_text(text, "utf-8")
        with pytest.raises(DataError, match=message):
            get_task("truth/cities").read("train", tmp_path)


def test_edges_are_those_that_are_there(tmp_path):
    with pytest.raises(MissingFileError, match="folder above those of UD English-EWT"):
        SUITES["edges"].tasks(tmp_path)
    (tmp_path / "conll").mkdir()
    (tmp_path / "conll/eng.train").touch()
    assert [task.text for task in SUITES["edges"].tasks(tmp_path)] == ["conll spans:ner"]
    (tmp_path / "en_ewt-ud-train.conllu").touch()
    (tmp_path / "coref").mkdir()
    (tmp_path / "coref/train.jsonl").touch()
    names = {"ud/en_ewt upos", "ud/en_ewt arcs:deprel", "conll spans:ner", f"{tmp_path}/coref"}
    assert {task.text for task in SUITES["edges"].tasks(tmp_path)} == names


def test_published_scores_are_of_whole_suites_alone():
    tasks = {f"senteval/{n}" for n in range(10)}
    assert published_lines({"truth/cities"}, "auroc") == []
    assert (
        published_lines(tasks, "macro-f1") == published_lines({*tasks, "blimp/a"}, "accuracy") == []
    )
    assert published_lines(set(sorted(tasks)[1:]), "accuracy") == []
    (bert, source) = published_lines(tasks, "accuracy")
    assert bert.startswith("published, bert-base-uncased: layer 0 66.0, layer 1 69.2")
    assert "senteval-info" in source


@pytest.mark.parametrize("name", ["senteval/tree_dept", "truth/city"])
def test_names_of_their_tasks_are_checked(name):
    with pytest.raises(UnknownNameError, match=r"Did you mean '(tree_depth|cities)'"):
        get_task(name)
