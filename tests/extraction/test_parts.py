"""A text that is read in parts leaves the rows and labels of one that is read at once."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from probekit import Location, TrainSpec, open_features, sweep
from probekit.errors import EntryError, EntryNotFoundError
from probekit.extraction import ExtractTarget, Shard, extract, forecast, open_session
from probekit.extraction.maintenance import check_chunks, entries, list_cache, verify_rows
from probekit.store.builder import EntryBuilder
from probekit.store.joined import JoinedExamples
from probekit.store.parted import read_marks
from probekit.tasks import Task, TextOptions
from tests.extraction.extracted import interrupted_after, plain
from tests.small_parts import make_small
from tests.tasks.own_files import json_lines, write

DRAWN = random.Random(0)
WORDS = ["the", "report", "said", "Maria", "left", "Paris", "near", "Lake", "Geneva"]


def rows(count, split):
    texts = [" ".join(DRAWN.choices(WORDS, k=DRAWN.randrange(3, 12))) for _ in range(count)]
    return [{"text": f"{text} {split}", "label": "ab"[text.count("Maria") % 2]} for text in texts]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for split, count in (("train", 150), ("dev", 20)):
        write(folder / f"{split}.jsonl", json_lines(*rows(count, split)))
    return folder


@pytest.fixture
def small_parts(monkeypatch):
    make_small(monkeypatch)


pytestmark = pytest.mark.usefixtures("small_file")


def extracted(model, data, cache, dtype="float32", **how):
    options = plain(dtype=dtype, batch_tokens=2**9)
    how = {"kind": "sentence", "device": "cpu"} | how
    return extract(model, str(data), cache=cache, options=options, **how)


@pytest.fixture(scope="module")
def whole(bert, data, tmp_path_factory):
    return extracted(bert, data, tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def parted(bert, data, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        return extracted(bert, data, tmp_path_factory.mktemp("parted"))


def test_rows_labels_and_scores_are_those_of_the_whole(whole, parted, data, tmp_path, small_parts):
    (train, dev), (expected, _) = parted, whole
    assert len(train.parts) > 3 and len(dev.parts) == 1
    rows = list_cache(train.path.parents[2])
    numbers = sorted(row["part"] for row in rows if row["split"] == "train")
    assert numbers == [f"part {number + 1}" for number in range(len(train.parts))]
    together = {row["split"]: row for row in list_cache(train.path.parents[2], join=True)}
    count = len(train.parts)
    assert together["train"]["part"] == f"{count} of {count} parts"
    assert together["train"]["examples"] == len(train.examples) == 150
    assert together["train"]["key"] == train.manifest.key[:8]
    assert together["train"]["bytes"] == sum(r["bytes"] for r in rows if r["split"] == "train")
    assert together["dev"]["part"] == "all" and len(together) == 2
    for part in train.parts:
        check_chunks(part.path)
    views = [open_features(entries).view("train", pooling="mean") for entries in (parted, whole)]
    joined, at_once = views
    assert joined.texts == at_once.texts and (joined.targets == at_once.targets).all()
    assert train.manifest.counts == expected.manifest.counts
    states = [view.array.read(view.rows) for view in views]
    torch.testing.assert_close(*states, rtol=0, atol=1e-6)
    order = np.random.default_rng(0).permutation(len(joined))
    assert (joined.array.read(joined.rows[order]) == states[0][order]).all()
    spec = TrainSpec(model=train.manifest.model, task=str(data), head="mean", l2=0.1)
    cache = train.path.parents[2]
    found = open_features(spec.model, spec.task, location=Location(cache=cache))
    assert found.entries["train"].manifest.key == train.manifest.key
    by_key = Location(cache=cache, entry=train.manifest.key[:8])
    assert len(open_features(spec.model, spec.task, location=by_key).entries["train"].parts) > 3
    at_once_spec = replace(spec, task=expected.manifest.task)
    scores = [
        sweep([of], out=tmp_path / "runs.jsonl", location=Location(cache=entry.path.parents[2]))[0]
        for of, entry in ((spec, train), (at_once_spec, expected))
    ]
    assert scores[0].entry == train.manifest.key
    assert scores[0].scores == pytest.approx(scores[1].scores, abs=1e-6)


def test_examples_of_several_parts_are_those_of_the_whole(parted):
    examples = parted[0].examples
    for positions in ([0, 1, 70, 149], [149], []):
        taken = examples.take(np.array(positions, np.int64))
        assert taken.texts == [examples.texts[position] for position in positions]
        for column in ("id", "pooled_start", "n_tokens"):
            assert taken.flat(column).tolist() == examples.flat(column)[positions].tolist()
    assert not examples.has("text_pair")


def test_the_marks_of_parts_are_read_once_for_a_list(parted, monkeypatch):
    read = []
    monkeypatch.setattr(entries, "read_marks", lambda path: read.append(path) or read_marks(path))
    assert len(list_cache(parted[0].path.parents[2])) > 4
    assert len(read) == 1


def test_training_holds_no_text_of_parts(parted, data, tmp_path, small_parts, monkeypatch):
    """Texts are compared a part at a time: of all at once only where rows lie stays in memory."""
    monkeypatch.setattr(JoinedExamples, "column", lambda self, name: self.table[name])
    spec = TrainSpec(model=parted[0].manifest.model, task=str(data), head="mean", l2=0.1)
    location = Location(cache=parted[0].path.parents[2])
    (record,) = sweep([spec], out=tmp_path / "runs.jsonl", location=location)
    assert record.duplicates["dev"]["train"]["texts"] == 20


@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_stored_rows_of_parts(bert, data, tmp_path, small_parts, dtype):
    (entry, _) = extracted(bert, data, tmp_path, dtype=dtype)
    array, first = entry.arrays["mean"], entry.examples.pooled_start
    chosen = first[np.random.default_rng(0).integers(0, len(first), 60)]
    array.prefetch(chosen)
    stored = array.read_stored(chosen)
    read = array.read(chosen)
    assert torch.equal(stored.gather(torch.arange(60)).permute(1, 0, 2), read.float())
    assert array.stored_nbytes(chosen, 2) > 0 and not len(array.read_stored(chosen[:0]))
    bounds = np.cumsum([0, *(len(part.examples) for part in entry.parts)])
    for n in range(60):
        example = int(np.flatnonzero(first == chosen[n])[0])
        number = int(np.searchsorted(bounds, example, side="right")) - 1
        part = entry.parts[number]
        row = part.examples.pooled_start[[example - bounds[number]]]
        assert torch.equal(part.arrays["mean"].read(row)[0], read[n])


def test_a_run_that_breaks_off_goes_on_with_the_next_part(
    bert, data, tmp_path, small_parts, parted, monkeypatch
):
    with interrupted_after(2):
        extracted(bert, data, tmp_path)
    (row,) = (row for row in list_cache(tmp_path, join=True) if row["part"] != "-")
    assert (row["part"], row["state"], row["key"]) == ("2 parts", "unfinished", "-")
    with pytest.raises(EntryNotFoundError, match="in parts, and only 2 are there"):
        open_features(bert, str(data), location=Location(cache=tmp_path, kind="sentence"))
    written, write = [], EntryBuilder.write_unit
    monkeypatch.setattr(
        EntryBuilder, "write_unit", lambda *a, **b: written.append(1) or write(*a, **b)
    )
    (entry, _) = extracted(bert, data, tmp_path)
    extracted(bert, data, tmp_path)
    assert len(written) == len(entry.parts) - 2 + 1  # the rest, and dev
    assert entry.manifest.key == parted[0].manifest.key


def opened(model, data, cache, shard=None):
    own, shard = TextOptions(kind="sentence"), None if shard is None else Shard.parse(shard)
    target = ExtractTarget(
        model=model, task=str(data), own=own, splits=("train",), device="cpu", cache=cache,
        shard=shard,
    )  # fmt: skip
    return open_session(target, plain())


def test_shards_make_parts_of_their_own(bert, data, tmp_path, small_parts, parted, monkeypatch):
    read, split_of = [], Task.split_of
    monkeypatch.setattr(
        Task,
        "split_of",
        lambda task, of, *a: read.append(len(of.sentences)) or split_of(task, of, *a),
    )
    for shard in ("1/3", "3/3", "2/3"):
        entries = extracted(bert, data, tmp_path, shard=shard, splits=["train"])
        assert len(entries) == (shard == "2/3")  # the last one
    assert sum(read) == 150  # each sentence by one of them
    assert entries[0].manifest.key == parted[0].manifest.key


def test_a_forecast_reads_the_first_part(bert, data, tmp_path, small_parts):
    (every,) = forecast(*opened(bert, data, tmp_path))
    assert every.examples == pytest.approx(150, rel=0.2)
    (third,) = forecast(*opened(bert, data, tmp_path, "1/3"))
    assert third.nbytes == pytest.approx(every.nbytes / 3, rel=0.4)


def test_labels_that_change_reach_the_parts_without_the_model(
    bert, data, tmp_path, small_parts, monkeypatch
):
    folder = tmp_path / "data"
    for split in ("train", "dev"):
        write(folder / f"{split}.jsonl", (data / f"{split}.jsonl").read_text())
    before = extracted(bert, folder, tmp_path)
    text = (folder / "train.jsonl").read_text()
    (folder / "train.jsonl").write_text(text.replace('"a"', '"A"'))
    with pytest.raises(EntryNotFoundError, match="extract"):
        open_features(bert, str(folder), location=Location(cache=tmp_path, kind="sentence"))
    monkeypatch.setattr(EntryBuilder, "write_unit", None)
    after = extracted(bert, folder, tmp_path)
    assert after[0].manifest.key == before[0].manifest.key
    found = open_features(bert, str(folder), location=Location(cache=tmp_path, kind="sentence"))
    assert found.label_map.names == ("A", "b")


def entry_of(model, task, cache, **how):
    location = Location(cache=cache, **({"kind": "sentence"} | how))
    return open_features(model, str(task), location=location).entries["train"]


def test_first_examples_share_parts_with_the_whole(bert, data, tmp_path, small_parts):
    counts = (60, None, 40, 1000, 5)
    for limit in counts:
        options = plain(dtype="float32", limit=limit)
        extract(
            bert, str(data), cache=tmp_path, options=options, kind="sentence", device="cpu",
            splits=["train"],
        )  # fmt: skip
        found = entry_of(bert, data, tmp_path)
        assert len(found.examples) == (60 if limit == 60 else 150)
        assert found.manifest.limit == (60 if limit == 60 else None)
    by_name = entry_of(found.folder.parents[1].name, found.folder.parent.name, tmp_path, kind=None)
    assert by_name.manifest.key == found.manifest.key
    last = max(tmp_path.glob("*/*/train-*"), key=lambda path: path.stat().st_mtime)
    assert entry_of(bert, data, tmp_path, entry=last.name).manifest.limit == 5


def test_parts_that_lie_with_other_data_are_joined(bert, tmp_path, small_parts):
    folder, cache = tmp_path / "data", tmp_path / "cache"
    for n in range(4):
        of_file = rows(40, f"{n}")
        write(folder / f"train-{n:05}-of-00004.jsonl", json_lines(*of_file))
    alone = write(tmp_path / "alone.jsonl", (folder / "train-00000-of-00004.jsonl").read_text())
    extracted(bert, alone, cache)
    (entry,) = extracted(bert, folder, cache)
    assert len({part.path.parent for part in entry.parts}) == 2
    found = open_features(bert, str(folder), location=Location(cache=cache, kind="sentence"))
    assert len(found.view("train", pooling="mean")) == 160  # with labels from both
    assert len(entry_of(bert, alone, cache).examples) == 40


def test_a_mark_that_is_damaged_is_written_again(bert, data, tmp_path, small_parts, caplog):
    (entry,) = extracted(bert, data, tmp_path, splits=["train"])
    mark = sorted((entry.path.parent / "labels").glob("train-part-*"))[1]
    content = mark.read_bytes()
    mark.write_bytes(content[:-30])
    with pytest.raises(EntryNotFoundError, match=f"only {len(entry.parts) - 1}"):
        entry_of(bert, data, tmp_path)
    assert f"{mark.name} is damaged" in caplog.text
    (again,) = extracted(bert, data, tmp_path, splits=["train"])
    assert again.manifest.key == entry.manifest.key
    assert entry_of(bert, data, tmp_path).manifest.key == entry.manifest.key


@pytest.mark.parametrize("what", ["running", "unlabelled test"])
def test_parts_without_labels_are_an_entry(bert, tmp_path, small_parts, what):
    if what == "running":
        text = "\n\n".join(row["text"] for row in rows(250, "train"))
        path = write(tmp_path / "train.txt", text)
        how, tie = {"kind": "language-modelling", "splits": ["train"]}, "input"
    else:
        path = tmp_path / "data"
        write(path / "train.jsonl", json_lines(*rows(20, "train")))
        write(path / "test.jsonl", json_lines(*({"text": row["text"]} for row in rows(150, "t"))))
        how, tie = {"kind": "sentence", "splits": ["test"]}, None
    (entry,) = extract(
        bert, str(path), cache=tmp_path / "cache", options=plain(tie=tie), device="cpu", **how
    )
    assert len(entry.parts) > 2
    assert verify_rows(entry, 5).rows >= 5


def test_what_was_extracted_at_once_is_found(bert, data, whole, small_parts):
    found = open_features(
        bert, str(data), location=Location(cache=whole[0].path.parents[2], kind="sentence")
    )
    assert found.entries["train"].manifest.key == whole[0].manifest.key


def test_an_id_in_two_parts(bert, tmp_path, small_parts):
    given = [row | {"id": n % 100} for n, row in enumerate(rows(150, "train"))]
    path = write(tmp_path / "train.jsonl", json_lines(*given))
    (entry,) = extracted(bert, path, tmp_path / "cache")
    with pytest.raises(EntryError, match="two parts of train have the same id"):
        _ = entry.examples
