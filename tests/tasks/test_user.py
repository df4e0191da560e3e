"""The user's own data whatever it holds: words and texts come back, with a kind and a metric."""

import csv
import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probekit.tasks import is_called, is_own
from probekit.tasks.schemes import trim
from tests.tasks.own_files import Content, ids, quoted, read, shown, task_of, words, write

BLANKS = [" ", "\t", "\xa0", "\u2003", "\u3000", "\u2028", "\x85", "\ufeff", "\u200b", "\r"]
few = settings(max_examples=30)


@given(st.lists(st.sampled_from(BLANKS)), st.lists(st.sampled_from(BLANKS)))
@few
def test_nothing_unseen_is_part_of_a_label(before: list[str], after: list[str]) -> None:
    assert trim("".join([*before, "B-X\xa0Y", *after])) == "B-X\xa0Y"


LINE = st.characters(exclude_characters="\t\n\r\x00\ufeff", codec="utf-8")
WORD = st.text(LINE, min_size=1, max_size=5).filter(
    lambda word: word.strip(" _") not in ("", "-DOCSTART-")
)
ROWS = st.lists(st.tuples(WORD, st.sampled_from(["NN", "VB", "X"])), min_size=1, max_size=3)


@given(st.lists(ROWS, min_size=1, max_size=3))
@few
def test_any_words_come_back(tmp_path_factory, sentences: list[list[tuple[str, str]]]) -> None:
    blocks = ["".join(f"{word}\t{tag}\n" for word, tag in rows) for rows in sentences]
    objects = [{"tokens": [w for w, _ in rows], "t": [t for _, t in rows]} for rows in sentences]
    folder = tmp_path_factory.mktemp("any")
    for path in (
        write(folder / "a.conll", "\n".join(blocks)),
        write(folder / "a.jsonl", [*objects]),
    ):
        split = read(path)
        assert words(split) == [tuple(word for word, _ in rows) for rows in sentences]
        (labels,) = split.labels.values()
        assert labels == tuple(tuple(tag for _, tag in rows) for rows in sentences)


TEXT = st.text(st.characters(exclude_characters="\r\x00\ufeff", codec="utf-8"), max_size=9)
TEXTS = TEXT.filter(lambda text: text.strip().strip("_") != "")
EXAMPLES = st.lists(st.tuples(TEXTS, TEXTS, st.sampled_from(["yes", "no"])), min_size=1, max_size=3)


@given(EXAMPLES)
@few
def test_any_texts_come_back(tmp_path_factory, examples: list[tuple[str, str, str]]) -> None:
    folder = tmp_path_factory.mktemp("any")
    header = ("premise", "hypothesis", "label")
    objects = [dict(zip(header, row, strict=True)) for row in examples]
    files = [
        write(folder / "a.jsonl", [*objects]),
        write(folder / "a.csv", "\ufeff" + "".join(map(quoted, (header, *examples)))),
    ]
    if not any("\n" in cell or "\t" in cell for row in examples for cell in row):
        lines = "".join("\t".join(row) + "\n" for row in (header, *examples))
        files.append(write(folder / "a.tsv", lines))
    for path in files:
        split = read(path, "kind=pair text=premise,hypothesis")
        labels = [label for (label,) in split.labels["label"]]
        pairs = [(example.text, example.text_pair) for example in split.examples]
        assert [(*pair, label) for pair, label in zip(pairs, labels, strict=True)] == examples


@pytest.mark.parametrize(
    ("file", "content", "kind", "metrics"),
    [
        ("a.conll", "a B-X\n", "tagging", {"1": "span-f1"}),
        ("a.conll", "a X\n", "tagging", {"1": "accuracy"}),
        ("a.conllu", "1\ta\ta\tX" + "\t_" * 6, "tagging", {"upos": "accuracy"}),
        ("a.conll", "a\n", "tagging", {}),
        ("a.csv", "text,label\na,x\n", "sentence", {"label": "accuracy"}),
        ("a.csv", "premise,hypothesis,label\na,b,x\n", "pair", {"label": "accuracy"}),
        ("a.csv", "text,stars\na,3.5\n", "regression", {"stars": "spearman"}),
        ("a.txt", "Some text.\n", "language-modelling", {"token": "perplexity"}),
    ],
)
def test_kinds_and_metrics(file: str, content: Content, kind: str, metrics, tmp_path) -> None:
    path = write(tmp_path / file, content)
    task = task_of(path, f"kind={kind}")
    assert (task.kind, task.columns, task.metrics) == (kind, tuple(metrics), metrics)
    assert task.kinds == dict.fromkeys(metrics, kind)
    assert is_own(task) and is_called(task.slug, str(path))


@pytest.mark.parametrize("kind", ["sentence", "language-modelling"])
def test_a_document_longer_than_csv_reads_by_default(tmp_path: Path, kind: str) -> None:
    document = "word " * 60_000
    path = write(tmp_path / "a.csv", f'text,label\n"{document}",x\nshort,y\n')
    limit = csv.field_size_limit()
    assert len(document) > limit
    assert read(path, f"kind={kind}").examples[0].text == document
    assert csv.field_size_limit() == limit


def test_ids_are_those_of_the_file(tmp_path: Path) -> None:
    content = "id,text,label\nq7,fine,1\nq9,bad,0\n"
    path = write(tmp_path / "a.csv.gz", gzip.compress(content.encode()))
    assert ids(read(path, "kind=sentence")) == ["q7", "q9"]
    indexed = write(tmp_path / "b.csv", content.replace("id", "idx"))
    assert ids(read(indexed, "kind=sentence")) == ["train-0", "train-1"]
    several = "".join(f"{n} + 1 =\tabout n\t{n % 2}\n" for n in range(20))
    sums = write(tmp_path / "c.tsv", f"text\ttext_pair\tlabel\n{several}")
    assert shown(read(sums, "kind=pair")).startswith("label: 0 + 1 = + about n = 0 | 1 + 1 =")
