"""``probekit cache push`` and ``pull``, as users type them."""

import pytest

from tests.cli.conftest import entry_of
from tests.cli.console import done, refused, run
from tests.hub_server import HubServer

REPO = "me/states"
URL = f"hf://datasets/{REPO}"
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def hub(here, monkeypatch):
    with HubServer({}, uploads=here / "hub") as server:
        server.redirect(monkeypatch, here / "home")
        yield server


def test_push_and_pull(bert, corpus, cache, hub, here):
    listed = done("cache", "push", bert, corpus, URL, "--split", "dev", "--dry-run")
    assert hub.requests == [], "nothing is asked of the Hub"
    assert listed.out.splitlines()[0].split() == ["size", "file"]
    assert "features.zarr/words/c.0.3.0" in listed.out
    assert listed.err.splitlines()[0].endswith(f" in {len(listed.out.splitlines()) - 1} files")
    assert "where things lay on this machine: " in listed.err
    assert str(bert) in listed.err and str(corpus) in listed.err
    rows = done("cache", "push", bert, corpus, URL, "--split", "dev", "--dry-run", "--json").rows
    assert {*rows[0]} == {"bytes", "file"} and len(rows) == len(listed.out.splitlines()) - 1

    no = run("cache", "push", bert, corpus, URL, text="n\n")
    assert no.code == 1 and f" files to {URL} (public, unless" in no.err
    assert hub.requests == []
    asked = done("cache", "push", bert, corpus, URL, text="y\n")
    assert asked.out.splitlines()[-1].startswith(f"{hub.url}/datasets/{REPO}/commit/")

    listed = done("cache", "pull", URL, "--layers", "1,2", "--dry-run", "--cache", "new")
    assert listed.out.count("new/bert/") == 2 and not (here / "new").exists()
    pulled = done("cache", "pull", URL, "--cache", "new")
    assert [here / line for line in pulled.out.split()] == [
        entry_of(here / "new", split) for split in ("dev", "train")
    ]
    assert pulled.err.startswith("pulling ") and f" from {URL}\n" in pulled.err
    done("cache", "verify", "bert", corpus, "--cache", "new")
    (row,) = done("cache", "pull", URL, "--split", "dev", "--cache", "new", "--json").rows
    assert row["split"] == "dev"


def test_without_the_text(bert, corpus, cache, hub, here):
    done("cache", "push", entry_of(cache, "train"), URL, "--no-text", "--yes")
    command = ("cache", "pull", URL, "--cache", "new")
    outcome = run(*command)
    assert outcome.code == 1 and "was pushed without its text" in outcome.err
    outcome = run(*command, "--data", here)
    assert outcome.code == 1, outcome
    done(*command, "--data", corpus, "--label", "2")
    report = done("cache", "verify", entry_of(here / "new", "train"), "--rows", "5")
    assert "chunks match their checksums" in report.err
    assert report.out.splitlines()[1].startswith("0 = emb"), "what the model reads is its text"


def test_what_is_refused(cache, corpus, bert, hub):
    told = refused("cache", "push", bert, corpus, URL, "--split", "test", "--yes")
    assert "no entry of split 'test' is among those that are named, which are of dev, train" in told
    told = refused("train", bert, corpus, "--head", "last", "--cache", "s3://bucket/x")
    assert "s3://bucket/x is a URL, but a cache is a folder. `probekit cache pull URL`" in told
    assert "no cache entry matches other in cache" in refused("cache", "push", "other", URL)
    assert "does not exist, or you have no access to it" in refused("cache", "pull", URL)
