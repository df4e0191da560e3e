"""The store's contract: reading."""

import itertools
import mmap
import os
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from probekit.errors import EntryError, OptionError
from probekit.store.entry import Entry
from probekit.store.feature_array import _BRIDGED_BYTES
from tests.store import synthetic
from tests.store.backed import Backed

ROW_LISTS = [[], [0], [95, 3, 3, 17, 16, 15, 0], [5, 6, 7], [14, 15, 16, 17, 33], [40, 39, 38]]


def stored(values, dtype):
    """What the store must return for float32 values, computed without torch."""
    if dtype == "float16":
        return values.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":  # round to nearest, ties to even, on the bits
        bits = values.view(np.uint32)
        return (
            ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
        )
    return values


def stored_int8(values, chunk_rows):
    """The int8 codec written out in NumPy, on (rows, layers, dim)."""
    out = np.zeros_like(values)
    for start in range(0, len(values), chunk_rows):
        chunk = values[start : start + chunk_rows]
        norm = np.sqrt((chunk.astype(np.float64) ** 2).sum(axis=2, keepdims=True))
        unit = chunk / np.where(norm > 0, norm, 1)
        scale = np.abs(unit).max(axis=0) / 127
        out[start : start + chunk_rows] = (
            np.round(unit / np.where(scale > 0, scale, 1)) * scale * norm
        )
    return out


