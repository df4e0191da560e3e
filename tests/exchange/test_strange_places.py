"""Places that hold no entries, broken ones, or what was made to do harm: one clear error each."""

import errno
import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from probekit.base.fingerprint import digest
from probekit.errors import (
    EntryError,
    EntryVersionError,
    HubError,
    OptionError,
    StorageError,
    UnknownNameError,
)
from probekit.exchange import Pull, Push
from probekit.exchange.hub_remote import remote_at
from probekit.exchange.remote_entry import folder_of
from probekit.store.files import checksum
from probekit.store.labels import labels_of
from tests.exchange.conftest import REAL_BUCKET, REPO, URL, pull, push, stored
from tests.hub_clients import dead_endpoint, redirect
from tests.store.synthetic import folder_bytes


@pytest.fixture(scope="module")
def pushed_once(tmp_path_factory):
    """A folder with one entry, as `Push` leaves it (do not change it)."""
    root = tmp_path_factory.mktemp("strange")
    push(stored(root / "cache"), root / "there")
    return root / "there"


@pytest.fixture
def there(pushed_once, tmp_path):
    return shutil.copytree(pushed_once, tmp_path / "there")


@pytest.fixture
def entry(there):
    """The folder of the entry in a copy of that place, which may be changed."""
    (manifest,) = there.glob("*/*/*/manifest.json")
    return manifest.parent


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


def told_of(data):
    return {"nbytes": len(data), "xxh128": checksum(data)}


def refused(there, cache, error=EntryError, **options):
    """Pull, which must be refused, and leave no entry; return the message."""
    with pytest.raises(error) as caught:
        Pull.of(there, cache, **options).apply()
    assert not list(cache.glob("*/*/*-????????"))
    assert "xtract the entry again" not in str(caught.value)
    assert ".probekit" not in str(caught.value), "where it lay on the way helps nobody"
    return str(caught.value)


def test_names_that_are_no_entry(there, cache, tmp_path):
    for name in ("", "a/", "a/b/", "a/b/c/", "a/b/c/d/"):
        (there / name).mkdir(parents=True, exist_ok=True)
        (there / name / "manifest.json").write_text("{}")
    assert len(Pull.of(there, cache).entries) == 1
    shutil.rmtree(there / "tiny")
    assert "holds no entries: it has no MODEL/TASK/SPLIT-KEY/manifest.json" in refused(there, cache)
    assert "holds no entries" in refused(tmp_path / "absent", cache)


def test_newer_entries(entry, there, cache):
    file = entry / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format_version": 3}))
    assert "format version 3, this probekit reads" in refused(there, cache, EntryVersionError)


def test_files_that_are_missing_or_short(entry, there, cache, monkeypatch):
    (file,) = entry.glob("features.zarr/words/c.1.2.0")
    good = file.read_bytes()
    file.write_bytes(good[:-1])
    assert "features.zarr/words/c.1.2.0 is damaged" in refused(there, cache)
    file.unlink()
    assert "features.zarr/words/c.1.2.0 is missing" in refused(there, cache)
    one = pull(there, cache, layers="0,1", arrays=["words"])
    assert one.arrays["words"].layers == (0, 1), "what is there can be had"


def test_files_that_were_altered(entry, there, cache):
    for name in ("examples.parquet", "backbone/config.json", "features.zarr/zarr.json"):
        data = (entry / name).read_bytes()
        (entry / name).write_bytes(bytes([data[0] ^ 1]) + data[1:])
        assert f"{name} has changed since it was written. Ask whoever" in refused(there, cache)
        (entry / name).unlink()
        assert f"{name} is missing. Ask whoever" in refused(there, cache)
        (entry / name).write_bytes(data)
    manifest = (entry / "manifest.json").read_bytes()
    for data, told in (
        (manifest.replace(b'"synthetic"', b'"elsewhere"'), "has changed since it was written"),
        (b"\xff" + manifest, "cannot be read"),
        (b" " * 2**25, "is larger than any manifest"),
    ):
        (entry / "manifest.json").write_bytes(data)
        assert f"manifest.json {told}" in refused(there, cache)


def test_an_entry_under_another_name(entry, there, cache):
    entry.rename(entry.with_name(f"dev-{entry.name[-8:]}"))
    assert "holds another entry, 'tiny/demo/train-" in refused(there, cache)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"files": {}}, "does not list checksums.parquet"),
        ({"files": {"checksums.parquet": {}}}, "files"),
        ({"model": "../../home"}, "model"),
        ({"backend": "pickle"}, "backend"),
        *(
            ({"more": {name: told_of(b"x")}}, "not a file of an entry")
            for name in ("backbone/../../../../harm", "/harm", "backbone//harm", "../harm")
        ),
    ],
    ids=str,
)
def test_manifests_made_to_do_harm(entry, there, cache, tmp_path, fields, told):
    files = json.loads((entry / "manifest.json").read_text())["files"]
    resealed(entry, **({"files": files | fields["more"]} if "more" in fields else fields))
    assert told in refused(there, cache)
    assert not [name for name in folder_bytes(tmp_path) if "harm" in name]


