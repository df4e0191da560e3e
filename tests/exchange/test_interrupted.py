"""Pulls and pushes that are killed, or broken off, go on where they were."""

import errno
import gc
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest

from probekit.errors import EntryError, HubError, StorageError
from probekit.exchange import Pull, remotes
from probekit.exchange.hub_remote import Hub, remote_at
from probekit.exchange.remote_entry import RemoteEntry
from probekit.extraction.maintenance import check_chunks
from probekit.store.entry import Entry
from tests.exchange.conftest import REAL_BUCKET, REPO, URL, pull, push, stored
from tests.forks import kill_at
from tests.s3_server import Faults
from tests.store import synthetic
from tests.store.synthetic import folder_bytes


@pytest.fixture
def written(monkeypatch):
    """Names of files that are written to a folder."""
    write, found = remotes.Folder.write, []

    def noted(self, name, data):
        found.append(name.partition("/train-")[2].partition("/")[2])
        write(self, name, data)

    monkeypatch.setattr(remotes.Folder, "write", noted)
    return found


@pytest.mark.parametrize("backend", ["zarr", "hdf5"])
def test_a_pull_that_is_killed_goes_on(tmp_path, cache, backend, monkeypatch):
    entry, there = stored(tmp_path / "cache", backend), tmp_path / "there"
    push(entry, there)
    (scratch := tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    kill_at("probekit.store.codec.damaged_chunks", 3, lambda: pull(there, cache))
    assert not list(cache.glob("*/*/train-????????")), "absent until it is whole"
    (begun,) = cache.glob("*/*/*.partial")
    with pytest.raises(EntryError, match=r"is unfinished\. Run the same `probekit cache pull`"):
        Entry.open(begun)
    done = len(list(begun.glob("building/units/*.json")))
    assert any(scratch.iterdir()), "small files of the killed one"
    chunks, chunk = [], RemoteEntry.chunk
    monkeypatch.setattr(
        RemoteEntry, "chunk", lambda self, at: chunks.append(at.row_chunk) or chunk(self, at)
    )
    assert folder_bytes(pull(there, cache).path) == folder_bytes(entry.path)
    assert done and not set(chunks) & set(range(done)), "what was brought is not read again"
    gc.collect()
    assert not any(scratch.iterdir()), "what the killed one left is removed by the next one"


def test_a_push_that_is_killed_goes_on(tmp_path, cache, written):
    entry, there = stored(tmp_path / "cache"), tmp_path / "there"
    kill_at("probekit.exchange.remotes.Folder.write", 25, lambda: push(entry, there))
    with pytest.raises(EntryError, match="holds no entries"):
        Pull.of(there, cache)
    sent = {
        str(file.relative_to(begun)) for begun in there.glob("*/*/*") for file in begun.rglob("c.*")
    }
    push(entry, there)
    assert sent and not sent & set(written), "no file is sent twice"
    assert not list(there.rglob("*.begun"))
    assert folder_bytes(pull(there, cache).path) == folder_bytes(entry.path)


def other_there(there):
    """Let what was pushed be another entry's, with chunks of as many bytes."""
    (old,) = there.rglob("train-*/manifest.json")
    old.write_text(old.read_text().replace('"created": "2', '"created": "1'))
    chunk = old.parent / "features.zarr/words/c.0.0.0"
    chunk.write_bytes(bytes(chunk.stat().st_size))


@pytest.mark.parametrize("killed", [False, True])
def test_an_entry_that_was_made_anew_replaces_the_old_one(tmp_path, cache, written, killed):
    entry, there = stored(tmp_path / "cache"), tmp_path / "there"
    for change in (lambda there: None, other_there):
        push(entry, there)
        change(there)
        written.clear()
        if killed:
            with pytest.MonkeyPatch.context() as patch, pytest.raises(TypeError):
                patch.setattr(remotes.Folder, "write_all", None)
                push(entry, there)
        push(entry, there)
        assert "features.zarr/words/c.0.0.0" in written, "what is there may be damaged, or others'"
    assert folder_bytes(pull(there, cache).path) == folder_bytes(entry.path)


def test_a_push_that_goes_on_removes_what_a_kill_left(tmp_path):
    entry, there = stored(tmp_path / "cache"), tmp_path / "there"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remotes, "nbytes_of", None)
        with pytest.raises(TypeError):
            push(entry, there)
    (begun,) = there.rglob("*.begun")
    left = begun.parent / "features.zarr" / "words" / f".{'0' * 32}.probekit"
    left.mkdir(parents=True)
    (left / "c.0.0.0").write_bytes(b"half")
    push(entry, there)
    assert not left.exists()


def test_a_hub_keeps_what_was_sent(hub, tmp_path, repo):
    entry = stored(tmp_path / "cache")
    push(entry, URL)
    before, sent = folder_bytes(repo), len(hub.uploads.received)
    push(entry, URL)
    assert folder_bytes(repo) == before and len(hub.uploads.received) == sent


