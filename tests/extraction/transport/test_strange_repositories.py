"""Repositories that are none, are broken, or were made to do harm: one clear error each."""

import json
import shutil
from dataclasses import asdict

import pyarrow.parquet as pq
import pytest

from probekit.base.fingerprint import digest
from probekit.errors import EntryError, EntryVersionError, HubError, OptionError, UnknownNameError
from probekit.extraction.transport import Pull, Push
from probekit.extraction.transport.transport_form import FileSum
from probekit.store.labels import labels_of
from tests.extraction.transport.conftest import REPO, stored
from tests.hub_clients import dead_endpoint, redirect
from tests.hub_server import HubServer
from tests.store.synthetic import folder_bytes


@pytest.fixture(scope="module")
def pushed_once(tmp_path_factory):
    """A repository with one entry, as `Push` leaves it (do not change it)."""
    root = tmp_path_factory.mktemp("strange")
    with pytest.MonkeyPatch.context() as patch, HubServer({}, uploads=root) as hub:
        hub.redirect(patch, root / "home")
        Push.of([stored(root / "cache").path], REPO).apply()
    return root / "datasets" / REPO


@pytest.fixture
def entry(pushed_once, repo, hub):
    """The folder of the entry in a copy of that repository, which may be changed."""
    shutil.copytree(pushed_once, repo)
    hub.repos[f"datasets/{REPO}"] = repo
    (form,) = repo.glob("*/*/*/probekit.json")
    return form.parent


def changed(file, **fields):
    """Change fields of a JSON file; None takes one away."""
    values = json.loads(file.read_text()) | fields
    file.write_text(
        json.dumps({name: value for name, value in values.items() if value is not None})
    )


def resealed(entry, **fields):
    """Change fields of a manifest, so that its key and seal fit again; return its folder."""
    file = entry / "manifest.json"
    values = json.loads(file.read_text()) | fields
    values["key"] = digest(values["request"])
    timeless = {k: v for k, v in values.items() if k not in ("created", "seal")}
    values["seal"] = digest(timeless)
    file.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n")
    moved = entry.with_name(f"train-{values['key'][:8]}")
    return entry.rename(moved)


def refused(cache, error=EntryError, **options):
    """Pull, which must be refused, and leave no entry; return the message."""
    with pytest.raises(error) as caught:
        Pull.of(REPO, cache, **options).apply()
    assert not list(cache.glob("*/*/*-????????"))
    assert "Extract the entry again" not in str(caught.value)
    return str(caught.value)


def test_a_repository_that_is_no_cache(entry, repo, cache):
    shutil.rmtree(repo / "tiny")
    assert "is no probekit cache: no MODEL/TASK/SPLIT-KEY/probekit.json" in refused(cache)


def test_names_that_are_no_entry(entry, repo, cache):
    for name in (
        "probekit.json",
        "a/probekit.json",
        "a/b/c/probekit.json",
        "a/b/c/d/probekit.json",
    ):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text("{}")
    assert len(Pull.of(REPO, cache).entries) == 1


def test_newer_forms_and_entries(entry, cache):
    file = entry / "probekit.json"
    good = file.read_bytes()
    changed(file, version=2)
    assert "this probekit reads version 1: upgrade probekit" in refused(cache, EntryVersionError)
    file.write_bytes(good)
    changed(entry / "manifest.json", format_version=3)
    assert "format version 3, this probekit reads" in refused(cache, EntryVersionError)


@pytest.mark.parametrize(
    "fields",
    [
        {"version": None}, {"version": "1"}, {"version": True}, {"text": 1}, {"row_chunks": None},
        {"row_chunks": {"words": 0}}, {"row_chunks": {"words": 1}}, {"row_chunks": ["words"]},
        {"examples": {"nbytes": -1, "xxh128": ""}}, {"examples": {"nbytes": 1}}, {"more": 1},
        {"labels": {"../x.parquet": {"nbytes": 1, "xxh128": ""}}},
        {"labels": {"a/b.parquet": {"nbytes": 1, "xxh128": ""}}},
        {"labels": {"x.pkl": {"nbytes": 1, "xxh128": ""}}},
        {"labels": {"x.parquet": {"nbytes": 1, "xxh128": "", "more": 1}}},
    ],
    ids=str,
)  # fmt: skip
def test_forms_that_are_none(entry, cache, fields):
    changed(entry / "probekit.json", **fields)
    assert "probekit.json" in refused(cache)


@pytest.mark.parametrize("text", [b"", b"[]", b"\xff", b"[" * 5000, b"{" + b" " * 2**21])
def test_files_that_are_no_form(entry, cache, text):
    (entry / "probekit.json").write_bytes(text)
    assert "probekit.json" in refused(cache)


def test_files_that_are_missing_or_short(entry, hub, cache):
    (file,) = entry.glob("features/words/layer-002-*")
    good = file.read_bytes()
    for data, told in ((good[:-1], f"expected {len(good):,}"), (good + b"0", "bytes, expected")):
        file.write_bytes(data)
        hub.sent.clear()
        assert told in refused(cache)
        assert not any("/features/" in name for name in hub.sent), "sizes are looked at before"
    file.unlink()
    assert "features/words/layer-002-000.bin is missing" in refused(cache)
    (one,) = Pull.of(REPO, cache, layers="0,1", arrays=["words"]).apply()
    assert one.arrays["words"].layers == (0, 1), "what is there can be had"


@pytest.mark.parametrize("name", ["examples.parquet", "checksums.parquet", "backbone/config.json"])
def test_small_files_that_were_altered(entry, cache, name):
    data = (entry / name).read_bytes()
    (entry / name).write_bytes(bytes([data[0] ^ 1]) + data[1:])
    assert f"{name} is not as it was pushed" in refused(cache)


