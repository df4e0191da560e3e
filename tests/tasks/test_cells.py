"""What surrounds a cell, what divides lines, comments, and columns that hold no words."""

import json
import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.errors import DataError
from probekit.tasks.label_names import trim
from tests.tasks.own_files import get_task, json_lines, task_of, train, words, write

BLANKS = [" ", "\t", "\xa0", "\u2003", "\u3000", "\u2028", "\x85", "\ufeff", "\u200b", "\r"]


@given(st.lists(st.sampled_from(BLANKS)), st.lists(st.sampled_from(BLANKS)))
def test_nothing_unseen_is_part_of_a_label(before: list[str], after: list[str]) -> None:
    assert trim("".join([*before, "B-X\xa0Y", *after])) == "B-X\xa0Y"


@pytest.mark.parametrize("blank", [" ", "\xa0", "\u3000", "\ufeff"])
@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "parquet", "conll"])
def test_blanks_around_names_and_labels_of_words(form: str, blank: str, tmp_path: Path) -> None:
    path, name, tags = tmp_path / f"a.{form}", f"{blank}tag{blank}", [f"{blank}B-X", f"O{blank}"]
    divider = {"csv": ",", "tsv": "\t", "conll": "\t"}.get(form, "")
    if form == "parquet":
        pq.write_table(pa.table({f"tokens{blank}": [["a", "b"]], name: [tags]}), path)
    elif form == "jsonl":
        write(path, json_lines({f"{blank}tokens": ["a", "b"], name: tags}))
    else:
        head = "" if form == "conll" else f"token{divider}{name}\n"
        write(path, head + f"a{divider}{tags[0]}\nb{divider}{tags[1]}\n")
    task = task_of(path, label=None if form == "conll" else "tag")
    column = "1" if form == "conll" else "tag"
    assert task.metrics == {column: "span-f1"}
    split = task.read("train")
    assert (words(split), split.labels) == ([("a", "b")], {column: (("B-X", "O"),)})