def test_a_push_to_a_repository_that_changed_meanwhile(hub, tmp_path, repo, monkeypatch):
    """What goes, and what the card shows, was looked for before."""
    train, dev = (stored(tmp_path / "cache", split=split) for split in ("train", "dev"))
    push(train, URL)
    commit = Hub.commit

    def late(self, *given, **options):
        (repo / "another's.txt").write_text("new")
        return commit(self, *given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Hub, "commit", late)
        with pytest.raises(HubError, match=r"HTTP 412 .*Run the same command again"):
            push(dev, URL)
    push(dev, URL)
    assert len(Pull.of(URL, tmp_path / "pulled").entries) == 2


def test_a_hub_that_fails_in_the_middle(hub, tmp_path, cache, monkeypatch):
    entry = stored(tmp_path / "cache")
    push(entry, URL)
    read = Hub.read

    def fail(self, name, start, nbytes):
        if "/c.1." in name:
            hub.faults[f"datasets/{REPO}"] = "gated-401"
        return read(self, name, start, nbytes)

    with monkeypatch.context() as patch:
        patch.setattr(Hub, "read", fail)
        with pytest.raises(HubError, match="is gated"):
            pull(URL, cache)
    del hub.faults[f"datasets/{REPO}"]
    hub.sent.clear()
    assert folder_bytes(pull(URL, cache).path) == folder_bytes(entry.path)
    assert not any("/c.0." in name for name in hub.sent), "the first rows were there"


def test_a_bucket_that_fails(server, bucket, tmp_path, cache):
    entry = stored(tmp_path / "cache")
    server.faults = Faults(1, failed=0.08, dropped=0.03, slow=0.05, seconds=0.01)
    push(entry, bucket)
    assert folder_bytes(pull(bucket, cache).path) == folder_bytes(entry.path)
    assert server.faults.met["500"] and server.faults.met["drop"]
    server.faults, server.refuses = None, True
    with pytest.raises(StorageError, match=r"credentials are refused .* AWS_ACCESS"):
        Pull.of(bucket, cache)
    server.refuses = False
    with pytest.raises(StorageError, match="there is no such bucket"):
        Pull.of("s3://no-such-bucket/x", cache)


@pytest.mark.parametrize("url", ["folder", "bucket", REAL_BUCKET], indirect=True)
def test_a_push_mends_what_is_damaged_there(url, tmp_path, cache):
    entry = stored(tmp_path / "cache")
    push(entry, url)
    place = remote_at(url)
    (name,) = (n for n in place.sizes() if n.endswith("words/c.0.0.0"))
    place.write(name, bytes(place.sizes()[name]))
    with pytest.raises(EntryError, match="is damaged at byte 0"):
        pull(url, cache)
    push(entry, url)
    assert folder_bytes(pull(url, cache).path) == folder_bytes(entry.path)


def test_a_pull_goes_on_with_what_was_pushed_anew(made, tmp_path, cache, monkeypatch):
    """What was begun of an entry that another one has replaced is begun anew."""
    there, entry = tmp_path / "there", made["train"]
    push(entry, there)
    with monkeypatch.context() as patch:
        patch.setattr(RemoteEntry, "chunk", None)
        with pytest.raises(TypeError):
            pull(there, cache)
    (manifest,) = there.rglob("train-*/manifest.json")
    manifest.write_text(manifest.read_text().replace('"created": "2', '"created": "1'))
    assert pull(there, cache).manifest.key == entry.manifest.key


def test_two_pushes_side_by_side(made, tmp_path, cache):
    there, pool = tmp_path / "there", ThreadPoolExecutor(4)
    with pool:
        each = [pool.submit(push, made[split], there) for split in ("train", "dev") * 6]
    assert [one.result() for one in each] == [str(there)] * 12
    assert len(Pull.of(there, cache).apply()) == 2


@pytest.fixture
def rivals(tmp_path):
    """Two entries under one key that were made separately, with other rows."""
    first, block = stored(tmp_path / "a"), synthetic.block
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic, "block", lambda *given: -block(*given))
        return first, stored.__wrapped__(tmp_path / "b")  # stored builds once


PLACES = ["folder", "bucket", REAL_BUCKET]
BEGAN = r"another push of tiny/demo/train-.* began meanwhile.* Push the one that you want again"


@pytest.mark.parametrize("url", PLACES, indirect=True)
@pytest.mark.parametrize("method", ["write_all", "create"])
def test_a_push_during_another_one(url, rivals, cache, monkeypatch, method):
    """The first is told, whether it was about to send its rows or its manifest."""
    first, second = rivals
    place = type(remote_at(url))
    act = getattr(place, method)

    def after_other(self, what, *given):
        if not str(what).endswith(".begun"):
            monkeypatch.setattr(place, method, act)
            push(second, url)
        return act(self, what, *given)

    monkeypatch.setattr(place, method, after_other)
    with pytest.raises(StorageError, match=BEGAN):
        push(first, url)
    if method == "write_all":
        with pytest.raises(EntryError, match="push it again"):
            pull(url, cache)
        push(second, url)
    assert folder_bytes(pull(url, cache).path) == folder_bytes(second.path)


