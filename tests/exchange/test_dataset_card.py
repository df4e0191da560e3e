"""Card and metadata say what lies in a repository, and leave what its owner wrote.

mlcroissant judges the metadata in tests/judges/.
"""

import json
import shlex
from dataclasses import replace

import pytest
from huggingface_hub import DatasetCard

from probekit.exchange.dataset_card import CardEntry, write_card, write_croissant
from tests.exchange.conftest import URL, push, stored
from tests.store import synthetic

MANIFEST = synthetic.manifest("zarr", "float32")


def card(manifest=MANIFEST, before=None, text=True):
    return write_card(
        "hf://datasets/me/x", [CardEntry("tiny/demo/train-0", manifest, text)], before
    )


def metadata(manifest=MANIFEST, text=True, card="---\nlicense: unknown\n---\n"):
    entries = [CardEntry("tiny/demo/train-0", manifest, text)]
    return json.loads(write_croissant("hf://datasets/me/x@v1", entries, card))


def test_what_a_card_says():
    named = replace(MANIFEST, model_info={"name": "org/tiny", "revision": "abc"}, final_norm=True)
    found = DatasetCard(card(named))
    about = found.data.to_dict()
    assert (about["license"], about["viewer"]) == ("unknown", False)
    rows = {spec.name: spec.rows for spec in MANIFEST.arrays}
    arrays = f"words {rows['words']} x 4 x 24, tokens {rows['tokens']} x 1 x 24"
    told = f"| demo | train | 5 | {arrays} | 0-2, 4 | float32 |"
    for line in (
        told,
        "org/tiny, revision abc",
        "after the final norm",
        "probekit cache pull hf://datasets/me/x",
    ):
        assert line in found.text
    assert "whoever publishes this repository must check" in found.text
    assert "Words and labels were left out of train" in card(text=False)


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


def test_paths_of_a_machine_are_not_shown_and_names_break_no_table():
    told = {"model_info": {"name": "/home/me/models/tiny"}, "origin": "a in /home/me/data"}
    assert "/home/me" not in json.dumps(metadata(replace(MANIFEST, **told)))
    shown = card(replace(MANIFEST, task="a|b\n<script>", split="t*e*", **told))
    assert "/home/me" not in shown and "# Hidden states of tiny\n" in shown
    assert "<script>" not in shown.partition("begin -->")[2].partition("## Load it")[0]
    assert r"| a\|b \<script\> | t\*e\* |" in shown


def test_commands_of_a_card_run_nothing_of_a_strangers():
    shown = card(replace(MANIFEST, task="x\n```\n; harm", split="`harm`; harm"), text=False)
    (code,) = shown.partition("## Load it")[2].partition("## Licence")[0].split("```sh\n")[1:]
    commands = [
        shlex.split(line, comments=True) for line in code.partition("\n```\n")[0].split("\n")
    ]
    assert [one[:2] for one in commands] == [["probekit", "cache"]] * 2 + [["probekit", "train"]]
    assert commands[1][5] == "`harm`; harm" and commands[2][3] == "x ``` ; harm"
    assert r"left out of \`harm\`; harm:" in shown
    assert "probekit train tiny ./--out=x\n" in card(replace(MANIFEST, task="--out=x"))


@pytest.mark.parametrize(
    "before",
    ["---\nlicense: mit\ntags:\n- mine\n---\n\n# Mine\n\nMy words.\n", "# Mine\n\nMy words.\n", ""],
    ids=["with metadata", "without", "empty"],
)
def test_what_the_owner_wrote_stays(before):
    once = card(before=before)
    later = replace(MANIFEST, split="dev")
    twice = card(later, once.replace("My words.", "My other words."))
    assert ("My other words." in twice) == ("My words." in before)
    assert "| demo | dev |" in twice and "| demo | train |" not in twice
    about = DatasetCard(twice).data.to_dict()
    assert about.get("license") == ("mit" if "license: mit" in before else None)
    assert twice.count("probekit: begin") == 1


def test_an_entry_that_cannot_be_read_is_left_out_of_the_card(hub, tmp_path, repo, caplog):
    train, dev = (stored(tmp_path / "cache", split=split) for split in ("train", "dev"))
    push(train, URL)
    (file,) = repo.rglob("manifest.json")
    file.write_text("{")
    push(dev, URL)
    assert "| demo | dev |" in (repo / "README.md").read_text()
    assert "the card leaves tiny/demo/train-" in caplog.text


def test_metadata_of_its_owner_stays(hub, tmp_path, repo):
    entry = stored(tmp_path / "cache")
    push(entry, URL)
    (repo / "croissant.json").write_text('{"name": "mine"}')
    push(entry, URL)
    assert (repo / "croissant.json").read_text() == '{"name": "mine"}'
