"""The commands of a page make its records again: run in the same place, they find all of them."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from probekit.base.plugins import KINDS
from probekit.page.report_page import ReportOptions, page_data
from probekit.page.rerun_commands import rerun_commands
from probekit.results import load_records
from tests import tiny
from tests.cli.console import done
from tests.planted import plant_all
from tests.results.samples import make_record

RUN = ("planted", "conll", "--label", "ner")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return plant_all(tmp_path_factory.mktemp("planted"))


@pytest.mark.parametrize(
    "words",
    [
        ("sweep", "--head", "last", "--shots", "2,4", "--seeds", "3:5", "--l2", "1",
         "--normalize", "standardize,none", "--predictions"),
        ("sweep", "--head", "extra-layers:n=1", "--decoder", "mlp:hidden=8", "--epochs", "1",
         "--lr", "0.01", "--protocol", "adamw.toml"),
        ("sweep", "--head", "mean", "--layers", "1,3", "--l2", "0.5", "--fraction", "0.5",
         "--hold-out", "0.2", "--control", "3"),
        ("depth", "--head", "last,mean", "--every", "2", "--l2", "1"),
        ("sweep", "--head", "last", "--l2", "1", "--fit-on", "dev", "--hold-out", "0.2",
         "--drop-duplicates"),
        ("sweep", "--head", "p32", "--fit", "adam", "--protocol", "adam.toml", "--epochs", "1",
         "--lr", "0.01,mixing=0.05", "--select", "hold-out:0.25"),
    ],
)  # fmt: skip
def test_a_command_finds_all_that_it_made(cache, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adam.toml").write_text('optimizer = "adam"')
    (tmp_path / "adamw.toml").write_text(
        'schedule = "constant"\nwarmup = 0.25\nweight_decay = 0.1\nevals = 2\nbatch_size = 8'
    )
    out = tmp_path / "runs.jsonl"
    command, *rest = words
    done(command, *RUN, *rest, "--cache", cache, "--out", out)
    made = load_records(out)
    commands = [
        line
        for line in page_data(made, ReportOptions(cache=cache, samples=100))["commands"]
        if not line.startswith("probekit extract")
    ]
    for line in commands:
        *before, last = line.split(" && ")
        for one in before:  # which write the file of a protocol
            subprocess.run(one, shell=True, check=True)
        program, *again = shlex.split(last)
        assert program == "probekit"
        outcome = done(*again, "--out", out)
        found = re.search(r"(\d+) of (\d+) runs are recorded", outcome.err)
        assert found and found[1] == found[2], (line, outcome.err)
    assert len(load_records(out)) == len(made)
    keys = len({one.key for one in made})
    assert sum(_count(line) for line in commands) == keys


def _count(line):
    """How many runs a command makes."""
    found = dict(re.findall(r"--(head|shots|fraction|seeds|every) (\S+)", line))
    counts = [
        len(found[name].split(",")) for name in ("head", "shots", "fraction") if name in found
    ]
    seeds = found.get("seeds", "1")
    total = len(seeds.split(",")) if "," in seeds else int(seeds)
    for one in counts:
        total *= one
    return total * (len({0, 2, 3}) if "probekit depth" in line else 1)


@pytest.mark.parametrize(
    "kept, token_head",
    [
        ((), ()),
        (("--keep", "tokens", "--layers", "0:"), ("--token-head", "max")),
        (("--keep", "tokens", "--only", "last:2"), ("--token-head", "max")),
    ],
)
def test_own_texts_are_read_as_they_were(tmp_path, monkeypatch, kept, token_head):
    monkeypatch.chdir(tmp_path)
    tiny.build("bert", Path("bert"))
    lines = [f"{n},good plot {n},{n % 2}" for n in range(12)]
    Path("reviews.csv").write_text("\n".join(["id,text,label", *lines]), encoding="utf-8")
    own = ("bert", "reviews.csv")
    done("extract", *own, "--kind", "sentence", *kept)
    done("depth", *own, *token_head, "--hold-out", "0.5", "--l2", "1", "--out", "runs.jsonl")
    commands = page_data(load_records("runs.jsonl"), ReportOptions(samples=100))["commands"]
    assert "bert reviews.csv --kind sentence" in commands[0]
    extracted, _ = (done(*shlex.split(line)[1:]) for line in commands)
    assert extracted.err.count("complete already") == 1


def test_own_spans_are_extracted_as_spans(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny.build("bert", Path("bert"))
    spans = [{"span1": [n, n + 1], "label": "ab"[n]} for n in (0, 1)]
    row = json.dumps({"text": "the cat sat", "targets": spans})
    Path("own.jsonl").write_text(f"{row}\n" * 12, "utf-8")
    done("extract", "bert", "own.jsonl")
    done("depth", "bert", "own.jsonl", "--hold-out", "0.5", "--l2", "1", "--out", "runs.jsonl")
    commands = page_data(load_records("runs.jsonl"), ReportOptions(samples=100))["commands"]
    assert "bert own.jsonl --kind span" in commands[0]
    extracted, trained = (done(*shlex.split(line)[1:]) for line in commands)
    assert extracted.err.count("complete already") == 1 and "1 run" not in trained.err


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_a_script_registered_is_said(kind):
    own = {kind: {"path": "__main__:Gate", "code": "ab"}}
    records = [make_record("gate", plugins=own), make_record("last")]
    known, line = rerun_commands(records, {})
    assert "--head last" in known
    assert line.startswith(f"# {kind} ") and "is __main__:Gate: register it" in line
    assert kind != "head" or line.startswith("# head gate is")


def test_what_has_no_command():
    """Records of earlier versions, and what serves others."""
    lines = rerun_commands([make_record("last", spec={}), make_record("p32", spec={})], {})
    assert lines == ["# 2 runs are of an earlier version, which did not record every option"]
    served = [make_record(trial=True), make_record(left_out=2), make_record("majority")]
    assert rerun_commands(served, {}) == []


def test_amounts_that_do_not_cross_have_commands_of_their_own():
    records = [make_record("last", shots=8), make_record("p32", shots=32),
               make_record("last", fraction=0.5)]  # fmt: skip
    lines = rerun_commands(records, {"org/tiny-model": "/models/tiny model"})
    assert len(lines) == 3
    assert all("'/models/tiny model' conll" in line for line in lines)


def test_a_saved_head_is_named_where_its_path_is_not_known():
    (line,) = rerun_commands([make_record(init="wikiann/en ner 1a2b3c4d", freeze=True)], {})
    assert "--start frozen-fusion:SAVED-HEAD" in line
    (line,) = rerun_commands([make_record(init="wikiann/en ner 1a2b3c4d with decoder")], {})
    assert "--start SAVED-HEAD" in line
    (line,) = rerun_commands([make_record(init="solved", method="lora")], {})
    assert "--method lora" in line and "--start solved" in line and "SAVED-HEAD" not in line


def test_names_of_strangers_are_neither_options_nor_files():
    """A model or task that is called as an option is, and the file of a protocol."""
    spec = {**make_record().spec, "schedule": "constant"}
    named = make_record(model="--protocol", task="--out=x; harm", spec=spec)
    (line,) = rerun_commands([named], {})
    first, second = line.split(" && ")
    assert re.search(r" > protocol-[0-9a-f]{8}\.toml$", first)
    assert shlex.split(second)[1:4] == ["sweep", "./--protocol", "./--out=x; harm"]
