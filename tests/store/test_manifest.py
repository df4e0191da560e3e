"""The manifest, and strict JSON: what anybody may have written is an object, or nothing."""

import dataclasses
import json

import pytest

from probekit.errors import EntryError, OptionError
from probekit.store.json_types import read_object
from probekit.store.layout import proven_key
from probekit.store.lock import read_owner
from probekit.store.manifest import Manifest
from probekit.store.unfinished import read_marks
from tests.store import synthetic


def sample():
    return synthetic.manifest("zarr", "float16")


def test_survives_json():
    assert Manifest.from_json(sample().to_json(), "m.json") == sample()


def test_nan_is_refused():
    manifest = dataclasses.replace(sample(), statistics={"max_abs": {"words": [float("nan")]}})
    with pytest.raises(ValueError, match="JSON"):
        manifest.to_json()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        *(({"key": key}, "64 hex digits") for key in ("", "abc", "G" * 64)),
        ({"arrays": sample().arrays[:1] * 2}, "distinct names"),
    ],
    ids=str,
)
def test_what_no_manifest_is(change, says):
    with pytest.raises(OptionError, match=says):
        dataclasses.replace(sample(), **change)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format_version": 1}, "extract it again"),
        ({"format_version": 9}, "written by probekit 0: upgrade to that version or a newer one"),
        ({"format_version": 9, "versions": 3}, "; upgrade probekit"),
        ({"format_version": 9, "versions": {"probekit": "\x1b[1m"}}, "; upgrade probekit"),
        ({"colour": 1}, r"unknown fields \['colour'\]"),
        ({"causal": None}, r"missing fields \['causal'\]"),
        ({"key": "x"}, "64 hex digits"),
        ({"arrays": [{"name": "words"}]}, "cannot read the array"),
        ({"arrays": 3}, "m.json: "),
    ],
    ids=str,
)
def test_unusable_manifests(change, says):
    values = json.loads(sample().to_json()) | change
    text = json.dumps({name: value for name, value in values.items() if value is not None})
    with pytest.raises(EntryError, match=rf"m\.json.*{says}|{says}"):
        Manifest.from_json(text, "m.json")


ODD = [b"", b"\xff", b"{", b"[]", b"null", b"[" * 100_000, b"1" * 5000]


@pytest.mark.parametrize("data", ODD, ids=lambda data: repr(data[:4]))
def test_what_holds_no_object_holds_nothing(tmp_path, data):
    folder = tmp_path / "train-00000000"
    folder.mkdir()
    file = folder / "000000.json"
    file.write_bytes(data)
    assert read_object(file) is None and read_owner(file) is None
    assert read_marks(folder) == {} and not proven_key(folder, file.name)
    assert read_object(tmp_path) is None and read_object(tmp_path / "none") is None
    file.write_text('{"a": [1]}')
    assert read_object(file) == {"a": [1]} and read_marks(folder) == {}
