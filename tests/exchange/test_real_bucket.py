"""A real S3 server that is busy, and one that is killed and started again; `make test-bucket`.

What other tests of this folder show of all places, they show of this server as well.
"""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count

import pytest

from probekit.errors import EntryError, StorageError
from probekit.exchange import Pull, remotes
from probekit.exchange.hub_remote import remote_at
from tests.exchange.conftest import pull, push, stored
from tests.store.synthetic import folder_bytes

pytestmark = pytest.mark.bucket
PART = 5 * 2**20


@pytest.fixture(autouse=True)
def started_again(real_server, proxy):
    yield
    proxy.before = lambda method: None
    real_server.start_again()


@pytest.fixture
def large(tmp_path):
    """A file of five parts, the last of them short."""
    file = tmp_path / "large"
    file.write_bytes(random.Random(1).randbytes(4 * PART + 7))
    return file


def at(call, wanted, act):
    """Act before the so-manieth request of a method, once."""
    calls = count(1)

    def before(method):
        if method == wanted and next(calls) == call:
            act()

    return before


def test_a_large_file_is_sent_in_parts(real_bucket, proxy, large):
    place = remote_at(real_bucket)
    place.write("large", large)
    sent = [path for path in proxy.written() if "partNumber=" in path]
    assert len(sent) == 5 and len(proxy.written()) == 5
    assert place.sizes() == {"large": 4 * PART + 7}
    assert place.read("large", 0, 5 * PART) == large.read_bytes()
    assert place.read("large", PART - 3, 7) == large.read_bytes()[PART - 3 : PART + 4]


@pytest.mark.parametrize("backend", ["zarr", "hdf5"])
def test_a_server_that_is_busy(real_bucket, proxy, tmp_path, cache, large, backend):
    entry = stored(tmp_path / "cache", backend)
    proxy.busy = 0.4
    remote_at(real_bucket).write("tiny/large", large)
    push(entry, real_bucket)
    push(entry, real_bucket)
    assert folder_bytes(pull(real_bucket, cache).path) == folder_bytes(entry.path)
    push(entry, real_bucket, text=False)
    assert not [
        name for name in remote_at(real_bucket).sizes() if name.endswith("examples.parquet")
    ]
    assert proxy.refused > 10
    assert remote_at(real_bucket).read("tiny/large", 0, 5 * PART) == large.read_bytes()


def test_a_server_that_is_started_again_meanwhile(
    real_bucket, proxy, real_server, tmp_path, cache, monkeypatch
):
    entry = stored(tmp_path / "cache")
    monkeypatch.setattr(remotes, "PATIENCE", timedelta(minutes=3))  # this machine may be busy
    with ThreadPoolExecutor() as pool:

        def restart():
            real_server.kill()
            pool.submit(real_server.start_again)

        proxy.before = at(12, "PUT", restart)
        push(entry, real_bucket)
        proxy.before = at(12, "GET", restart)
        pulled = pull(real_bucket, cache)
    assert folder_bytes(pulled.path) == folder_bytes(entry.path)


def test_a_push_to_a_server_that_is_gone_goes_on(
    real_bucket, proxy, real_server, tmp_path, cache, monkeypatch
):
    entry = stored(tmp_path / "cache")
    monkeypatch.setattr(remotes, "PATIENCE", timedelta(seconds=1))
    proxy.before = at(25, "PUT", real_server.kill)
    with pytest.raises(StorageError, match=r"returned an error .*Run the same command again"):
        push(entry, real_bucket)
    real_server.start_again()
    with pytest.raises(EntryError, match="holds no entries"):
        Pull.of(real_bucket, cache)
    arrived = {name for name in remote_at(real_bucket).sizes() if "/c." in name}
    proxy.passed.clear()
    push(entry, real_bucket)
    sent = {name for name in arrived if any(path.endswith(name) for path in proxy.written())}
    assert arrived and not sent, "no file is sent twice"
    assert folder_bytes(pull(real_bucket, cache).path) == folder_bytes(entry.path)


def test_a_pull_from_a_server_that_is_gone_goes_on(
    real_bucket, proxy, real_server, tmp_path, cache, monkeypatch
):
    entry = stored(tmp_path / "cache")
    push(entry, real_bucket)
    monkeypatch.setattr(remotes, "PATIENCE", timedelta(seconds=1))
    planned = Pull.of(real_bucket, cache)
    proxy.before = at(30, "GET", real_server.kill)
    with pytest.raises(StorageError, match=r"returned an error .*Run the same command again"):
        planned.apply()
    assert not list(cache.glob("*/*/train-????????")), "absent until it is whole"
    real_server.start_again()
    proxy.passed.clear()
    assert folder_bytes(pull(real_bucket, cache).path) == folder_bytes(entry.path)
    chunks = [path for _, path, _ in proxy.passed if "/c.0." in path]
    assert not chunks, "the first rows were there"


def test_a_file_whose_parts_did_not_all_arrive_is_absent(
    real_bucket, proxy, real_server, large, monkeypatch
):
    monkeypatch.setattr(remotes, "PATIENCE", timedelta(seconds=1))
    proxy.before = at(3, "PUT", real_server.kill)
    with pytest.raises(StorageError):
        remote_at(real_bucket).write("large", large)
    real_server.start_again()
    place = remote_at(real_bucket)
    assert place.sizes() == {}
    place.write("large", large)
    assert place.read("large", 0, 5 * PART) == large.read_bytes()
