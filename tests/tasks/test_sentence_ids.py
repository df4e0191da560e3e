"""Words in tables with a column of sentence ids."""

from pathlib import Path

import pytest

from probekit.errors import DataError, UnknownNameError
from tests.tasks.own_files import get_task, words, write

SENTENCES = [("EU", "calls"), ("No",), ("Paris", "is", "far")]
WORDS = [(n, word) for n, sentence in enumerate(SENTENCES) for word in sentence]


def table(path: Path, name: str, ids: list[str], mark: str = ",") -> Path:
    lines = [mark.join([name, "token", "tag"])]
    lines += [mark.join([key, word, "O"]) for key, (_, word) in zip(ids, WORDS, strict=True)]
    return write(path, "\n".join(lines) + "\n")


def read(path: Path, **options: str) -> list[tuple[str, ...]]:
    return words(get_task(str(path), label="tag", **options).read("train"))


@pytest.mark.parametrize(
    "name",
    [
        "sentence_id",
        "sent_id",
        "Sentence #",
        "sentenceId",
        "SENTENCE",
        "sent",
        "sentence idx",
        "id",
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_sentences_end_where_the_id_changes(tmp_path: Path, name: str, suffix: str) -> None:
    mark = "," if suffix == "csv" else "\t"
    path = table(tmp_path / f"a.{suffix}", name, [str(n) for n, _ in WORDS], mark)
    assert read(path) == SENTENCES
    assert set(get_task(str(path)).read("train").labels) == {"tag"}


def test_an_id_beside_the_first_word_alone(tmp_path: Path) -> None:
    ids = ["Sentence: 1", "", "Sentence: 2", "Sentence: 3", "", ""]
    assert read(table(tmp_path / "a.csv", "Sentence #", ids)) == SENTENCES


def test_ids_that_begin_anew_in_each_document(tmp_path: Path) -> None:
    rows = ["doc_id,sent_id,token,tag", "1,0,a,O", "2,0,b,O", "2,1,c,O", "3,1,d,O"]
    path = write(tmp_path / "a.csv", "\n".join(rows))
    assert read(path) == [("a",), ("b",), ("c",), ("d",)]


def test_empty_rows_divide_as_well(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "sent_id,token,tag\n1,a,O\n,,\n1,b,O\n2,c,O\n")
    assert read(path) == [("a",), ("b",), ("c",)]


def test_row_numbers_are_no_sentence_ids(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", "id", [str(n) for n in range(len(WORDS))])
    assert read(path) == [tuple(word for _, word in WORDS)]
    assert set(get_task(str(path)).read("train").labels) == {"tag"}


@pytest.mark.parametrize("ids", [["s1", "s1", "s2", "s3", "s3", "s3"], ["1", "", "2", "3", "", ""]])
def test_what_looks_like_ids_is_asked_about(tmp_path: Path, ids: list[str]) -> None:
    path = table(tmp_path / "a.csv", "group", ids)
    with pytest.raises(DataError, match=r"one sentence of 6 words, .*'group'.*--sentences group"):
        read(path)
    assert read(path, sentences="group") == read(path, sentences="0") == SENTENCES
    assert read(path, sentences="none") == [tuple(word for _, word in WORDS)]
    with pytest.raises(UnknownNameError, match=r"--sentences column of .*Did you mean 'group'"):
        read(path, sentences="groop")


def test_columns_of_ids_without_names(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", "".join(f"{n} {word} O\n" for n, word in WORDS))
    with pytest.raises(DataError, match=r"one sentence of 6 words, .*--sentences 0"):
        get_task(str(path), text="1")
    task = get_task(str(path), text="1", sentences="0")
    assert words(task.read("train")) == SENTENCES


def test_other_columns_are_no_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "token,pos,head,tag\nEU,N,2,O\ncalls,V,0,O\nme,N,2,O\n")
    assert read(path) == [("EU", "calls", "me")]
