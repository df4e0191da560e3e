"""Extraction against an independent reference: the model run by hand, sentence by sentence."""

import json
import math
import time
import weakref
from functools import partial

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from probekit.errors import DataError, EntryError, OptionError, StorageError
from probekit.extraction import ExtractOptions, extract, plan
from probekit.extraction.compute import compute_unit
from probekit.features.location import task_of_entries
from probekit.store.builder import EntryBuilder
from probekit.store.labels import groups_for, label_columns, labels_for, read_labels
from tests import tiny
from tests.extraction.corpus import write_corpus
from tests.extraction.extracted import all_rows, interrupted_after, key_of, reference_rows, run
from tests.extraction.test_kill import without_time
from tests.store.synthetic import folder_bytes

FAMILIES = {"bert": "first", "roberta": "first", "gpt2": "last", "llama": "last"}


@pytest.mark.parametrize(("family", "pooling"), [*FAMILIES.items(), ("bert", "mean")])
@pytest.mark.usefixtures("small_units")
def test_rows_equal_the_model_run_by_hand(family, pooling, corpus, tmp_path):
    folder = tiny.build(family, tmp_path / family)
    asked = {} if pooling == FAMILIES[family] else {"pooling": pooling}
    entry = run(folder, corpus, tmp_path / "cache", limit=16, **asked)
    prefix = {"add_prefix_space": True} if family in ("roberta", "gpt2") else {}
    assert entry.manifest.pooling == pooling
    assert entry.arrays["words"].spec.n_row_chunks > 4
    tokenizer = AutoTokenizer.from_pretrained(folder, **prefix)
    expected = reference_rows(AutoModel.from_pretrained(folder).eval(), tokenizer, entry)
    torch.testing.assert_close(all_rows(entry), expected, rtol=1e-4, atol=1e-5)


def test_a_deleted_word_keeps_its_row_and_is_marked(made):
    entry = made()
    deleted = np.flatnonzero(~entry.examples.valid)
    words = entry.examples.flat("words")
    assert [words[i] for i in deleted] == ["\u200b"]
    assert entry.manifest.counts["words"] == entry.manifest.counts["valid_words"] + 1
    assert not all_rows(entry)[deleted].any()


def test_tokens_hold_the_last_layer_of_every_subword(bert, made):
    entry, model = made(), AutoModel.from_pretrained(bert).eval()
    array = entry.arrays["tokens"]
    assert tuple(array.layers) == (entry.manifest.n_blocks,)
    for i in range(len(entry.examples)):
        ids = entry.examples.table["subwords"][i].as_py()
        start = int(entry.examples.token_start[i])
        with torch.no_grad():
            expected = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        rows = array.read(slice(start, start + len(ids)))[:, 0]
        torch.testing.assert_close(rows, expected, rtol=1e-4, atol=1e-5)


def test_backends_and_batch_sizes_agree(made):
    zarr, hdf5, small = made(), made(format="hdf5"), made(batch_tokens=32)
    assert torch.equal(all_rows(zarr), all_rows(hdf5))
    torch.testing.assert_close(all_rows(small), all_rows(zarr), rtol=1e-4, atol=1e-5)
    assert small.manifest.key == zarr.manifest.key


def test_long_sentences_read_in_windows_see_less_context_but_every_word(made):
    whole, windows = made(), made(max_length=12)
    assert windows.manifest.counts["windows"] > len(windows.examples)
    assert windows.manifest.counts["valid_words"] == whole.manifest.counts["valid_words"]
    # Layer 0 has absolute positions but no context; a sentence that fits is the same throughout.
    short = whole.examples.n_rows <= 5
    rows = np.repeat(short, whole.examples.n_rows)
    torch.testing.assert_close(all_rows(windows)[rows], all_rows(whole)[rows], rtol=1e-4, atol=1e-5)


