"""``probekit plot``: where a figure goes, and what cannot be drawn."""

import pytest

from probekit.results import append_record
from tests.cli.console import done, refused
from tests.results.samples import make_record


def test_a_folder_of_records_with_a_look(here):
    for task, seen in (("b", 9), ("a", 90)):
        record = make_record(task=task, seen={"examples": seen})
        append_record(here / "runs" / "model" / f"{task}.jsonl", record)
    look = ("--width", "3.3", "--title", "Tasks", "-o", "w.svg")
    assert done("plot", "weights", "runs", *look).out == "w.svg\n"
    assert 'width="237.6pt"' in (here / "w.svg").read_text()  # 3.3 of 72
    assert done("table", "runs").out.count("p32") == 2


def test_the_name_follows_the_kind(records, here):
    where = ("--where", "head=p32", "--where", "shots=8")
    assert done("plot", "weights", records, *where).out == "weights.png\n"
    assert (here / "weights.png").exists()


@pytest.mark.parametrize(
    ("option", "taken"),
    [
        (("--split", "banana"), "depth, points, fewshot, fraction, classes, overthinking, exit"),
        (("--of", "shares"), "weights, learning"),
    ],
)
def test_options_of_other_figures(records, option, taken):
    message = refused("plot", "confusion", records, *option)
    assert message == (f"plot confusion takes no {option[0]}. Leave it out; it works with {taken}.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("weigths",), "unknown plot 'weigths'. Did you mean 'weights'? Choose from: attention"),
        (("weights", "-o", "x.gif"), "x.gif: cannot write a figure as '.gif'; choose a name that"),
        (("weights", "--where", "head=crf"), "no records with head=crf; head is "),
        (("fewshot", "--where", "head=last"), "a few-shot curve needs records of at least two"),
        (("depth", "--width", "85"), "a width of 85 inches: give one from 1.5 to 40 inches."),
        (("depth", "--overlay", "mdoel"), "unknown overlay 'mdoel'. Did you mean 'model'? Choose"),
    ],
)
def test_what_cannot_be_drawn(records, here, words, message):
    kind, *options = words
    assert refused("plot", kind, records, *options).startswith(message)
    assert list(here.iterdir()) == []
