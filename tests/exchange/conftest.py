"""Places that take what is pushed, and entries of a model that is gone."""

import shutil
from pathlib import Path

import pytest

from probekit.exchange import Pull, Push
from probekit.store.entry import Entry
from probekit.store.layout import entry_folder
from tests import tiny
from tests.extraction.corpus import write_corpus
from tests.extraction.extracted import run as extract
from tests.hub_server import HubServer
from tests.planted import built_once
from tests.real_s3_server import KEY, PROGRAM, SECRET, Proxy, RealS3Server
from tests.store import synthetic

REPO = "me/states"
URL = f"hf://datasets/{REPO}"


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            # httpx2, of how huggingface_hub uploads bytes
            item.add_marker(pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"))


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with HubServer({}, uploads=tmp_path / "hub") as server:
        server.redirect(monkeypatch, tmp_path / "home")
        yield server


@pytest.fixture
def repo(tmp_path):
    """The folder that holds what was pushed to the Hub."""
    return tmp_path / "hub" / "datasets" / REPO


@pytest.fixture(scope="session")
def server():
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    from tests.s3_server import S3Server

    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def bucket(server, monkeypatch):
    """The URL of a place in a new bucket, and the environment in which it is found."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    yield f"s3://{server.bucket()}/states"
    server.faults, server.refuses = None, False


@pytest.fixture(scope="session")
def real_server(tmp_path_factory):
    pytest.importorskip("obstore")
    if not PROGRAM.exists():
        pytest.skip("SeaweedFS is not here: `make test-bucket` installs it")
    server = RealS3Server(tmp_path_factory.mktemp("seaweedfs"))
    yield server
    server.kill()


@pytest.fixture
def proxy(real_server):
    proxy = Proxy(real_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def real_bucket(real_server, proxy, monkeypatch):
    """The URL of a new place in the bucket of a real server, behind the proxy."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return real_server.place()


REAL_BUCKET = pytest.param("real_bucket", marks=pytest.mark.bucket)


@pytest.fixture(params=["folder", "bucket", REAL_BUCKET, "hub"])
def url(request, tmp_path):
    """A place of each kind."""
    if request.param == "hub":
        request.getfixturevalue("hub")
        return URL
    folder = request.param == "folder"
    return tmp_path / "there" if folder else request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("text") / "corpus", sentences=40)


@pytest.fixture(scope="session")
def made(tmp_path_factory, corpus):
    """The entries of train and dev, by split; the model is no more."""
    root = tmp_path_factory.mktemp("made")
    model = tiny.build("bert", root / "bert")
    found = {
        split: extract(model, corpus, root / "cache", split, keep=("words", "tokens")).path
        for split in ("train", "dev")
    }
    shutil.rmtree(model)
    return {name: Entry.open(path) for name, path in found.items()}


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "pulled"


@built_once
def stored(root, backend="zarr", dtype="float32", split="train"):
    """A synthetic entry with several chunks of words and tokens, without labels."""
    key = synthetic.manifest(backend, dtype, split).key
    path = entry_folder(root, "tiny", "demo", split, key)
    return synthetic.build(path, backend, dtype, split=split)


def push(entry, url, **options):
    return Push.of([entry.path], url, **options).apply()


def pull(url, cache, **options):
    (entry,) = Pull.of(url, cache, **options).apply()
    return entry
