"""Which sentences belong together, read from columns, comments and marks of documents."""

from dataclasses import replace

import pytest

from probekit.errors import DataError, UnknownNameError
from tests.tasks.own_files import Content, read, task_of, write

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
CONLL = "-DOCSTART- O\n\nEU B-ORG\nleft O\n\nRome B-LOC\n\n-DOCSTART- O\n\nPeter B-PER\n"
TABLE = "doc,sentence_id,token,tag\nx,1,EU,O\n,1,left,O\nx,2,Rome,O\ny,3,Peter,O\n"
SENTENCE = "kind=sentence text=text label=label"


def rows(name: str, *values: object) -> Content:
    return [{"text": f"a {n}", "label": "x", name: value} for n, value in enumerate(values)]


@pytest.mark.parametrize(
    ("file", "content", "typed", "column", "expected"),
    [
        ("train.jsonl", rows("prompt", 7, 7.0, " p "), SENTENCE, "prompt", ["7", "7", "p"]),
        ("train.conllu", CONLLU, "", "document", ["d1", "d1", "train.conllu, line 10"]),
        ("train.conll", CONLL, "", "document", [f"train.conll#{n}" for n in (1, 1, 2)]),
        ("train.csv", TABLE, "label=tag", "doc", ["x", "x", "y"]),
    ],
)
def test_groups(file, content: Content, typed: str, column: str, expected, tmp_path) -> None:
    groups = task_of(write(tmp_path / file, content), typed).groups("train", column)
    assert list(groups.values()) == expected
    assert list(groups) == [example.id for example in read(tmp_path / file, typed).examples]


@pytest.mark.parametrize(
    ("file", "content", "typed", "column", "message"),
    [
        (
            "train.jsonl",
            rows("prompt", "p", None, ""),
            SENTENCE,
            "prompt",
            "line 2: the group column",
        ),
        ("train.conllu", CONLLU, "", "genre", "line 11: the group column 'genre' is empty"),
        ("train.csv", TABLE, "label=tag", "docs", "unknown column of .*'docs'. Did you mean 'doc'"),
        (
            "train.conll",
            CONLL[14:].replace("-DOCSTART- O", ""),
            "",
            "document",
            "nothing there says",
        ),
    ],
)
def test_groups_that_are_not_there(file, content, typed: str, column: str, message, tmp_path):
    task = task_of(write(tmp_path / file, content), typed)
    with pytest.raises((DataError, UnknownNameError), match=message):
        task.groups("train", column)


@pytest.mark.parametrize(
    ("file", "content", "typed", "documents", "said"),
    [
        ("train.conll", CONLL, "", [f"train.conll#{n}" for n in (1, 1, 2)], ""),
        ("train.conll", CONLL.replace("-DOCSTART- O", ""), "", [], ""),
        ("train.jsonl", rows("document", "p", "q"), SENTENCE, ["p", "q"], ""),
        ("train.jsonl", rows("document", "p", "q"), "kind=sentence label=document", [], ""),
        (
            "train.jsonl",
            rows("document", "p", None),
            SENTENCE,
            [],
            "1 of 2 sentences belong to no doc",
        ),
    ],
)
def test_documents_of_a_split(file, content, typed: str, documents, said: str, tmp_path, caplog):
    split = read(write(tmp_path / file, content), typed)
    assert split.documents == tuple(documents) and split.first(2).documents == tuple(documents[:2])
    assert said in caplog.text and bool(said) == bool(caplog.messages)
    if documents:
        turned = replace(split, documents=split.documents[::-1])
        assert turned.documents_fingerprint() != split.documents_fingerprint()
        assert turned.text_fingerprint() == split.text_fingerprint()
