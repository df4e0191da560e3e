"""Intents of ATIS, SNIPS and MultiATIS++: one label per utterance beside the slots."""

from pathlib import Path

import pytest

from probekit.errors import DataError, OptionError
from tests.tasks.own_files import get_task, write

MATIS = "id\tutterance\tslot_labels\tintent\n7\tflug köln\tO B-city\tflight#airfare \n"


def utterances(folder: Path, intents: str | None) -> Path:
    write(folder / "train" / "seq.in", "to rome\nhi\n")
    write(folder / "train" / "seq.out", "O B-city\nO\n")
    if intents is not None:
        write(folder / "train" / "label", intents)
    return folder


@pytest.mark.parametrize("name", ["atis", "snips"])
@pytest.mark.parametrize(
    "intents", ["flight#airfare\ngreet\n", "flight#airfare \r\ngreet", "flight#airfare\ngreet\n\n"]
)
def test_joined_intents_are_one_class(name: str, intents: str, tmp_path: Path) -> None:
    split = get_task(name).read("train", utterances(tmp_path, intents))
    assert split.labels["intent"] == (("flight#airfare",), ("greet",))
    assert split.labels["slots"] == (("O", "B-city"), ("O",))


@pytest.mark.parametrize("name", ["atis", "snips", "matis/de"])
def test_slots_stay_the_default(name: str) -> None:
    task = get_task(name)
    assert task.columns == ("slots", "intent")
    assert (task.kind, task.kinds["slots"], task.kinds["intent"]) == (
        "tagging",
        "tagging",
        "sentence",
    )
    assert task.metrics["intent"] == "micro-f1"
    chosen = get_task(name, label="intent", kind="sentence")
    assert (chosen.columns[0], chosen.kind) == ("intent", "tagging")
    with pytest.raises(OptionError, match=r"--label intent is of kind sentence"):
        get_task(name, kind="sentence")


def test_a_folder_without_intents(tmp_path: Path) -> None:
    assert set(get_task("atis").read("train", utterances(tmp_path, None)).labels) == {"slots"}


@pytest.mark.parametrize(
    ("intents", "message"),
    [
        ("a\n", r"seq.in has 2 lines, but .*label has 1; expected one line of intents"),
        ("a\n\nb\n", r"seq.in has 2 lines, but .*label has 3"),
        ("\nb\n", r"line 1: an empty label in column 'intent'"),
    ],
)
def test_intents_malformed(intents: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        get_task("atis").read("train", utterances(tmp_path, intents))


def test_intents_do_not_move_the_fingerprints_of_slots(tmp_path: Path) -> None:
    task = get_task("atis")
    with_intents = task.read("train", utterances(tmp_path / "a", "x\ny\n"))
    without = task.read("train", utterances(tmp_path / "b", None))
    assert with_intents.text_fingerprint() == without.text_fingerprint()
    assert with_intents.labels_fingerprint("slots") == without.labels_fingerprint("slots")


def test_matis(tmp_path: Path) -> None:
    write(tmp_path / "train_DE.tsv", MATIS)
    assert get_task("matis/de").read("train", tmp_path).labels["intent"] == (("flight#airfare",),)
    write(tmp_path / "train_DE.tsv", MATIS.replace("intent", "other"))
    assert set(get_task("matis/de").read("train", tmp_path).labels) == {"slots"}
    write(tmp_path / "train_DE.tsv", MATIS.replace("flight#airfare", ""))
    with pytest.raises(DataError, match=r"line 2: an empty label in column 'intent'"):
        get_task("matis/de").read("train", tmp_path)
