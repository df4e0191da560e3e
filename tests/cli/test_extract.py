"""``probekit extract``: what it prints, what it leaves, and options that cannot be used."""

import re
import shutil

from probekit.extraction.forecasting import DiskSpeed
from probekit.store.entry import Entry
from tests.cli.conftest import FLOAT32
from tests.cli.console import done, refused

ESTIMATE = re.compile(
    r"train: 40 examples; writing 180 words x 4 layers x 32 and 601 tokens x 1 layer x 32 "
    r"\([\d.]+ kB\) to cache/bert/corpus-\w{8}/train-\w{8} in about 1 s \([\d,]+ tokens/s\)"
)


def test_paths_on_stdout_and_an_estimate_on_stderr(bert, corpus, here, monkeypatch):
    outcome = done("extract", bert, corpus, *FLOAT32)
    train, dev = map(Entry.open, map(here.joinpath, outcome.out.splitlines()))
    assert (train.manifest.split, dev.manifest.split) == ("train", "dev")
    first, second, third = outcome.err.splitlines()[-3:]
    assert ESTIMATE.fullmatch(first), first
    assert second.startswith("dev: 10 examples; ")
    assert re.match(r"dev: \d+ of 10 texts \(.* are in train too", third), third
    with monkeypatch.context() as patch:
        patch.setattr("probekit.extraction.opening.load_backbone", None)  # it is not run again
        again = done("extract", bert, corpus, *FLOAT32, "--json")
    assert again.err.startswith("train: complete already, at cache/bert/")
    rows = [(row["split"], row["path"]) for row in again.rows]
    assert rows == list(zip(("train", "dev"), outcome.out.splitlines(), strict=True))
    forecast, _ = done("extract", bert, corpus, *FLOAT32, "--dry-run", "--json").rows
    assert forecast["rows"] == {"words": 180, "tokens": 601}
    assert forecast["complete"] and forecast["seconds"] == 0
    said = done("extract", bert, corpus, *FLOAT32, "--dry-run").out
    assert said.splitlines()[-1] == "All of it is in the cache already."


def test_several_label_columns_one_extraction(bert, here):
    """The column is named at extraction; training on another one reads it from the file."""
    lines = '{"tokens": ["Maria", "left"], "ner": ["B-PER", "O"], "pos": ["N", "V"]}\n'
    (here / "two").mkdir()
    for split in ("train", "dev"):
        (here / "two" / f"{split}.jsonl").write_text(lines)
    done("extract", bert, "two", *FLOAT32, "--label", "ner")
    words = ("train", bert, "two", "--label", "pos", "--head", "concat", "--epochs", "1")
    assert done(*words, "--select", "dev", "--json").rows[0]["metric"] == "accuracy"
    message = refused("train", bert, "two", "--head", "last")
    assert (
        message == "two/train.jsonl has several label columns: ner, pos. Choose one with --label."
    )


def test_what_was_taken_and_left_is_said_once(bert, here):
    for name in ("train.csv", "my_dev.csv", "more.csv"):
        here.joinpath("mine", name).parent.mkdir(exist_ok=True)
        here.joinpath("mine", name).write_text(f"text,label\nfine {name},x\nbad day,y\n,x\n")
    said = done("extract", bert, "mine", "--skip", "blank").err
    columns = "mine/train.csv: read as --kind sentence: texts from 'text', labels from 'label'\n"
    files = "mine: my_dev.csv is dev; left out: more.csv (the files of a split "
    assert said.count(columns) == said.count(files) == 1
    (row,) = done("train", bert, "mine", "--head", "mean", "--l2", "1", "--json").rows
    assert row["seen"]["of_examples"] == 2


def test_dry_run_writes_nothing(bert, corpus, here):
    outcome = done("extract", bert, corpus, "--dry-run")
    header, train, dev, verdict = outcome.out.splitlines()
    assert re.split(r"\s{2,}", header) == [
        "split", "examples", "rows", "size", "extraction", "units", "epoch with the model",
        "epoch from the cache",
    ]  # fmt: skip
    assert re.match(r"train  40        180 words, 601 tokens  [\d.]+ kB  [\d.]+ m?s ", train)
    assert dev.startswith("dev    10 ")
    assert re.match(r"The cache has paid for itself after \d+ epochs? of one head over ", verdict)
    assert outcome.err.count("\n") <= 1  # which columns were taken, once in a process
    assert list(here.iterdir()) == []


def test_dry_run_warns_of_a_cache_that_loses(bert, corpus, monkeypatch):
    slow = DiskSpeed(write=1e9, read=1.0)
    monkeypatch.setattr("probekit.extraction.forecasting.measure_disk", lambda *_, **__: slow)
    verdict = done("extract", bert, corpus, "--dry-run").out.splitlines()[-1]
    assert verdict.startswith("Caching would lose: an epoch over train takes longer to read (")
    assert verdict.endswith("or choose a faster disk with --cache.")
    rows = done("extract", bert, corpus, "--dry-run", "--json").rows
    assert [row["break_even_epochs"] for row in rows] == [None, None]


def test_own_labels_are_those_of_the_file_now(bert, corpus, here):
    """Whoever corrects a file of their own need not say that it holds the labels."""
    quick = ("--head", "last", "--epochs", "1")
    own = shutil.copytree(corpus, here / "own")
    done("extract", bert, own, "--compute-dtype", "float32")
    (before,) = done("train", bert, own, *quick, "--json").rows
    text = (own / "train.conll").read_text("utf-8")
    (own / "train.conll").write_text(text.replace("\tB-LOC", "\tO"), "utf-8")
    (after,) = done("train", bert, own, *quick, "--json").rows
    assert after["labels_fingerprint"] != before["labels_fingerprint"]
    (own / "train.conll").write_text(text, "utf-8")
    assert done("train", bert, own, *quick, "--json").rows == [before]
    (own / "train.conll").write_text(text.replace("river", "brook"), "utf-8")
    assert "split train, has changed since" in refused("train", bert, own, *quick)
