"""The user's own sentences, pairs, numbers and running text: every form and what can be wrong."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.errors import DataError, OptionError, UnknownNameError
from probekit.tasks import Split, Task, is_called, is_own
from tests.tasks.own_files import get_task, json_lines, write

TEXTS = ["A fine film .", 'He said "no" .', "Nothing\xa0new ."]
PAIRS = ["One", "Two", "Three"]
CLASSES = ["good", "bad", "good"]
SCORES = ["3.8", "-1", "0.25"]


def task_of(path: Path, kind: str, **options: str) -> Task:
    return get_task(str(path), kind=kind, **options)


def train(path: Path, kind: str, **options: str) -> Split:
    return task_of(path, kind, **options).read("train")


def rows(split: Split) -> list[tuple[str | None, ...]]:
    """Texts and labels of every example."""
    columns = list(split.labels.values())
    found = []
    for number, example in enumerate(split.examples):
        assert example.words == ()
        labels = [column[number][0] for column in columns]
        pair = () if example.text_pair is None else (example.text_pair,)
        found.append((example.text, *pair, *labels))
    return found


def quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def all_forms(folder: Path, columns: Mapping[str, list[str]]) -> dict[str, Path]:
    """The same columns in every form."""
    header, body = list(columns), list(zip(*columns.values(), strict=True))
    pq.write_table(pa.table(dict(columns)), write(folder / "a.parquet", ""))
    objects = [dict(zip(header, row, strict=True)) for row in body]
    tsv = ["\t".join(row) + "\n" for row in body]
    csv = [",".join(map(quoted, row)) + "\r\n" for row in body]
    return {
        "parquet": folder / "a.parquet",
        "jsonl": write(folder / "a.jsonl", json_lines(*objects)),
        "tsv": write(folder / "a.tsv", "\t".join(header) + "\n" + "".join(tsv)),
        "csv": write(folder / "a.csv", "\ufeff" + ",".join(header) + "\r\n" + "".join(csv)),
        "csv, blank end": write(folder / "b.csv", ",".join(header) + "\n" + "".join(csv) + ",\n\n")
        if len(header) == 2
        else folder / "a.csv",
        "folder": write(folder / "f" / "train.tsv", "\t".join(header) + "\n" + "".join(tsv)).parent,
    }


@pytest.mark.parametrize(
    ("kind", "columns", "metric"),
    [
        ("sentence", {"text": TEXTS, "label": CLASSES}, "accuracy"),
        ("sentence", {"label": CLASSES, "Sentence": TEXTS}, "accuracy"),
        ("sentence", {"review": TEXTS, "sentiment": CLASSES}, "accuracy"),
        ("pair", {"premise": TEXTS, "hypothesis": PAIRS, "label": CLASSES}, "accuracy"),
        (
            "pair",
            {"idx": ["0", "1", "2"], "sentence1": TEXTS, "sentence2": PAIRS, "y": CLASSES},
            "accuracy",
        ),
        ("regression", {"text": TEXTS, "text_pair": PAIRS, "score": SCORES}, "spearman"),
        ("regression", {"text": TEXTS, "stars": SCORES}, "spearman"),
    ],
)
def test_every_form_gives_the_same_split(
    kind: str, columns: dict[str, list[str]], metric: str, tmp_path: Path
) -> None:
    label = list(columns)[-1] if list(columns)[-1] != "Sentence" else "label"
    texts = [name for name in columns if name not in (label, "idx")]
    expected = list(zip(*(columns[name] for name in (*texts, label)), strict=True))
    for form, path in all_forms(tmp_path, columns).items():
        task = task_of(path, kind)
        assert rows(task.read("train")) == expected, form
        assert (task.kind, task.columns, task.metrics) == (kind, (label,), {label: metric}), form
        assert task.kinds[label] == kind
        assert is_own(task)
        assert is_called(task.slug, str(path))


def test_columns_by_name_and_by_index(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "src,verdict,one,two\nx,no,a b,c d\ny,yes,e f,g h\n")
    for text, label in (("one,two", "verdict"), ("one, two", "1"), ("2,3", "verdict")):
        found = rows(train(path, "pair", text=text, label=label))
        assert found == [("a b", "c d", "no"), ("e f", "g h", "yes")]
    assert rows(train(path, "sentence", text="two", label="verdict"))[0] == ("c d", "no")
    bare = write(tmp_path / "b.csv", "x,no,a b\ny,yes,e f\n")
    assert rows(train(bare, "sentence", text="-1", label="1")) == [("a b", "no"), ("e f", "yes")]
    comma = write(tmp_path / "c.jsonl", json_lines({"a,b": "x y", "label": "no"}))
    assert rows(train(comma, "sentence", text="a,b")) == [("x y", "no")]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_several_label_columns_are_listed(name: str, tmp_path: Path) -> None:
    columns = {"text": TEXTS, "topic": CLASSES, "stars": SCORES}
    path = all_forms(tmp_path, columns)[name[2:]]
    with pytest.raises(OptionError, match=r"several label columns: topic, stars\..*--label"):
        task_of(path, "sentence")
    assert rows(train(path, "sentence", label="topic"))[0] == (TEXTS[0], "good")
    with pytest.raises(UnknownNameError, match=r"'topik'.*Did you mean 'topic'"):
        task_of(path, "sentence", label="topik")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("sentence", {}, r"two text columns, sentence1 and sentence2, and kind sentence takes one"),
        ("sentence", {"text": "sentence1,sentence2"}, r"takes one text column, found 2.*kind pair"),
        ("pair", {"text": "sentence1"}, r"kind pair takes two text columns.*found 1.*sentence"),
        ("pair", {"text": "sentence1,sentence1"}, r"expected one text column, or two different"),
        ("regression", {"text": "0,1,2"}, r"expected one text column, or two different"),
        ("language-modelling", {"text": "0,1"}, r"takes one text column, found 2\.$"),
        ("language-modelling", {"label": "label"}, r"predicts the text's own tokens; leave it"),
        ("sentence", {"text": "7"}, r"--text 7: .* has 3 columns"),
    ],
)
def test_one_text_or_two(kind: str, options: dict[str, str], message: str, tmp_path: Path) -> None:
    columns = {"sentence1": TEXTS, "sentence2": PAIRS, "label": CLASSES}
    path = all_forms(tmp_path, columns)["tsv"]
    with pytest.raises(OptionError, match=message):
        task_of(path, kind, **options)


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        ({"text": TEXTS, "label": CLASSES}, "pair", r"has one text column, text, and kind pair"),
        ({"a": TEXTS, "b": PAIRS, "label": CLASSES}, "pair", r"which two columns.*a, b\. .*A,B"),
        (
            {"a": TEXTS, "b": PAIRS, "score": SCORES},
            "regression",
            r"which column.*a, b\. .* Two texts per example are given as --text a,b\.$",
        ),
        ({"a": TEXTS, "b": PAIRS, "label": CLASSES}, "sentence", r"which column.*a, b\. .*--text"),
        (
            {"question": TEXTS, "sentence": PAIRS, "answer": TEXTS, "label": CLASSES},
            "pair",
            r"question,sentence; question,answer\. Choose with --text A,B",
        ),
    ],
)
def test_texts_left_open(
    columns: dict[str, list[str]], kind: str, message: str, tmp_path: Path
) -> None:
    for form, path in all_forms(tmp_path, columns).items():
        with pytest.raises(OptionError, match=message):
            task_of(path, kind)
        assert form


def test_class_labels_of_parquet_become_names(tmp_path: Path) -> None:
    table = pa.table({"text": TEXTS, "label": [1, 0, 1]})
    info = {"info": {"features": {"label": {"_type": "ClassLabel", "names": ["neg", "pos"]}}}}
    pq.write_table(
        table.replace_schema_metadata({"huggingface": json.dumps(info)}), tmp_path / "a.parquet"
    )
    found = [row[-1] for row in rows(train(tmp_path / "a.parquet", "sentence"))]
    assert found == ["pos", "neg", "pos"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 0, 1], ["1", "0", "1"]),
        ([1.0, 0.0, 1.0], ["1", "0", "1"]),
        ([True, False, True], ["true", "false", "true"]),
        ([" pos", "neg ", "pos"], ["pos", "neg", "pos"]),
        ([-1, -1, -1], None),
        ([-1.0, None, -1.0], None),
        (["", "", ""], None),
        ([["pos"], [" neg"], ["pos"]], ["pos", "neg", "pos"]),
        ([[1], [0], [1]], ["1", "0", "1"]),
        ([[], [], []], None),
        ([None, None, None], None),
    ],
)
def test_classes_by_name(values: list[object], expected: list[str] | None, tmp_path: Path) -> None:
    objects = [{"text": t, "label": v, "notes": []} for t, v in zip(TEXTS, values, strict=True)]
    split = train(write(tmp_path / "a.jsonl", json_lines(*objects)), "sentence")
    if expected is None:
        assert split.labels == {}
    else:
        assert [label for (label,) in split.labels["label"]] == expected


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("sentence", ["a", None, "b"], r"line 2: no label in column 'label', but others have one"),
        ("sentence", [0, 1, -1], r"line 3: no label in column 'label' \(-1 means none"),
        ("sentence", ["a", "b", ""], r"line 3: no label in column 'label'"),
        ("sentence", [["a"], [], ["b"]], r"line 2: no label in column 'label'"),
        ("sentence", [1, 0.5, 1], r"line 2: expected a class .*found 0.5.*--kind regression"),
        ("regression", [1, None, 2], r"line 2: no label in column 'label'"),
        ("regression", [1, "good", 2], r"line 2: 'good' in column 'label' is no finite number"),
        ("regression", [1, 2, float("nan")], r"line 3: 'nan' in column 'label' is no finite"),
        ("regression", [1, float("inf"), 2], r"line 2: 'inf' in column 'label' is no finite"),
        ("regression", [1, 1e39, 2], r"line 2: '1e\+39' in column 'label' is no finite number up"),
        ("regression", ["3,8", "2", "1"], r"line 1: '3,8' in column 'label' is no finite"),
        ("regression", [True, 2, 3], r"line 1: 'True' in column 'label' is no finite"),
    ],
)
def test_labels_that_are_none(
    kind: str, values: list[object], message: str, tmp_path: Path
) -> None:
    objects = [{"text": t, "label": v} for t, v in zip(TEXTS, values, strict=True)]
    path = write(tmp_path / "a.jsonl", json_lines(*objects))
    with pytest.raises(DataError, match=rf"a.jsonl, {message}"):
        train(path, kind)


def test_numbers_may_be_minus_one_but_not_all_of_them(tmp_path: Path) -> None:
    for values, expected in (("-1 0.5 1", ["-1", "0.5", "1"]), ("-1 -1.0 -1", None)):
        body = "".join(f"some text\t{value}\n" for value in values.split())
        split = train(write(tmp_path / "a.tsv", f"text\tscore\n{body}"), "regression")
        found = [label for (label,) in split.labels["score"]] if split.labels else None
        assert found == expected


def test_a_split_without_the_label_column_is_unlabelled(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", "text,y,z\nfine,1,p\n")
    write(tmp_path / "test.csv", "text,z\nfine,p\n")
    task = task_of(tmp_path, "sentence", label="y")
    assert task.read("train").labels == {"y": (("1",),)}
    assert task.read("test").labels == {}
    with pytest.raises(UnknownNameError, match=r"--label column of .*test.csv 'y'"):
        task_of(tmp_path / "test.csv", "sentence", label="y")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("a.csv", "", r"is empty"),
        ("a.csv", "text,label\n", r"is empty"),
        ("a.csv", "text,label\nfine,1,2\n", r"a.csv, line 2: expected 2 cells.*found 3"),
        ("a.csv", "text,text\nfine,1\n", r"line 1: two columns are called 'text'"),
        ("a.csv", "text,label\nfine,1\n ,0\n", r"a.csv, line 3: no text in column 'text'"),
        ("a.csv", 'text,label\nfine,1\n"open,0\nc,1\n', r"line 3: .*quotation mark is written"),
        ("a.csv", 'text,label\n"a"b,1\n', r"line 2: .*quotation mark is written"),
        ("a.tsv", "film\tgrade\nfine\t1\nbad\t0\n", r"line 1: 'grade' stands above a column of"),
        ("a.tsv", "text\tlabel\nfine 1\n", r"line 2: expected 2 cells.*found 1"),
        ("a.jsonl", json_lines({"text": "a", "label": 1}, {"label": 1}), r"line 2: no text in"),
        (
            "a.jsonl",
            json_lines({"text": "a", "labels": ["x", "y"]}),
            r"'labels' holds lists of sev",
        ),
        ("a.jsonl", json_lines({"label": 1}), r"has no column with text; expected one \(text"),
        ("a.jsonl", json_lines({"tokens": ["a"], "label": 1}), r"has no column with text"),
        ("a.jsonl", json_lines({"text": "a", "id": 1}) * 2, r"line 2: the id '1' occurs twice"),
        ("a.parquet", "PAR1", r"a.parquet: not a readable Parquet"),
        ("a.conll", "a O\n", r"unknown format '.conll'; expected .jsonl.*For .conll use .*tagging"),
        ("a.txt", "a\n", r"unknown format '.txt'; .*For .txt use --kind language-modelling"),
        ("a.xyz", "a\n", r"unknown format '.xyz'; .*for kind sentence\.$"),
    ],
)
def test_malformed(file: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        train(write(tmp_path / file, content), "sentence")
    assert "\n" not in str(caught.value)


def test_text_of_another_type(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", json_lines({"t": "a"}, {"t": 3}))
    with pytest.raises(DataError, match=r"line 2: expected text in column 't', found int"):
        train(path, "sentence", text="t")


def test_csv_texts_may_run_over_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'text,label\r\n"one\r\n\r\ntwo, ""three""",x\r\nfour,\r\n')
    with pytest.raises(DataError, match=r"a.csv, line 5: no label in column 'label'"):
        train(path, "sentence")
    path = write(tmp_path / "a.csv", 'text,label\r\n"one\r\n\r\ntwo, ""three""",x\r\nfour,y\r\n')
    assert rows(train(path, "sentence")) == [('one\n\ntwo, "three"', "x"), ("four", "y")]


