"""Pushed without its text: the words are nowhere, and whoever has them gets the whole entry."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from probekit.errors import DataError, EntryError, OptionError
from probekit.exchange import Pull, Push, TextSource, remotes
from probekit.exchange.remote_entry import restore, withhold
from probekit.extraction.maintenance import EntryCopy, Reduction, check_chunks
from probekit.store.files import checksum
from probekit.store.labels import label_columns, labels_for, read_labels
from probekit.tasks import Example, Split, get_task
from tests.cli.console import done
from tests.exchange.conftest import REAL_BUCKET, URL, pull, push, stored
from tests.extraction.corpus import WORDS, write_corpus
from tests.planted_texts import plant_texts
from tests.store import synthetic
from tests.store.synthetic import folder_bytes


@pytest.fixture
def there(tmp_path, made):
    """A folder to which train and dev were pushed without their text."""
    Push.of([entry.path for entry in made.values()], tmp_path / "there", text=False).apply()
    return tmp_path / "there"


def source(data, **options):
    return TextSource(data=data, label="2", **options)


def all_values(folder):
    """Every value of every Parquet file, and every other file that is text."""
    for file in folder.rglob("*"):
        if file.suffix == ".parquet":
            yield from (
                str(v) for column in pq.read_table(file).to_pydict().values() for v in column
            )
        elif file.is_file() and not file.name.startswith("c."):
            yield file.read_text()


def test_no_word_and_no_label_is_pushed(hub, made, repo):
    push(made["train"], URL)
    assert list(repo.rglob("labels/*.parquet"))
    assert "/words" in (repo / "croissant.json").read_text()
    (repo / "README.md").write_text((repo / "README.md").read_text() + "\nMore of mine.\n")
    (repo / "notes.txt").write_text("mine")
    Push.of([entry.path for entry in made.values()], URL, text=False).apply()
    assert "More of mine." in (repo / "README.md").read_text() and (repo / "notes.txt").exists()
    names = {column for file in repo.rglob("*.parquet") for column in pq.read_schema(file).names}
    assert not {"words", "text", "id", "subwords", "labels"} & names
    words = {word for word in WORDS if word.istitle()} | {"river", "B-LOC", "train-1"}
    assert not [value for value in all_values(repo) if any(word in value for word in words)]
    assert not list(repo.rglob("labels/*.parquet"))
    card = (repo / "README.md").read_text()
    assert "--data PATH" in card and "left out of dev, train" in card
    metadata = (repo / "croissant.json").read_text()
    assert len(json.loads(metadata)["recordSet"]) == 2 and "left out of dev, train" in metadata
    assert "/words" not in metadata and "/id" not in metadata


@pytest.mark.parametrize("url", ["folder", REAL_BUCKET, "hub"], indirect=True)
def test_a_push_without_text_takes_the_text_away(url, made, cache, corpus):
    pushed = made["train"]
    Push.of([pushed.path], url).apply()
    Push.of([pushed.path], url, text=False).apply()
    with pytest.raises(OptionError, match="pushed without its text"):
        pull(url, cache)
    pulled = pull(url, cache, source=source(corpus))
    assert pulled.examples.ids == pushed.examples.ids
    Push.of([pushed.path], url).apply()
    assert folder_bytes(pull(url, cache.with_name("again")).path) == folder_bytes(pushed.path)


def test_who_has_the_text_gets_the_entry(there, made, cache, corpus):
    pushed = made["train"]
    pulled = pull(there, cache, splits=["train"], source=source(corpus))
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
    again = pull(there, cache, splits=["train"], source=source(corpus))
    assert again.path == pulled.path
    part = pull(there, cache, splits=["train"], source=source(corpus), layers="1")
    assert part.arrays["words"].layers == (1,) and part.examples.ids == pushed.examples.ids


def test_subwords_heads_train_on_it(there, made, cache, corpus, tmp_path):
    _, pulled = Pull.of(there, cache, source=source(corpus)).apply()
    scores = []
    for number, entry in enumerate((pulled, made["train"])):
        options = ("--head", "extra-layers:n=1", "--epochs", "1", "--json")
        out = ("--out", tmp_path / f"{number}.jsonl")
        (row,) = done("train", entry.path, *options, *out).rows
        scores.append(row["scores"])
    assert scores[0] == scores[1] != {}, "the entry that was pushed scores the same"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda first, *rest: (first, *rest[1:]), "39 examples, not 40"),
        (lambda first, *rest: (first.replace("the", "The"), *rest), "as many, other ones"),
        (lambda first, second, *rest: (second, first, *rest), "as many, other ones"),
    ],
)
def test_another_text_is_refused(there, cache, tmp_path, monkeypatch, change, told):
    corpus = write_corpus(tmp_path / "own", sentences=40)
    file = corpus / "train.conll"
    file.write_text("\n\n".join(change(*file.read_text().strip().split("\n\n"))) + "\n")
    planned = Pull.of(there, cache, splits=["train"], source=source(corpus))
    monkeypatch.setattr(remotes.Folder, "read", None)  # nothing is loaded before that is known
    with pytest.raises(DataError, match=f"is not the text of corpus-.*{told}"):
        planned.apply()
    assert not cache.exists()


def test_labels_stay_while_another_entry_has_the_text(made, tmp_path):
    there, entry = tmp_path / "there", made["train"]
    push(entry, there)
    part = Reduction.of(
        EntryCopy.of(entry.path, tmp_path / "c").apply().path, layers="1", arrays=[]
    ).apply()
    push(part, there, text=False)
    assert list(there.glob("*/*/labels/*"))
    push(entry, there, text=False)
    assert not list(there.glob("*/*/labels/*"))


def test_tables_that_tell_of_other_words_are_refused(there, cache, corpus):
    (file,) = there.glob("*/*/train-*/withheld-*.parquet")
    table = pq.read_table(file)
    first, second, *others = table["n_rows"].to_pylist()
    counts = pa.array([first + 1, second - 1, *others], pa.int32())
    pq.write_table(table.set_column(table.column_names.index("n_rows"), "n_rows", counts), file)
    with pytest.raises(
        EntryError, match=r"withheld-.* has changed since it was written. Ask whoever"
    ):
        Pull.of(there, cache, source=source(corpus)).apply()
    file.rename(file.with_name(f"withheld-{checksum(file.read_bytes())}.parquet"))
    with pytest.raises(EntryError, match="does not match the words of its text"):
        Pull.of(there, cache, source=source(corpus)).apply()


def test_a_withheld_table_counts_only_in_the_folder_of_its_entry(there, cache, corpus):
    (file,) = there.glob("*/*/train-*/withheld-*.parquet")
    file.rename(there / file.name)
    with pytest.raises(EntryError, match=r"examples\.parquet is missing\. Ask whoever"):
        Pull.of(there, cache, source=source(corpus)).apply()


def test_texts_are_put_back(tmp_path):
    for task in ("glue/sst2", "glue/rte"):
        entry = plant_texts(tmp_path / "cache", task)
        table = entry.examples.table
        name, data = withhold(table, entry.manifest)
        file = tmp_path / name
        file.write_bytes(data)
        rows = {spec.name: spec.rows for spec in entry.manifest.arrays}
        examples = tuple(
            Example(id=name, text=text, text_pair=pair)
            for name, (text, pair) in zip(entry.examples.ids, entry.examples.texts, strict=True)
        )
        split = Split(task=task, name="train", examples=examples, labels={}, origin="here")
        restored = restore(file, split, rows).table
        others = [name for name in restored.column_names if name != "subwords"]
        assert restored.select(others).equals(table.select(others))
        assert ("text_pair" in others) == (task == "glue/rte")
        with pytest.raises(EntryError, match="does not describe the 7 examples of its text"):
            restore(file, split.first(7), rows)


def test_language_modelling_needs_its_text(tmp_path):
    entry = stored(tmp_path / "cache")
    manifest = replace(entry.manifest, kind="language-modelling")
    (entry.path / "manifest.json").write_text(manifest.to_json())
    with pytest.raises(OptionError, match="labels of language modelling are the text"):
        Push.of([entry.path], URL, text=False)


def test_a_task_is_read_from_where_it_is_published():
    split = get_task("demo-ner").read("dev").first(5)
    manifest = synthetic.manifest("zarr", "float32", "dev", limit=5)
    request = {**manifest.request, "text": split.text_fingerprint()}
    found, task = TextSource().read(replace(manifest, task="demo-ner", request=request))
    assert (found, task.name) == (split, "demo-ner")
    with pytest.raises(DataError, match="demo-ner dev: expected fingerprint of dev"):
        TextSource().read(replace(manifest, task="demo-ner"))
