"""A cache at a URL as a user types it; in memory, which the commands of one process share."""

from itertools import count

import pytest

from probekit.cli import arguments
from tests.cli.conftest import FLOAT32
from tests.cli.console import done, refused

pytest.importorskip("obstore")

_names = count()


@pytest.fixture
def url():
    return f"memory://console{next(_names)}/cache"


def test_from_extraction_to_the_last_byte(bert, corpus, here, url):
    at = ("--cache", url)
    first = done("extract", bert, corpus, *FLOAT32, *at)
    train, dev = first.out.split()
    assert f"{url} is memory of this command, and gone when it ends" in first.err
    assert train.startswith(f"{url}/") and dev.startswith(f"{url}/")
    assert "complete already" in done("extract", bert, corpus, *FLOAT32, *at).err
    assert [row["state"] for row in done("cache", "ls", *at, "--json").rows] == ["complete"] * 2
    assert train in done("cache", "info", train).out
    assert "match their checksums" in done("cache", "verify", bert, corpus, *at).err
    assert done("cache", "path", bert, corpus, "train", *at).out.strip() == train
    scores = [
        done(
            "train", *what, "--head", "last", "--epochs", "1", "--out", f"{i}.jsonl", "--json"
        ).rows[0]["scores"]
        for i, what in enumerate(
            [(bert, corpus, *at), (train,), (bert, corpus, *at, "--mirror", "mirror")]
        )
    ]
    assert scores[0] == scores[1] == scores[2] and list((here / "mirror").iterdir())
    done("geometry", train, "--mirror", "mirror", "--mirror-size", "1GB")
    done("cache", "copy", url, "here")
    done("cache", "verify", train, "--rows", "2", "--against", f"here/{train.removeprefix(url)}")
    smaller = done("cache", "rm", train, "--layers", "0", "--yes").err
    assert f"removed; the rest is {url}/" in smaller
    for row in done("cache", "ls", *at, "--json").rows:
        done("cache", "rm", row["key"], *at, "--yes")
    assert "no entries in memory://" in done("cache", "ls", *at).err
    assert not list(here.glob("memory*"))


def test_shards_at_a_url(bert, corpus, url):
    for shard in ("1/2", "2/2"):
        done("extract", bert, corpus, *FLOAT32, "--cache", url, "--shard", shard)
    assert "match" in done("cache", "verify", bert, corpus, "--cache", url).err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--workers", "2"), "is memory of this process, which others do not see"),
        (("--format", "hdf5"), "an HDF5 file is written in place"),
    ],
)
def test_what_cannot_be(bert, corpus, url, words, says, monkeypatch):
    monkeypatch.setattr(arguments, "warn_once", lambda *said: None)
    assert says in refused("extract", bert, corpus, "--cache", url, *words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--mirror-size", "1GB"), "say which folder keeps them, --mirror DIR"),
        (("--mirror", "m", "--mirror-size", "big"), "--mirror-size 'big' is not a size"),
        (("--mirror", "s3://b/x"), "give a folder on a disk of this machine"),
    ],
)
def test_mirrors_that_cannot_be(bert, corpus, cache, words, says):
    assert says in refused("train", bert, corpus, *words)


def test_a_folder_by_its_url(bert, corpus, here, cache):
    rows = done("cache", "ls", "--cache", f"file://{here}/cache", "--json").rows
    assert rows == done("cache", "ls", "--json").rows
