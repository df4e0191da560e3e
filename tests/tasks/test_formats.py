"""Forms in which people have their texts: separators, encodings, JSON, packed files, suffixes."""

import csv
import gzip
import json
import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probekit.errors import DataError, OptionError, UnknownNameError
from tests.tasks.own_files import CONLLU, get_task, json_lines, train, words, write
from tests.tasks.test_user_texts import rows, task_of

ROWS = [("gut, aber kurz", "pos"), ("schlecht", "neg")]


def texts(path: Path, kind: str = "sentence", **options: str) -> list[tuple[str | None, ...]]:
    return rows(task_of(path, kind, **options).read("train"))


@pytest.mark.parametrize(
    ("mark", "name"), [(";", "semicolon"), ("\t", "tab"), ("|", "bar")], ids=str
)
def test_other_separators_are_recognised_and_said(
    tmp_path: Path, mark: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = "".join(f'"{text}"{mark}{label}\r\n' for text, label in ROWS)
    with caplog.at_level(logging.WARNING):
        assert texts(write(tmp_path / "a.csv", f"text{mark}label\r\n{body}")) == ROWS
    assert caplog.messages == [
        f"{tmp_path / 'a.csv'}: its columns are divided by {name}s, not commas."
    ]


def test_a_table_of_words_with_semicolons(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "token;tag\nEU;B-ORG\n,;O\n\n;\nParis;B-LOC\n")
    assert words(train(path)) == [("EU", ","), ("Paris",)]


def test_the_separator_may_be_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "gut;3,5\nschlecht;1,0\n")
    with pytest.raises(OptionError, match=r"comma \(2 columns\), semicolon \(2 columns\).*--separ"):
        texts(path, label="1")
    for given in (";", "semicolon", "Semicolon"):
        assert texts(path, label="1", separator=given)[0] == ("gut", "3,5")
    excel = write(tmp_path / "b.csv", "sep=;\ntext;label\na, b;c, d\n")
    assert texts(excel) == [("a, b", "c, d")]
    with pytest.raises(DataError, match=r"b.csv, line 3: expected 2 cells"):
        texts(write(tmp_path / "b.csv", "sep=;\ntext;label\na;b;c\n"))
    hats = write(tmp_path / "c.tsv", "text^label\na^b\n")
    assert texts(hats, separator="^") == [("a", "b")]
    assert words(train_of(write(tmp_path / "d.conll", "a^O\nb^O\n"), separator="^")) == [("a", "b")]
    for wrong in ("x", "::", '"'):
        with pytest.raises(OptionError, match=r"--separator .*expected one character"):
            texts(hats, separator=wrong)
    with pytest.raises(OptionError, match=r"--separator says nothing about .*a.jsonl"):
        texts(write(tmp_path / "a.jsonl", "{}\n"), separator=";")


def train_of(path: Path, **options: str):
    return get_task(str(path), **options).read("train")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json", "tsv"])
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-32", "utf-8-sig", "latin-1"])
def test_encodings_are_recognised_and_said(
    tmp_path: Path, suffix: str, encoding: str, caplog: pytest.LogCaptureFixture
) -> None:
    text, label = "Ein schönes Stück für Über-Mütter", "größer"
    mark = {"csv": ",", "tsv": "\t"}.get(suffix, "")
    content = f"text{mark}label\n{text}{mark}{label}\n"
    if not mark:
        content = json.dumps({"text": text, "label": label}, ensure_ascii=False)
    path = write(tmp_path / f"a.{suffix}", content.encode(encoding))
    with caplog.at_level(logging.WARNING):
        assert texts(path) == [(text, label)]
        assert texts(path, encoding=encoding) == [(text, label)]
    shown = {"latin-1": "cp1252", "utf-8-sig": None}.get(encoding, encoding)
    said = f"{path}: read as {shown}, not UTF-8; if it is neither, give --encoding."
    assert caplog.messages == ([said] if shown else [])


