"""Texts with several labels each: every format, and what is refused."""

import json

import pytest
from datasets import ClassLabel, Dataset, Features, Sequence, Value

from probekit.errors import DataError, ProbekitError
from probekit.tasks import TextOptions, examples_task, get_task
from probekit.tasks.task import Choice

TEXTS = ("one", "two", "three", "four")
SETS = (("b", "a"), (), ("a", "a"), ("c",))
EXPECTED = [("a", "b"), (), ("a",), ("c",)]
KIND = TextOptions(kind="multilabel")


def read(path, column="labels", options=KIND, split="train"):
    task = get_task(str(path), options)
    assert set(task.metrics.values()) == {"macro-f1"} and task.kinds == {column: "multilabel"}
    return list(task.read(split).labels[column])


def as_jsonl(path):
    rows = [{"text": text, "labels": labels} for text, labels in zip(TEXTS, SETS, strict=True)]
    (path := path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return path


def as_table(sign, quoted=False):
    def write(path):
        cells = (json.dumps(labels) if quoted else sign.join(labels) for labels in SETS)
        cells = ('"' + cell.replace('"', '""') + '"' for cell in cells)
        lines = ["text,labels", *map(",".join, zip(TEXTS, cells, strict=True))]
        (path := path / "data.csv").write_text("\n".join(lines))
        return path

    return write


def as_parquet(path):
    features = Features(
        {"text": Value("string"), "labels": Sequence(ClassLabel(names=list("abc")))}
    )
    numbers = [["abc".index(name) for name in labels] for labels in SETS]
    data = Dataset.from_dict({"text": list(TEXTS), "labels": numbers}, features=features)
    data.to_parquet(path / "data.parquet")
    return path / "data.parquet"


@pytest.mark.parametrize(
    "write",
    [as_jsonl, as_table(";"), as_table("|"), as_table(", "), as_table("", quoted=True), as_parquet],
)
def test_every_format_gives_sorted_sets(tmp_path, write):
    assert read(write(tmp_path)) == EXPECTED


def test_class_numbers_have_the_names_of_the_card(tmp_path):
    card = "---\ndataset_info:\n  features:\n  - name: text\n    dtype: string\n  - name: labels\n"
    card += "    sequence:\n      class_label:\n        names:\n          '0': joy\n"
    card += "          '1': fear\n---\n"
    (tmp_path / "README.md").write_text(card)
    rows = [{"text": "one", "labels": [1, 0]}, {"text": "two", "labels": []}]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read(tmp_path) == [("fear", "joy"), ()]


def test_examples_in_memory():
    examples = {"train": list(zip(TEXTS, map(list, SETS), strict=True)), "dev": [("five", [])]}
    task = examples_task(examples, "mine", Choice(kind="multilabel"))
    assert list(task.read("train").labels["label"]) == EXPECTED
    assert list(task.read("dev").labels["label"]) == [()]
    with pytest.raises(DataError, match="Several labels of a text need kind='multilabel'"):
        examples_task(examples, "mine", Choice())


def test_lists_that_are_all_empty_are_labels_and_cells_that_are_all_empty_are_none(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"text": "one", "labels": []}\n')
    assert read(tmp_path) == [()]
    (tmp_path / "train.jsonl").unlink()
    (tmp_path / "train.csv").write_text("text,labels\none,\ntwo,\n")
    assert get_task(str(tmp_path), KIND).read("train").labels == {}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": "a", "labels": ["x", ""]}], "line 1: expected labels.*found ''"),
        ([{"text": "a", "labels": ["x", {"y": 1}]}], "no column|expected labels"),
        ([{"text": "a", "labels": ["x"]}, {"text": "b", "labels": None}], "line 2: no label.*skip"),
    ],
)
def test_what_is_no_label_is_refused_with_its_line(tmp_path, rows, message):
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = TextOptions(kind="multilabel")
    with pytest.raises(DataError, match=message):
        get_task(str(tmp_path), options, label="labels").read("train")


def test_a_cell_that_is_no_json_is_refused(tmp_path):
    (tmp_path / "train.csv").write_text("text,labels\none,\"['a', 'b']\"\n")
    with pytest.raises(DataError, match=r"row 1|line 2.*not a JSON list"):
        get_task(str(tmp_path), KIND).read("train")


def test_rows_without_labels_may_be_left_out(tmp_path):
    rows = [{"text": "a", "labels": ["x"]}, {"text": "b", "labels": None}]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = TextOptions(kind="multilabel", skip_unlabelled=True)
    assert read(tmp_path, options=options) == [("x",)]


def test_all_files_are_divided_at_the_sign_of_the_first(tmp_path):
    (tmp_path / "train-0.csv").write_text('text,labels\none,"world, north"\n')
    (tmp_path / "train-1.csv").write_text('text,labels\ntwo,a;b\nthree,"world, north"\n')
    (tmp_path / "dev.csv").write_text('text,labels\nfour,"world, north"\n')
    with pytest.raises(
        DataError, match=r"train-1.csv, line 2: .* has ';' here, but .* ',' separates"
    ):
        get_task(str(tmp_path), KIND)
    (tmp_path / "train-0.csv").write_text("text,labels\none,c\n")
    task = get_task(str(tmp_path), KIND)
    assert list(task.read("train").labels["labels"]) == [("c",), ("a", "b"), ("world, north",)]
    assert list(task.read("dev").labels["labels"]) == [("world, north",)]
    assert any("labels separated by ';'" in note for note in task.notes)


@pytest.mark.parametrize("mark", ["null", "nan", "n/a", "_", "-1"])
def test_marks_for_none_are_no_labels(tmp_path, mark):
    (tmp_path / "train.csv").write_text(f"text,labels\na,x;y\nb,{mark}\nc,\n")
    with pytest.raises(
        DataError, match=f"line 3: no label .*{mark} means no label.*--skip unlabelled"
    ):
        get_task(str(tmp_path), KIND)
    options = TextOptions(kind="multilabel", skip_unlabelled=True)
    assert read(tmp_path, options=options) == [("x", "y"), ()]
    (tmp_path / "train.csv").write_text(f"text,labels\na,x;{mark}\n")
    with pytest.raises(DataError, match=f"line 2: {mark} means that a label is missing"):
        get_task(str(tmp_path), KIND)
    (tmp_path / "train.csv").write_text(f"text,labels\na,{mark}\nb,{mark}\n")
    assert get_task(str(tmp_path), KIND).read("train").labels == {}


@pytest.mark.parametrize("cell", ["joy;fear", "joy|fear", '"[""joy"", ""fear""]"'])
def test_cells_with_several_labels_are_not_taken_for_one_class(tmp_path, cell):
    (tmp_path / "train.csv").write_text(f"text,labels\na day,{cell}\nno day,joy\nthe sea,joy\n")
    with pytest.raises(DataError, match=r"no --kind was given.*multilabel"):
        get_task(str(tmp_path), TextOptions())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": "a b", "labels": {"joy": 1}}], "each row needs a list of labels"),
        ([{"text": "a b", "joy": 1, "fear": 0}], "joy, fear.*Put all labels of a text in one"),
    ],
)
def test_labels_in_other_forms_are_told_how_to_be_written(tmp_path, rows, message):
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ProbekitError, match=message):
        get_task(str(tmp_path), KIND)
