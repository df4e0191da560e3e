"""The user's own files: every form, the choice of columns, and what can be wrong in them."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.errors import DataError, MissingFileError, OptionError, UnknownNameError
from tests.tasks.own_files import CONLLU, get_task, json_lines, task_of, train, words, write

WORDS = [("New", "York", "!"), ("no",)]
TAGS = (("B-LOC", "I-LOC", "O"), ("O",))


def write_all_forms(folder: Path) -> dict[str, Path]:
    """The same two sentences in every form, with one label column called "ner"."""
    rows = [list(zip(w, t, strict=True)) for w, t in zip(WORDS, TAGS, strict=True)]
    blocks = ["".join(f"{word}\t{tag}\n" for word, tag in row) for row in rows]
    table = {"tokens": [list(w) for w in WORDS], "ner": [list(t) for t in TAGS]}
    pq.write_table(pa.table(table), folder / "a.parquet")
    objects = [{"tokens": w, "ner": t} for w, t in zip(WORDS, TAGS, strict=True)]
    tsv = "\n".join(blocks)
    return {
        ".parquet": folder / "a.parquet",
        ".jsonl": write(folder / "a.jsonl", json_lines(*objects)),
        ".conll": write(folder / "a.conll", tsv),
        ".conll blanks": write(folder / "b.conll", tsv.replace("\t", " ")),
        ".tsv": write(folder / "a.tsv", tsv),
        ".tsv header": write(folder / "b.tsv", f"token\tner\n{tsv}"),
        ".csv": write(folder / "a.csv", tsv.replace("\t", ",")),
        ".csv header": write(folder / "b.csv", "token,ner\n" + tsv.replace("\t", ",")),
        ".csv empty cells": write(
            folder / "c.csv", "token,ner\r\n" + tsv.replace("\t", ",").replace("\n\n", "\r\n,\r\n")
        ),
        "folder": write(folder / "folder" / "train.conll", tsv).parent,
    }


def test_every_form_gives_the_same_split(tmp_path: Path) -> None:
    splits = {form: train(path) for form, path in write_all_forms(tmp_path).items()}
    for form, split in splits.items():
        assert words(split) == WORDS, form
        assert list(split.labels.values()) == [TAGS], form
        assert split.text_fingerprint() == splits[".conll"].text_fingerprint(), form
    assert set(splits[".jsonl"].labels) == {"ner"}
    assert set(splits[".csv header"].labels) == {"ner"}
    assert set(splits[".conll"].labels) == {"1"}


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ([1.0, 0.0], ("1", "0")),
        ([1, 0], ("1", "0")),
        ([True, False], ("true", "false")),
        (["B-X", None], ("B-X", "")),
        ([1, -100], ("1", "")),
    ],
)
def test_tags_in_lists_are_the_classes_that_texts_have(tmp_path, tags, expected) -> None:
    path = write(tmp_path / "a.jsonl", json_lines({"tokens": ["EU", "calls"], "tags": tags}))
    assert train(path).labels == {"tags": (expected,)}


def test_conll_columns_by_index(tmp_path: Path) -> None:
    path = write(tmp_path / "x.conll", "0 the DT B-NP\n1 cat NN I-NP\n")
    split = train(path, text="1", label="2")
    assert words(split) == [("the", "cat")]
    assert split.labels == {"2": (("DT", "NN"),)}
    assert train(path, text="1", label="-1").labels == {"3": (("B-NP", "I-NP"),)}
    assert train(path, text="1").labels == {"3": (("B-NP", "I-NP"),)}
    with pytest.raises(OptionError, match=r"--label 4: .*x.conll has 4 columns; expected -4 to 3"):
        train(path, label="4")
    with pytest.raises(UnknownNameError, match=r"--label column of .*'pos'.*0, 1, 2, 3"):
        train(path, label="pos")


def test_unlabelled_text(tmp_path: Path) -> None:
    for file, content in {
        "a.conll": "only\nwords\n",
        "a.tsv": "only\nwords\n",
        "a.jsonl": json_lines({"tokens": ["only", "words"]}),
    }.items():
        task = task_of(write(tmp_path / file, content))
        assert (task.columns, task.read("train").labels) == ((), {}), file
        assert words(task.read("train")) == [("only", "words")], file


@pytest.mark.parametrize("mark", [-1, -100, "-1"])
def test_a_number_that_means_no_label_is_none(tmp_path: Path, mark: int | str) -> None:
    rows = [{"tokens": ["a", "b"], "tags": [0, 1]}, {"tokens": ["c"], "tags": [1]}]
    write(tmp_path / "d/train.jsonl", json_lines(*rows))
    for file, content in {
        "test.jsonl": json_lines({"tokens": ["a", "b"], "tags": [mark, mark]}),
        "dev.tsv": f"token\ttags\na\t{mark}\nb\t{mark}\n",
    }.items():
        write(tmp_path / "d" / file, content)
    task = task_of(tmp_path / "d")
    assert task.read("train").labels == {"tags": (("0", "1"), ("1",))}
    assert task.read("test").labels == task.read("dev").labels == {}
    blind = {"tokens": ["c", "d"], "tags": [mark, mark]}
    for row, labels in ((blind, ("", "")), (blind | {"tags": [1, mark]}, ("1", ""))):
        some = write(tmp_path / "some.jsonl", json_lines(rows[0], row))
        assert train(some).labels == {"tags": (("0", "1"), labels)}


def test_a_gap_among_numbers_is_a_place_without_a_label(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    rows = {"tokens": [["a", "b"], ["c"]], "tags": [[1.0, float("nan")], [0.0]]}
    pq.write_table(pa.table(rows), file)
    assert train(file).labels == {"tags": (("1", ""), ("0",))}


def test_a_column_of_empty_lists_holds_neither_words_nor_labels(tmp_path: Path) -> None:
    row = {"tokens": ["Paris"], "ner_tags": ["B-LOC"], "relations": []}
    split = train(write(tmp_path / "a.jsonl", json_lines(row, row | {"ner_tags": ["O"]})))
    assert split.labels == {"ner_tags": (("B-LOC",), ("O",))}
    spans = {"text": "Paris", "entities": [{"label": "LOC"}], "relations": []}
    with pytest.raises(DataError, match="no column with a list of words"):
        train(write(tmp_path / "b.jsonl", json_lines(spans)))


def test_a_column_of_nothing_is_no_label(tmp_path: Path) -> None:
    rows = [{"text": "a b", "label": "", "sentiment": name} for name in "xy"]
    for file, content, kind, label in [
        ("a.csv", "text,comment,label\na b,,x\nc d,,y\n", "sentence", "label"),
        ("b.jsonl", json_lines(*rows), "sentence", "sentiment"),
        ("c.csv", "word,comment,tag\nParis,,B-LOC\n,,\ncalls,,O\n", "tagging", "tag"),
    ]:
        path = write(tmp_path / file, content)
        assert set(get_task(str(path), kind=kind).read("train").labels) == {label}


def test_several_label_columns_are_listed(tmp_path: Path) -> None:
    paths = {
        "a.jsonl": json_lines({"tokens": ["a"], "pos": ["X"], "ner": ["O"]}),
        "a.csv": "token,pos,ner\na,X,O\n",
    }
    for file, content in paths.items():
        path = write(tmp_path / file, content)
        with pytest.raises(OptionError, match=r"several label columns: pos, ner\..*--label"):
            task_of(path)
        assert train(path, label="pos").labels == {"pos": (("X",),)}
        assert train(path, label="-1").labels == {"ner": (("O",),)}
        with pytest.raises(UnknownNameError, match=r"'nerr'.*Did you mean 'ner'"):
            task_of(path, label="nerr")


def test_conllu_labels_are_upos_by_default(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conllu", CONLLU)
    task = task_of(path)
    assert (task.columns, task.metrics) == (("upos",), {"upos": "accuracy"})
    assert task.read("train").labels == {"upos": (("VERB",),)}
    assert train(path, label="4").labels == {"xpos": (("VB",),)}
    assert train(path, label="lemma").labels == {"lemma": (("go",),)}
    bare = write(tmp_path / "b.conllu", CONLLU.replace("VERB", "_"))
    assert train(bare).labels == {"xpos": (("VB",),)}
    lemmas = write(tmp_path / "c.conllu", "1\tgo\tgo\t_\t_\t_\t_\t_\t_\t_\n")
    assert train(lemmas).labels == {"lemma": (("go",),)}
    assert task_of(lemmas, text="lemma").columns == ()


def test_a_treebank_folder_keeps_the_default_of_its_first_split(tmp_path: Path) -> None:
    write(tmp_path / "en_x-ud-train.conllu", CONLLU)
    write(tmp_path / "en_x-ud-test.conllu", CONLLU.replace("VERB", "_"))
    task = task_of(tmp_path)
    assert task.read("train").labels == {"upos": (("VERB",),)}
    assert task.read("test").labels == {}


def test_a_table_of_texts_may_be_meant(tmp_path: Path) -> None:
    path = write(tmp_path / "single.csv", "A fine film .,good,3.8\nNothing new .,bad,1.2\n")
    message = r"columns: 1, 2\. .* read as words, one per row; .* --kind sentence, pair or regress"
    with pytest.raises(OptionError, match=message):
        task_of(path)


def test_text_column(tmp_path: Path) -> None:
    content = json_lines({"a": ["x"], "b": ["y"], "n": 3, "s": "text", "nested": [["z"]]})
    path = write(tmp_path / "a.jsonl", content)
    with pytest.raises(OptionError, match=r"which column holds the words\? a, b\..*--text"):
        task_of(path)
    split = train(path, text="b", label="a")
    assert (words(split), split.labels) == ([("y",)], {"a": (("x",),)})
    with pytest.raises(DataError, match=r"line 1: expected a list of strings in column 's'"):
        train(path, text="s", label="a")
    with pytest.raises(DataError, match="no column with a list of words"):
        task_of(write(tmp_path / "b.jsonl", json_lines({"text": "a b"})))
    named = write(tmp_path / "c.jsonl", json_lines({"Tags": ["O"], "Tokens": ["x"]}))
    assert train(named).labels == {"Tags": (("O",),)}


@pytest.mark.parametrize("strange", [2.5, float("inf"), {"a": 1}, ["B"]])
def test_what_is_no_tag_is_told_with_its_line(tmp_path: Path, strange: object) -> None:
    rows = [{"tokens": ["x", "y"], "tags": tags} for tags in ([0, 1], [0, 1], [0, strange])]
    path = write(tmp_path / "a.jsonl", json_lines(*rows).replace("Infinity", "1e999"))
    with pytest.raises(DataError, match=r"line 3: ") as caught:
        train(path)
    assert "in column 'tags'" in str(caught.value) or "1e999" in str(caught.value)


def test_fractions_beside_words_are_no_tags(tmp_path: Path) -> None:
    row = {"tokens": ["x", "y"], "tags": ["A", "B"], "sure": [1.0, 0.25], "boxes": [[1], [2]]}
    assert train(write(tmp_path / "a.jsonl", json_lines(row))).labels == {"tags": (("A", "B"),)}


def test_parquet_class_labels_become_names(tmp_path: Path) -> None:
    inner = {"_type": "ClassLabel", "names": ["O", "B-X"]}
    table = pa.table({"tokens": [["a", "b"], ["c"]], "ner": [[1, 0], [0]], "id": [7, 9]})
    for feature in (
        {"_type": "List", "feature": inner},
        {"_type": "Sequence", "feature": inner},
        [inner],
    ):
        meta = {"huggingface": json.dumps({"info": {"features": {"ner": feature}}})}
        pq.write_table(table.replace_schema_metadata(meta), tmp_path / "a.parquet")
        split = train(tmp_path / "a.parquet")
        assert split.labels == {"ner": (("B-X", "O"), ("O",))}
    assert [example.id for example in split.examples] == ["7", "9"]
    pq.write_table(table, tmp_path / "b.parquet")
    assert train(tmp_path / "b.parquet").labels == {"ner": (("1", "0"), ("0",))}


@pytest.mark.parametrize("mark", [-1, -100])
def test_numbers_of_a_class_label_that_stand_for_none(tmp_path: Path, mark: int) -> None:
    inner = {"_type": "ClassLabel", "names": ["O", "B-X"]}
    info = {"features": {name: {"_type": "List", "feature": inner} for name in ("ner", "pos")}}
    rows = {"tokens": [["a", "b"], ["c"]], "ner": [[1, mark], [mark]], "pos": [[mark] * 2, [mark]]}
    table = pa.table(rows).replace_schema_metadata({"huggingface": json.dumps({"info": info})})
    pq.write_table(table, tmp_path / "a.parquet")
    assert train(tmp_path / "a.parquet").labels == {"ner": (("B-X", ""), ("",))}


@pytest.mark.parametrize(("form", "comma"), [("csv", ","), ("tsv", "\t")])
def test_a_table_without_blank_rows_is_refused(tmp_path: Path, form: str, comma: str) -> None:
    header = comma.join(["pos", "token", "tag"]) + "\n"
    rows = [comma.join(["DT", f"w{n}", "O"]) + "\n" for n in range(501)]
    path = write(tmp_path / f"a.{form}", header + "".join(rows))
    with pytest.raises(DataError, match=r"one sentence of 501 words; .* blank rows.*\.jsonl") as no:
        task_of(path, label="tag")
    assert str(no.value).startswith(str(path))
    longest = write(tmp_path / f"b.{form}", header + "".join(rows[:500]))
    assert [len(sentence) for sentence in words(train(longest, label="tag"))] == [500]
    divided = write(tmp_path / f"c.{form}", header + "".join(rows) + "\n" + rows[0])
    assert [len(sentence) for sentence in words(train(divided, label="tag"))] == [501, 1]


def test_a_lone_quotation_mark(tmp_path: Path) -> None:
    assert words(train(write(tmp_path / "a.tsv", 'say\tO\n"\tO\nhi\tO\n'))) == [("say", '"', "hi")]
    assert words(train(write(tmp_path / "a.csv", 'say,O\n"""",O\n",",O\n'))) == [("say", '"', ",")]
    with pytest.raises(DataError, match=r"b.csv, line 2: .*\"\"\"\""):
        train(write(tmp_path / "b.csv", 'say,O\n",O\nhi,O\n"end,O\n'))
    with pytest.raises(DataError, match=r"c.csv, line 2"):
        train(write(tmp_path / "c.csv", 'say,O\n",O\nhi,O\n'))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("a.conll", "", r"split 'train' of .*a.conll is empty"),
        ("a.conll", "\n \t\n", "is empty"),
        ("a.conll", "a O\nb B_X\nc B-X\n", r"a.conll, line 2: 'B_X' in column '1' is no BIO tag"),
        ("a.conll", "a S-X\nb B-X\n", r"line 1: 'S-X'.*convert other schemes"),
        ("a.conll", "a\tO\nb O\n", r"line 2: expected 2 columns divided by a TAB.*found 1"),
        ("a.conll", b"a O\n\n\xff O\n", r"line 3: not UTF-8"),
        ("a.tsv", "", "is empty"),
        ("a.tsv", "token\ttag\n", "is empty"),
        ("a.tsv", "a\tO\nb\n", r"line 2: expected 2 cells.*found 1"),
        ("a.csv", "a,O\nb,,O\n", r"line 2: expected 2 cells.*found 3"),
        ("a.csv", "token,tag\na,X\n\nb,\n", r"line 4: an empty label in column 'tag'"),
        ("a.jsonl", "", "is empty"),
        ("a.jsonl", '{"tokens": ["a"]}\n{"tokens"\n', r"a.jsonl, line 2: not JSON"),
        ("a.jsonl", "[1]\n", r"line 1: expected one JSON object per line, found list"),
        ("a.jsonl", '{"tokens": ["\\ud800"]}\n', r"line 1: half of a surrogate pair"),
        ("a.jsonl", json_lines({"tokens": []}), r"line 1: an example without words"),
        ("a.jsonl", json_lines({"tokens": ["a"], "id": 1}) * 2, r"line 2: the id '1' occurs twice"),
        (
            "a.jsonl",
            "\n" + json_lines({"tokens": ["a", "b"], "t": ["X"]}),
            r"a.jsonl, line 2: 2 words but 1 labels in column 't'",
        ),
        (
            "a.jsonl",
            json_lines({"tokens": ["a"], "t": ["X"]}, {"tokens": ["a"]}),
            r"line 2: no labels in column 't', which other examples",
        ),
        (
            "a.jsonl",
            json_lines({"tokens": ["a"], "t": ["X"]}, {"t": ["X"]}),
            r"line 2: no words in column 'tokens'",
        ),
        (
            "a.jsonl",
            json_lines({"tokens": ["a", "b"], "t": ["X", "Y"]}, {"tokens": ["a", None]}),
            r"line 2: expected a list of .* in column 'tokens'",
        ),
        ("a.parquet", "PAR1 but not really", r"a.parquet: not a readable Parquet file"),
        ("a.conllu", CONLLU + "1\tx\n", r"a.conllu, line 3: expected 10 columns"),
    ],
)
def test_malformed(tmp_path: Path, file: str, content: str | bytes, message: str) -> None:
    path = write(tmp_path / file, content)
    with pytest.raises(DataError, match=message) as caught:
        train(path, label="upos" if file.endswith("conllu") else None)
    assert "\n" not in str(caught.value)