def test_signs_of_windows(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.conll", "“quoted” O\n10\u202f€ O\n".replace("\u202f", "\xa0").encode("cp1252")
    )
    assert words(train(path)) == [("“quoted”", "10\xa0€")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("привет мир O\n".encode("cp1251"), r"a.tsv, line 1: not UTF-8 .*--encoding\.$"),
        (
            "Россия самое большое государство мира O\n".encode("cp1251"),
            r"a.tsv, line 1: not UTF-8 .*--encoding \(it may be cp1251\)",
        ),
        ("schön O\n".encode() + b"sch\xf6n O\n", r"a.tsv, line 2: not UTF-8"),
        (b"a O\n\xff O\n", r"a.tsv, line 2: not UTF-8"),
        ("a\tO\n".encode("utf-16-le"), r"a.tsv: a quarter of the bytes are zeros.*utf-16-le"),
    ],
)
def test_what_is_no_known_encoding_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        train(write(tmp_path / "a.tsv", content))


def test_the_encoding_may_be_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "привет\tO\n".encode("cp1251"))
    assert words(train_of(path, encoding="cp1251")) == [("привет",)]
    with pytest.raises(DataError, match=r"a.tsv, line 1: not ascii .*--encoding"):
        train_of(path, encoding="ascii")
    for wrong in ("utf-99", "base64"):
        with pytest.raises(OptionError, match=rf"--encoding {wrong}: no such encoding"):
            train_of(path, encoding=wrong)
    with pytest.raises(OptionError, match=r"--encoding says nothing about conll"):
        get_task("conll", encoding="utf-8")


@pytest.mark.parametrize("name", ["a.conll", "a.txt"])
def test_packed_files_equal_plain_ones(tmp_path: Path, name: str) -> None:
    content = b"EU B-ORG\ncalls O\n"
    plain = train(write(tmp_path / name, content))
    packed = train(write(tmp_path / f"{name}.gz", gzip.compress(content)))
    assert packed.text_fingerprint() == plain.text_fingerprint()
    assert packed.labels == plain.labels
    folder = write(tmp_path / "f" / f"dev.{name[2:]}.GZ", gzip.compress(content))
    assert get_task(str(folder.parent)).splits == ("dev",)
    with pytest.raises(DataError, match=r"b\..*gz: not a readable gzip file"):
        train(write(tmp_path / f"b.{name[2:]}.gz", content))


RECORDS = [{"tokens": ["EU", "calls"], "tags": ["B-ORG", "O"]}, {"tokens": ["No"], "tags": ["O"]}]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(RECORDS),
        json.dumps(RECORDS, indent=2),
        json_lines(*RECORDS),
        "\n".join(json.dumps(row, indent=1) for row in RECORDS),
        json.dumps({name: [row[name] for row in RECORDS] for name in RECORDS[0]}),
        json.dumps(
            {name: {str(n): row[name] for n, row in enumerate(RECORDS)} for name in RECORDS[0]}
        ),
    ],
    ids=["list", "list over lines", "lines", "objects over lines", "columns", "pandas' columns"],
)
def test_forms_of_json(tmp_path: Path, content: str) -> None:
    split = train(write(tmp_path / "a.json", content))
    assert words(split) == [("EU", "calls"), ("No",)]
    assert split.labels == {"tags": (("B-ORG", "O"), ("O",))}


def test_one_record_of_words_is_no_table_of_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", json.dumps(RECORDS[0]))
    assert words(train(path)) == [("EU", "calls")]
    columns = write(tmp_path / "b.json", json.dumps({"text": ["a", "b"], "label": ["x", "y"]}))
    assert texts(columns) == [("a", "x"), ("b", "y")]


DEEP = "[" * 200_000 + "]" * 200_000