def test_truncate_counts_and_error_names_the_sentence(bert, corpus, tmp_path, caplog):
    cut = run(bert, corpus, tmp_path, max_length=12, overlong="truncate")
    counts = cut.manifest.counts
    lost, words = counts["truncated_words"], counts["words"]
    said = f"{lost:,} of {words:,} words do not fit into windows of 12"
    assert caplog.text.count(said) == 1
    assert 0 < lost <= words - counts["valid_words"]
    with pytest.raises(DataError, match=r"example train-\d+ .*limit of 12.*--overlong"):
        run(bert, corpus, tmp_path / "none", max_length=12, overlong="error")
    with pytest.raises(OptionError, match="at most 64"):
        run(bert, corpus, tmp_path / "none", max_length=65)
    assert not list((tmp_path / "none").rglob("*partial*"))


def test_layers_keep_and_limit_narrow_the_entry(made):
    whole, narrow = made(), made(layers="0,-1", keep=("words",), limit=10)
    assert tuple(narrow.arrays) == ("words",)
    assert tuple(narrow.arrays["words"].layers) == (0, 3)
    assert len(narrow.examples) == 10
    assert set(narrow.examples.token_start) == {-1}
    count = int(narrow.examples.n_rows.sum())
    torch.testing.assert_close(
        all_rows(narrow), all_rows(whole)[:count][:, [0, 3]], rtol=1e-4, atol=1e-5
    )


def test_a_complete_entry_is_not_computed_again(bert, corpus, made, monkeypatch):
    first = made()
    before = {p: p.stat().st_mtime_ns for p in first.path.rglob("*") if p.is_file()}
    monkeypatch.setattr("probekit.extraction.opening.load_backbone", None)
    again = run(bert, corpus, first.path.parents[2])
    assert again.path == first.path
    assert {p: p.stat().st_mtime_ns for p in first.path.rglob("*") if p.is_file()} == before


def test_the_key_follows_what_was_asked_and_nothing_else(bert, corpus, made):
    key = partial(key_of, bert, corpus)
    assert key() == key(batch_tokens=64) == key(keep=("tokens", "words", "tokens"))
    assert key() == made().manifest.key
    others = [{"dtype": "float16"}, {"pooling": "mean"}, {"layers": "0"}, {"format": "hdf5"}]
    assert len({key(), *(key(**options) for options in others)}) == 5
    auto = made(compute_dtype="auto")
    assert auto.manifest.request["compute_dtype"] == "auto"
    assert auto.manifest.compute_dtype in ("float32", "bfloat16")


def test_a_configuration_may_hold_what_json_has_not(corpus, tmp_path):
    """Mamba 2's time steps end at infinity."""
    folder = tiny.build("bert", tmp_path / "model")
    config = folder / "config.json"
    options = json.loads(config.read_text("utf-8")) | {"time_step_limit": [0.0, math.inf]}
    config.write_text(json.dumps(options), "utf-8")
    entry = run(folder, corpus, tmp_path / "cache")
    kept = json.loads((entry.backbone / "config.json").read_text("utf-8"), parse_constant=None)
    assert kept["time_step_limit"] == [0.0, "Infinity"]
    before = [key_of(folder, corpus, random_init=seed) for seed in (None, 0)]
    assert before[0] == entry.manifest.key
    config.write_text(json.dumps(options | {"time_step_limit": [0.0, 1.0]}), "utf-8")
    assert not set(before) & {key_of(folder, corpus, random_init=seed) for seed in (None, 0)}


