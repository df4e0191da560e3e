"""Finding a task by name, its fingerprints, and holding out a part of a split."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from probekit.errors import MissingFileError, OptionError, UnknownNameError
from probekit.tasks import Example, Split
from tests.tasks.own_files import get_task


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
