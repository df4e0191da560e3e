"""Cached rows against a fresh pass: what passes, and what must not."""

import shutil
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from transformers import AutoTokenizer

from probekit.data.batches import batches_by_length
from probekit.data.encoded import window_lengths
from probekit.errors import BackboneError, EntryError, OptionError
from probekit.extraction.maintenance import verify_against, verify_rows
from probekit.extraction.maintenance.row_errors import sample_rows
from tests.extraction.conftest import make_small
from tests.extraction.extracted import run
from tests.extraction.passages import write_pairs, write_texts


@pytest.fixture(scope="module")
def make(bert, corpus, tmp_path_factory):
    """A function to the train split's entry of some options, read in windows."""
    options = {"max_length": 12, "dtype": "auto"}
    return partial(run, bert, corpus, tmp_path_factory.mktemp("verify"), **options)


@pytest.fixture(scope="module")
def entry(make):
    return make()


def moved(entry, column, starts):
    """An entry whose examples begin at other rows."""
    table, other = entry.examples.table, replace(entry)
    place = table.schema.get_field_index(column)
    other.__dict__["examples"] = type(entry.examples)(table.set_column(place, column, [starts]))
    return other


def test_rows_of_windows_pass(entry):
    report = verify_rows(entry, 60)
    assert report.passed and report.rows >= 60
    assert report.layers == (0, 1, 2, 3) and max(report.p99) < 1e-3
    assert entry.manifest.counts["windows"] > entry.manifest.counts["examples"]


def test_rows_of_other_words_do_not_pass(entry):
    starts = entry.examples.row_start + 1
    starts[-1] = 0
    report = verify_rows(moved(entry, "row_start", starts), 60)
    assert not report.passed and min(report.median[1:]) > 0.05


def test_nan_fails_in_whatever_layer(entry):
    report = verify_rows(entry, 5)
    for place in range(4):
        errors = [float("nan") if at == place else 0.0 for at in range(4)]
        assert not replace(report, median=tuple(errors)).passed
        assert not replace(report, p99=tuple(errors)).passed


def test_int8_against_what_it_was_made_of(make, entry):
    assert verify_against(make(dtype="int8"), entry, 60).passed
    for field, value in (("pooling", "last"), ("max_length", 13), ("overlong", "truncate")):
        with pytest.raises(OptionError, match=f"they differ in {field!r}"):
            verify_against(make(dtype="int8", **{field: value}), entry, 60)


def test_another_tokenizer_is_refused(bert, entry, tmp_path):
    copy = shutil.copytree(bert, tmp_path / "copy")
    tokenizer = AutoTokenizer.from_pretrained(copy)
    tokenizer.add_tokens(["Maria"])
    tokenizer.save_pretrained(copy)
    with pytest.raises(BackboneError, match=r"not the one that .* was made with .*word tokenizer"):
        verify_rows(entry, 5, model=str(copy))


@pytest.mark.parametrize(("kind", "text"), [("sentence", "text"), ("pair", "text,text_pair")])
def test_pooled_rows_of_texts(bert, tmp_path, kind, text):
    corpus = (write_pairs if kind == "pair" else write_texts)(tmp_path / kind, count=8)
    how = {"kind": kind, "text": text, "label": "label", "max_length": 20}
    exact, small = (
        run(bert, corpus, tmp_path / "cache", dtype=dtype, **how) for dtype in ("float32", "int8")
    )
    report = verify_rows(exact, 20)
    assert report.passed and report.rows >= 20 and max(report.p99) < 1e-4
    assert verify_against(small, exact, 20).passed
    starts = np.roll(exact.examples.pooled_start, 1)
    assert not verify_rows(moved(exact, "pooled_start", starts), 20).passed


def test_a_sample_holds_the_most_and_the_least_padded_text_of_every_unit(make, monkeypatch):
    make_small(monkeypatch)
    found = make(dtype="float32", batch_tokens=64)
    starts = [*found.manifest.extra["units"], len(found.examples)]
    assert len(starts) > 3
    drawn = set(sample_rows(found, 0, seed=0)["words"].example.tolist())
    windows = window_lengths(found.examples)
    for start, stop in pairwise(starts):
        lengths = windows.values[windows.bounds[start] : windows.bounds[stop]]
        owner = np.repeat(np.arange(start, stop), windows.lengths[start:stop])
        padding = np.zeros(len(lengths), int)
        for batch in batches_by_length(lengths, 64):
            padding[batch] = lengths[batch].max() - lengths[batch]
        most = padding[[example in drawn for example in owner]].max()
        assert most == padding.max() and 1 <= len(drawn & set(range(start, stop))) <= 2
    everything = sample_rows(found, 10_000, seed=0)["words"]
    assert len(everything.example) == found.manifest.counts["valid_words"]


def test_a_sample_holds_rows_of_every_array(make):
    found = make(keep=("words", "cls", "mean", "last", "tokens"))
    count = found.manifest.counts["valid_words"] + 3 * len(found.examples)
    sample = sample_rows(found, 10_000, seed=0)
    assert sum(len(rows.example) for rows in sample.values()) == count
    assert tuple(sample) == ("words", "cls", "mean", "last")
    assert verify_rows(found, count).passed
    subwords = make(keep=("tokens",))
    with pytest.raises(EntryError, match="holds no valid row to compare"):
        verify_rows(subwords, 5)
