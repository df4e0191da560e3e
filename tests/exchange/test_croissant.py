"""The metadata says what the card says, for programs; mlcroissant judges it in tests/judges/."""

import json
from dataclasses import replace

from probekit.exchange import Push
from probekit.exchange.dataset_card import CardEntry, write_croissant
from tests.exchange.conftest import URL, push, stored
from tests.exchange.test_withheld_text import all_values
from tests.extraction.corpus import WORDS
from tests.store import synthetic

MANIFEST = synthetic.manifest("zarr", "float32")


def metadata(manifest=MANIFEST, text=True, card="---\nlicense: unknown\n---\n"):
    entries = [CardEntry("tiny/demo/train-0", manifest, text)]
    return json.loads(write_croissant("hf://datasets/me/x@v1", entries, card))


def test_what_the_metadata_says():
    named = replace(MANIFEST, model_info={"name": "org/tiny", "revision": "abc"})
    found = metadata(named)
    assert found["name"] == "Hidden states of org/tiny" and "license" not in found
    assert found["url"] == "https://huggingface.co/datasets/me/x/tree/v1"
    assert "org/tiny, revision abc" in found["rai:dataCollection"]
    assert "demo (tagging)" in found["rai:dataAnnotationProtocol"]
    includes = [item.get("includes") for item in found["distribution"]]
    assert includes[1:] == [
        "tiny/demo/train-0/features.zarr/**", "tiny/demo/train-0/examples.parquet",
    ]  # fmt: skip
    owned = metadata(card="---\npretty_name: x\nlicense: mit\n---\n\nlicense: other\n")
    assert owned["license"] == "mit"
    assert "license" not in metadata(card="# Mine\n\n---\nlicense: other\n---\n")


def test_paths_of_a_machine_are_not_told():
    told = {"model_info": {"name": "/home/me/models/tiny"}, "origin": "a in /home/me/data"}
    assert "/home/me" not in json.dumps(metadata(replace(MANIFEST, **told)))


def test_no_word_and_no_label_is_told(hub, made, repo):
    push(made["train"], URL)
    before = json.loads((repo / "croissant.json").read_text())
    assert "words" in {field["name"].split("/")[-1] for field in before["recordSet"][0]["field"]}
    Push.of([entry.path for entry in made.values()], URL, text=False).apply()
    text = (repo / "croissant.json").read_text()
    assert len(json.loads(text)["recordSet"]) == 2 and "left out of dev, train" in text
    words = {word for word in WORDS if word.istitle()} | {"river", "B-LOC", "train-1"}
    assert not [word for word in words if word in text]
    assert text in all_values(repo), "which other tests search for words"
    assert "/words" not in text and "/id" not in text


def test_metadata_of_its_owner_stays(hub, tmp_path, repo):
    entry = stored(tmp_path / "cache")
    push(entry, URL)
    (repo / "croissant.json").write_text('{"name": "mine"}')
    push(entry, URL)
    assert (repo / "croissant.json").read_text() == '{"name": "mine"}'
