"""Tasks by name, the user's own data whatever it holds, fingerprints, and what a split refuses."""

import csv
import gzip
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probekit.base.fingerprint import digest_stream
from probekit.base.kinds import KindName
from probekit.errors import DataError, MissingFileError, OptionError, UnknownNameError
from probekit.tasks import Example, Split, is_called, is_own
from probekit.tasks.assemble import assemble
from probekit.tasks.schemes import trim
from probekit.tasks.sentences import Sentence, Sentences, plain_text
from probekit.tasks.task import Task
from tests.tasks.own_files import Content, get_task, ids, quoted, read, shown, task_of, words, write


def make_split(n: int = 10) -> Split:
    examples = tuple(Example(f"train-{i}", (f"w{i}", "x")) for i in range(n))
    labels = {"pos": tuple((f"T{i}", "X") for i in range(n))}
    return Split(task="toy", name="train", examples=examples, labels=labels, origin="made up")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "conl",
            r"unknown task 'conl'. Did you mean 'conll'\? Choose from: atis, bl.*your own",
        ),
        ("glue/rtee", r"unknown GLUE task 'rtee'. Did you mean 'rte'\?"),
        ("unknown", r"unknown task 'unknown'"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        get_task(name)


@pytest.mark.parametrize(
    ("name", "options", "hint"),
    [
        ("own/nothing", {}, " To read a data set of the Hub, give --kind."),
        ("own", {"kind": "sentence"}, ""),
        ("own", {"text": "a"}, ""),
        ("own", {"label": "b"}, ""),
        ("wikian/de", {}, " Did you mean the task 'wikiann'?"),
        ("conl", {"label": "pos"}, " Did you mean the task 'conll'?"),
    ],
)
def test_neither_a_task_nor_a_path(name: str, options: dict[str, str], hint: str) -> None:
    with pytest.raises(MissingFileError) as caught:
        get_task(name, **options)
    assert str(caught.value) == (
        f"{name}: no such file or folder, and no task of that name.{hint} Check the path; "
        "`probekit tasks` lists the tasks."
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("wikiann", {}, r"wikiann: expected wikiann/LANG, as in wikiann/de"),
        ("wikiann/", {}, r"expected wikiann/LANG"),
        ("conll/en", {}, r"conll/en: the task conll has no variants"),
        ("wikiann/../x", {}, r"'../x' is not a valid lang name"),
        ("conll", {"text": "0"}, r"--text does not apply to conll, which has"),
        ("glue", {}, r"glue: expected glue/TASK, as in glue/rte"),
        (
            "conll",
            {"kind": "sentence"},
            r"--kind sentence: the label column 'ner' of conll is of kind tagging",
        ),
        ("glue/rte", {"kind": "sentence"}, r"of glue/rte is of kind pair; leave --kind"),
    ],
)
def test_options_that_do_not_fit(name: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        get_task(name, **options)


def test_unknown_kind_and_label() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown kind 'taging'. Did you mean 'tagging'"):
        get_task("conll", kind="taging")
    with pytest.raises(UnknownNameError, match=r"label column of conll 'upos'.*chunk, ner, pos"):
        get_task("conll", label="upos")


def test_the_chosen_label_comes_first() -> None:
    assert get_task("conll").columns == ("ner", "pos", "chunk")
    assert get_task("conll", label="pos", kind="tagging").columns == ("pos", "ner", "chunk")


def test_a_name_wins_over_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conll").mkdir()
    (tmp_path / "conll" / "train.conll").write_text("a X\n")
    monkeypatch.chdir(tmp_path)
    assert get_task("conll").columns == ("ner", "pos", "chunk")
    assert get_task("./conll").columns == ("1",)


def test_fingerprints_see_what_they_should() -> None:
    split = make_split(3)
    first = split.examples[0]
    other_word = replace(split, examples=(Example(first.id, ("w", "x")), *split.examples[1:]))
    other_id = replace(split, examples=(Example("a", first.words), *split.examples[1:]))
    relabelled = replace(split, labels={"pos": (("T9", "X"), *split.labels["pos"][1:])})
    assert relabelled.text_fingerprint() == split.text_fingerprint()
    assert relabelled.labels_fingerprint("pos") != split.labels_fingerprint("pos")
    assert other_word.labels_fingerprint("pos") == split.labels_fingerprint("pos")
    assert other_id.labels_fingerprint("pos") != split.labels_fingerprint("pos")
    assert replace(split, origin="else").text_fingerprint() == split.text_fingerprint()
    with pytest.raises(UnknownNameError, match=r"'ner'.*Choose from: pos"):
        split.labels_fingerprint("ner")


def test_importing_the_tasks_imports_no_heavy_library() -> None:
    code = (
        "import sys, probekit.tasks; "
        "print({'torch', 'transformers', 'datasets', 'huggingface_hub', 'pyarrow', 'numpy'}"
        " & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "set()", result.stderr


def split_of(*examples: Example) -> Split:
    return Split(task="toy", name="train", examples=examples, labels={}, origin="made up")


def test_word_examples_keep_the_fingerprint_of_entries_written_before() -> None:
    split = split_of(Example("a", ("x", "yz")), Example("b", ("w",)))
    parts = [b"a", b"2", b"x", b"yz", b"b", b"1", b"w"]
    assert split.text_fingerprint() == digest_stream(parts)


def test_texts_that_differ_have_different_fingerprints() -> None:
    different = [
        Example("a", ("x",)), Example("a", text="x"), Example("b", text="x"),
        Example("a", text="x", text_pair=""), Example("a", text="x", text_pair="y"),
        Example("a", text="xy"), Example("a", text="y", text_pair="x"), Example("a", ("text", "x")),
    ]  # fmt: skip
    assert len({split_of(example).text_fingerprint() for example in different}) == len(different)
    one, two = Example("a", text="x"), Example("b", text="y")
    joined = Example("a", text="x", text_pair="b")
    assert split_of(one, two).text_fingerprint() != split_of(joined).text_fingerprint()


def found(*sentences: Sentence) -> Sentences:
    return Sentences(sentences=sentences, where="F", origin="F")


@pytest.mark.parametrize(
    ("kind", "sentence", "message"),
    [
        ("sentence", plain_text((" \t",), {}, 3), r"F, line 3: an example without text"),
        ("pair", plain_text(("", " "), {}, 3), r"F, line 3: an example without text"),
        ("sentence", Sentence(("a",), {}, (3,)), r"line 3: an example without text"),
        ("tagging", plain_text(("a",), {}, 3), r"line 3: an example without words"),
        ("pair", plain_text(("a",), {}, 3), r"kind pair takes 2 text\(s\).*found 1"),
        ("sentence", plain_text(("a", "b"), {}, 3), r"kind sentence takes 1 text\(s\).*found 2"),
        ("sentence", plain_text(("a",), {"y": ""}, 3), r"line 3: the label in column 'y' is empty"),
        ("regression", plain_text(("a",), {"y": "inf"}, 3), r"line 3: 'inf' in column 'y' is no"),
        ("regression", plain_text(("a",), {"y": "1e999"}, 3), r"'1e999' in column 'y' is no"),
        ("sentence", Sentence((), {"y": ("1", "2")}, (3,), None, "a"), r"2 labels in column 'y'"),
        ("sentence", Sentence((), {"y": ()}, (3,), None, "a"), r"0 labels in column 'y'"),
    ],
)
def test_refused(kind: KindName, sentence: Sentence, message: str) -> None:
    with pytest.raises(DataError, match=message):
        assemble("toy", "train", found(sentence), kind=kind, kinds={"y": kind})


def test_a_column_of_some_examples_names_the_first_without() -> None:
    rows = found(plain_text(("a",), {"y": "1"}, 1), plain_text(("b",), {}, 2))
    with pytest.raises(DataError, match=r"F, line 2: no labels in column 'y'.*all of them or none"):
        assemble("toy", "train", rows, kind="sentence", kinds={"y": "sentence"})


def test_columns_of_several_kinds(tmp_path: Path) -> None:
    sentence = Sentence(("to", "rome"), {"slots": ("O", "B-city"), "intent": ("go",)}, (1, 1))
    task = Task(
        name="toy", metrics={"slots": "span-f1", "intent": "micro-f1"},
        kinds={"intent": "sentence"}, splits=("train",), corpus=lambda split, data: found(sentence),
    )  # fmt: skip
    assert task.kinds == {"slots": "tagging", "intent": "sentence"}
    assert task.read("train").labels == {"slots": (("O", "B-city"),), "intent": (("go",),)}


def test_a_regression_may_have_one_text_or_two() -> None:
    for texts in (("a",), ("a", "b")):
        rows = found(plain_text(texts, {"y": "3.800"}, 1))
        split = assemble("toy", "dev", rows, kind="regression", kinds={"y": "regression"})
        pair = texts[1] if len(texts) == 2 else None
        assert split.examples == (Example("dev-0", (), "a", pair),)
        assert split.labels == {"y": (("3.800",),)}


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
