"""Manifests that somebody else wrote: every command works, or says in one line what is wrong."""

import json
import math
import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probekit.base.fingerprint import digest
from probekit.errors import EntryError
from probekit.extraction.maintenance.row_errors import sample_rows
from probekit.store.entry import Entry
from probekit.store.manifest import Manifest
from tests.cli.console import done, run
from tests.planted import plant
from tests.planted_texts import plant_texts

ODD = st.sampled_from(
    [
        None, True, False, 0, -1, 1, 3, 10**15, 10**18, 2**63, 10**400, 0.5, -0.0, 1e308,
        "", ".", "..", "../../x", "/etc/passwd", "a/b", "a\\b", "a\nb", "\x1b[2J", "\ud800", "0",
        "x" * 5000, "float16", "int8", ">f8", "object", "words", "zarr", "hdf5",
        [], [0], [[0]], ["words"], [None], list(range(300)),
        {}, {"": 0}, {"a\n": "b"}, {"x": [1, {}]},
    ]
)  # fmt: skip

COMMANDS = (("ls",), ("info",), ("info", "--json"), ("verify", "--rows", "3"), ("path",))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Two entries, of which one has a manifest that may be changed."""
    root = tmp_path_factory.mktemp("strangers") / "cache"
    plant_texts(root, split="dev")
    plant(root, "train", sentences=5)
    return root


@pytest.fixture
def manifest(cache):
    """The file, which is put back."""
    (file,) = cache.glob("*/*/train-*/manifest.json")
    good = file.read_bytes()
    yield file
    file.write_bytes(good)


def places(value, path=()):
    """Yield the path to every value inside a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, name))


def put(values, path, new):
    """Return a JSON value with another one at a place."""
    if not path:
        return new
    copy = dict(values) if isinstance(values, dict) else list(values)
    copy[path[0]] = put(values[path[0]], path[1:], new)
    return copy


def consistent(values):
    """Return a manifest whose key is that of its request, as far as there is one."""
    if isinstance(values, dict) and isinstance(values.get("request"), dict):
        try:
            return values | {"key": digest(values["request"])}
        except ValueError:
            pass
    return values


def check(cache, file, text):
    """Run every command over a cache in which one manifest is a stranger's."""
    file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    for command, *more in COMMANDS:
        words = () if command == "ls" else (file.parent,)
        outcome = run("cache", command, *words, *more, "--cache", cache)
        assert outcome.code in (0, 1), outcome
        errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
        assert len(errors) == outcome.code, outcome.err
        assert "unexpected" not in outcome.err, outcome.err
        assert not any(letter in outcome.out + outcome.err for letter in "\x1b\x00\r"), outcome
        if command == "ls":
            assert outcome.code == 0 and len(outcome.out.splitlines()) >= 3, outcome


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_field_of_a_manifest_may_be_anything(cache, manifest, data):
    good = manifest.read_bytes()
    values = json.loads(good)
    path = data.draw(st.sampled_from(list(places(values))))
    changed = consistent(put(values, path, data.draw(ODD)))
    try:
        check(cache, manifest, json.dumps(changed))
    finally:  # for the next example
        manifest.write_bytes(good)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"\x00" * 100, b"\xff\xfe{", b'{"request": ' + b"[" * 100_000,
        b'{"format_version": ' + b"[" * 3000 + b"]" * 3000 + b"}",
        b'{"format_version": 1' + b"0" * 5000 + b"}", b'{"format_version": NaN}', b"[1]",
    ],
    ids=lambda text: repr(text[:20]),
)  # fmt: skip
def test_texts_that_are_no_manifest(cache, manifest, text):
    check(cache, manifest, text)


