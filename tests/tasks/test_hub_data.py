"""Any data set of the Hub as one's own data: the real `datasets` code against the local Hub."""

from pathlib import Path

import pytest

from probekit.errors import DataError, HubError, MissingFileError, OptionError, UnknownNameError
from probekit.tasks import folder_name, is_own
from tests.hub_clients import dead_endpoint, redirect
from tests.tasks.hub_repos import CLASSES, REVIEWS, reviews, write_card, write_config
from tests.tasks.own_files import get_task, json_lines, shown, words, write


def test_a_data_set_by_its_name(serve, tmp_path) -> None:
    folder = tmp_path / "repo"
    write(folder / "train.jsonl", json_lines(*({"text": t, "stars": 3} for t in ("a b", "c"))))
    write(folder / "test.jsonl", json_lines({"text": "d", "stars": 1}))
    with serve({"datasets/org/stars": folder}) as hub:
        task = get_task("org/stars", kind="regression")
        assert (task.splits, task.columns) == (("train", "test"), ("stars",))
        assert shown(task.read("train")) == "stars: a b = 3 | c = 3"
        assert (
            task.read("test").origin
            == f"hub:org/stars@{hub.load('datasets/org/stars').commit} (default)"
        )
        assert task.slug == folder_name("org/stars") == "org-stars"
        assert not is_own(task)
        fresh = write(tmp_path / "new" / "test.csv", "text,stars\nd,2\n").parent
        assert shown(task.read("test", fresh)) == "stars: d = 2"
        for option in ("separator", "sentences"):
            with pytest.raises(OptionError, match=f"--{option} does not apply to org/stars"):
                get_task("org/stars", **{option: ";"})


def test_words_of_a_data_set(serve, tmp_path) -> None:
    row = {"tokens": ["EU", "calls"], "ner_tags": ["B-ORG", "O"], "pos": ["N", "V"]}
    folder = write(tmp_path / "repo" / "all.jsonl", json_lines(row)).parent
    with serve({"datasets/org/words": folder}):
        task = get_task("org/words", label="ner_tags")
        assert (task.splits, task.metrics) == (("train",), {"ner_tags": "span-f1"})
        assert words(task.read("train")) == [("EU", "calls")]
        with pytest.raises(OptionError, match=r"several label columns: ner_tags, pos"):
            get_task("org/words", kind="tagging")


def test_configurations(serve, tmp_path) -> None:
    repo = reviews(tmp_path / "repo")
    with serve({"datasets/org/reviews": repo}) as hub:
        commit = hub.load("datasets/org/reviews").commit
        for name in ("org/reviews/long", f"org/reviews/long@{commit}"):
            task = get_task(name, kind="sentence", text="review")
            assert task.splits == ("train", "dev")
            assert shown(task.read("dev")) == "label: a fine film = good | a dull film = bad"
            assert task.read("dev").origin == f"hub:org/reviews@{commit} (long)"
        with pytest.raises(
            OptionError, match=r"several configurations: .*org/reviews/(long|short)"
        ):
            get_task("org/reviews", kind="sentence")
        with pytest.raises(UnknownNameError, match=r"'lang'\. Did you mean 'long'"):
            get_task("org/reviews/lang", kind="sentence")


def test_a_data_set_that_is_not_there(serve, tmp_path) -> None:
    folder = write(tmp_path / "repo" / "a.jsonl", json_lines({"text": "a"})).parent
    repos = {"datasets/org/locked": folder}
    with serve(repos, datasets__org__locked="gated-403"):
        with pytest.raises(MissingFileError, match=r"org/none: no such file .* on the Hub"):
            get_task("org/none", kind="sentence")
        with pytest.raises(HubError, match=r"could not load org/locked .*"):
            get_task("org/locked", kind="sentence")
        with pytest.raises(MissingFileError, match=r"data/train.csv: no such file or folder"):
            get_task("data/train.csv", kind="sentence")


def test_a_hub_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    redirect(monkeypatch, dead_endpoint(), tmp_path)
    with pytest.raises(HubError, match=r"org/x: no such file .*unreachable.*HF_HUB_OFFLINE=1"):
        get_task("org/x", kind="sentence")


def test_splits_of_other_names(serve, tmp_path) -> None:
    folder = tmp_path / "repo"
    write_config(folder, "one", {"north": REVIEWS}, CLASSES)
    write_config(folder, "two", {"north": REVIEWS, "south": REVIEWS}, CLASSES)
    write_card(folder, {"one": ("north",), "two": ("north", "south")})
    with serve({"datasets/org/parts": folder}):
        assert get_task("org/parts/one", kind="sentence", text="review").splits == ("train",)
        with pytest.raises(DataError, match=r"no split is called train.*it has north, south"):
            get_task("org/parts/two", kind="sentence", text="review")
