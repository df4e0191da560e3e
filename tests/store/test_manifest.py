"""The manifest and strict JSON."""

import dataclasses
import json

import pytest

from probekit.errors import EntryError, OptionError
from probekit.store.manifest import Manifest
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
        ({"key": "x"}, "64 hex digits"),
        ({"arrays": [{"name": "words"}]}, "cannot read the array"),
        ({"arrays": 3}, "m.json: "),
    ],
    ids=str,
)
def test_unusable_manifests(change, says):
    text = json.dumps(json.loads(sample().to_json()) | change)
    with pytest.raises(EntryError, match=rf"m\.json.*{says}|{says}"):
        Manifest.from_json(text, "m.json")


def test_a_missing_field_is_named():
    values = json.loads(sample().to_json())
    del values["causal"]
    with pytest.raises(EntryError, match=r"missing fields \['causal'\]"):
        Manifest.from_json(json.dumps(values), "m.json")
