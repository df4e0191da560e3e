"""Pushed without its text: the words are nowhere, and whoever has them gets the whole entry."""

import json
from dataclasses import asdict, replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from probekit.errors import DataError, EntryError, OptionError
from probekit.extraction.maintenance import check_chunks
from probekit.extraction.transport import Pull, Push, TextSource
from probekit.extraction.transport.transport_form import FileSum
from probekit.extraction.transport.withheld_text import restore, withhold
from probekit.store.labels import label_columns, labels_for, read_labels
from probekit.tasks import Example, Split, get_task
from tests.cli.console import done
from tests.extraction.corpus import WORDS, write_corpus
from tests.extraction.transport.conftest import REPO, stored
from tests.planted_texts import plant_texts
from tests.store import synthetic


@pytest.fixture
def pushed(hub, made):
    Push.of([entry.path for entry in made.values()], REPO, text=False).apply()
    return made["train"]


def source(data, **options):
    return TextSource(data=data, label="2", **options)


def all_values(folder):
    """Every value of every Parquet file, and every other file that is text."""
    for file in folder.rglob("*"):
        if file.suffix == ".parquet":
            yield from (
                str(v) for column in pq.read_table(file).to_pydict().values() for v in column
            )
        elif file.is_file() and file.suffix != ".bin":
            yield file.read_text()


def test_no_word_and_no_label_is_pushed(pushed, repo):
    names = {column for file in repo.rglob("*.parquet") for column in pq.read_schema(file).names}
    assert not {"words", "text", "id", "subwords", "labels"} & names
    words = {word for word in WORDS if word.istitle()} | {"river", "B-LOC", "train-1"}
    assert not [value for value in all_values(repo) if any(word in value for word in words)]
    assert not list(repo.rglob("labels"))
    card = (repo / "README.md").read_text()
    assert "--data PATH" in card and "left out of dev, train" in card


def test_who_has_the_text_gets_the_entry(pushed, cache, corpus):
    (pulled,) = Pull.of(REPO, cache, splits=["train"], source=source(corpus)).apply()
    assert check_chunks(pulled.path) > 0
    assert pulled.manifest.key == pushed.manifest.key
    theirs, ours = pushed.examples.table, pulled.examples.table
    assert ours.drop_columns("subwords").equals(theirs.drop_columns("subwords"))
    assert set(pulled.examples.flat("subwords").tolist()) == {-1}
    for name in ("words", "tokens"):
        rows = pushed.arrays[name].read(slice(None))
        assert torch.equal(pulled.arrays[name].read(slice(None)), rows)
    assert label_columns(pulled) == label_columns(pushed) == ["2"]
    values = [read_labels(labels_for(entry, "2")[0].path).values for entry in (pulled, pushed)]
    assert values[0] == values[1]
    (again,) = Pull.of(REPO, cache, splits=["train"], source=source(corpus)).apply()
    assert again.path == pulled.path


def test_subwords_heads_train_on_it(pushed, cache, corpus, tmp_path):
    _, pulled = Pull.of(REPO, cache, source=source(corpus)).apply()
    scores = []
    for number, entry in enumerate((pulled, pushed)):
        options = ("--head", "extra-layers:n=1", "--epochs", "1", "--json")
        out = ("--out", tmp_path / f"{number}.jsonl")
        (row,) = done("train", entry.path, *options, *out).rows
        scores.append(row["scores"])
    assert scores[0] == scores[1] != {}


@pytest.mark.parametrize("change", ["a word", "fewer", "order"])
def test_another_text_is_refused(hub, pushed, cache, tmp_path, change):
    corpus = write_corpus(tmp_path / "own", sentences=39 if change == "fewer" else 40)
    text = (corpus / "train.conll").read_text()
    if change == "a word":
        text = text.replace("Geneva", "Genova", 1)
    elif change == "order":
        first, rest = text.split("\n\n", 1)
        text = f"{rest.rstrip()}\n\n{first}\n\n"
    (corpus / "train.conll").write_text(text)
    planned = Pull.of(REPO, cache, splits=["train"], source=source(corpus))
    hub.sent.clear()
    with pytest.raises(DataError, match="is not the text of corpus-") as caught:
        planned.apply()
    told = "39 examples, not 40" if change == "fewer" else "as many, other ones"
    assert told in str(caught.value)
    assert not hub.sent and not cache.exists(), "nothing is loaded before that is known"


def test_it_must_be_said_where_the_text_is(pushed, cache):
    with pytest.raises(OptionError, match=r"pushed without its text.*--data PATH"):
        Pull.of(REPO, cache).apply()


def test_tables_that_tell_of_other_words_are_refused(pushed, cache, corpus, repo):
    (file,) = repo.glob("*/*/train-*/examples.parquet")
    form = file.with_name("probekit.json")
    table = pq.read_table(file)
    first, second, *others = table["n_rows"].to_pylist()
    counts = pa.array([first + 1, second - 1, *others], pa.int32())
    pq.write_table(table.set_column(table.column_names.index("n_rows"), "n_rows", counts), file)
    told = asdict(FileSum.of(file.read_bytes()))
    form.write_text(json.dumps(json.loads(form.read_text()) | {"examples": told}))
    with pytest.raises(EntryError, match="tells of other words than its text has"):
        Pull.of(REPO, cache, source=source(corpus)).apply()


def test_texts_are_put_back(tmp_path):
    for task in ("glue/sst2", "glue/rte"):
        entry = plant_texts(tmp_path / "cache", task)
        table, file = entry.examples.table, tmp_path / "examples.parquet"
        pq.write_table(withhold(table, entry.manifest), file)
        examples = tuple(
            Example(id=name, text=text, text_pair=pair)
            for name, (text, pair) in zip(entry.examples.ids, entry.examples.texts, strict=True)
        )
        split = Split(task=task, name="train", examples=examples, labels={}, origin="here")
        restored = restore(file, split, "there")
        others = [name for name in restored.column_names if name != "subwords"]
        assert restored.select(others).equals(table.select(others))
        assert ("text_pair" in others) == (task == "glue/rte")
        with pytest.raises(EntryError, match="does not tell of the 7 examples of its text"):
            restore(file, split.first(7), "there")


def test_language_modelling_needs_its_text(tmp_path):
    entry = stored(tmp_path / "cache")
    manifest = replace(entry.manifest, kind="language-modelling")
    (entry.path / "manifest.json").write_text(manifest.to_json())
    with pytest.raises(OptionError, match="what language modelling predicts is the text"):
        Push.of([entry.path], REPO, text=False)


def test_a_task_is_read_from_where_it_is_published():
    split = get_task("demo-ner").read("dev").first(5)
    manifest = synthetic.manifest("zarr", "float32", "dev", limit=5)
    request = {**manifest.request, "text": split.text_fingerprint()}
    found, task = TextSource().read(replace(manifest, task="demo-ner", request=request))
    assert (found, task.name) == (split, "demo-ner")
    with pytest.raises(DataError, match="demo-ner dev: expected fingerprint of dev"):
        TextSource().read(replace(manifest, task="demo-ner"))
