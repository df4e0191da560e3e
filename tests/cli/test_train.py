"""Training from the cache: tables, records, other labels, resumed sweeps, depths."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from probekit.results import load_records
from tests.cli.conftest import entry_of
from tests.cli.console import done, refused

QUICK = ("--head", "last", "--epochs", "2")


@pytest.fixture(autouse=True)
def no_backbone(monkeypatch, entries):
    """Nothing after extraction opens the model."""
    monkeypatch.setattr("probekit.backbone.inspecting.find_checkpoint", None)


def test_scores_on_stdout_and_messages_on_stderr(bert, corpus, entries, here):
    words = ("train", bert, corpus, "--cache", entries, *QUICK)
    outcome = done(*words)
    header, _, row, blank, *twice, caption = outcome.out.splitlines()
    assert header.split()[0] == "head"
    assert (row.split()[0], blank) == ("last", "")
    (file,) = here.glob("runs/bert/corpus-????????.jsonl")
    shared = f"{file.stem}, label 2, decoder linear"
    assert "are in train too" in twice[0] and "--drop-duplicates" in " ".join(twice)
    over = "mean ± half width of the 95 % interval (Student's t) over 10 sentences, one seed."
    assert caption == f"{shared}: span F1 (%); {over}"
    *_, finished, said = outcome.err.splitlines()
    assert re.fullmatch(r"\[1/1\] last, seed 0: dev \d+\.\d \(\d.*s\)", finished)
    assert said == f"records: {file.relative_to(here)}"
    (row,), (record,) = done(*words, "--json").rows, load_records(file)
    found = record.to_json() | {"predictions": row["predictions"]}
    assert row == found, "which is read, not trained again"
    assert (row["head"], row["label"], row["metric"]) == ("last", "2", "span-f1")
    assert row["layers"] == [3] and row["test_score"] is None


def test_training_imports_nothing_large_that_it_does_not_need(bert, corpus, entries, here):
    large = {"datasets", "matplotlib", "pandas", "scipy", "sklearn", "torch._dynamo"}
    large |= {"pyarrow.dataset", "transformers"}
    code = f"""
import sys
from probekit.cli import main
try:
    main()
finally:
    print(*{large} & set(sys.modules), file=sys.stderr)
"""
    words = ("train", bert, corpus, "--cache", entries, "--head", "dwatt", "--epochs", "1")
    words = (*words, "--no-predictions")  # whose interval would need scipy
    command = [sys.executable, "-c", code, *map(str, words)]
    path = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=here, env=path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == ""


def test_another_label_column_of_the_same_entry(bert, corpus, cache):
    (row,) = done("train", bert, corpus, *QUICK, "--label", "1", "--json").rows
    assert (row["label"], row["metric"]) == ("1", "accuracy")
    assert entry_of(cache, "train").name[-8:] == row["entry"][:8]
    rows = done("sweep", bert, corpus, *QUICK, "--label", "1,2", "--json").rows
    assert [row["label"] for row in rows] == ["1", "2"]
    assert rows[0] == row, "the first of the two was trained already"


@pytest.mark.parametrize("through", ["", "linked", ".."])
def test_an_entry_s_path_in_place_of_model_and_task(bert, corpus, cache, here, through):
    (named,) = done("train", bert, corpus, *QUICK, "--json").rows
    (here / "linked").symlink_to(here)
    way = f"../{here.name}" if through == ".." else through
    path = here / way / entry_of(cache, "dev" if through else "train").relative_to(here)
    (row,) = done("train", path, *QUICK, "--json", "--out", "other.jsonl").rows
    assert (row["key"], row["model"]) == (named["key"], named["model"])
    assert "leave TASK out" in refused("train", path, corpus, *QUICK)


def test_a_sweep_is_a_product_and_is_resumed(bert, corpus, cache, here):
    words = ("sweep", bert, corpus, "--epochs", "1", "--shots", "4,8", "--seeds", "2")
    first = done(*words, "--head", "last", "--json")
    assert [(row["shots"], row["seed"]) for row in first.rows] == [(4, 0), (4, 1), (8, 0), (8, 1)]
    more = done(*words, "--head", "last,p32", "--json")
    assert more.rows[:4] == first.rows
    assert re.match(r"4 of 8 runs are recorded in runs/bert/corpus-\w{8}.jsonl\n", more.err)
    again = done(*words, "--head", "last,p32", "--json")
    assert again.rows == more.rows
    assert again.err.startswith("8 of 8 runs are recorded in ")
    (file,) = here.glob("runs/bert/*.jsonl")
    assert len(file.read_text().splitlines()) == 8
    table = done(*words, "--head", "last,p32").out
    assert "95 % interval (Student's t) over 2 seeds" in table


def test_depth_gives_one_record_per_depth(bert, corpus, cache):
    rows = done("depth", bert, corpus, "--epochs", "1", "--json").rows
    assert [(row["depth"], row["layers"]) for row in rows] == [(n, [n]) for n in range(4)]
    table = done("depth", bert, corpus, "--epochs", "1").out.splitlines()
    assert [line.split()[0] for line in table[2:6]] == ["0", "1", "2", "3"]
    assert table[2].startswith("0 = emb")
    assert table[0].startswith("layer, dev ") and ": span F1 (%); " in table[-1]
    rows = done(
        "depth", bert, corpus, "--epochs", "1", "--head", "p32", "--every", "2", "--json"
    ).rows
    assert [(row["depth"], row["layers"]) for row in rows] == [
        (0, [0]),
        (2, [1, 2]),
        (3, [1, 2, 3]),
    ]


def test_layers_are_left_out_on_request(bert, corpus, entries, here):
    words = ("train", bert, corpus, "--cache", entries, "--out", "r.jsonl")
    quick = ("--head", "last,mean", "--epochs", "1")
    said = done(*words, *quick, "--ablate", "mean").err.splitlines()
    assert "--ablate: last reads a single layer, so none is left out." in said
    assert said[-1] == "losses without a layer: probekit table r.jsonl --of ablation"
    last, mean = load_records("r.jsonl")
    assert (last.ablation, set(mean.ablation)) == ({}, set(mean.layers))
    table = done("table", "r.jsonl", "--of", "ablation").out
    assert table.startswith("layer") and "(mean, nothing refitted); one seed" in table
    assert "each layer's share" in done("table", "r.jsonl", "--of", "shares").out
    message = refused(*words, *quick, "--ablate", "all")
    assert message.startswith("unknown way to leave a layer out 'all'. Choose from: mean, refit.")
