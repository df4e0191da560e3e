"""Layer choices against Python's own slices, and the errors a user meets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.base.layers import parse_layers, up_to_depth
from probekit.errors import OptionError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("all", tuple(range(25))), ("-1", (24,)), ("8, 4,4", (4, 8)), ("24:0:-8", (8, 16, 24))],
)
def test_choices_of_a_24_block_model(text, expected):
    assert parse_layers(text, 24) == expected


@given(
    blocks=st.integers(0, 40), start=st.none() | st.integers(-41, 41),
    stop=st.none() | st.integers(-41, 41), step=st.none() | st.integers(-5, 5),
)  # fmt: skip
def test_slices_mean_what_python_means(blocks, start, stop, step):
    text = ":".join("" if part is None else str(part) for part in (start, stop, step))
    count = blocks + 1
    in_range = all(part is None or -count <= part <= count for part in (start, stop))
    expected = sorted(range(count)[start:stop:step]) if step != 0 else []
    if in_range and expected:
        assert parse_layers(text, blocks) == tuple(expected)
    else:
        with pytest.raises(OptionError):
            parse_layers(text, blocks)


@pytest.mark.parametrize("text", ["", "x", "25", "-26", "1.5", "1:2:3:4", "0:0", "0,", "1:99"])
def test_a_bad_choice_is_refused_and_named(text):
    with pytest.raises(OptionError, match=r"^layers '"):
        parse_layers(text, 24)


def test_depth_cuts_layers_and_never_leaves_none():
    assert up_to_depth((1, 2, 3, 4), 2) == (1, 2)
    assert up_to_depth((4,), 2) == (2,)
    assert up_to_depth((1, 2, 3), 0) == (0,)
    assert up_to_depth((0, 1, 2), 0) == (0,)
