"""``probekit compare``: runs of a sweep, as a table and as JSON, and what cannot be compared."""

import shutil

import pytest

from tests.cli.console import done, refused
from tests.results.comparison.files import add_run, classes
from tests.saved_heads import changed_records


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Two heads with two seeds each, and a third one without predictions."""
    path = tmp_path_factory.mktemp("runs") / "runs.jsonl"
    for seed in (0, 1):
        add_run(path, "p32", seed, classes(0.8, seed))
        add_run(path, "last", seed, classes(0.5, seed))
    add_run(path, "mean", 0, classes(0.5, 0), predictions=None)
    return path


def test_a_table_and_two_lines(file):
    outcome = done("compare", f"{file}#head=p32", f"{file}#head=last")
    lines = outcome.out.splitlines()
    assert lines[0].strip() == "test span F1 (%)"
    assert [line.split()[0] for line in lines[2:5]] == ["p32", "last", "difference"]
    assert "10,000 samples of 60 sentences" in lines[-2]
    assert lines[-1].startswith("over 2 paired seeds: +")
    assert outcome.err == ""


def test_all_settings_of_a_file(file):
    words = ("compare", "--all", file, "--where")
    lines = done(*words, "head=last,p32", "--where", "seed=0").out.splitlines()
    assert lines[2].split()[:2] == ["last", "p32"] and lines[2].endswith("lower")
    assert lines[-1] == "test span F1 (%), means over the seeds of both; the only pair"
    # two seeds say too little of other seeds
    assert done(*words, "head=last,p32").out.splitlines()[2].endswith("open")
    rows = done("compare", file, "--all", "--json").rows
    assert [(row["a"], row["b"]) for row in rows] == [
        ("last", "mean"), ("last", "p32"), ("mean", "p32")
    ]  # fmt: skip
    assert rows[0]["why_not"] == "no predictions were kept" and rows[0]["p"] is None
    assert rows[1]["over"] == "seeds and sentences"
    table = done("compare", file, "--all", "--style", "csv").out
    assert table.startswith("a,b,seeds,") and "p (Holm)" in table.splitlines()[0]


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        (["#head=p32"], (), "compare takes two runs, RUN_A and RUN_B; found 1. To compare every"),
        (["#head=p32", "#head=last"], ("--style", "csv"), "--style needs --all and goes without"),
        (["", "#head=last"], (), "FILE: 5 records that differ in head: last, mean, p32. A run is"),
        (["#head=p32", "#head=last"], ("--metric", "los"), "unknown metric 'los'. Did you mean 'l"),
        (["#head=p32", "#head=mean"], (), "FILE#head=p32 has seeds 0, 1, FILE#head=mean has 0: "),
        (["#head=p32", "#head=mean"], ("--where", "seed=0"), "FILE#head=mean, seed 0: its predict"),
        ([".old", "#head=last"], (), "FILE.old: no such file; run `probekit train`"),
    ],
)
def test_what_cannot_be_compared(file, runs, options, message):
    found = refused("compare", *(f"{file}{run}" for run in runs), *options)
    assert found.replace(str(file), "FILE").startswith(message)


def test_conditions_hold_for_both(file):
    words = ("compare", f"{file}#head=p32", f"{file}#head=last", "--where", "seed=1", "--json")
    assert done(*words).rows[0]["n_seeds"] == 1


def test_a_metric_that_a_file_names_is_imported_only_if_that_is_asked_for(file, here, monkeypatch):
    monkeypatch.syspath_prepend(str(here))
    (here / "beside_records.py").write_text("open('ran', 'w').close()\n")
    shutil.copy(file, "r.jsonl")
    plugins = {"metric": {"path": "beside_records:X", "package": "mine 1"}}
    changed_records(here / "r.jsonl", metric="other", plugins=plugins)
    words = ("compare", "r.jsonl#head=p32", "r.jsonl#head=last")
    message = refused(*words)
    assert message.startswith("unknown metric 'other': the file names a plug-in")
    assert "pip" not in message and not (here / "ran").exists()
    assert "cannot be imported" in refused(*words, "--trust-plugins") and (here / "ran").exists()
