"""From a model to scores as users type it: from the Hub, fine-tuned, and over a suite."""

import json

import pytest

from probekit.store.entry import Entry
from probekit.tasks.corpora.entities import CONLL_NER, CONLL_POS
from tests.cli.console import done, refused
from tests.hub_server import HubServer
from tests.tasks.test_hub import TOKENS, conll_columns, write_repo


def test_model_and_data_from_the_hub(bert, here, monkeypatch):
    labels = {"ner_tags": CONLL_NER, "pos_tags": CONLL_POS}
    data = write_repo(here / "repo", conll_columns(), labels)
    with HubServer({"models/org/tiny": bert, "datasets/lhoestq/conll2003": data}) as hub:
        hub.redirect(monkeypatch, here / "home")
        words = ("extract", "org/tiny", "conll", "--split", "train,dev", "--cache", here / "c")
        train, dev = done(*words, "--json", "--quiet").rows
        commits = [hub.load(name).commit for name in hub.repos]
    assert train["path"].startswith(str(here / "c" / "org--tiny" / "conll" / "train-"))
    assert train["model_info"]["revision"] == commits[0]
    assert dev["origin"] == f"hub:lhoestq/conll2003@{commits[1]} (default)"
    assert dev["counts"]["words"] == sum(map(len, TOKENS))
    assert len(Entry.open(here / "c" / train["path"]).examples) == len(TOKENS)
    words = ("train", "org/tiny", "conll", "--cache", here / "c", "--label", "pos")
    (row,) = done(*words, "--head", "last", "--epochs", "1", "--json").rows
    assert (row["model"], row["label"]) == ("org--tiny", "pos")


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