@pytest.mark.parametrize("suffix", ["jsonl", "json"])
@pytest.mark.parametrize(
    ("second", "message"),
    [
        ('{"text": "a", "label": ' + "9" * 5000 + "}", "line 2: a whole number with more digits"),
        ('{"text": "a", "label": ' + DEEP + "}", "line 2: .*nested too deeply"),
        ('{"text": "\\ud800"}', "line 2: half of a surrogate pair"),
        ('{"\\udfff": "a"}', "line 2: half of a surrogate pair"),
        ('{"text": }', "line 2: not JSON"),
        ("3", "line 2: expected .*JSON object.*, found int"),
    ],
)
def test_what_json_cannot_hold(tmp_path: Path, suffix: str, second: str, message: str) -> None:
    path = write(tmp_path / f"a.{suffix}", f'{{"text": "a", "label": 1}}\n{second}\n')
    with pytest.raises(DataError, match=message) as caught:
        texts(path)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"text": "a"}, ', "line 1: not JSON"),
        ('[{"text": "a"} {"text": "b"}]', "line 1: not JSON"),
        ('[{"text": "a"}]\n[]', "line 1: expected JSON objects, found list"),
        (
            '{"text": ["a"], "label": ["x", "y"]}',
            r"columns of different lengths \(text 1, label 2\)",
        ),
        ('[["a", "x"]]', "row 1: expected JSON objects, found list"),
    ],
)
def test_malformed_json_files(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        texts(write(tmp_path / "a.json", content))


@pytest.mark.parametrize("kind", ["sentence", "language-modelling"])
def test_a_document_longer_than_csv_reads_by_default(tmp_path: Path, kind: str) -> None:
    document = "word " * 60_000
    path = write(tmp_path / "a.csv", f'text,label\n"{document}",x\nshort,y\n')
    limit = csv.field_size_limit()
    assert len(document) > limit
    assert texts(path, kind)[0][0] == document
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize("first", [(0, 1, 2), (7, 3, 12)], ids=["in order", "shuffled"])
@pytest.mark.parametrize("name", ["", "Unnamed: 0", "Unnamed: 0.1"])
def test_a_nameless_column_of_numbers_is_an_index(
    tmp_path: Path, name: str, first: tuple[int, ...]
) -> None:
    rows = zip(first, ["fine", "bad", "fair"], ["yes", "no", "yes"], strict=True)
    body = "".join(f"{number},{text} film,{label}\n" for number, text, label in rows)
    path = write(tmp_path / "a.csv", f"{name},review,verdict\n{body}")
    assert texts(path, text="review") == [
        ("fine film", "yes"),
        ("bad film", "no"),
        ("fair film", "yes"),
    ]


def test_pandas_index_of_a_parquet_file(tmp_path: Path) -> None:
    table = pa.table({"text": ["a b"], "label": ["x"], "__index_level_0__": [4]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert texts(tmp_path / "a.parquet") == [("a b", "x")]


def test_a_nameless_index_of_words(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ",token,tag\n0,EU,B-ORG\n1,calls,O\n")
    split = train(path)
    assert words(split) == [("EU", "calls")]
    assert set(split.labels) == {"tag"}


def test_nameless_columns_that_are_no_index(tmp_path: Path) -> None:
    ends = write(tmp_path / "a.csv", "text;label;;\na b;x;;\nc d;y;;\n")
    assert texts(ends) == [("a b", "x"), ("c d", "y")]
    named = write(tmp_path / "b.csv", ",text,label\nleft,a b,x\nright,c d,y\n")
    with pytest.raises(OptionError, match=r"several label columns: 0, label\."):
        texts(named)
    assert texts(named, label="0") == [("a b", "left"), ("c d", "right")]


@pytest.mark.parametrize("suffix", ["txt", "bio", "iob2"])
def test_columns_under_another_suffix(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / "f" / f"train.{suffix}", "-DOCSTART- O\n\nEU B-ORG\ncalls O\n")
    for given in (path, path.parent):
        split = train(given)
        assert words(split) == [("EU", "calls")]
        assert split.labels == {"1": (("B-ORG", "O"),)}


def test_other_content_of_txt(tmp_path: Path) -> None:
    conllu = train(write(tmp_path / "a.txt", f"# sent_id = one\n{CONLLU}"))
    assert (words(conllu), conllu.labels) == ([("go",)], {"upos": (("VERB",),)})
    assert texts(write(tmp_path / "b.txt", "a fine film\tgood\nbad\tbad\n"), label="1")[0] == (
        "a fine film",
        "good",
    )
    with pytest.raises(DataError, match=r"unknown format '.txt'; .*--kind language-modelling"):
        texts(write(tmp_path / "c.txt", "Running text.\n"))
    with pytest.raises(DataError, match=r"line 2: .* running text, give --kind language-modelling"):
        train(write(tmp_path / "d.txt", "Running text.\nAnd one more.\n"))


def test_a_treebank_folder_keeps_its_annotated_files(tmp_path: Path) -> None:
    write(tmp_path / "en_x-ud-dev.conllu", CONLLU)
    write(tmp_path / "en_x-ud-dev.txt", "go\n")
    assert words(get_task(str(tmp_path)).read("dev")) == [("go",)]
    prose = get_task(str(tmp_path), kind="language-modelling").read("dev")
    assert [example.text for example in prose.examples] == ["go"]


def test_unknown_columns_are_still_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text;label\na;b\n")
    with pytest.raises(UnknownNameError, match="Did you mean 'label'"):
        texts(path, label="labl")
