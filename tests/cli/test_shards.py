"""``extract --shard`` and ``cache merge`` as a user types them."""

import pytest

from tests.cli.conftest import FLOAT32
from tests.cli.console import done, refused, run


@pytest.fixture
def nodes(bert, corpus):
    """Caches of two shards."""
    for node in ("1", "2"):
        done("extract", bert, corpus, *FLOAT32, "--cache", f"node{node}", "--shard", f"{node}/2")
    return "node1", "node2"


def test_two_caches_are_merged_and_train(bert, corpus, nodes):
    rows = done("cache", "merge", *nodes, "--json").rows
    assert {row["split"] for row in rows} <= {"train", "dev"} and rows
    for split in ("train", "dev"):
        done("extract", bert, corpus, *FLOAT32, "--split", split, "--cache", "alone")
        args = ("cache", "path", bert, corpus, split, "--cache")
        merged, alone = done(*args, "cache").out.strip(), done(*args, "alone").out.strip()
        done("cache", "verify", merged, "--rows", "3", "--against", alone)
    done("train", bert, corpus, "--head", "last", "--epochs", "1")
    assert "nothing in cache is begun" in refused("cache", "merge")


def test_shards_at_one_cache(bert, corpus):
    first = run("extract", bert, corpus, *FLOAT32, "--shard", "1/2", "--json")
    second = done("extract", bert, corpus, *FLOAT32, "--shard", "2/2", "--json")
    assert first.code == 0 and len(second.rows) == 2
    assert "complete already" in done("extract", bert, corpus, *FLOAT32, "--shard", "1/2").err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--shard", "3/2"), "--shard 3/2: shards of 2 are 1/2 to 2/2."),
        (("--shard", "1/2", "--dry-run"), "leave --shard 1/2 out"),
        (("--shard", "1/2", "--overwrite"), "Remove it first (`probekit cache rm`)."),
    ],
)
def test_shards_that_cannot_be(bert, corpus, here, options, says):
    assert says in refused("extract", bert, corpus, *options)
    assert not (here / "cache").exists()
