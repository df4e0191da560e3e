"""The main job with a model and a data set from the Hub."""

from probekit.store.entry import Entry
from probekit.tasks.corpora.entities import CONLL_NER, CONLL_POS
from tests.cli.console import done
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
