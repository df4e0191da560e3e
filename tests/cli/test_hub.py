"""The main job with a model and a data set from the Hub, in a fresh process."""

import json

from probekit.store.entry import Entry
from tests.cli.console import done
from tests.hub_server import HubServer
from tests.tasks.test_hub import TOKENS, conll_columns, write_repo

MAIN = "from probekit.cli import main; main()"


def test_model_and_data_from_the_hub(bert, here):
    from probekit.tasks.corpora.entities import CONLL_NER as NER
    from probekit.tasks.corpora.entities import CONLL_POS as POS

    data = write_repo(here / "repo", conll_columns(), {"ner_tags": NER, "pos_tags": POS})
    with HubServer({"models/org/tiny": bert, "datasets/lhoestq/conll2003": data}) as hub:
        words = ("extract", "org/tiny", "conll", "--split", "train,dev", "--cache", here / "c")
        result = hub.run_python(MAIN, here / "home", *map(str, words), "--json", "--quiet")
        commits = [hub.load(name).commit for name in hub.repos]
    assert result.returncode == 0, result.stderr
    train, dev = map(json.loads, result.stdout.splitlines())
    assert train["path"].startswith(str(here / "c" / "org--tiny" / "conll" / "train-"))
    assert train["model_info"]["revision"] == commits[0]
    assert dev["origin"] == f"hub:lhoestq/conll2003@{commits[1]} (default)"
    assert dev["counts"]["words"] == sum(map(len, TOKENS))
    assert len(Entry.open(here / "c" / train["path"]).examples) == len(TOKENS)
    words = ("train", "org/tiny", "conll", "--cache", here / "c", "--label", "pos")
    (row,) = done(*words, "--head", "last", "--epochs", "1", "--json").rows
    assert (row["model"], row["label"]) == ("org--tiny", "pos")