@pytest.mark.parametrize("text", ["The film; it is good", "x | y", ";", "12 : 3"])
def test_a_single_column_may_hold_marks_that_divide_others(text: str, tmp_path: Path) -> None:
    found = train(write(tmp_path / "a.csv", f'"{text}"\nand more\n'), "sentence")
    assert [example.text for example in found.examples] == [text, "and more"]


def test_a_number_is_a_position_though_a_cell_is_the_same_number(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "1,g d g\n0,a c\n1,b\n")
    task = get_task(str(path), kind="sentence", text="1", label="0")
    found = task.read("train", None)
    assert [example.text for example in found.examples] == ["g d g", "a c", "b"]
    assert found.labels == {"0": (("1",), ("0",), ("1",))}
    numbered = write(tmp_path / "b.csv", "0,1\n1,g d g\n0,a c\n")
    found = get_task(str(numbered), kind="sentence", text="1", label="0").read("train", None)
    assert [example.text for example in found.examples] == ["g d g", "a c"]


def test_a_header_that_is_not_known_for_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.csv", "film,verdict\nso good,pos\nso bad,neg\n")
    with caplog.at_level(logging.WARNING):
        assert len(train(path, "sentence", text="film").examples) == 2
        assert caplog.messages == []
        assert len(train(path, "sentence", text="0", label="1").examples) == 3
    (message,) = caplog.messages
    assert message.startswith(f"{path}: the first row (film, verdict) is read as an example")