class ReadingContract(Backed):
    """Rows and layers, whole and picked, in every dtype."""

    def test_reads_what_was_written(self, entry):
        for name, array in entry.arrays.items():
            got = array.read(slice(None)).float().numpy()
            given = synthetic.reference(name)
            if array.spec.dtype == "int8":
                expected = stored_int8(given, array.spec.chunk_rows)
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
                norms = np.linalg.norm(given, axis=2)
                errors = np.linalg.norm(got - given, axis=2)[norms > 0] / norms[norms > 0]
                assert np.median(errors) < 1e-2
            else:
                np.testing.assert_array_equal(got, stored(given, array.spec.dtype))

    @pytest.mark.parametrize("layers", [None, [2], [4, 0], [1, 1]], ids=str)
    def test_any_rows_and_layers(self, entry, layers):
        array = entry.arrays["words"]
        whole = array.read(slice(0, array.rows))
        at = [synthetic.LAYERS.index(layer) for layer in layers or synthetic.LAYERS]
        drawn = np.random.default_rng(0).integers(0, array.rows, 60).tolist()
        for rows in (*ROW_LISTS, drawn):
            expected = whole[torch.tensor(rows, dtype=torch.int64)][:, at]
            for kind in (np.int64, np.int32, np.uint16):
                numbers = np.array(rows, kind)
                numbers.flags.writeable = False
                assert torch.equal(array.read(numbers, layers), expected)
                assert torch.equal(array.read(numbers[::-1], layers), expected.flip(0))
            for kind in (torch.int32, torch.int64):
                got = array.read(torch.tensor(rows, dtype=kind), layers)
                assert got.dtype == array.dtype and torch.equal(got, expected)
            assert torch.equal(array.read(rows, layers), expected)

    def test_any_slice(self, entry):
        array = entry.arrays["words"]
        whole = array.read(list(range(array.rows)))
        for start, stop in itertools.combinations_with_replacement((0, 1, 15, 16, 17, 40, 96), 2):
            assert torch.equal(array.read(slice(start, stop)), whole[start:stop])

    @pytest.mark.parametrize(
        "rows", [[], [0], [14, 15, 16, 17, 33], [1, 3, 14], [95, 2, 40, 41, 0]], ids=str
    )
    def test_the_system_is_asked_for_rows_and_for_few_others(self, entry, rows, monkeypatch):
        array, calls = entry.arrays["words"], []
        maps = array._maps[:2]  # values, and the norms of int8
        monkeypatch.setattr(
            "probekit.store.mapping._libc", Namespace(madvise=lambda *call: calls.append(call))
        )
        array.prefetch(np.array(rows, dtype=np.int64), [4, 0])
        assert all(address % mmap.PAGESIZE == 0 for address, _, _ in calls)
        asked = [call[:2] for call in calls if call[2] == mmap.MADV_WILLNEED]
        whole = [length for _, length, advice in calls if advice == mmap.MADV_RANDOM]
        assert whole and min(whole) >= min(mapped.elements.nbytes for mapped in maps)
        size, at = array.spec.chunk_rows, [synthetic.LAYERS.index(layer) for layer in (4, 0)]
        for mapped, width in zip(maps, (array.dim, 1), strict=False):
            values = mapped.elements
            for row, layer in itertools.product(rows, at):
                place = int(mapped.starts[layer, row // size]) + row % size * width
                first = values.data_ptr() + place * values.element_size()
                last = first + width * values.element_size()
                assert any(start <= first and last <= start + length for start, length in asked)
        together = [
            a < b <= a + _BRIDGED_BYTES // array.spec.row_nbytes and a // size == b // size
            for a, b in itertools.pairwise(rows)
        ]
        runs = len(rows) - sum(together)
        assert len(asked) == len(maps) * len(at) * runs
        longest = array.dim * max(map(len, ROW_LISTS)) * 4
        assert all(length < mmap.PAGESIZE + longest for _, length in asked)

    @pytest.mark.parametrize("part", [1, 70, 2_000])
    def test_rows_are_decoded_in_parts(self, entry, part, monkeypatch):
        array = entry.arrays["words"]
        rows = torch.tensor([95, 3, 3, 17, 16, 15, 0, *range(20, 60)])
        expected = array.read(rows), array.read(slice(3, 70))
        monkeypatch.setattr("probekit.store.feature_array._PART_BYTES", part)
        assert torch.equal(array.read(rows), expected[0])
        assert torch.equal(array.read(slice(3, 70)), expected[1])

    @pytest.mark.parametrize("rows", [slice(3, 40), torch.tensor([7, 2, 7])], ids=["run", "gather"])
    def test_layers_come_first_in_memory(self, entry, rows):
        array = entry.arrays["words"]
        got = array.read(rows)
        assert got.permute(1, 0, 2).is_contiguous()
        out = array.empty(len(got), len(synthetic.LAYERS))
        assert array.read(rows, out=out) is out
        assert torch.equal(out, got)

    def test_what_cannot_be_read(self, entry):
        array = entry.arrays["words"]
        for out in (
            array.empty(3, 4),
            array.empty(2, 4).to(torch.float64),
            torch.empty(2, 4, synthetic.DIM, dtype=array.dtype),  # rows first
        ):
            with pytest.raises(OptionError, match="out"):
                array.read(torch.tensor([1, 2]), out=out)
        slices = slice(-3, 2), slice(0, 10_000), slice(0, 8, 2), slice(5, 4)
        others = torch.tensor([[1]]), torch.ones(2), np.ones(2), np.array(1)
        for rows, says in (
            (torch.tensor([-1]), "row -1 does not exist; it has rows 0..1"),
            (torch.tensor([3, 10_000]), "row 10000 does not exist; it has rows 0..1"),
            *((one, "slice") for one in slices),
            *((one, "whole numbers, such as int64; found") for one in others),
            (np.ones(4, bool), r"found 1-d bool; np\.flatnonzero turns a mask"),
        ):
            with pytest.raises(OptionError, match=says):
                array.read(rows)
        with pytest.raises(OptionError, match=r"layer 3 is not stored; .* layers \[0, 1, 2, 4\]"):
            array.read(slice(0, 2), [0, 3])
        assert set(entry.arrays) == {"words", "tokens"} and "cls" not in entry.arrays
        with pytest.raises(
            EntryError, match=r"no array 'cls'; it holds only words, tokens\. .*,cls"
        ):
            entry.arrays["cls"]

    def test_what_is_read_is_a_copy(self, entry):
        array = entry.arrays["words"]
        first = array.read(slice(0, 40))
        kept = first.clone()
        first.fill_(7)
        assert torch.equal(array.read(slice(0, 40)), kept)

    def test_no_descriptor_stays_open(self, entry):
        before = len(os.listdir("/proc/self/fd"))
        opened = Entry.open(entry.path)
        for array in opened.arrays.values():
            array.read(slice(None))
        assert len(os.listdir("/proc/self/fd")) == before

    def test_two_readers_at_once(self, entry):
        readers = [Entry.open(entry.path).arrays["words"] for _ in range(2)]
        rows = torch.randperm(readers[0].rows, generator=torch.Generator().manual_seed(1))
        expected = entry.arrays["words"].read(rows)
        with ThreadPoolExecutor(4) as pool:
            for got in pool.map(lambda i: readers[i % 2].read(rows), range(16)):
                assert torch.equal(got, expected)

    def test_examples_come_back(self, entry):
        assert entry.examples.table.equals(synthetic.examples().table)
        assert entry.examples.words(2) == ("w0",)
        starts = [synthetic.row_start(unit)["words"] for unit in range(synthetic.N_UNITS)]
        counts = synthetic.ROWS["words"]
        expected = [s + i for s, n in zip(starts, counts, strict=True) for i in range(n)]
        assert entry.examples.rows.tolist() == expected
        assert len(entry.examples.valid) == sum(counts)

    def test_a_stranger_is_told_what_an_array_is(self, entry):
        """Names of axes that belong together are the same, and one name has one length."""
        words, tokens = (spec.plain() for spec in entry.manifest.arrays)
        lengths = {}
        for prefix, arrays in (("", words), ("tokens_", tokens)):
            for array in arrays:
                names, attributes = self.described(entry, array.name)
                expected = [axis if axis == "dim" else prefix + axis for axis in array.axes]
                assert list(names) == expected
                assert attributes.pop("layers") == list(array.logical.layers)
                assert attributes.pop("comment").startswith(array.comment)
                assert not attributes
                for name, length in zip(names, array.shape, strict=True):
                    assert lengths.setdefault(name, length) == length

    def test_the_formats_own_library_reads_the_same(self, entry):
        for spec in entry.manifest.arrays:
            values = self.read_independently(entry, spec.plain()[0].name)
            if spec.dtype == "int8":
                norm, scale = (self.read_independently(entry, p.name) for p in spec.plain()[1:])
                values = values * np.repeat(scale, spec.chunk_rows, axis=0) * norm[:, :, None]
            elif spec.dtype == "bfloat16":
                values = (values.astype(np.uint32) << 16).view(np.float32)
            got = entry.arrays[spec.name].read(slice(None)).float().numpy()
            np.testing.assert_allclose(got, values.astype(np.float32), rtol=1e-6)