def test_tables_made_to_do_harm(entry, there, cache):
    """Checksums and examples that fit the manifest, but tell of other rows."""
    file = entry / "examples.parquet"
    table = pq.read_table(file)
    at = table.column_names.index("row_start")
    starts = [[2**40] * len(table)]
    pq.write_table(table.set_column(at, table.schema.field("row_start"), starts), file)
    files = json.loads((entry / "manifest.json").read_text())["files"]
    resealed(entry, files=files | {"examples.parquet": told_of(file.read_bytes())})
    assert "an example points to rows that words or predicted does not have" in refused(
        there, cache
    )


def test_labels_of_another_text_are_not_this_entrys(entry, there, cache, made, caplog):
    data = labels_of(made["train"])[0].path.read_bytes()
    labels = entry.with_name("labels")
    labels.mkdir()
    (labels / "train-ner-00000000.parquet").write_bytes(data)
    pull(there, cache)
    assert not list(cache.glob("*/*/labels/*"))
    (labels / "train-ner-00000000.parquet").write_bytes(data[:-9])
    with (labels / "train-large-00000000.parquet").open("wb") as large:
        large.truncate(2**40)
    shutil.rmtree(cache)
    pull(there, cache)
    assert "left out: " in caplog.text and not list(cache.glob("*/*/labels/*"))


def test_labels_of_a_place_replace_none_of_the_caches(made, tmp_path, cache, caplog):
    """Neither other ones of the same name, nor by a date that has not come."""
    there = tmp_path / "there"
    push(made["train"], there)
    entry = pull(there, cache)
    (own,) = cache.glob("*/*/labels/*")
    good = own.read_bytes()
    (theirs,) = there.glob("*/*/labels/*")
    table = pq.read_table(theirs)
    later = table.schema.metadata | {b"created": b"9999-01-01T00:00:00.000000", b"sum": b""}
    pq.write_table(table.replace_schema_metadata(later), theirs)
    pull(there, cache)
    assert own.read_bytes() == good and "is dated in the future" in caplog.text
    others = [["O"] * len(row) for row in table["labels"].to_pylist()]
    table = table.set_column(1, table.schema.field("labels"), [others])
    pq.write_table(table, theirs)
    pull(there, cache)
    assert own.read_bytes() == good and "has different labels from" in caplog.text
    assert entry.path.exists()


def test_what_is_asked_for_and_not_there(there, cache):
    assert "layer 3 is not in words, tokens of demo train, which hold [0, 1, 2, 4]" in refused(
        there, cache, OptionError, layers="3"
    )
    assert "layer 9 does not exist" in refused(there, cache, OptionError, layers="9")
    assert "no array 'cls'; it holds only words, tokens" in refused(there, cache, arrays=["cls"])
    assert "unknown split at" in refused(there, cache, UnknownNameError, splits=["dev"])
    assert "has no such entry; it has train-" in refused(there, cache, OptionError, entry="zz")


PREFIXES = ("states#3", "states?x=1", "states/..", "./states")
NO_PLACES = ("hf://org/name", "hf://datasets/a", "hf://datasets/a/b/c", "ftp://host/x", "s3://")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        *((url, "expected a folder, s3://BUCKET/PREFIX") for url in NO_PLACES),
        *((f"s3://bucket/{name}", "a prefix may not contain # or") for name in PREFIXES),
        ("", "the path is empty"),
    ],
)
def test_urls_of_no_place(url, told):
    with pytest.raises(OptionError, match=told):
        Pull.of(url)


def test_names_that_lead_nowhere(hub, tmp_path, cache):
    push(stored(tmp_path / "cache"), URL)
    for name, told in (
        ("hf://datasets/org/absent", "does not exist, or you have no access to it"),
        (f"{URL}@v9", "has no branch, tag or commit 'v9'"),
    ):
        with pytest.raises(HubError, match=told):
            Pull.of(name, cache)


def test_an_endpoint_that_is_no_url(cache, monkeypatch):
    pytest.importorskip("obstore")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost:9000")
    with pytest.raises(OptionError, match="AWS_ENDPOINT_URL=localhost:9000 is not a URL"):
        Pull.of("s3://bucket/x", cache)


def test_a_hub_that_refuses_or_is_not_there(hub, cache, tmp_path, monkeypatch):
    entry, key = stored(tmp_path / "cache"), f"datasets/{REPO}"
    push(entry, URL)
    for fault, told in (("gated-403", "is gated: accept its terms"), ("error-500", "HTTP 500")):
        hub.faults[key] = fault
        assert told in refused(URL, cache, HubError)
    hub.faults[key] = "read-only"
    with pytest.raises(HubError, match=r"HTTP 403.*A push needs a token with write access"):
        push(entry, URL)
    redirect(monkeypatch, dead_endpoint(), tmp_path / "home")
    assert "the Hub cannot be reached" in refused(URL, cache, HubError)


