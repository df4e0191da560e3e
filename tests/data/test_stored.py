"""A split comes back from the columns of an example table, and so do the columns."""

from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probekit.data.encoded import encoded_of, window_lengths
from probekit.store import ExampleTable
from tests.data.samples import FORMS, SENTENCES, encode, table_of


def assert_same(one, two):
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(two, field.name)
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            assert a.dtype == b.dtype, field.name
            np.testing.assert_array_equal(a, b, err_msg=field.name)
        else:
            assert a == b, field.name


@settings(max_examples=60)
@given(
    form=st.sampled_from(FORMS), name=st.sampled_from(["bert", "roberta", "gpt2", "llama"]),
    sentences=SENTENCES, room=st.integers(6, 40), overlong=st.sampled_from(["stride", "truncate"]),
)  # fmt: skip
def test_a_split_and_its_columns_are_inverse(form, name, sentences, room, overlong):
    name = {"masked": "bert"}.get(form, name)
    split = encode(form, name, sentences, room, overlong)
    table = table_of(split)
    back = encoded_of(table)
    assert_same(back, replace(split, cut={}))  # what was cut is the manifest's to tell
    assert table_of(back).table.equals(table.table)


@pytest.mark.parametrize("form", FORMS)
def test_one_example_of_a_table(form):
    sentences = [["EU", "rejects"] * 9, ["call"], ["lamb", "EU"] * 12]
    table = table_of(encode(form, "bert", sentences, 14, "stride"))
    bounds = window_lengths(table).bounds
    for n in range(len(table)):
        one = encoded_of(ExampleTable(table.table.slice(n, 1)))
        alone = encoded_of(ExampleTable(pa.Table.from_pylist(
            table.table.slice(n, 1).to_pylist(), schema=table.table.schema
        )))  # fmt: skip
        assert_same(one, alone)
        assert len(one.window_lengths) == bounds[n + 1] - bounds[n]
