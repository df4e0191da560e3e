"""The lines below a table about texts that occur twice."""

import pytest

from probekit.results.summaries.diagnosis import SAID_FROM, copied_texts, marks, notes
from tests.results.samples import make_record


def counted(texts, normalised, **sharing):
    return {"train": {"texts": texts, "exact": 0, "normalised": normalised, **sharing}}


def record(seed=0, task="atis", protocol="full", **duplicates):
    return make_record("last", seed, task=task, protocol=protocol, duplicates=duplicates)


def test_the_line_names_share_split_and_option():
    own = record(test=counted(500, 34))
    line = "6.8 % of test texts are in train too; leave them out with --drop-duplicates"
    assert copied_texts([own]) == [line]
    assert notes([own]) == [line] and marks([own]) == ()  # nothing is wrong with the run


def test_splits_are_one_line_and_so_are_tasks():
    one, other = record(dev=counted(500, 52), test=counted(900, 45)), record(task="conll")
    (line,) = copied_texts([one])
    assert line.startswith("10.4 % of dev texts and 5.0 % of test texts are in train too;")
    assert copied_texts([one, other])[0].startswith("10.4 % of atis dev texts and 5.0 % of atis")
    third = record(task="conll", dev=counted(100, 6))
    assert "5.0 % of atis test texts and 6.0 % of conll dev" in copied_texts([one, third])[0]


def test_draws_that_differ_have_a_range():
    records = [record(seed, dev=counted(1000, count)) for seed, count in enumerate((2, 31, 8))]
    assert copied_texts(records)[0].startswith("0.2 to 3.1 % of dev texts are")


@pytest.mark.parametrize("texts", [1000, 100_000])
def test_little_is_not_said(texts):
    assert copied_texts([record(dev=counted(texts, int(texts * SAID_FROM) - 1))]) == []
    assert copied_texts([record(dev=counted(texts, int(texts * SAID_FROM)))]) != []
    assert copied_texts([record(), record(dev=counted(0, 0)), make_record()]) == []


def test_pairs_share_a_text():
    pairs = record(task="glue/stsb", dev=counted(1500, 6, sharing=253))
    (line,) = copied_texts([pairs])
    assert line == (
        "16.9 % of dev pairs share a text with train; leave its pairs out with --drop-duplicates"
    )


def test_train_is_said_where_a_part_of_it_chose():
    own = record(train=counted(200, 20))
    assert copied_texts([own]) == [
        "10.0 % of train texts occur twice or more; --drop-duplicates keeps equal ones together"
    ]
    (pairs,) = copied_texts([record(train=counted(9, 0, sharing=3))])
    assert pairs.startswith("33.3 % of train pairs share a text with another one;")


def test_runs_without_duplicates_and_splits_that_choose_are_not_said():
    without = record(protocol="full, without duplicates", dev=counted(100, 9))
    chooser = record(test={"dev": {"texts": 100, "exact": 9, "normalised": 9}})
    assert copied_texts([without, chooser]) == []