def test_ids_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,text,label\nq7,fine,1\nq9,bad,0\n")
    assert [example.id for example in train(path, "sentence").examples] == ["q7", "q9"]
    indexed = write(tmp_path / "b.csv", "idx,text,label\n0,fine,1\n")
    assert [example.id for example in train(indexed, "sentence").examples] == ["train-0"]


def test_text_without_labels(tmp_path: Path) -> None:
    for file, content in (("a.csv", "text\nfine\n"), ("a.jsonl", json_lines({"text": "fine"}))):
        task = task_of(write(tmp_path / file, content), "sentence")
        assert (task.columns, rows(task.read("train"))) == ((), [("fine",)])


def test_plain_text_for_language_modelling(tmp_path: Path) -> None:
    write(tmp_path / "train.txt", "\n\n One .\nTwo\u2028 .\n \t\n\n\nThree .")
    write(tmp_path / "test.txt", "Four .\r\n\r\nFive .\r\n")
    task = task_of(tmp_path, "language-modelling")
    assert (task.kind, task.columns, task.metrics) == (
        "language-modelling",
        ("token",),
        {"token": "perplexity"},
    )
    assert [e.text for e in task.read("train").examples] == [" One .\nTwo\u2028 .", "Three ."]
    assert [e.text for e in task.read("test").examples] == ["Four .", "Five ."]
    assert task.read("train").labels == {}
    write(tmp_path / "train.txt", " \n\n")
    with pytest.raises(DataError, match="is empty"):
        task_of(tmp_path, "language-modelling").read("train")


