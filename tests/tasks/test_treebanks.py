"""Treebanks by name: those of a folder and of the Hub, and names that are nearly right."""

from pathlib import Path

import pytest

from probekit.errors import HubError, MissingFileError, OptionError, UnknownNameError
from probekit.tasks import get_task, variants_of
from tests.hub_clients import dead_endpoint, redirect
from tests.tasks.own_files import CONLLU, write

TREEBANKS = ("de_gsd", "en_ewt", "en_gum", "fr_gsd")


def folder_of(path: Path) -> Path:
    for name in TREEBANKS:
        write(path / f"{name}-ud-train.conllu", CONLLU)
    return path


def test_treebanks_of_a_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    assert variants_of("ud", folder) == [f"ud/{name}" for name in TREEBANKS]
    with pytest.raises(MissingFileError, match="no such folder"):
        variants_of("ud", folder / "none")
    with pytest.raises(MissingFileError, match=r"NAME-ud-dev.conllu"):
        variants_of("ud", write(folder / "other" / "a.txt", "").parent)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ewt", "ud/en_ewt"), ("EWT", "ud/en_ewt"), ("gsd", "ud/de_gsd or ud/fr_gsd"),
        ("en", "ud/en_ewt or ud/en_gum"), ("en_ewtt", "ud/en_ewt.*"), ("English-EWT", "ud/en_ewt"),
    ],
)  # fmt: skip
def test_a_name_that_is_nearly_right(tmp_path: Path, name: str, near: str) -> None:
    message = rf"no treebank '{name}' in .*Did you mean {near}\? `probekit tasks ud --data .*the 4"
    with pytest.raises(UnknownNameError, match=message):
        get_task(f"ud/{name}").read("train", folder_of(tmp_path))


def test_a_split_that_is_missing_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"no file for split 'dev' of ud/en_ewt"):
        get_task("ud/en_ewt").read("dev", folder_of(tmp_path))


def test_treebanks_of_the_hub(serve, tmp_path) -> None:
    card = ["---", "configs:"]
    for name in TREEBANKS:
        write(tmp_path / "ud" / name / "train.jsonl", '{"tokens": ["a"], "upos": ["X"]}\n')
        card += [f"- config_name: {name}", f"  data_dir: {name}"]
    write(tmp_path / "ud" / "README.md", "\n".join([*card, "---", ""]))
    repos = {"datasets/universal-dependencies/universal_dependencies": tmp_path / "ud"}
    with serve(repos):
        assert variants_of("ud") == [f"ud/{name}" for name in TREEBANKS]
        with pytest.raises(UnknownNameError, match=r"on the Hub\. Did you mean ud/en_ewt\?"):
            get_task("ud/ewt").read("train", None)


def test_a_hub_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    redirect(monkeypatch, dead_endpoint(), tmp_path)
    with pytest.raises(HubError, match=r"cannot list .*unreachable"):
        variants_of("ud")
    with pytest.raises(HubError, match="could not load split 'train' of ud/ewt"):
        get_task("ud/ewt").read("train", None)


def test_other_families() -> None:
    assert "glue/rte" in variants_of("glue")
    for name, message in (("conll", "a task without"), ("wikiann", "expected wikiann/LANG")):
        with pytest.raises(OptionError, match=message):
            variants_of(name)
    with pytest.raises(UnknownNameError, match="Did you mean 'glue'"):
        variants_of("glu")
