"""WikiText-2: articles out of lines, from files of both forms and from the Hub."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probekit.errors import DataError, MissingFileError
from tests.tasks.hub_repos import write_card
from tests.tasks.own_files import get_task, write

LINES = [
    " ", " = Robert Boulter = ", " ", " He acted . ", " ", " = = Career = = ", " ", " NR ",
    " = 1 henry and capacitance C = ", " = National record ", " ", " ", " = A = B = ", " ",
    " Text \u2028 <unk> . ", " ",
]  # fmt: skip
FIRST = "\n".join(LINES[1:10])
SECOND = "\n".join(LINES[12:15])


def texts(folder: Path, split: str = "dev") -> list[str | None]:
    return [example.text for example in get_task("wikitext2").read(split, folder).examples]


@pytest.mark.parametrize("end", ["\n", "", "\n\n \n"])
def test_an_example_is_an_article(end: str, tmp_path: Path) -> None:
    write(tmp_path / "wiki.valid.tokens", "\n".join(LINES) + end)
    assert texts(tmp_path) == [FIRST, SECOND]
    split = get_task("wikitext2").read("dev", tmp_path)
    assert split.labels == {}
    assert [example.id for example in split.examples] == ["dev-0", "dev-1"]
    assert split.documents == ("2: Robert Boulter", "13: A = B")


def test_the_task() -> None:
    task = get_task("wikitext2", kind="language-modelling", label="token")
    assert (task.kind, task.metrics) == ("language-modelling", {"token": "perplexity"})
    assert task.columns == ("token",)
    assert task.splits == ("train", "dev", "test")


def test_the_two_forms_are_never_mixed(tmp_path: Path) -> None:
    write(tmp_path / "wiki.valid.tokens", "\n".join(LINES))
    write(tmp_path / "raw" / "wiki.test.raw", "\n".join(LINES))
    with pytest.raises(MissingFileError, match=r"'test' of wikitext2.*tried: wiki.test.tokens, "):
        texts(tmp_path, "test")
    assert texts(tmp_path / "raw", "test") == [FIRST, SECOND]
    (tmp_path / "wiki.valid.tokens").unlink()
    assert texts(tmp_path, "test") == [FIRST, SECOND]
    with pytest.raises(MissingFileError, match=r"tried: wiki.train.raw, "):
        texts(tmp_path, "train")
    with pytest.raises(MissingFileError, match=r"tried: wiki.train.tokens, wiki.train.raw, "):
        texts(write(tmp_path / "none" / "x", "").parent, "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n some text\n", r"wiki.valid.tokens, line 2: text before the first title"),
        (" stray \n \n = A = \n \n b", r"line 1: text before the first title"),
        (" \n", "is empty"),
        ("", "is empty"),
    ],
)
def test_malformed(content: str, message: str, tmp_path: Path) -> None:
    write(tmp_path / "wiki.valid.tokens", content)
    with pytest.raises(DataError, match=message):
        texts(tmp_path)


def test_the_hub_gives_the_articles_of_the_raw_files(serve, tmp_path) -> None:
    # As the published script wrote them: one row per line, an empty one for a blank line.
    rows = [f"{line}\n" if line.strip() else "" for line in LINES]
    folder = tmp_path / "repo" / "wikitext-2-raw-v1"
    folder.mkdir(parents=True)
    splits = ["train", "validation", "test"]
    for split in splits:
        pq.write_table(pa.table({"text": rows}), folder / f"{split}-00000-of-00001.parquet")
    write_card(tmp_path / "repo", {"wikitext-2-raw-v1": splits})
    write(tmp_path / "data" / "wiki.valid.raw", "\n".join(LINES) + "\n")
    with serve({"datasets/Salesforce/wikitext": tmp_path / "repo"}):
        online = get_task("wikitext2").read("dev", None)
    offline = get_task("wikitext2").read("dev", tmp_path / "data")
    assert online.text_fingerprint() == offline.text_fingerprint()
    assert online.origin.startswith("hub:Salesforce/wikitext@")