@pytest.mark.parametrize("url", PLACES, indirect=True)
def test_of_two_pushes_that_begin_together_one_is_refused(url, rivals, cache, monkeypatch):
    """Both have seen an empty place; only one of them sends rows."""
    place, both = type(remote_at(url)), Barrier(2)
    remove = place.remove

    def together(self, names):
        if not names:
            both.wait(60)
        remove(self, names)

    monkeypatch.setattr(place, "remove", together)
    with ThreadPoolExecutor(2) as pool:
        pushes = {pool.submit(push, entry, url): entry for entry in rivals}
    (won,) = (entry for push, entry in pushes.items() if push.exception() is None)
    (lost,) = (push for push, entry in pushes.items() if entry is not won)
    with pytest.raises(StorageError, match=BEGAN):
        lost.result()
    assert folder_bytes(pull(url, cache).path) == folder_bytes(won.path)


@pytest.mark.parametrize("url", PLACES, indirect=True)
def test_a_push_that_begins_before_the_manifest_of_another_one(url, rivals, cache, monkeypatch):
    """The first one is told, and leaves the other's mark, so that the other one ends well."""
    first, second = rivals
    place = type(remote_at(url))
    create = place.create

    def after_other(self, name, data):
        if name.endswith("manifest.json"):
            self.remove([*self.sizes()])
            assert create(self, f"{name}.begun", (second.path / "manifest.json").read_bytes())
        return create(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(place, "create", after_other)
        with pytest.raises(StorageError, match=BEGAN):
            push(first, url)
    assert any(name.endswith(".begun") for name in remote_at(url).sizes())
    push(second, url)
    assert folder_bytes(pull(url, cache).path) == folder_bytes(second.path)


def test_a_conflict_that_left_nothing(server, bucket, tmp_path, cache, monkeypatch):
    """A bucket may answer 409 to a conditional write that it could not decide."""
    entry, app, answers = stored(tmp_path / "cache"), server._app, iter(["409 Conflict"])

    def undecided(environ, start_response):
        if "HTTP_IF_NONE_MATCH" not in environ or not (answer := next(answers, "")):
            return app(environ, start_response)
        environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        start_response(answer, [("Content-Type", "application/xml")])
        return [b"<Error><Code>ConditionalRequestConflict</Code></Error>"]

    monkeypatch.setattr(server, "_app", undecided)
    push(entry, bucket)
    assert next(answers, None) is None
    assert folder_bytes(pull(bucket, cache).path) == folder_bytes(entry.path)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EXDEV])
def test_a_folder_without_hard_links(rivals, tmp_path, cache, monkeypatch, number):
    (first, second), there = rivals, tmp_path / "there"

    def refuse(*_):
        raise OSError(number, "no links")

    monkeypatch.setattr("os.link", refuse)
    for entry in (first, first, second):
        push(entry, there)
        assert folder_bytes(pull(there, cache / entry.path.parts[-4]).path) == folder_bytes(
            entry.path
        )


@pytest.mark.parametrize("told", [True, False])
def test_a_bucket_without_conditional_writes(server, bucket, tmp_path, cache, monkeypatch, told):
    """The server says so, or the environment does."""
    entry, app = stored(tmp_path / "cache"), server._app

    def ignorant(environ, start_response):
        if "HTTP_IF_NONE_MATCH" not in environ:
            return app(environ, start_response)
        assert not told
        environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        start_response("501 Not Implemented", [("Content-Type", "application/xml")])
        return [b"<Error><Code>NotImplemented</Code></Error>"]

    monkeypatch.setattr(remotes, "PATIENCE", timedelta(seconds=1))
    if told:
        monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    monkeypatch.setattr(server, "_app", ignorant)
    push(entry, bucket)
    assert folder_bytes(pull(bucket, cache).path) == folder_bytes(entry.path)


def test_a_file_larger_than_ten_thousand_parts_of_five_mib(bucket, tmp_path, monkeypatch):
    """S3 takes no more parts than that of one object."""
    import obstore

    (large := tmp_path / "large").touch()
    sizes = []
    monkeypatch.setattr(obstore, "put", lambda *_, chunk_size, **more: sizes.append(chunk_size))
    for nbytes in (1, 10_000 * 5 * 2**20, 81 * 10**9):
        with large.open("r+b") as file:
            file.truncate(nbytes)
        remote_at(bucket).write("large", large)
    assert sizes == [5 * 2**20, 5 * 2**20, 8_100_000]


@pytest.mark.parametrize(("backend", "file"), [("zarr", "words/c.1.2.0"), ("hdf5", "features.h5")])
def test_a_chunk_that_is_damaged_is_loaded_again(tmp_path, cache, backend, file):
    entry, there = stored(tmp_path / "cache", backend), tmp_path / "there"
    push(entry, there)
    (place,) = there.rglob(file)
    good, at = place.read_bytes(), -1500 if backend == "zarr" else 40_000
    place.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    with pytest.raises(EntryError, match=r"is damaged at byte \d+: expected.*Pull again; if"):
        pull(there, cache)
    assert not list(cache.glob("*/*/train-????????"))
    place.write_bytes(good)
    pulled = pull(there, cache)
    assert check_chunks(pulled.path) > 0
    assert folder_bytes(pulled.path) == folder_bytes(entry.path)
