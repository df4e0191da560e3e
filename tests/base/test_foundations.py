"""Errors, registry look-ups, fingerprints, seeds, quantities, and choices of layers."""

import hashlib
import inspect

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from probekit import errors
from probekit.base.fingerprint import canonical_json, digest, digest_file, digest_stream
from probekit.base.layers import parse_layers, up_to_depth
from probekit.base.notices import human_bytes, human_time, short_time
from probekit.base.numbers import derive, numpy_generator, parse_seeds, torch_generator
from probekit.base.registry import choose
from probekit.errors import OptionError

ALL_ERRORS = [
    cls for _, cls in inspect.getmembers(errors, inspect.isclass) if cls is not errors.ProbekitError
]


@pytest.mark.parametrize("cls", ALL_ERRORS)
def test_every_error_is_the_project_s_and_a_builtin(cls):
    builtin = [base for base in cls.__mro__ if base.__module__ == "builtins"]
    assert issubclass(cls, errors.ProbekitError)
    assert builtin[0] not in (Exception, BaseException)
    assert str(cls("what, where, and what to do")) == "what, where, and what to do"


def test_an_unknown_name_lists_choices_and_the_nearest():
    assert choose("head", "mean", {"mean": 1}) == 1
    with pytest.raises(KeyError) as caught:
        choose("head", "dwat", {"dwatt": 1, "p32": 2})
    assert str(caught.value) == (
        "unknown head 'dwat'. Did you mean 'dwatt'? Choose from: dwatt, p32."
    )
    with pytest.raises(KeyError, match=r"^unknown option 'nosuch'\. Choose from: epochs\.$"):
        choose("option", "nosuch", {"epochs": 1})


def test_digest_ignores_key_order_and_refuses_nan():
    assert digest({"a": 1, "b": [2, None]}) == digest({"b": [2, None], "a": 1})
    assert digest({"a": 1}) == hashlib.sha256(b'{"a":1}').hexdigest()
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"x": float("nan")})


def test_a_file_is_hashed_whole_and_a_stream_by_its_parts(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"probe" * 1000)
    assert digest_file(path) == hashlib.sha256(b"probe" * 1000).hexdigest()
    assert digest_stream([b"ab", b"c"]) != digest_stream([b"a", b"bc"])


def test_streams_are_repeatable_and_differ_by_name():
    assert derive(1, "sample") == derive(1, "sample") != derive(1, "init")
    assert derive(1, "a", "b") != derive(1, "ab")
    first, again = (numpy_generator(3, "x").integers(1 << 30, size=4) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    a, b = (torch.rand(4, generator=torch_generator(3, "x")) for _ in range(2))
    assert torch.equal(a, b)
    assert not torch.equal(a, torch.rand(4, generator=torch_generator(3, "y")))


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        (3, [0, 1, 2]), ("3", [0, 1, 2]), ("0,3,7", [0, 3, 7]), (" 7 , 3,7", [7, 3]), ("7,", [7]),
        ("10:13", [10, 11, 12]), ("0,10:12,0", [0, 10, 11]), ([0, 3], [0, 3]),
        (np.arange(2), [0, 1]), (range(5, 7), [5, 6]),
    ],
)  # fmt: skip
def test_seeds_are_a_number_or_a_list(given, seeds):
    assert parse_seeds(given) == seeds
    assert all(type(seed) is int for seed in parse_seeds(given))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("0", "--seeds must be at least 1."), (0, "--seeds must be at least 1."),
        ("", "names no seed"), ("3:3", "names no seed"), ([], "names no seed"),
        ("one", "'one' is not a seed"), ("5:", "'5:' is not a seed"),
        ("-1,2", "'-1' is not a seed"), ("1:2:3", "'1:2:3' is not a seed"),
    ],
)  # fmt: skip
def test_what_names_no_seeds_is_refused(given, said):
    with pytest.raises(errors.OptionError, match=said):
        parse_seeds(given)


def test_quantities_read_as_people_write_them():
    assert [human_bytes(n) for n in (0, 999, 1_000, 4_100_000_000, 2e12)] == [
        "0 B", "999 B", "1.0 kB", "4.1 GB", "2.0 TB",
    ]  # fmt: skip
    assert [human_time(s) for s in (0.2, 45, 720, 12_600)] == ["1 s", "45 s", "12 min", "3.5 h"]
    assert [short_time(s) for s in (0.02, 4.52, 45, 720)] == ["20 ms", "4.5 s", "45 s", "12 min"]


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