def test_a_manifest_that_was_altered(entry, cache):
    text = (entry / "manifest.json").read_text()
    (entry / "manifest.json").write_text(text.replace('"synthetic"', '"elsewhere"'))
    assert "manifest.json is not as it was written" in refused(cache)
    (entry / "manifest.json").write_bytes(b"\xff" + text.encode())
    assert "is not UTF-8" in refused(cache)


def test_an_entry_under_another_name(entry, cache):
    entry.rename(entry.with_name(f"dev-{entry.name[-8:]}"))
    assert "is of another entry than its folder" in refused(cache)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"files": {}}, "does not say 'checksums.parquet'"),
        ({"files": {"checksums.parquet": {}}}, "does not say 'nbytes'"),
        ({"model": "../../home"}, "model"),
        ({"split": "../x"}, "split"),
        ({"backend": "pickle"}, "backend"),
    ],
    ids=str,
)
def test_manifests_made_to_do_harm(entry, cache, fields, told):
    resealed(entry, **fields)
    assert told in refused(cache)


def test_paths_in_a_manifest_lead_nowhere(entry, cache, tmp_path):
    files = json.loads((entry / "manifest.json").read_text())["files"]
    harm = asdict(FileSum.of(b"x"))
    for name in ("backbone/../../../../harm", "/harm", "backbone//harm", "backbone/a/b", "../harm"):
        files[name] = harm
    resealed(entry, files=files)
    (pulled,) = Pull.of(REPO, cache).apply()
    assert "backbone/config.json" in folder_bytes(pulled.path)
    assert not [name for name in folder_bytes(tmp_path) if "harm" in name]


def test_tables_made_to_do_harm(entry, cache):
    """Checksums and examples that fit the manifest, but tell of other rows."""
    file = entry / "examples.parquet"
    table = pq.read_table(file)
    at = table.column_names.index("row_start")
    starts = [[2**40] * len(table)]
    pq.write_table(table.set_column(at, table.schema.field("row_start"), starts), file)
    told = asdict(FileSum.of(file.read_bytes()))
    files = json.loads((entry / "manifest.json").read_text())["files"] | {"examples.parquet": told}
    moved = resealed(entry, files=files)
    changed(moved / "probekit.json", examples=told)
    assert "an example has rows that words or predicted has not" in refused(cache)


def test_labels_of_another_text(entry, cache, made):
    data = labels_of(made["train"])[0].path.read_bytes()
    (entry / "labels").mkdir()
    (entry / "labels" / "train-ner-00000000.parquet").write_bytes(data)
    told = asdict(FileSum.of(data))
    changed(entry / "probekit.json", labels={"train-ner-00000000.parquet": told})
    assert "labels another text" in refused(cache)


def test_what_is_asked_for_and_not_there(entry, cache):
    assert "layer 3 is not in words, tokens of demo train, which hold [0, 1, 2, 4]" in refused(
        cache, OptionError, layers="3"
    )
    assert "layer 9 does not exist" in refused(cache, OptionError, layers="9")
    assert "no array 'cls'; it holds only words, tokens" in refused(cache, arrays=["cls"])
    assert "unknown split of the repository 'dev'" in refused(
        cache, UnknownNameError, splits=["dev"]
    )
    assert "the repository has no such entry; it has train-" in refused(
        cache, OptionError, entry="zz"
    )
    assert "has no branch, tag or commit 'v9'" in refused(cache, HubError, revision="v9")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("org/absent", "does not exist, or is not open to you"),
        ("states", "say whose it is as well, OWNER/states"),
        ("a/b/c", "is no name of a Hub data set, OWNER/NAME"),
        ("./here", "is no name of a Hub data set"),
    ],
)
def test_names_that_lead_nowhere(hub, cache, name, told):
    with pytest.raises(HubError, match=told):
        Pull.of(name, cache)


def test_a_hub_that_refuses_or_is_not_there(entry, hub, cache, tmp_path, monkeypatch):
    key = f"datasets/{REPO}"
    for fault, told in (("gated-403", "is gated: accept its terms"), ("error-500", "HTTP 500")):
        hub.faults[key] = fault
        assert told in refused(cache, HubError)
    hub.faults[key] = "read-only"
    push = Push.of([stored(tmp_path / "cache").path], REPO)
    with pytest.raises(HubError, match=r"HTTP 403.*a push needs a token that may write"):
        push.apply()
    redirect(monkeypatch, dead_endpoint(), tmp_path / "home")
    assert "the Hub cannot be reached" in refused(cache, HubError)


def test_private_is_for_new_repositories(entry, hub, tmp_path):
    path = stored(tmp_path / "cache").path
    with pytest.raises(HubError, match=r"exists and is public: --private is for new ones"):
        Push.of([path], REPO, private=True).apply()
    Push.of([path], "me/hidden", private=True).apply()
    assert hub.uploads.private == {"datasets/me/hidden"}


def test_a_damaged_entry_is_not_pushed(hub, tmp_path, repo):
    entry = stored(tmp_path / "cache")
    file = entry.path / "features.zarr" / "words" / "c.0.3.0"
    good = file.read_bytes()
    file.write_bytes(bytes([good[0] ^ 1]) + good[1:])
    with pytest.raises(EntryError, match="row chunk 0, layer index 3"):
        Push.of([entry.path], REPO).apply()
    assert not (repo / "README.md").exists(), "nothing of it is seen"
    file.write_bytes(good)
    (entry.path / "backbone" / "config.json").write_text("{ }")
    with pytest.raises(EntryError, match=r"config\.json is not as it was written. It is not"):
        Push.of([entry.path], REPO)
