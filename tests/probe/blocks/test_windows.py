"""Grouping windows: every subword once, little padding."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from probekit.probe.heads.extra_layers import group_by_length

CPU = torch.device("cpu")


@given(st.lists(st.integers(0, 40), max_size=30))
def test_every_subword_once(lengths: list[int]) -> None:
    groups = group_by_length(lengths, CPU)
    starts = torch.tensor([0, *lengths]).cumsum(0).tolist()
    seen = []
    for group in groups:
        flat = group.take.flatten()
        assert (flat >= 0).all() and (flat < sum(lengths)).all()
        seen += flat[group.real].tolist()
        for row in range(len(group.take)):
            length = int(group.mask[row].sum()) if group.mask is not None else len(group.take[row])
            window = starts.index(int(group.take[row, 0]))
            while not lengths[window]:  # an empty window starts where the next one does
                window += 1
            assert length == lengths[window]
            run = list(range(starts[window], starts[window] + length))
            assert group.take[row, :length].tolist() == run
            assert group.mask is None or (group.mask[row, :length] == 1).all()
    assert sorted(seen) == list(range(sum(lengths)))


@given(st.lists(st.integers(1, 500), min_size=1, max_size=40))
def test_padding_is_bounded(lengths: list[int]) -> None:
    for group in group_by_length(lengths, CPU):
        assert group.take.numel() - len(group.real) <= 64
        assert (group.mask is None) == (group.take.numel() == len(group.real))


def test_groups_are_bounded() -> None:
    groups = group_by_length([512] * 70 + [20_000, 20_000], CPU)
    assert [tuple(group.take.shape) for group in groups] == [
        (1, 20_000), (1, 20_000), (32, 512), (32, 512), (6, 512),
    ]  # fmt: skip
