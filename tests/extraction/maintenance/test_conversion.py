"""`cache convert`: another format or dtype, and the key of an extraction only where it is one."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from probekit.base.fingerprint import digest
from probekit.errors import (
    EntryError,
    EntryLockedError,
    OptionError,
    StateRangeError,
    UnknownNameError,
)
from probekit.extraction.maintenance import (
    check_chunks,
    convert_entries,
    plan_conversion,
    verify_rows,
)
from probekit.extraction.maintenance.conversion import is_exact
from probekit.page.rerun_commands import extract_command
from probekit.store.entry import Entry
from probekit.store.lock import EntryLock
from tests.extraction.extracted import all_rows, key_of
from tests.extraction.extracted import run as extract
from tests.extraction.maintenance.conftest import entry_in, flip
from tests.store.synthetic import folder_bytes

pytestmark = pytest.mark.usefixtures("small_units")
KEEP = ("words", "mean", "tokens")
WAYS = [
    ("float32", "bfloat16", "zarr", "zarr"), ("float32", "int8", "zarr", "hdf5"),
    ("float32", "auto", "zarr", "zarr"), ("auto", "auto", "zarr", "hdf5"),
    ("float16", "auto", "zarr", "zarr"), ("int8", "int8", "zarr", "hdf5"),
]  # fmt: skip


@pytest.fixture(scope="module")
def form(made):
    """A function to the entry in a dtype and format, as extraction makes it; not to be changed."""

    def entry(dtype="float32", format="zarr"):
        return made(keep=KEEP, dtype=dtype, format=format, max_length=16)

    return entry


@pytest.fixture(scope="module")
def wide(wide_bert, corpus, tmp_path_factory):
    """An entry whose embeddings exceed float16; not to be changed."""
    return extract(wide_bert, corpus, tmp_path_factory.mktemp("wide"), keep=("words",))


def without_manifest(entry):
    files = folder_bytes(entry.path)
    del files["manifest.json"]
    return files


def manifest_of(entry):
    """The manifest, less what says when and from what it was made."""
    said = json.loads((entry.path / "manifest.json").read_text())
    for name in ("created", "seal"):
        del said[name]
    said["extra"].pop("converted_from", None)
    return said


@pytest.mark.parametrize(("before", "after", "old", "new"), WAYS)
def test_a_conversion_is_the_extraction_byte_for_byte(form, tmp_path, before, after, old, new):
    source, fresh = form(before, old), form(after, new)
    way = plan_conversion(source.path, format=new, dtype=after, root=tmp_path)
    assert not way.rounded
    entry = way.apply()
    assert entry.path.relative_to(tmp_path).parts[-3:] == fresh.path.parts[-3:]
    assert without_manifest(entry) == without_manifest(fresh)
    assert manifest_of(entry) == manifest_of(fresh)
    assert entry.manifest.extra["converted_from"] == source.manifest.key
    assert check_chunks(entry.path) > 0


def test_extraction_takes_what_it_would_have_stored(inputs, cache, monkeypatch):
    entry = plan_conversion(entry_in(cache), dtype="int8", format="hdf5").apply()
    monkeypatch.delattr("probekit.extraction.opening.load_backbone")
    found = extract(*inputs, cache, keep=("words", "tokens"), dtype="int8", format="hdf5")
    assert found.path == entry.path and found.manifest == entry.manifest


def test_units_are_laid_out_anew(inputs, tmp_path, monkeypatch):
    """Where chunks have other rows in the new dtype, and units end elsewhere."""
    sizes = {"float32": 16, "int8": 64}
    monkeypatch.setattr(
        "probekit.extraction.plan.chunk_rows_for", lambda dim, dtype, n: sizes[dtype]
    )
    monkeypatch.setattr("probekit.extraction.plan.UNIT_BYTES", 8_000)
    options = {"keep": KEEP, "batch_tokens": 1}  # no text beside another one
    source = extract(*inputs, tmp_path / "a", **options)
    fresh = extract(*inputs, tmp_path / "b", dtype="int8", **options)
    assert len(fresh.manifest.extra["units"]) > 1
    entry = plan_conversion(source.path, dtype="int8", root=tmp_path / "c").apply()
    assert without_manifest(entry) == without_manifest(fresh)
    told, said = manifest_of(entry), manifest_of(fresh)
    extra = told.pop("extra")
    del said["extra"]
    assert told == said
    for name in ("units", "computed", "batching"):  # of the pass that computed the rows
        assert extra[name] == source.manifest.extra[name]


def test_what_was_computed_in_bfloat16_is_exact_in_it(inputs, tmp_path):
    options = {"keep": ("words", "tokens"), "compute_dtype": "bfloat16"}
    source = extract(*inputs, tmp_path / "a", dtype="bfloat16", **options)
    way = plan_conversion(source.path, dtype="float32", root=tmp_path / "c")
    assert not way.rounded
    fresh = extract(*inputs, tmp_path / "b", dtype="float32", **options)
    assert without_manifest(way.apply()) == without_manifest(fresh)


@pytest.mark.parametrize(
    ("computed", "pooling", "arrays", "exact"),
    [
        ("bfloat16", "first", ("words", "tokens"), True), ("float32", "first", ("words",), False),
        ("float16", "first", ("words",), False), ("bfloat16", "mean", ("words",), False),
        ("bfloat16", "mean", ("tokens",), True), ("bfloat16", "first", ("words", "mean"), False),
    ],
)  # fmt: skip
def test_what_is_exact(form, computed, pooling, arrays, exact):
    manifest = form("bfloat16").manifest
    kept = tuple(map(manifest.array, arrays))
    changed = replace(manifest, compute_dtype=computed, pooling=pooling, arrays=kept)
    assert is_exact(changed) == exact


@pytest.mark.parametrize("after", ["int8", "float32", "bfloat16"])
def test_what_was_rounded_does_not_pass_for_more(form, tmp_path, after):
    source = form("float16")
    way = plan_conversion(source.path, dtype=after, root=tmp_path)
    assert way.rounded
    entry = way.apply()
    assert entry.manifest.request == source.manifest.request | {
        "dtype": after, "through": ["float16"],
    }  # fmt: skip
    assert entry.manifest.key == digest(entry.manifest.request)
    rows = all_rows(source)
    expected = {"float32": rows, "bfloat16": rows.bfloat16().float()}
    if after == "int8":
        assert verify_rows(entry, 20).passed
        exact, direct = all_rows(form()), all_rows(form("int8"))
        twice = (all_rows(entry) - direct).norm()
        assert twice < (direct - exact).norm() / 2, "the first rounding is the smaller one"
    else:
        assert torch.equal(all_rows(entry), expected[after])
    assert form(after).manifest.key != entry.manifest.key, "an extraction does not take it"
    assert check_chunks(entry.path) > 0


@pytest.mark.parametrize("way", [("float16", "float32"), ("int8",)])
def test_what_was_rounded_twice_is_not_rounded_once_more(form, tmp_path, way):
    entry = form(way[0])
    for dtype in way[1:]:
        entry = plan_conversion(entry.path, dtype=dtype, root=tmp_path).apply()
    before = " and then ".join(way)
    for dtype in {"float16", "bfloat16", "int8"} - {way[-1]}:
        with pytest.raises(OptionError, match=f"are already rounded to {before}, and would be"):
            plan_conversion(entry.path, dtype=dtype)
    other = plan_conversion(entry.path, format="hdf5", root=tmp_path / "c")
    assert other.manifest.request == entry.manifest.request | {"format": "hdf5"}


def test_auto_is_what_extraction_chooses(wide, wide_bert, corpus, tmp_path):
    entry = plan_conversion(wide.path, dtype="auto", root=tmp_path / "c").apply()
    fresh = extract(wide_bert, corpus, tmp_path / "b", keep=("words",), dtype="auto")
    assert (entry.manifest.dtype, entry.manifest.key) == ("bfloat16", fresh.manifest.key)
    assert without_manifest(entry) == without_manifest(fresh)
    other = plan_conversion(fresh.path, format="hdf5", root=tmp_path / "c")
    assert other.manifest.request["dtype"] == "auto" and other.manifest.dtype == "bfloat16"
    stated = plan_conversion(fresh.path, dtype="bfloat16", root=tmp_path / "c").apply()
    key = key_of(wide_bert, corpus, keep=("words",), dtype="bfloat16")
    assert stated.manifest.key == key
    with pytest.raises(OptionError, match=r"holds them rounded to bfloat16[.] Choose"):
        plan_conversion(stated.path, dtype="auto")


def test_values_out_of_range_are_refused(wide, tmp_path):
    """Before anything is written, and where no statistics tell of them, as they are written."""
    with pytest.raises(StateRangeError, match=r"layer 0 of array 'words'.*ends at 65,504.*bfloat"):
        plan_conversion(wide.path, dtype="float16", root=tmp_path / "c")
    assert not (tmp_path / "c").exists()
    planned = plan_conversion(wide.path, dtype="bfloat16", root=tmp_path / "c")
    for spec in planned.rows.arrays.values():  # a plan that the statistics would not have passed
        object.__setattr__(spec, "dtype", "float16")
    with pytest.raises(StateRangeError, match="values that fit float16"):
        planned.apply()
    assert not list((tmp_path / "c").rglob("*.partial"))


def test_a_damaged_chunk_is_named(cache):
    path = entry_in(cache)
    file = path / "features.zarr" / "words" / "c.0.3.0"
    flip(file, 8)
    for change in ({"dtype": "float16"}, {"format": "hdf5"}):
        with pytest.raises(EntryError, match="'words', row chunk 0, layer index 3"):
            plan_conversion(path, **change).apply()
    flip(file, 8)
    assert check_chunks(plan_conversion(path, dtype="float16").apply().path) > 0


def test_what_cannot_be(cache):
    path = entry_in(cache)
    for change, error, says in (
        ({"dtype": "float32", "format": "zarr"}, OptionError, "is already float32 in zarr"),
        ({"dtype": "float64"}, UnknownNameError, "float64"),
        ({"format": "csv"}, UnknownNameError, "csv"),
    ):
        with pytest.raises(error, match=says):
            plan_conversion(path, **change)
    with EntryLock(path), pytest.raises(EntryLockedError, match="is being written by"):
        plan_conversion(path, dtype="int8")
    made = plan_conversion(path, dtype="int8").apply()
    again = plan_conversion(path, dtype="int8")
    assert again.there and again.apply().path == made.path


def test_of_several_the_one_that_holds_rows_best_is_converted(cache):
    exact = Entry.open(entry_in(cache))
    half = plan_conversion(exact.path, dtype="float16").apply()
    ((copy, there),) = convert_entries([half.path, exact.path], dtype="int8")
    assert copy.source.path == exact.path and not copy.rounded and not there
    small = copy.path
    ((copy, there),) = convert_entries([small, half.path, exact.path], dtype="int8")
    assert copy.source.path == exact.path and there
    formats = list(convert_entries([small, half.path], format="hdf5"))
    assert [copy.manifest.dtype for copy, _ in formats] == ["int8", "float16"]


def test_a_page_says_how_it_was_form(form):
    manifest = form().manifest
    request = {**manifest.request, "dtype": "int8", "through": ["float16"]}
    command = extract_command(replace(manifest, request=request), Path("c"), "own.txt")
    extracted, *converted = command.split(" && ")
    assert "--dtype float16" in extracted and extracted.startswith("probekit extract ")
    model = manifest.model_info["name"]
    assert converted == [f"probekit cache convert {model} own.txt --dtype int8 --cache c"]
