"""Which sentences belong together, read from columns, comments and marks of documents."""

import json
from dataclasses import replace

import pytest

from probekit.errors import DataError, UnknownNameError
from probekit.tasks import TextOptions, get_task

CONLLU = """# newdoc id = d1
# sent_id = a
# genre = news
1\tThe\tthe\tDET\t_\t_\t0\troot\t_\t_

# sent_id = b
# genre = mail
1\tcat\tcat\tNOUN\t_\t_\t0\troot\t_\t_

# newdoc
1\tsat\tsit\tVERB\t_\t_\t0\troot\t_\t_
"""
CONLL = """-DOCSTART- O

EU B-ORG
left O

Rome B-LOC

-DOCSTART- O

Peter B-PER
"""
TABLE = """doc,sentence_id,token,tag
x,1,EU,B-ORG
,1,left,O
x,2,Rome,B-LOC
y,3,Peter,B-PER
"""


def groups(path, column, kind=None, label=None, **options):
    task = get_task(str(path), TextOptions(kind=kind, **options), label)
    return task.groups("train", column)


def write(path, text):
    path.write_text(text)
    return path


def rows(path, values):
    lines = [
        json.dumps({"text": f"text {n}", "label": "ab"[n % 2], **own})
        for n, own in enumerate(values)
    ]
    return write(path, "\n".join(lines))


def test_rows_are_grouped_by_any_plain_column(tmp_path):
    file = rows(tmp_path / "train.jsonl", [{"prompt": 7}, {"prompt": 7.0}, {"prompt": " p "}])
    found = groups(file, "prompt", "sentence", "label")
    assert found == {"train-0": "7", "train-1": "7", "train-2": "p"}


def test_comments_and_documents_of_conllu(tmp_path):
    file = write(tmp_path / "train.conllu", CONLLU)
    assert groups(file, "document") == {
        "a": "d1",
        "b": "d1",
        "train-2": "train.conllu, line 10",
    }
    with pytest.raises(DataError, match=r"line 11: no group in column 'genre'"):
        groups(file, "genre")


def test_documents_of_columns_are_those_of_their_file(tmp_path):
    found = groups(write(tmp_path / "train.conll", CONLL), "document")
    assert list(found.values()) == ["train.conll#1"] * 2 + ["train.conll#2"]


def test_a_column_of_a_table_of_words_that_its_sentences_share(tmp_path):
    file = write(tmp_path / "train.csv", TABLE)
    assert list(groups(file, "doc", label="tag").values()) == ["x", "x", "y"]
    with pytest.raises(UnknownNameError, match=r"unknown column of .* 'docs'. Did you mean 'doc'"):
        groups(file, "docs", label="tag")


def test_a_row_without_a_group_is_named(tmp_path):
    file = rows(tmp_path / "train.jsonl", [{"prompt": "p"}, {"prompt": None}, {"prompt": ""}])
    with pytest.raises(DataError, match=r"line 2: no group in column 'prompt'"):
        groups(file, "prompt", "sentence", "label")


def test_a_file_without_any_mark_says_so(tmp_path):
    file = write(tmp_path / "train.conll", CONLL.replace("-DOCSTART- O", ""))
    with pytest.raises(DataError, match="no column or mark there says which sentences belong"):
        groups(file, "document")


def documents(path, kind=None, label=None):
    text = None if kind is None else "text"
    return get_task(str(path), TextOptions(kind=kind, text=text), label).read("train").documents


def test_a_split_knows_the_documents_of_its_examples(tmp_path):
    split = get_task(str(write(tmp_path / "train.conll", CONLL))).read("train")
    assert split.documents == ("train.conll#1", "train.conll#1", "train.conll#2")
    assert split.first(2).documents == split.documents[:2]
    one, other = split, replace(split, documents=split.documents[::-1])
    assert one.documents_fingerprint() != other.documents_fingerprint()
    assert one.text_fingerprint() == other.text_fingerprint()
    plain = write(tmp_path / "plain.conll", CONLL.replace("-DOCSTART- O", ""))
    assert documents(plain) == ()


def test_a_column_of_documents_is_no_document_where_it_is_the_label(tmp_path):
    file = rows(tmp_path / "train.jsonl", [{"document": "p"}, {"document": "q"}])
    assert documents(file, "sentence", "label") == ("p", "q")
    assert documents(file, "sentence", "document") == ()


def test_documents_that_some_lack_are_not_used_and_said(tmp_path, caplog):
    file = rows(tmp_path / "train.jsonl", [{"document": "p"}, {"document": None}, {}])
    assert documents(file, "sentence", "label") == ()
    assert "2 of 3 sentences have no document, so that intervals will be over" in caplog.text