def test_paths_that_are_no_data(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"absent.conll: no such file or folder"):
        task_of(tmp_path / "absent.conll")
    with pytest.raises(MissingFileError, match=r"\./absent: no such file or folder"):
        get_task("./absent")
    with pytest.raises(DataError, match=r"unknown format '.xml'; expected .conll, .conllu"):
        task_of(write(tmp_path / "a.xml", "a O\n"))
    with pytest.raises(DataError, match="no file is named after a split; expected train, dev"):
        task_of(tmp_path)


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.text(
                    st.characters(exclude_characters="\t\n\r\ufeff", codec="utf-8"), min_size=1
                ),
                st.sampled_from(["NN", "VB", "X"]),
            ).filter(lambda pair: pair[0].strip(" ") not in ("", "-DOCSTART-")),
            min_size=1,
            max_size=4,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_words_come_back(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[tuple[str, str]]]
) -> None:
    blocks = ["".join(f"{word}\t{tag}\n" for word, tag in rows) for rows in sentences]
    objects = [{"tokens": [w for w, _ in rows], "t": [t for _, t in rows]} for rows in sentences]
    folder = tmp_path_factory.mktemp("any")
    expected = [tuple(word for word, _ in rows) for rows in sentences]
    for path in (
        write(folder / "a.conll", "\n".join(blocks)),
        write(folder / "a.jsonl", json_lines(*objects)),
    ):
        split = train(path)
        assert words(split) == expected
        assert next(iter(split.labels.values())) == tuple(
            tuple(tag for _, tag in rows) for rows in sentences
        )


def test_texts_read_as_words_are_refused(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\na fine day,good\nrain again today,bad\n")
    with pytest.raises(DataError, match=r"holds texts, such as 'a fine day'.*--kind sentence"):
        get_task(str(path))
    assert get_task(str(path), kind="sentence").kind == "sentence"
