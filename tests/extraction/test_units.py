"""Units cover a split in order, share no chunk, and waste little."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.extraction.plan import example_row_starts, lay_out, plan_units, unit_share

SIZES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60)), max_size=80)
CHUNKS = st.fixed_dictionaries({"words": st.integers(1, 16), "tokens": st.integers(1, 16)})
BOUNDS = st.fixed_dictionaries({"words": st.integers(1, 5), "tokens": st.integers(1, 5)})


def _rows(sizes):
    columns = np.array(sizes, np.int64).reshape(-1, 2).T
    return {"words": columns[0], "tokens": columns[1]}


@given(sizes=SIZES, chunk_rows=CHUNKS, max_chunks=BOUNDS)
def test_units_tile_every_array(sizes, chunk_rows, max_chunks):
    rows = _rows(sizes)
    weights = dict.fromkeys(rows, 1.0)
    units = plan_units(rows, chunk_rows=chunk_rows, max_chunks=max_chunks, weights=weights)
    assert [unit.index for unit in units] == list(range(len(units)))
    covered = [example for unit in units for example in range(unit.start, unit.stop)]
    assert covered == list(range(len(sizes)))
    firsts = example_row_starts(units, rows)
    for name, per_chunk in chunk_rows.items():
        next_chunk, stops = 0, firsts[name] + rows[name]
        for unit in units:
            assert unit.start < unit.stop
            assert unit.rows[name] == rows[name][unit.start : unit.stop].sum()
            assert unit.row_start[name] == next_chunk * per_chunk == firsts[name][unit.start]
            assert stops[unit.stop - 1] == unit.row_start[name] + unit.rows[name]
            inner = slice(unit.start + 1, unit.stop)
            assert (firsts[name][inner] == stops[unit.start : unit.stop - 1]).all()
            assert (unit.chunks[name] - 1) * per_chunk < unit.rows[name] or unit.chunks[name] == 0
            assert unit.rows[name] <= unit.chunks[name] * per_chunk
            if unit.stop - unit.start > 1:
                assert unit.chunks[name] <= max_chunks[name]
            next_chunk += unit.chunks[name]


@given(sizes=SIZES, chunk_rows=CHUNKS, max_chunks=BOUNDS)
def test_a_unit_never_ends_below_half_of_what_fits(sizes, chunk_rows, max_chunks):
    rows = _rows(sizes)
    costs = {"words": 13.0, "tokens": 1.0}
    options = {"chunk_rows": chunk_rows, "max_chunks": max_chunks, "weights": costs}
    units = plan_units(rows, **options)
    assert units == plan_units(rows, **options)

    def cost(start, stop):
        return sum(costs[name] * rows[name][start:stop].sum() for name in rows)

    def fits(start, stop):
        return all(
            rows[name][start:stop].sum() <= max_chunks[name] * chunk_rows[name] for name in rows
        )

    for unit in units:
        most = unit.start + 1
        while most < len(sizes) and fits(unit.start, most + 1):
            most += 1
        assert cost(unit.start, unit.stop) >= cost(unit.start, most) / 2


@pytest.mark.parametrize("ratio", [1.2, 1.5, 2.0])
def test_little_is_unused_on_sentences_of_usual_lengths(ratio):
    words = np.random.default_rng(0).integers(2, 40, size=6000)
    rows = {"words": words, "tokens": (words * ratio).astype(np.int64) + 2}
    chunk_rows = {"words": 1024, "tokens": 1024}
    units = plan_units(
        rows, chunk_rows=chunk_rows, max_chunks={"words": 4, "tokens": 16},
        weights={"words": 13.0, "tokens": 1.0},
    )  # fmt: skip
    used = {n: of.sum() / sum(unit.chunks[n] for unit in units) / 1024 for n, of in rows.items()}
    assert used["words"] > 0.97
    assert used["tokens"] > 0.85


@pytest.mark.parametrize("layers", [13, 1])
@pytest.mark.parametrize("array", ["mean", "words", "tokens"])
@pytest.mark.parametrize(("texts", "length", "most"), [(4_000, 12, 0.25), (60_000, 12, 0.05)])
def test_a_unit_is_bounded_work_whatever_is_kept(array, layers, texts, length, most):
    rows = {array: np.full(texts, 1 if array == "mean" else length, np.int64)}
    share = unit_share(texts * length, n_blocks=12, dim=768)
    arrays, units = lay_out(rows, {array: tuple(range(layers))}, {array: 768}, "float16", share)
    assert max(unit.stop - unit.start for unit in units) <= most * texts
    assert arrays[array].rows < 1.05 * rows[array].sum(), "little is left unused"


def test_a_unit_of_a_large_model_reads_less():
    shares = [unit_share(40_000, blocks, dim) for blocks, dim in ((6, 384), (12, 768), (24, 1024))]
    assert shares[0] == shares[1] == 4 * shares[2]
    assert unit_share(10**10, 32, 4096) == 2**17 / 10**10