@pytest.mark.parametrize("blank", [" ", "\xa0"])
def test_blanks_around_names_and_labels_of_texts(blank: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", f"text\t{blank}label\nso so\t{blank}good{blank}\n")
    split = get_task(str(path), kind="sentence").read("train")
    assert split.labels == {"label": (("good",),)}


def test_a_blank_after_a_comma_is_no_part_of_a_cell(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'token, tag\nParis, B-LOC\n"a, b", "O"\n')
    split = train(path)
    assert (words(split), split.labels) == ([("Paris", "a, b")], {"tag": (("B-LOC", "O"),)})


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    for file, content in {
        "a.csv": "token,tag, tag\na,O,X\n",
        "a.jsonl": json_lines({"tokens": ["a"], "tag": ["O"], " tag": ["X"]}),
    }.items():
        with pytest.raises(DataError, match=r"two columns are called 'tag'; rename one"):
            task_of(write(tmp_path / file, content))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
@pytest.mark.parametrize("form", ["conll", "csv", "tsv", "conllu", "jsonl"])
def test_every_line_end(form: str, end: str, tmp_path: Path) -> None:
    lines = {
        "conll": ["a\u2028b\tX", "c\x85d\tY", "", "e\x0cf\tX"],
        "tsv": ["token\ttag", "a\u2028b\tX", "c\x85d\tY", "", "e\x0cf\tX"],
        "csv": ["token,tag", "a\u2028b,X", "c\x85d,Y", "", "e\x0cf,X"],
        "conllu": [
            *(
                "\t".join([str(n), word, *"_" * 8])
                for n, word in enumerate(("a\u2028b", "c\x85d"), 1)
            ),
            "",
            "\t".join(["1", "e\x0cf", *"_" * 8]),
        ],
        "jsonl": [
            json.dumps({"tokens": one}, ensure_ascii=False)
            for one in (["a\u2028b", "c\x85d"], ["e\x0cf"])
        ],
    }[form]
    path = write(tmp_path / f"a.{form}", "".join(line + end for line in lines))
    assert words(train(path)) == [("a\u2028b", "c\x85d"), ("e\x0cf",)]


def test_byte_order_marks_of_files_put_together(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", "\ufeffa X\n\n\ufeffb Y\n")
    assert words(train(path)) == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("file", "content", "lines"),
    [
        ("a.conll", "# id 7f3a domain=en\nParis _ _ B-LOC\nx _ _ O\n\n# id 1 y\na _ _ O\n", [1, 5]),
        ("a.conll", "# newdoc\nParis PROPN\nx VERB\n\n# second\na VERB\n", [1, 5]),
        ("a.conll", "# id 7\tdomain=en\nParis _ _ B-LOC\nx _ _ O\n\na _ _ O\n", [1]),
        ("a.conll", "# one\n# two\n\nParis\tB-LOC\nx\tO\n\n# three = 3\na\tO\n", [1, 2, 7]),
        (
            "a.conll",
            "#begin document (x); part 0\nParis B-X\nx O\n\na O\n\n#end document it\n",
            [1, 7],
        ),
        ("a.tsv", "# made by hand\ntoken\ttag\nParis\tB-LOC\nx\tO\n\n# s2\na\tO\n", [1, 6]),
        ("a.conll", "#\thttp://x [1]\n1\tParis\tB-X\tO\n2\tx\tO\tO\n\n1\ta\tO\tO\n", [1]),
        ("a.tsv", "#\thttp://x [1]\n1\tParis\tB-X\tO\n2\tx\tO\tO\n\n1\ta\tO\tO\n", [1]),
        ("a.conll", "#\tid=1\nParis\tB-LOC\nx\tO\n\n#\tid: 2\na\tO\n", [1, 5]),
        ("a.tsv", "token\ttag\n#\tid=1\nParis\tB-LOC\nx\tO\n\n#\tid=2\na\tO\n", [2, 6]),
        ("a.csv", "token,tag\n# text = x, y\nParis,B-LOC\nx,O\n\na,O\n", [2]),
        ("a.csv", "token,tag\nParis,B-LOC\nx,O\n\n# s2\na,O\n", [5]),
    ],
)
def test_comments(
    file: str, content: str, lines: list[int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / file, content)
    numbered = "1\t" in content
    found = train(path, *(("1", "2") if numbered else ()))
    assert words(found) == [("Paris", "x"), ("a",)]
    assert f"{len(lines)} lines that begin a sentence with # are read as comments" in caplog.text
    assert f"(line {lines[0]}:" in caplog.text


@pytest.mark.parametrize(
    "rows",
    [
        ["#\tO", "is\tO", "", "#wnut\tB-X", "it\tO"],
        ["# O", "is O", "", "#wnut B-X", "it O"],
        ["# #", "is V"],
        ["No D", "# SYM", "", "# SYM", "one N"],
        ["#", "alone"],
        ["#tag", "alone", "", "#"],
        ["#\tSYM", "is\tV"],
        ["#\tNumForm=Sign", "is\tMood=Ind"],
    ],
)
def test_a_hash_is_a_word_and_begins_hashtags(rows: list[str], tmp_path: Path) -> None:
    found = words(train(write(tmp_path / "a.conll", "\n".join(rows))))
    expected = [row.split()[0] for row in rows if row]
    assert [word for sentence in found for word in sentence] == expected


def test_a_row_that_lost_its_label_is_no_comment(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", "a O\n\n#tag\nb O\n")
    with pytest.raises(DataError, match=r"line 3: expected 2 columns.*found 1\. \(A comment"):
        train(path)


@pytest.mark.parametrize("blank", ["_", "____"])
def test_a_column_of_words_without_words(blank: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", f"{blank}\tNOUN\n{blank}\tVERB\n.\tPUNCT\n")
    with pytest.raises(DataError, match=r"a.conll: 2 of 3 words are written '_', so the text is"):
        train(path)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([str(n) for n in range(20)], r"none of 20 words has a letter, such as '0'"),
        (["*"] * 20, r"all 20 words are '\*'"),
        (["word"] * 20, r"all 20 words are 'word'"),
    ],
)
def test_numbers_and_one_word_over_and_over_are_no_text(
    texts: list[str], message: str, tmp_path: Path
) -> None:
    rows = "".join(f"{text} X\n" for text in texts)
    with pytest.raises(DataError, match=message):
        train(write(tmp_path / "a.conll", rows))
    assert train(write(tmp_path / "b.conll", rows + "house X\ntree Y\n"))


def test_texts_without_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "text\tlabel\n" + "_\tx\n_\ty\n_\tx\n")
    with pytest.raises(DataError, match=r"3 of 3 texts are written '_'"):
        get_task(str(path), kind="sentence").read("train")


def test_sums_and_one_second_text_for_all_are_texts(tmp_path: Path) -> None:
    sums = "".join(f"{n} + 1 =\tabout n\t{n % 2}\n" for n in range(20))
    path = write(tmp_path / "a.tsv", "text\ttext_pair\tlabel\n" + sums)
    assert len(get_task(str(path), kind="pair").read("train").examples) == 20
    numbers = "".join(f"#{n}\t{n % 2}\n" for n in range(20))
    path = write(tmp_path / "b.tsv", "text\tlabel\n" + numbers)
    with pytest.raises(DataError, match="none of 20 texts has a letter, such as '#0'"):
        get_task(str(path), kind="sentence").read("train")


@pytest.mark.parametrize("mark", ["_", "-", "-100", "-1", "n/a", "null"])
@pytest.mark.parametrize("form", ["conll", "jsonl"])
def test_a_word_that_is_not_annotated_has_no_label(
    form: str, mark: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tags: list[str | int] = ["X", mark, "Y"]
    if form == "jsonl" and mark.lstrip("-").isdigit():
        tags = [7, int(mark), 8]
    content = {
        "conll": "".join(f"w{n} {tag}\n" for n, tag in enumerate(tags)),
        "jsonl": json_lines({"tokens": ["a", "b", "c"], "tag": tags}),
    }[form]
    with caplog.at_level(logging.WARNING):
        (labels,) = train(write(tmp_path / f"a.{form}", content)).labels.values()
    assert labels == ((str(tags[0]), "", str(tags[2])),)
    assert f"1 words have no label in column {'1' if form == 'conll' else 'tag'!r}" in caplog.text


def test_a_dash_among_signs_is_one_of_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", "good +\nbad -\nso _\n")
    assert train(path).labels == {"1": (("+", "-", ""),)}


def test_no_features_are_a_label(tmp_path: Path) -> None:
    rows = [("go", "Mood=Imp"), ("now", "_")]
    content = "".join(
        "\t".join([str(n), word, "_", "X", "_", feats, *"_" * 4]) + "\n"
        for n, (word, feats) in enumerate(rows, 1)
    )
    path = write(tmp_path / "a.conllu", content)
    assert train(path, label="feats").labels == {"feats": (("Mood=Imp", "_"),)}


@pytest.mark.parametrize("mark", ["-", "_", "-100", "-1", "-1.0", "", "n/a", "null"])
@pytest.mark.parametrize(("kind", "value"), [("sentence", "x"), ("pair", "x"), ("regression", "2")])
def test_texts_without_a_label_are_refused_or_left_out(
    kind: str, value: str, mark: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if kind == "regression" and mark in ("-1", "-1.0"):
        return
    rows = [f"a{n} b\tc{n} d\t{label}\n" for n, label in enumerate((value, mark, value))]
    path = write(tmp_path / "train.tsv", "text\ttext_pair\tlabel\n" + "".join(rows))
    text = "text" if kind == "sentence" else None
    options = {"kind": kind, "text": text, "label": "label"}
    with pytest.raises(DataError, match=r"train.tsv, line 3: no label .*--skip-unlabelled"):
        get_task(str(path), **options)
    split = get_task(str(path), **options, skip_unlabelled=True).read("train")
    assert [example.text for example in split.examples] == ["a0 b", "a2 b"]
    assert split.labels == {"label": ((value,), (value,))}
    assert "1 of 3 rows have no label in column 'label' and are left out" in caplog.text


def test_numbers_below_zero_may_be_minus_hundred(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "text\tscore\na b\t-100\nc d\t-7\n")
    split = get_task(str(path), kind="regression").read("train")
    assert split.labels == {"score": (("-100",), ("-7",))}


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("a.csv", ",tag\nx\n0,B-X\n", r"a.csv, line 2: expected 2 cells.*found 1"),
        ("a.conll", "a\tO\n\tO\tX\n", r"a.conll, line 2: expected 2 columns.*found 3\.$"),
    ],
)
def test_a_short_row_or_an_empty_cell_is_told_with_its_line(
    file: str, content: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        task_of(write(tmp_path / file, content))