def test_a_manifest_larger_than_any_is_not_read(manifest):
    os.truncate(manifest, 2**40)
    with pytest.raises(EntryError, match="larger than any manifest"):
        Entry.open(manifest.parent)
    os.truncate(manifest, 0)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("arrays", 0, "rows"), 10**15), (("arrays", 0, "chunk_rows"), 7), (("arrays", 0), None),
        (("arrays", 0, "dim"), 10**9), (("arrays", 0, "dim"), -24), (("arrays", 0, "dim"), "24"),
        (("arrays", 0, "rows"), True), (("arrays", 0, "dtype"), "object"),
        (("arrays", 0, "name"), "../words"), (("arrays", 0, "layers"), "0123"),
        (("n_blocks",), math.inf), (("model",), "../../home"), (("split",), "/etc"),
        (("split",), "a\x1bb"), (("model",), "\ud800"), (("model",), "x" * 256),
        (("kind",), "a\\b"), (("created",), "yesterday"), (("extra",), {"limit": "many"}),
        (("extra",), {"units": "0"}), (("extra",), {"units": [-1]}),
        (("extra",), {"batching": {"padded_to": 3}}),
        (("extra",), {"batching": {"padded_to": 3, "alone": 1}}), (("extra",), {"computed": {}}),
        (("extra",), {"computed": [{"batch_tokens": 64}]}),
        (("extra",), {"computed": [{"batch_tokens": 0, "units": [0]}]}),
        (("request",), {"text": "x", "keep": ["words"]}), (("request", "keep"), "words"),
        (("request", "model"), None), (("counts",), {"words": 3}), (("counts", "examples"), -1),
        (("statistics",), {"max_abs": {"words": ["a"]}}), (("model_info", "source"), 3),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_entry_has(manifest, place, value):
    values = consistent(put(json.loads(manifest.read_text()), place, value))
    with pytest.raises(EntryError, match=str(place[0])[:5]):
        Manifest.from_json(json.dumps(values), "m.json")


EXTRA = {
    "computed": [{"batch_tokens": 64, "compiled": True, "units": [0, 1]}],  # as of --compile
    "batching": {"padded_to": None, "alone": False},
    "units": [0, 2],
}


@pytest.mark.parametrize(
    "extra",
    [
        {},
        *({name: EXTRA[name] for name in EXTRA if name != gone} for gone in EXTRA),
        *(EXTRA | {"units": units} for units in ([], [1, 2], [0, 4, 2], [0, 99], [0, 1, 2])),
        EXTRA | {"computed": []},
    ],
    ids=str,
)
def test_a_manifest_that_does_not_say_how_rows_were_computed(manifest, extra):
    good = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(put(good, ("extra",), EXTRA)))
    assert len(sample_rows(Entry.open(manifest.parent), 3, 0)["words"].example) >= 3
    manifest.write_text(json.dumps(put(good, ("extra",), extra)))
    with pytest.raises(EntryError, match=r"its extra does not say|in which unit"):
        sample_rows(Entry.open(manifest.parent), 3, 0)


def test_one_bad_manifest_is_shown_as_damaged(cache, manifest):
    manifest.write_text("{")
    outcome = done("cache", "ls", "--cache", cache, "--json")
    assert sorted(row["state"] for row in outcome.rows) == ["complete", "damaged"]
    assert f"{manifest} is not JSON" in outcome.err


def test_a_manifest_that_may_not_be_read(manifest, monkeypatch):
    refusal = PermissionError(13, "Permission denied")
    monkeypatch.setattr(Path, "read_text", Mock(side_effect=refusal))
    with pytest.raises(EntryError, match=r"manifest\.json cannot be read \(PermissionError"):
        Entry.open(manifest.parent)


@pytest.mark.parametrize("command", ["info", "verify", "path"])
def test_commands_inside_an_entry(manifest, monkeypatch, command):
    monkeypatch.chdir(manifest.parent)
    inside = done("cache", command, ".")
    assert done("cache", command, manifest.parent).out == inside.out
    assert Entry.open(Path(".")).manifest.split == "train"
    monkeypatch.chdir(manifest.parent / "backbone")
    assert done("cache", command, "..").out == inside.out


def test_an_entry_can_be_removed_from_inside(manifest, tmp_path, monkeypatch):
    copy = shutil.copytree(manifest.parent, tmp_path / manifest.parent.name)
    monkeypatch.chdir(copy)
    done("cache", "rm", ".", "--yes")
    os.chdir(tmp_path)
    assert not copy.exists()
