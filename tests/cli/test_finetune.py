"""Fine-tuning as a user types it, beside runs from the cache."""

import pytest

from tests.cli.console import done, refused


@pytest.fixture
def extracted(bert, corpus, entries):
    return bert, corpus, "--cache", entries


def test_runs_with_and_without_the_model_in_one_table(extracted):
    steps = ("--head", "last", "--fit", "adam", "--epochs", "1", "--out", "runs.jsonl")
    cached = done("train", *extracted, *steps, "--json").rows[0]
    frozen = done("train", *extracted, *steps, "--method", "frozen", "--json").rows[0]
    assert frozen["scores"] == pytest.approx(cached["scores"], rel=1e-3)
    full = ("--method", "full", "--save", "head")
    tuned = done("train", *extracted, *steps, *full, "--json").rows[0]
    assert tuned["method"] == "full" and tuned["backbone_share"] == 1.0
    table = done("table", "runs.jsonl").out
    assert "method" in table and "frozen" in table and "full" in table
    judged = done("table", "runs.jsonl", "--against", "last").out
    assert "than last, from the cache on the same data" in judged
    assert "p over 10 sentences (paired bootstrap, 10,000 samples)" in judged
    assert "(Student's t) over 10 sentences, one seed" in judged
    pairs = done("compare", "--all", "runs.jsonl", "--split", "dev").out
    assert all(f"last, {name}" in pairs for name in ("frozen", "full", "from the cache"))
    assert "1 of 1 runs are recorded" in done("train", *extracted, *steps, *full).err
    assert done("sweep", *extracted, *steps, "--method", "frozen,full").err.count("recorded")
    said = refused("train", *extracted, "--head", "last", "--start", "head")
    assert (
        "this head was trained together with its model (--method full), and no run can start from"
        in said
    )
    assert done("predict", "head", "-", text="EU rejects\n").out.count("\t") == 2


def test_rates_of_groups_and_a_protocol_that_trains_the_model(extracted):
    steps = ("--head", "p32", "--epochs", "1", "--shots", "2", "--seeds", "1", "--json")
    lr = ("--lr", "backbone=2e-5,weights=2e-3,mixing=1e-2")
    (row,) = done("train", *extracted, *steps, *lr, "--method", "bitfit").rows
    assert (row["lr"], row["rates"]) == (2e-3, {"backbone": 2e-5, "mixing": 1e-2})
    (row,) = done("train", *extracted, *steps, "--protocol", "p32-ft").rows
    assert (row["method"], row["lr"], row["rates"]["backbone"]) == ("full", 2e-5, 2e-5)
    said = refused(
        "train", *extracted, "--method", "full", "--head", "p32", "--lr", "backbones=2e-5"
    )
    assert "has no parameters called backbones; it trains weights and mixing and backbone" in said
