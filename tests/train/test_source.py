"""Rows and subwords that members read, in memory or from the disk: the same blocks and steps."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from probekit.base.numbers import block_bounds
from probekit.errors import DataError
from probekit.features import Location, open_features
from probekit.store.codec import TORCH_DTYPES
from probekit.train.source import Source, TokenLayout, block_rows, select
from probekit.train.stream import Residency, batches, resident_bytes
from tests.planted import DIM, MODEL, TASK, plant
from tests.planted_texts import plant_all_texts, plant_texts
from tests.train import grouped
from tests.train.grouped import opened, same, splits_in, stream_spec

CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=["float16", "int8"])
def view(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("cache")
    plant(root, dtype=request.param)
    return open_features(MODEL, TASK, "ner", Location(cache=root)).view("train")


def expected(view, places, layers):
    rows = view.array.read(torch.from_numpy(view.rows[places]), layers)
    return rows.transpose(0, 1).float()


@pytest.mark.parametrize("resident", [True, False])
def test_blocks_cover_the_view_in_order(view, resident, monkeypatch):
    monkeypatch.setattr("probekit.train.source.block_rows", lambda view: 50)
    source = Source(view, (0, 2), device=CPU, resident=resident)
    blocks = list(source.blocks())
    assert len(blocks) > 3
    assert all(block.z.shape[1] == len(block.targets) == block.offsets[-1] for block in blocks)
    assert np.concatenate([np.diff(one.offsets) for one in blocks]).tolist() == list(view.lengths)
    assert torch.cat([block.targets for block in blocks]).tolist() == view.targets.tolist()
    found = torch.cat([block.z for block in blocks], dim=1)
    assert torch.equal(found, expected(view, np.arange(len(view)), (0, 2)))
    assert all(block.z.is_contiguous() and block.z.dtype == torch.float32 for block in blocks)


@pytest.mark.parametrize(
    ("layers", "dim", "expected"),
    [
        (7, 384, 1365),  # half a million values per layer
        (31, 576, 352),  # 24 MiB of all layers
        (33, 4096, 256),  # never fewer
    ],
)
def test_a_block_fits_a_cache_and_the_allocator(view, monkeypatch, layers, dim, expected):
    monkeypatch.setattr(view.array, "layers", tuple(range(layers)))
    monkeypatch.setattr(view.array, "dim", dim)
    assert block_rows(view) == expected


@pytest.mark.parametrize("part", [1, 3_000])
def test_rows_are_copied_to_a_device_in_parts(view, monkeypatch, part):
    monkeypatch.setattr("probekit.train.source._PART", part)
    source = Source(view, (0, 2), device=CPU, resident=False)
    read, sizes = source.read, []
    monkeypatch.setattr(source, "read", lambda places: sizes.append(len(places)) or read(places))
    assert torch.equal(source.copied().float32(), expected(view, np.arange(len(view)), (0, 2)))
    width = view.array.dim + 4 if view.array.spec.dtype == "int8" else 2 * view.array.dim
    most = max(part // (2 * width), 1)
    assert max(sizes) == min(most, len(view)) and sum(sizes) == len(view)


@pytest.mark.parametrize(("resident", "memory"), [(True, 0), (False, 0), (False, 20_000)])
def test_batches_hold_their_sentences_whatever_the_memory(view, resident, memory):
    source = Source(view, (1, 3), device=CPU, resident=resident)
    steps = list(batches(view.lengths, seed=1, epochs=2, batch_size=7))
    found = list(source.batches(iter(steps), memory=memory))
    assert len(found) == len(steps)
    for step, batch in zip(steps, found, strict=True):
        places = view.places(step)
        assert torch.equal(batch.z, expected(view, places, (1, 3)))
        assert batch.targets.tolist() == view.targets[places].tolist()
        assert np.diff(batch.offsets).tolist() == view.lengths[step].tolist()


def test_a_feed_that_is_closed_early_stops_reading(view, monkeypatch):
    source = Source(view, (1,), device=CPU, resident=False)
    read, calls = source.read, []
    monkeypatch.setattr(source, "read", lambda places: calls.append(1) or read(places))
    steps = list(batches(view.lengths, seed=1, epochs=50, batch_size=7))
    found = source.batches(iter(steps), memory=0)
    next(found)
    found.close()
    assert 0 < len(calls) <= 3 < len(steps)
    assert not [one for one in threading.enumerate() if one.name.startswith("probekit-read")]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 12))
def test_blocks_are_whole_examples(lengths, rows):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    bounds = block_bounds(offsets, rows)
    assert bounds[0] == 0 and bounds[-1] == offsets[-1]
    assert set(bounds) <= set(offsets.tolist())
    sizes = np.diff(bounds)
    assert (sizes > 0).all()
    assert all(size <= max(rows, max(lengths)) for size in sizes)


def bytes_of(held):
    scales = () if held.scales is None else vars(held.scales).values()
    return sum(tensor.nbytes for tensor in (held.values, *scales))


@pytest.mark.parametrize(("room", "decoded"), [(2, True), (2 - 1e-4, False)])
def test_int8_rows_are_held_decoded_where_that_leaves_room(view, room, decoded):
    memory = int(room * resident_bytes(view, 2)[1])
    residency = Residency(memory, CPU)
    held = residency.source(view, "rows", (0, 2)).resident
    assert memory - residency.left == bytes_of(held)
    stored = TORCH_DTYPES[view.array.spec.dtype]
    assert held.values.dtype == (view.array.dtype if decoded else stored)
    places = torch.tensor([7, 2, 7, 40])
    assert torch.equal(held.gather(places), expected(view, places.numpy(), (0, 2)))


def test_rows_stay_in_memory_while_there_is_room(view):
    size, _ = resident_bytes(view, 2)
    residency = Residency(size, CPU)
    first = residency.source(view, "rows", (0, 1))
    assert first.resident is not None and residency.left == 0
    assert bytes_of(first.resident) == size
    assert first.resident.values.dtype == TORCH_DTYPES[view.array.spec.dtype]
    assert residency.source(view, "rows", (0, 1)) is first
    assert residency.source(view, "rows", (2,)).resident is None
    assert residency.source(view, "tokens", (3,)).read_view.n_examples == view.n_examples


@pytest.mark.parametrize(("epochs", "held"), [((5,), "dev"), ((6,), "train"), ((3, 3), "train")])
def test_memory_goes_to_what_is_read_most_often(view, epochs, held):
    """Dev is read at each of five evaluations, train once per epoch of each stream."""
    dev = view.take(np.arange(20))
    head = grouped.member("mean", layers=(0, 2), lr=1e-3)
    specs = [stream_spec(train=view, seed=0, epochs=n, evals=5, members=(head,)) for n in epochs]
    residency = Residency(resident_bytes(view, 2)[0], CPU)
    scored, trained = residency.share(dev, specs)
    in_memory = {
        "dev": scored["rows"].resident is not None,
        "train": trained[0]["rows"].resident is not None,
    }
    assert in_memory == {"dev": held == "dev", "train": held == "train"}
    assert all(one["rows"] is trained[0]["rows"] for one in trained)


@pytest.mark.parametrize("memory", [0, 2**24, 2**26, 2**40])
def test_rows_read_ahead_keep_to_the_memory(memory):
    residency = Residency(memory, CPU)
    for n_sources in (0, 1, 2, 7, 32):
        each = residency.read_ahead(n_sources)
        assert 0 < each <= 2**27 and n_sources * each <= max(memory, 2**25)


@pytest.mark.gpu
@pytest.mark.parametrize("resident", [True, False])
def test_rows_on_a_gpu(view, resident):
    source = Source(view, (0, 2), device=torch.device("cuda"), resident=resident)
    found = torch.cat([block.z for block in source.blocks()], dim=1)
    assert torch.equal(found.cpu(), expected(view, np.arange(len(view)), (0, 2)))
    steps = list(batches(view.lengths, seed=1, epochs=1, batch_size=7))
    for step, batch in zip(steps, source.batches(iter(steps), memory=20_000), strict=True):
        assert torch.equal(batch.z.cpu(), expected(view, view.places(step), (0, 2)))


def test_chosen_layers_are_a_view_only_where_memory_is_aligned():
    z = torch.arange(4 * 3 * 5, dtype=torch.float32).reshape(4, 3, 5)
    for wanted in [(2,), (2, 4), (3, 5), (2, 3, 4, 5)]:
        found = select(z, (2, 3, 4, 5), wanted)
        assert torch.equal(found, z[[layer - 2 for layer in wanted]])
        assert found.data_ptr() % 64 == 0 and found.is_contiguous()


@pytest.fixture(scope="module", params=["words", "texts"])
def splits(request, tmp_path_factory):
    """Words of which a quarter has no subword, and whole texts."""
    root = tmp_path_factory.mktemp("cache")
    if request.param == "words":
        return splits_in(root, invalid=0.25)
    return opened(plant_all_texts(root, "glue/sst2"), "glue/sst2", None)


def member(head, **options):
    return grouped.member(head, **{"lr": 1e-2} | options)


def stream(splits, *members, **options):
    return grouped.stream(splits, *members, **{"epochs": 2} | options)


def fit(splits, *streams, **options):
    return grouped.fit(splits, *streams, others={"test": splits.view("test")}, **options)


MEMBERS = [
    member("extra-layers"),
    member("last"),
    member("extra-layers", normalize="standardize"),
    member("dwatt", normalize="standardize"),
]


def test_subwords_that_stay_on_disk_give_the_same_numbers(splits):
    some = splits.view("train", valid_only=True).take(np.array([7, 3, 40, 41, 2, 9, 30]))
    spec = stream(splits, *MEMBERS, train=some, batch_size=3)
    much, little = (fit(splits, spec, memory=memory)[0] for memory in (10**9, 0))
    for one, other in zip(much, little, strict=True):
        same(one, other)


def rows_by_hand(view, example):
    """The rows of one example from its stored subwords: a text's mean, a word's first or zeros."""
    table = view.entry.examples
    place = int(view.positions[example])
    start, count = int(table.token_start[place]), int(table.n_tokens[place])
    states = view.entry.arrays["tokens"].read(slice(start, start + count))[:, 0]
    if view.kind != "tagging":
        return states.mean(0, keepdim=True)
    word_map = table.table["word_map"][place].as_py()
    first = int(table.row_start[place])
    rows = view.rows[view.offsets[example] : view.offsets[example + 1]] - first
    return torch.stack(
        [states[word_map.index(n)] if n in word_map else torch.zeros(DIM) for n in rows.tolist()]
        or [torch.zeros(0, DIM)]
    ).reshape(-1, DIM)


@pytest.mark.parametrize("valid_only", [True, False])
def test_subwords_make_the_rows_of_their_examples(splits, valid_only):
    whole = splits.view("train", valid_only=valid_only)
    taken = whole.take(np.array([9, 4, 31, 0, 22]))
    for view in (whole, taken):
        layout = TokenLayout(view)
        assert layout.view.ids == view.ids
        some = np.array([3, 1, 4])
        rows = layout.view.rows[layout.view.places(some)]
        stored = layout.view.array.read(torch.from_numpy(rows))[:, 0]
        tokens = layout.states(stored[None], some)
        assert tokens.n_rows == sum(int(view.lengths[n]) for n in some)
        assert int(tokens.lengths.sum()) == len(stored)
        found = tokens.pool(tokens.hidden)
        assert_close(found, torch.cat([rows_by_hand(view, n) for n in some]))


@pytest.mark.parametrize("resident", [True, False])
def test_blocks_of_subwords_cover_every_row_once(splits, resident, monkeypatch):
    monkeypatch.setattr("probekit.train.source.block_rows", lambda view: 20)
    view = splits.view("dev")
    source = Source(view, (3,), device=CPU, resident=resident, layout=TokenLayout(view))
    normalization = source.fitted("none")
    lengths, targets, parts = [], [], []
    for inputs in source.blocks():
        tokens = inputs.of(normalization, (3,))
        parts.append(tokens.pool(tokens.hidden))
        assert int(inputs.offsets[0]) == 0 and len(parts[-1]) == len(inputs.targets)
        lengths += np.diff(inputs.offsets).tolist()
        targets += inputs.targets.tolist()
    assert len(parts) > 5
    assert lengths == view.lengths.tolist() and targets == view.targets.tolist()
    expected = torch.cat([rows_by_hand(view, n) for n in range(view.n_examples)])
    assert_close(torch.cat(parts), expected)


def test_an_entry_without_subwords_says_what_to_keep(tmp_path):
    plant_texts(tmp_path, keep=("cls", "mean"))
    view = opened(tmp_path, "glue/sst2", None).view("train")
    with pytest.raises(DataError, match=r"holds only cls, mean\. .*--keep cls,mean,tokens"):
        TokenLayout(view)