@pytest.mark.usefixtures("small_units")
def test_another_batch_size_goes_on_and_the_manifest_says_so(bert, corpus, made, tmp_path):
    whole = made()
    with interrupted_after(2):
        run(bert, corpus, tmp_path / "cache")
    entry = run(bert, corpus, tmp_path / "cache", batch_tokens=64)
    ways = {way["batch_tokens"]: way["units"] for way in entry.manifest.extra["computed"]}
    assert ways.keys() == {64, 4096} and len(ways[4096]) == 2
    assert sorted(ways[64] + ways[4096]) == list(range(len(ways[64]) + 2)) and ways[64]
    assert entry.manifest.key == whole.manifest.key
    torch.testing.assert_close(all_rows(entry), all_rows(whole), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("small_units")
def test_another_dtype_of_computing_asks_before_it_begins_afresh(
    bert, corpus, tmp_path, monkeypatch
):
    """ "auto" is another dtype on another machine, under one key; --overwrite is not enough."""
    auto = {"compute_dtype": "auto", "dtype": "auto", "overwrite": True}
    monkeypatch.setattr("probekit.backbone.loading.native_bfloat16", lambda device: False)
    with interrupted_after(2):
        run(bert, corpus, tmp_path, **auto)
    monkeypatch.setattr("probekit.backbone.loading.native_bfloat16", lambda device: True)
    with pytest.raises(EntryError, match=r"2 of \d+ units .*compute_dtype float32, now bfloat16.*"):
        run(bert, corpus, tmp_path, **auto)
    assert len(list(tmp_path.glob("*/*/*.partial/building/units/*.json"))) == 2
    entry = run(bert, corpus, tmp_path, restart=True, **auto)
    assert entry.manifest.compute_dtype == "bfloat16"


def test_corrected_labels_leave_the_entry_and_its_key_alone(bert, corpus, tmp_path):
    first = run(bert, corpus, tmp_path / "cache")
    (before,) = labels_for(first, "2")
    path = corpus / "train.conll"
    original = path.read_text("utf-8")
    try:
        path.write_text(original.replace("Maria\tN0\tO", "Maria\tN0\tB-PER"), "utf-8")
        again = run(bert, corpus, tmp_path / "cache")
    finally:
        path.write_text(original, "utf-8")
    newest, oldest = labels_for(again, "2")
    assert again.path == first.path
    assert oldest == before
    assert newest.fingerprint != before.fingerprint
    assert "B-PER" in {label for row in read_labels(newest.path).values for label in row}


def test_documents_come_with_labels_to_an_entry_that_is_there(bert, tmp_path):
    """Extraction reads them again in seconds: sealed files, key and label columns stay."""
    corpus = write_corpus(tmp_path / "data", sentences=6)
    first = run(bert, corpus, tmp_path / "cache")
    sealed = folder_bytes(first.path)
    assert groups_for(first, "document") == []
    path = corpus / "train.conll"
    path.write_text(f"-DOCSTART-\tN0\tO\n\n{path.read_text('utf-8')}", "utf-8")
    again = run(bert, corpus, tmp_path / "cache")
    assert (again.path, folder_bytes(again.path)) == (first.path, sealed)
    (file,) = groups_for(again, "document")
    assert set(read_labels(file.path).values) == {("train.conll#1",)}
    assert label_columns(again) == ["2"]
    assert task_of_entries("data", [again], None).columns == ("2",)


def test_a_full_disk_is_noticed_before_anything_is_written(bert, corpus, tmp_path, monkeypatch):
    usage = type("usage", (), {"free": 1000})
    monkeypatch.setattr("probekit.store.files.shutil.disk_usage", lambda path: usage)
    with pytest.raises(StorageError, match=r"has 1\.0 kB free, and this extraction writes"):
        run(bert, corpus, tmp_path / "c")
    assert not list(tmp_path.glob("c/**/*"))


@pytest.mark.usefixtures("small_units")
def test_a_resumed_run_needs_room_for_the_rest_alone(bert, corpus, made, tmp_path, monkeypatch):
    whole = made()
    nbytes = sum(spec.nbytes for spec in whole.manifest.arrays)
    with interrupted_after(0, "_seal"):
        run(bert, corpus, tmp_path)
    usage = type("usage", (), {"free": nbytes // 2})
    monkeypatch.setattr("probekit.store.files.shutil.disk_usage", lambda path: usage)
    assert run(bert, corpus, tmp_path).manifest.key == whole.manifest.key


@pytest.mark.usefixtures("small_units")
@pytest.mark.parametrize("begun", [False, True])
def test_memory_is_flat_over_the_units_from_the_largest_to_the_smallest(
    bert, corpus, tmp_path, monkeypatch, begun
):
    """At most two units live at once: one just computed, one being written.

    The first, which `auto` computes anew with --overwrite, is not kept where an earlier run wrote
    it.
    """
    monkeypatch.setattr(plan, "UNIT_BYTES", 5_000)
    if begun:
        with interrupted_after(1):
            run(bert, corpus, tmp_path, dtype="auto")
    alive, most, written, write = weakref.WeakSet(), [], [], EntryBuilder.write_unit

    def counted(*arguments):
        unit = compute_unit(*arguments)
        alive.add(unit)
        most.append(len(alive))
        return unit

    def slowly(builder, index, row_start, blocks, **options):
        time.sleep(0.01)
        written.append((blocks["tokens"].shape[1], index))
        write(builder, index, row_start, blocks, **options)

    monkeypatch.setattr("probekit.extraction.compute.compute_unit", counted)
    monkeypatch.setattr("probekit.extraction.entry_session.compute_unit", counted)
    monkeypatch.setattr(EntryBuilder, "write_unit", slowly)
    run(bert, corpus, tmp_path, dtype="auto", overwrite=True)
    assert len(most) > 8 and max(most) <= 2
    subwords, indices = zip(*written, strict=True)
    assert list(subwords) == sorted(subwords, reverse=True) and len(set(subwords)) > 3
    assert len(set(indices)) == len(indices) and sorted(indices) != list(indices)


def test_overwrite_replaces_a_damaged_entry(bert, corpus, tmp_path):
    entry = run(bert, corpus, tmp_path)
    before = without_created(entry.path)
    (entry.path / "features.zarr" / "words" / "c.0.1.0").unlink()
    with pytest.raises(EntryError, match=r"words.*--overwrite"):
        run(bert, corpus, tmp_path)
    run(bert, corpus, tmp_path, overwrite=True)
    assert without_created(entry.path) == before
    for name in ("manifest.json", "checksums.parquet"):  # then it is not complete
        (entry.path / name).unlink()
    run(bert, corpus, tmp_path)
    assert without_created(entry.path) == before


def without_created(path):
    files = folder_bytes(path)
    return files | {"manifest.json": without_time(path / "manifest.json")}


def test_what_is_no_part_of_an_entry_is_not_removed(bert, corpus, tmp_path):
    path = run(bert, corpus, tmp_path).path
    for folder in (path, *(path.with_name(path.name + end) for end in (".partial", ".replaced"))):
        folder.mkdir(exist_ok=True)
        (folder / "notes.txt").touch()
        with pytest.raises(OptionError, match=r"holds notes\.txt, which is not part of an entry"):
            run(bert, corpus, tmp_path, overwrite=True)
        (folder / "notes.txt").unlink()
    for end in (".partial", ".replaced"):
        path.with_name(path.name + end).rmdir()
    run(bert, corpus, tmp_path, overwrite=True)


def test_options_check_themselves():
    with pytest.raises(OptionError, match="--random-init -1: a seed is 0 or more"):
        ExtractOptions(random_init=-1)
    for wrong in (
        {"dtype": "float8"}, {"compute_dtype": "x"}, {"pooling": "max"}, {"overlong": "cut"},
        {"keep": ("word",)}, {"keep": ()}, {"limit": 0}, {"max_length": -1}, {"format": "npz"},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"--|format"):
            ExtractOptions(**wrong)
    with pytest.raises(ValueError, match=r"unknown --keep 'word'\. Did you mean 'words'\?"):
        ExtractOptions(keep="word")
    assert ExtractOptions(keep="tokens,words") == ExtractOptions(keep=("words", "tokens"))
    assert [ExtractOptions(layers=layers).layers for layers in (-1, [0, 4], range(2), "1:")] == [
        "-1", "0,4", "0,1", "1:",
    ]  # fmt: skip


def test_a_file_without_labels_is_said_to_have_none(bert, corpus, tmp_path, caplog):
    bare = tmp_path / "bare"
    bare.mkdir()
    words = [line.split("\t")[0] for line in (corpus / "dev.conll").read_text().splitlines()]
    (bare / "train.conll").write_text("\n".join(words) + "\n")
    caplog.set_level("INFO")
    extract(bert, str(bare), kind="tagging", splits=["train"], cache=tmp_path, device="cpu")
    assert "has no labels, so no head can be trained or scored on it" in caplog.text