def test_documents_in_rows_for_language_modelling(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", json_lines({"text": "One .\n\nTwo .", "label": "x", "n": 3}))
    split = train(path, "language-modelling")
    assert ([example.text for example in split.examples], split.labels) == (["One .\n\nTwo ."], {})


LINE = st.text(st.characters(exclude_characters="\r\x00\ufeff", codec="utf-8")).filter(
    lambda text: text.strip() != ""
)


@given(st.lists(st.tuples(LINE, LINE, st.sampled_from(["yes", "no"])), min_size=1, max_size=4))
def test_any_texts_come_back(
    tmp_path_factory: pytest.TempPathFactory, examples: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    header = ("premise", "hypothesis", "label")
    objects = [dict(zip(header, row, strict=True)) for row in examples]
    csv = "".join(",".join(map(quoted, row)) + "\n" for row in (header, *examples))
    files = [
        write(folder / "a.jsonl", json_lines(*objects)),
        write(folder / "a.csv", csv),
    ]
    if not any("\n" in cell or "\t" in cell for row in examples for cell in row):
        lines = "".join("\t".join(row) + "\n" for row in (header, *examples))
        files.append(write(folder / "a.tsv", lines))
    for path in files:
        assert rows(train(path, "pair", text="premise,hypothesis")) == examples
