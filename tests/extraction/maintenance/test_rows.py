"""Cached rows against a fresh pass: what passes, and what must not."""

import shutil
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from probekit.backbone import inspect_backbone, load_backbone
from probekit.data.batches import batches_by_length
from probekit.data.encoded import window_lengths
from probekit.errors import BackboneError, EntryError, OptionError
from probekit.extraction import ExtractOptions, extract
from probekit.extraction.maintenance import verify_against, verify_rows
from probekit.extraction.maintenance.row_errors import sample_rows
from tests.extraction.conftest import make_small
from tests.extraction.passages import write_pairs, write_texts


@pytest.fixture(scope="module")
def places(bert, corpus, tmp_path_factory):
    return bert, corpus, tmp_path_factory.mktemp("verify")


@pytest.fixture(scope="module")
def entry(places):
    return make(places)


def make(places, **options):
    model, corpus, cache = places
    wanted = ExtractOptions(**{"compute_dtype": "float32", "max_length": 12, **options})
    (found,) = extract(
        str(model), str(corpus), label="2", splits=["train"], cache=cache, options=wanted
    )
    return found


def test_rows_of_windows_pass(entry):
    report = verify_rows(entry, 60)
    assert report.passed and report.rows >= 60
    assert report.layers == (0, 1, 2, 3) and max(report.p99) < 1e-3
    assert entry.manifest.counts["windows"] > entry.manifest.counts["examples"]


def test_rows_of_other_words_do_not_pass(entry):
    shifted = replace(entry)
    shifted.__dict__["examples"] = _shifted(entry)
    report = verify_rows(shifted, 60)
    assert not report.passed and min(report.median[1:]) > 0.05


def _shifted(entry):
    table = entry.examples.table
    place = table.schema.get_field_index("row_start")
    starts = entry.examples.row_start + 1
    starts[-1] = 0
    return type(entry.examples)(table.set_column(place, "row_start", [starts]))


def test_nan_fails_in_whatever_layer(entry):
    report = verify_rows(entry, 5)
    for place in range(4):
        errors = [float("nan") if at == place else 0.0 for at in range(4)]
        assert not replace(report, median=tuple(errors)).passed
        assert not replace(report, p99=tuple(errors)).passed


def test_int8_against_what_it_was_made_of(places, entry):
    small = make(places, dtype="int8")
    assert verify_against(small, entry, 60).passed
    for field, value in (("pooling", "last"), ("max_length", 13), ("overlong", "truncate")):
        with pytest.raises(OptionError, match=f"they differ in {field!r}"):
            verify_against(small, make(places, **{field: value}), 60)


def test_another_tokenizer_is_refused(places, entry, tmp_path):
    copy = shutil.copytree(places[0], tmp_path / "copy")
    tokenizer = AutoTokenizer.from_pretrained(copy)
    tokenizer.add_tokens(["Maria"])
    tokenizer.save_pretrained(copy)
    with pytest.raises(BackboneError, match=r"not the one that .* was made with .*word tokenizer"):
        verify_rows(entry, 5, model=str(copy))


def test_auto_is_a_device(places):
    backbone = load_backbone(inspect_backbone(str(places[0])), device="auto")
    assert backbone.device.type in ("cpu", "cuda")
    assert backbone.compute_dtype in (torch.float32, torch.bfloat16)


@pytest.mark.parametrize(
    ("kind", "text", "length"),
    [("sentence", "text", None), ("sentence", "text", 20), ("pair", "text,text_pair", 20)],
)
def test_pooled_rows_of_texts(places, tmp_path, kind, text, length):
    corpus = (write_pairs if kind == "pair" else write_texts)(tmp_path / kind)
    entries = [
        extract(
            str(places[0]), str(corpus), kind=kind, text=text, label="label", splits=["train"],
            cache=tmp_path / "cache", device="cpu",
            options=ExtractOptions(compute_dtype="float32", dtype=dtype, max_length=length),
        )[0]
        for dtype in ("float32", "int8")
    ]  # fmt: skip
    report = verify_rows(entries[0], 40)
    assert report.passed and report.rows >= 40 and max(report.p99) < 1e-4
    assert verify_against(entries[1], entries[0], 40).passed
    moved = replace(entries[0])
    table = moved.examples.table
    place = table.schema.get_field_index("pooled_start")
    starts = np.roll(moved.examples.pooled_start, 1)
    moved.__dict__["examples"] = type(moved.examples)(
        table.set_column(place, "pooled_start", [starts])
    )
    assert not verify_rows(moved, 40).passed


def test_a_sample_holds_the_most_and_the_least_padded_text_of_every_unit(places, monkeypatch):
    make_small(monkeypatch)
    found = make(places, dtype="float32", batch_tokens=64)
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


def test_a_sample_holds_rows_of_every_array(places):
    found = make(places, keep=("words", "cls", "mean", "last", "tokens"))
    count = found.manifest.counts["valid_words"] + 3 * len(found.examples)
    sample = sample_rows(found, 10_000, seed=0)
    assert sum(len(rows.example) for rows in sample.values()) == count
    assert tuple(sample) == ("words", "cls", "mean", "last")
    assert verify_rows(found, count).passed
    subwords = make(places, keep=("tokens",))
    with pytest.raises(EntryError, match="holds no valid row to compare"):
        verify_rows(subwords, 5)
