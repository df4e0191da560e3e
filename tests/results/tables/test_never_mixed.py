"""No row, column or curve holds records of two models, texts, methods, rows or fitters."""

import csv
import io
import itertools
import json

import pytest

from probekit.results.summaries.grouping import DATA, series
from probekit.results.summaries.typeset import text_table
from probekit.results.tables import score_table, summarise
from probekit.results.tables.by_layer import depth_table, pivot, weights_table
from tests.results.samples import make_record

VALUES = {
    "model": ("org/one", "org/two"), "task": ("wikiann/de", "wikiann/en"), "label": ("ner", "pos"),
    "shots": (2, 16), "fraction": (0.1, 0.5), "method": ("full", "lora"),
    "normalize": ("none", "standardize"), "fitter": ("adam", "lbfgs"),
}  # fmt: skip
SHOWN = {"none": "raw"}
OTHERS = {
    "decoder": ("linear", "mlp"), "select": ("cv:5", "dev"), "init": ("a head", "scratch"),
    "freeze": (False, True), "optimizer": ("adam", "sgd"),
    "labels_fingerprint": ("a" * 64, "b" * 64), "metric": ("accuracy", "span-f1"),
}  # fmt: skip
"""More options, which a name tells unless something else that it tells settles them."""

AMOUNTS = {"shots": (8, 128), "fraction": (0.1, 0.5)}
AXES = {**AMOUNTS, "depth": (1, 2)}
ALONG = [pair for pair in itertools.product(VALUES, AXES) if not {*pair} <= {*AMOUNTS}]
"""Options, and axes along which they change; a run has shots or a fraction."""


def records(option, axis, heads=("p32", "p32")):
    """Two records that differ in an option, and along an axis with it."""
    pairs = zip(heads, VALUES[option], AXES[axis], strict=True)
    return [make_record(head, **{option: value, axis: place}) for head, value, place in pairs]


def shown(value):
    return SHOWN.get(value, str(value).rpartition("/")[2])


def test_all_data_are_tried():
    assert set(VALUES) == set(DATA)


@pytest.mark.parametrize(("option", "axis"), [pair for pair in ALONG if pair[1] in AMOUNTS])
def test_a_row_of_a_pivot_is_of_one(option, axis):
    text = pivot(records(option, axis), axis, split="dev").text("jsonl")
    assert [json.loads(line)[option] for line in text.splitlines()] == list(VALUES[option])
    lines = text_table(pivot(records(option, axis), axis, split="dev").columns).splitlines()
    assert len(lines) == 4 and all(line.split().count("-") == 1 for line in lines[2:])


@pytest.mark.parametrize(("option", "axis"), [*itertools.product(OTHERS, AXES)])
def test_no_other_option_changes_along_an_axis(option, axis):
    pairs = zip(OTHERS[option], AXES[axis], strict=True)
    found = [make_record("p32", **{option: value, axis: place}) for value, place in pairs]
    assert len(series(found, given=[axis])) == 2


@pytest.mark.parametrize("option", [*VALUES])
@pytest.mark.parametrize("heads", [("p32", "p32"), ("p32", "mean")])
def test_a_column_of_a_depth_table_is_of_one_and_says_so(option, heads):
    heading = depth_table(records(option, "depth", heads)).text().splitlines()[0]
    for value in VALUES[option]:
        assert shown(value) in heading, heading


@pytest.mark.parametrize(("option", "axis"), ALONG)
def test_a_column_of_weights_is_of_one_and_says_so(option, axis):
    heading = weights_table(records(option, axis)).text().splitlines()[0]
    for value in VALUES[option]:
        assert shown(value) in heading, heading


@pytest.mark.parametrize(("option", "axis"), ALONG)
def test_a_curve_is_of_one(option, axis):
    assert len(series(records(option, axis), given=[axis])) == 2


@pytest.mark.parametrize("option", [*VALUES])
@pytest.mark.parametrize("heads", [("p32", "p32"), ("p32", "mean")])
def test_a_row_of_scores_is_of_one_and_says_so(option, heads):
    axis = "depth" if option in AMOUNTS else "shots"
    text = score_table(records(option, axis, heads)).text("csv")
    told = {line[option].rpartition("/")[2] for line in csv.DictReader(io.StringIO(text))}
    assert told == {str(value).rpartition("/")[2] for value in VALUES[option]}


NEAR = {
    "lr": (0.10000011, 0.10000012), "fraction": (0.10000011, 0.10000012),
    "rates": ({"backbone": 1.00000001e-3}, {"backbone": 1.00000002e-3}),
    "options": ({"head.a": 0.10000011}, {"head.a": 0.10000012}),
    "settings": ({"head.a": "true"}, {"head.a": True}),
    "labels_fingerprint": ("a" * 63 + "b", "a" * 64), "entry": ("a" * 63 + "b", "a" * 64),
    "plugins": ({"head": {"code": "a" * 63 + "b"}}, {"head": {"code": "a" * 64}}),
    "texts": ({"train": "a" * 64}, {"train": "b" * 64}),
}  # fmt: skip


@pytest.mark.parametrize("option", NEAR)
def test_options_that_hardly_differ_are_two(option):
    name = "options" if option == "settings" else option
    own = [
        make_record("p32", seed, **{name: value}, key=f"{seed}")
        for seed, value in enumerate(NEAR[option])
    ]
    assert len(series(own)) == 2
    assert len(summarise(own)) == 2
