"""``probekit suite`` from a folder of files to a table, and what it does not repeat."""

import json

import pytest

from tests.cli.console import done, refused

LAYERS = 2


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("truth")
    places = [("Lima", "Peru"), ("Oslo", "Norway"), ("Cairo", "Egypt"), ("Quito", "Ecuador")]
    for name, verb in (("cities", "is in"), ("neg_cities", "is not in")):
        pairs = [(town, land) for town, _ in places for _, land in places]
        true = [(pair in places) == (verb == "is in") for pair in pairs]
        rows = [f"{a} {verb} {b}.,{int(is_so)}" for (a, b), is_so in zip(pairs, true, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["statement,label", *rows, ""]), "utf-8")
    return folder


def test_a_suite_is_run_and_not_repeated(bert, here, data):
    words = ("suite", "truth", bert, "--data", data, "--tasks", "cities,neg_cities")
    first = done(*words, "--out", "runs.jsonl")
    assert "suite truth: 2 of 2 tasks done (truth/neg_cities); about" in first.err
    head, *rows = first.out.splitlines()
    assert head.startswith("layer, test") and "0 = emb" in first.out
    assert "AUROC (%)" in rows[-1] and "over 2 tasks" in rows[-1]
    kept = (here / "runs.jsonl").read_bytes()
    again = done(*words, "--out", "runs.jsonl")
    assert (here / "runs.jsonl").read_bytes() == kept
    assert again.out == first.out
    shown = done("table", "runs.jsonl", "--of", "suite", "--metric", "auroc")
    assert shown.out == first.out
    record = json.loads(kept.splitlines()[0])
    assert (record["pooling"], record["spec"]["hold_out"]) == ("last", 0.2)


def test_what_a_suite_lacks_is_told(bert, data, here):
    assert "Choose from: blimp" in refused("suite", "glove", bert)
    words = ("suite", "truth", bert, "--data", data)
    message = refused(*words, "--tasks", "towns")
    assert message == (
        "--tasks towns: the suite has no such task. It has truth/cities, truth/sp_en_trans, "
        "truth/larger_than, truth/neg_cities, truth/neg_sp_en_trans, ...."
    )
    assert "needs --data DIR" in refused("suite", "truth", bert)
    message = refused(*words, "--protocol", "dwatt")
    assert message.startswith("--protocol dwatt averages over 5 seeds, and a suite runs one")


def test_one_task_is_a_column_of_its_own(bert, data, here):
    words = ("suite", "truth", bert, "--data", data, "--tasks", "cities", "--layers", "0,2")
    shown = done(*words, "--out", "runs.jsonl")
    assert shown.out.splitlines()[0].split() == ["layer,", "test", "last"]
    records = [json.loads(line) for line in (here / "runs.jsonl").read_text().splitlines()]
    assert {record["depth"] for record in records} == {0, 2}