def test_private_is_for_new_repositories(hub, tmp_path):
    entry = stored(tmp_path / "cache")
    push(entry, URL)
    with pytest.raises(HubError, match=r"exists and is public: --private is for new ones"):
        push(entry, URL, private=True)
    push(entry, "hf://datasets/me/hidden", private=True)
    assert hub.uploads.private == {"datasets/me/hidden"}
    with pytest.raises(OptionError, match="--private is for the Hub"):
        push(entry, tmp_path / "there", private=True)


@pytest.mark.parametrize("url", ["folder", REAL_BUCKET, "hub"], indirect=True)
def test_a_damaged_entry_is_not_pushed(url, tmp_path):
    entry = stored(tmp_path / "cache")
    file = entry.path / "features.zarr" / "words" / "c.0.3.0"
    good = file.read_bytes()
    file.write_bytes(bytes([good[0] ^ 1]) + good[1:])
    with pytest.raises(EntryError, match="row chunk 0, layer index 3"):
        push(entry, url)
    with pytest.raises((EntryError, HubError), match=r"holds no entries|does not exist"):
        Pull.of(url, tmp_path / "pulled")
    file.write_bytes(good)
    (entry.path / "backbone" / "config.json").write_text("{ }")
    with pytest.raises(
        EntryError, match=r"config\.json has changed since it was written. It is not"
    ):
        push(entry, url)


@pytest.mark.parametrize("url", ["folder", "bucket", REAL_BUCKET], indirect=True)
def test_files_that_no_push_has_sent_stay(url, tmp_path):
    entry = stored(tmp_path / "cache")
    push(entry, url)
    place, folder = remote_at(url), folder_of(entry.manifest)
    mine = {f"{folder}/NOTES.md", f"{folder}/mine/results.txt", "README.md"}
    place.write_all(dict.fromkeys(mine, b"mine"), lambda nbytes: None)
    push(entry, url)
    assert mine <= place.sizes().keys()


def test_what_a_kill_left_in_an_entry_is_not_sent(tmp_path):
    entry = stored(tmp_path / "cache")
    (entry.path / "building" / "draft").mkdir(parents=True)
    (entry.path / "building" / "draft" / "examples.parquet").write_bytes(b"the text")
    push(entry, tmp_path / "there", text=False)
    assert not list((tmp_path / "there").rglob("building"))


def test_links_in_a_folder(there, cache, tmp_path):
    (there / "tiny").rename(tmp_path / "elsewhere")
    (there / "tiny").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "round").symlink_to(there)
    assert pull(there, cache).manifest.task == "demo"


def test_a_file_of_hdf5_with_more_than_chunks(tmp_path, cache):
    entry, there = stored(tmp_path / "cache", "hdf5"), tmp_path / "there"
    push(entry, there)
    (file,) = there.rglob("features.h5")
    with file.open("r+b") as store:
        store.truncate(2**31)
    files = json.loads((file.parent / "manifest.json").read_text())["files"]
    files["features.h5"]["nbytes"] = 2**31
    resealed(file.parent, files=files)
    assert "bytes that belong to no chunk" in refused(there, cache)


@pytest.mark.parametrize("call", ["scandir", "stat", "pread"])
def test_a_folder_on_a_failing_disk(there, cache, call, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error", "a file")

    monkeypatch.setattr(*((Path, "stat") if call == "stat" else (os, call)), fail)
    with pytest.raises(StorageError, match=r"cannot be read \(Input/output error"):
        Pull.of(there, cache)


def test_files_of_others_in_a_folder_are_no_matter(there, cache, monkeypatch):
    (there / "nowhere").symlink_to("absent")
    (there / "round").symlink_to("round")
    (there / "closed").mkdir()
    scandir = os.scandir

    def closed(path):
        if str(path).endswith("closed"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    assert len(Pull.of(there, cache).entries) == 1


def test_a_folder_in_the_place_of_a_file(tmp_path):
    entry = stored(tmp_path / "cache")
    there = tmp_path / "there" / folder_of(entry.manifest) / "examples.parquet"
    there.mkdir(parents=True)
    (there / "mine").write_text("mine")
    with pytest.raises(StorageError, match=r"Is a directory .*another URL"):
        push(entry, tmp_path / "there")
    assert (there / "mine").read_text() == "mine"


def test_where_nothing_can_be_pushed(tmp_path):
    entry, other = (stored(tmp_path / name) for name in ("a", "b"))
    (tmp_path / "file").write_text("mine")
    for place, error, says in (
        (other.path, OptionError, "is inside an entry"),
        (tmp_path / "a", OptionError, "push it elsewhere"),
        (tmp_path / "file" / "there", StorageError, "another folder"),
    ):
        with pytest.raises(error, match=says):
            push(entry, place)
    assert Push.of([entry.path], tmp_path / "x").sizes
