"""``probekit plot``: every kind in every format, and what cannot be drawn."""

import pytest

from probekit.results import append_record
from tests.cli.console import done, refused
from tests.results.samples import make_record

MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("suffix", MAGIC)
@pytest.mark.parametrize("kind", ["weights", "depth", "fewshot", "learning"])
def test_every_kind_in_every_format(records, here, kind, suffix):
    outcome = done("plot", kind, records, "-o", f"out/{kind}.{suffix}")
    assert outcome.out == f"out/{kind}.{suffix}\n"
    assert outcome.err == ""
    content = (here / "out" / f"{kind}.{suffix}").read_bytes()
    assert content.startswith(MAGIC[suffix])
    assert len(content) > 3000


@pytest.fixture
def made_up(here):
    """Records that say something of single classes and of fractions."""
    for fraction in (0.1, 0.5):
        append_record("r.jsonl", make_record("dwatt", fraction=fraction))
    return "r.jsonl"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("classes", ("--split", "test", "--classes", "PER, LOC")),
        ("confusion", ()),
        ("attention", ()),
        ("attention", ("--classes", "B-PER, O")),
        ("fraction", ()),
    ],
)
def test_classes_and_fractions(made_up, here, kind, options):
    assert done("plot", kind, made_up, *options).out == f"{kind}.png\n"
    assert len((here / f"{kind}.png").read_bytes()) > 3000


def test_a_class_that_does_not_occur(made_up):
    message = refused("plot", "classes", made_up, "--classes", "PERS")
    assert message == "no class PERS in these records; choose from LOC, MISC, ORG, PER."


def test_a_folder_of_records_with_a_look(here):
    for task, seen in (("b", 9), ("a", 90)):
        record = make_record(task=task, seen={"examples": seen})
        append_record(here / "runs" / "model" / f"{task}.jsonl", record)
    look = ("--width", "3.3", "--title", "Tasks", "--font-size", "7", "-o", "w.svg")
    assert done("plot", "weights", "runs", *look).out == "w.svg\n"
    assert 'width="237.6pt"' in (here / "w.svg").read_text()  # 3.3 of 72
    assert done("table", "runs").out.count("p32") == 2


def test_overlays_and_what_they_cannot_be(here):
    for model in ("one", "two"):
        for depth in range(3):
            append_record("r.jsonl", make_record("last", model=model, depth=depth))
    assert done("plot", "depth", "r.jsonl", "--overlay", "model,head", "--relative").out
    message = refused("plot", "depth", "r.jsonl", "--overlay", "mdoel")
    assert message.startswith("unknown overlay 'mdoel'. Did you mean 'model'? Choose from: head, ")
    message = refused("plot", "depth", "r.jsonl", "--width", "85")
    assert message == "a width of 85 inches: give one from 1.5 to 40 inches."


def test_the_name_follows_the_kind(records, here):
    where = ("--where", "head=p32", "--where", "shots=8")
    assert done("plot", "weights", records, *where).out == "weights.png\n"
    assert (here / "weights.png").exists()


@pytest.mark.parametrize(
    ("option", "taken"),
    [
        (("--classes", "PER"), "classes, attention"),
        (("--split", "banana"), "depth, fewshot, fraction, classes, overthinking, exit"),
        (("--along", "epoch"), "learning"),
        (("--raw",), "weights"),
        (("--of", "shares"), "weights, learning"),
        (("--per-seed",), "weights"),
        (("--overlay", "task"), "depth"),
        (("--relative",), "depth"),
    ],
)
def test_options_of_other_figures(records, option, taken):
    message = refused("plot", "confusion", records, *option)
    assert message == (
        f"{option[0]}: plot confusion has no such option; these have: {taken}. Leave it out."
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("weigths",), "unknown plot 'weigths'. Did you mean 'weights'? Choose from: attention"),
        (("weights", "-o", "x.gif"), "x.gif: cannot write a figure as '.gif'; choose a name that"),
        (("weights", "-o", "/dev/null/x.png"), "/dev/null/x.png: cannot write the figure ("),
        (("weights", "--where", "head=crf"), "no records with head=crf; head is "),
        (("weights", "--where", "head"), "condition 'head': write name=value, such as shots=128."),
        (("weights", "--where", "hed=p32"), "unknown option 'hed'. Did you mean 'head'?"),
        (("learning", "--along", "time"), "unknown learning axis 'time'. Choose from: epoch"),
        (("fewshot", "--where", "head=last"), "a few-shot curve needs records of at least two"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_drawn(records, here, words, message):
    kind, *options = words
    assert refused("plot", kind, records, *options).startswith(message)
    assert list(here.iterdir()) == []


def test_files_that_hold_no_records(here):
    assert refused("plot", "depth", "none.jsonl").startswith("none.jsonl: no such file; run `probe")
    (here / "other.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    assert refused("plot", "depth", "other.jsonl").startswith(
        "other.jsonl, line 1: not a probekit record"
    )
