"""Heads that read subwords, beside heads that read rows: same steps, same scores, same memory."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from probekit.errors import DataError
from probekit.train.source import Source, TokenLayout
from tests.planted import DIM
from tests.planted_texts import plant_all_texts, plant_texts
from tests.train import grouped
from tests.train.grouped import opened, same, splits_in

CPU = torch.device("cpu")


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
