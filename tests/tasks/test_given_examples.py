"""Examples in memory: the forms they come in, what they are read as, and what is refused."""

import datasets
import numpy as np
import pandas as pd
import pytest

from probekit.errors import DataError, OptionError, UnknownNameError
from probekit.tasks import TextOptions, examples_task, get_task, is_own
from probekit.tasks.task import Choice

WORDS = (["Ada", "left"], ["B-PER", "O"])
TAGS = datasets.List(datasets.ClassLabel(names=["O", "B-PER"]))
NAMED = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "ner": TAGS})


def read(examples, split="train", **options):
    task = examples_task(examples, "mine", Choice(**options))
    return task, task.read(split)


def texts(split):
    return [one.words or (one.text, one.text_pair) for one in split.examples]


FORMS = {
    "words and tags": ([WORDS], "tagging", {"label": "span-f1"}),
    "words": ([["Ada", "left"], ["Oh"]], "tagging", {}),
    "words without tags": ([(["Ada", "left"], None)], "tagging", {}),
    "texts": (["a b", "c"], "sentence", {}),
    "texts as an array": (np.array(["a b", "c"]), "sentence", {}),
    "a generator": ((text for text in ["a b"]), "sentence", {}),
    "classes": ([("a b", "x"), ("c", "y")], "sentence", {"label": "accuracy"}),
    "whole numbers": ([("a b", 1), ("c", np.int64(0))], "sentence", {"label": "accuracy"}),
    "numbers": ([("a b", 1.5), ("c", np.float32(2))], "regression", {"label": "spearman"}),
    "truth": ([("a b", True), ("c", False)], "sentence", {"label": "accuracy"}),
    "pairs": ([(("a", "b"), "x"), (("c", "d"), "y")], "pair", {"label": "accuracy"}),
    "pairs in lists": ([[["a", "b"], "x"], [["c", "d"], "y"]], "pair", {"label": "accuracy"}),
    "scored pairs": ([(("a", "b"), 0.5), (("c", "d"), 1)], "regression", {"label": "spearman"}),
    "records": ([{"text": "a b", "label": "x"}], "sentence", {"label": "accuracy"}),
    "a frame": (pd.DataFrame({"text": ["a b"], "y": [2.5]}), "regression", {"y": "spearman"}),
    "a frame of words": (
        pd.DataFrame({"tokens": [np.array(["Ada", "left"])], "pos": [np.array([0, 1])]}),
        "tagging",
        {"pos": "accuracy"},
    ),
    "a frame of pairs": (
        pd.DataFrame({"premise": ["a"], "hypothesis": ["b"], "label": ["x"]}),
        "pair",
        {"label": "accuracy"},
    ),
    "a data set": (
        datasets.Dataset.from_dict({"tokens": [["Ada", "left"]], "ner": [[1, 0]]}, features=NAMED),
        "tagging",
        {"ner": "span-f1"},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_and_what_they_are_read_as(form):
    examples, kind, metrics = FORMS[form]
    task, split = read(examples)
    assert (task.kind, dict(task.metrics)) == (kind, metrics)
    assert texts(split)[0] in [("Ada", "left"), ("a b", None), ("a", "b")]
    assert split.origin == "examples in memory" and is_own(task)
    for column in metrics:
        assert len(split.labels[column]) == len(split.examples)


def test_numbers_of_class_labels_become_their_names_and_others_their_digits():
    named, plain = FORMS["a data set"][0], FORMS["a frame of words"][0]
    assert read(named)[1].labels["ner"] == (("B-PER", "O"),)
    assert read(plain)[1].labels["pos"] == (("0", "1"),)
    assert read([("a", 1), ("b", 2)])[1].labels["label"] == (("1",), ("2",))


def test_the_text_is_that_of_the_same_file(tmp_path):
    rows = ["Ada B-PER", "left O", "", "Oh O"]
    (tmp_path / "train.conll").write_text("\n".join(rows) + "\n", "utf-8")
    files = get_task(str(tmp_path), TextOptions(kind="tagging")).read("train")
    _, given = read([WORDS, (["Oh"], ["O"])], label="1")
    assert given.text_fingerprint() == files.text_fingerprint()
    assert given.labels_fingerprint("1") == files.labels_fingerprint("1")


def test_splits_go_by_the_names_that_files_may_have():
    splits = {"validation": [WORDS], "train": [WORDS, WORDS]}
    task, dev = read(splits, "dev")
    assert task.splits == ("train", "dev") and len(dev.examples) == 1
    assert dev.examples[0].id == "dev-0"
    both = datasets.DatasetDict({name: FORMS["a data set"][0] for name in ("train", "test")})
    assert read(both)[0].splits == ("train", "test")


def test_columns_are_chosen_as_those_of_files_are():
    frame = pd.DataFrame({"id": ["x", "y"], "a": ["p q", "r s"], "b": ["t", "u"], "c": ["v", "w"]})
    task, split = read(frame, text="a", label="c")
    assert task.columns == ("c",) and split.examples[0].id == "x"
    assert read(frame, text="a,b", label="c")[0].kind == "pair"
    with pytest.raises(OptionError, match=r"several label columns: b, c.*--label"):
        read(frame, text="a")
    with pytest.raises(OptionError, match=r"which column holds the text\? a, b"):
        read(frame, label="c")
    with pytest.raises(UnknownNameError, match="unknown --text column"):
        read(frame, text="z")
    assert read([WORDS], label="ner")[0].columns == ("ner",)
    with pytest.raises(OptionError, match="--label words is the text column"):
        read([WORDS], label="words")


def test_the_kind_may_be_said():
    assert read([("a", "b"), ("c", "d")], kind="pair")[0].kind == "pair"
    assert read([("a", 1), ("b", 2)], kind="regression")[0].metrics == {"label": "spearman"}
    assert read(["a b", "c"], kind="language-modelling")[0].metrics == {"token": "perplexity"}


def test_unlabelled_texts_are_left_out_when_asked():
    frame = pd.DataFrame({"text": ["a", "b", "c"], "label": ["x", None, float("nan")]})
    said = r"examples\['train'\], row 2: no label in column 'label', the first of 2 such rows, but"
    with pytest.raises(DataError, match=said):
        read(frame)
    assert len(read(frame, skip_unlabelled=True)[1].examples) == 1
    gaps = pd.DataFrame({"text": ["a", "b"], "label": [1, None]})  # 1.0 and NaN
    assert read(gaps, kind="sentence", skip_unlabelled=True)[1].labels["label"] == (("1",),)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["a;b", None, "b"], "multilabel"),
        (["a", float("nan"), "b"], "sentence"),
        (pd.array([1, None, 0], dtype="Int64"), "sentence"),
        ([0.5, None, 2.0], "regression"),
        ([None, None, None], "multilabel"),
    ],
)
def test_a_frame_with_gaps_is_read_as_the_same_table(labels, kind, tmp_path):
    frame = pd.DataFrame({"text": ["x y", "z", "v w"], "label": labels})
    frame.to_csv(tmp_path / "train.csv", index=False)
    own = TextOptions(kind=kind, skip_unlabelled=True)
    if pd.isna(frame["label"]).all():
        with pytest.raises(DataError, match="no labels in column 'label'"):
            read(frame, kind=kind, label="label")
        with pytest.raises(DataError, match="no labels in column 'label'"):
            get_task(str(tmp_path / "train.csv"), own, "label")
        return
    split = get_task(str(tmp_path / "train.csv"), own).read("train")
    given = read(frame, kind=kind, skip_unlabelled=True)[1]
    assert given.labels == split.labels
    assert [e.text for e in given.examples] == [e.text for e in split.examples]


STREAM = datasets.Dataset.from_dict({"text": ["a"]}).to_iterable_dataset()
BAD = {
    "mixed": ([WORDS, "a b"], "example 2 is a text, but the first is a list of words"),
    "mixed splits": (
        {"train": [WORDS], "dev": ["a"]},
        r"examples\['train'\] is read as kind tagging and examples\['dev'\] as sentence",
    ),
    "short labels": ([WORDS, (["Ada", "left"], ["O"])], "example 2: 2 words but 1 labels"),
    "labels for a text": ([("a b", ["O", "O"])], r"a text with 2 labels.*text.split\(\)"),
    "one label for words": ([(["a", "b", "c"], "x")], "3 words with one label"),
    "an empty word": ([(["Ada", " "], ["O", "O"])], r"example 1: word 2 is empty \(' '\)"),
    "no words": ([([], [])], "example 1: no words in column 'words'"),
    "no text": ([("  ", "x")], "no text"),
    "an empty split": ({"train": [WORDS], "dev": []}, r"examples\['dev'\] is empty"),
    "an empty frame": (pd.DataFrame({"text": [], "label": []}), r"examples\['train'\] is empty"),
    "no split": ({}, "found no split"),
    "columns": ({"text": ["a"], "label": ["x"]}, "'text' is not a split"),
    "one split twice": ({"dev": ["a"], "validation": ["a"]}, "'dev' and 'validation' are both"),
    "a tuple": ((["a", "b"], ["x", "y"]), r"list\(zip\(texts, labels\)\)"),
    "a string": ("a b", r"found str\. Expected a list"),
    "numbers": ([1, 2], "example 1: found int"),
    "triples": ([("a", "b", "x")], "found 3 parts"),
    "a stream": (STREAM, r"take the part.*stream.take"),
    "half a pair": (["a\ud800"], "half of a surrogate pair"),
    "numbers as words": ([([1, 2], ["O", "O"])], "list of words|list of strings"),
    "no number": ([("a", 1.5), ("b", float("inf"))], "not a finite number"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_refused_and_why(what):
    examples, message = BAD[what]
    with pytest.raises(DataError, match=message):
        read(examples)


@pytest.mark.parametrize("option", ["separator", "sentences"])
def test_options_of_files_say_nothing_here(option):
    with pytest.raises(OptionError, match=f"--{option} does not apply to examples in memory"):
        read([WORDS], **{option: ","})
