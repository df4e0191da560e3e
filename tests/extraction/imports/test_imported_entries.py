"""Imported entries in the cache: found, told apart, resumed, and of models that are mere names."""

import dataclasses
import logging

import pytest
import torch

import probekit
from probekit.errors import BackboneError, EntryError, EntryNotFoundError, OptionError
from probekit.extraction import ImportOptions, extract
from probekit.extraction.imports import import_states
from probekit.extraction.imports.sequences import Sequences
from probekit.extraction.maintenance import check_chunks, describe, list_cache, verify_rows
from probekit.features import Location, open_features
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from tests.extraction.extracted import PLAIN as NATIVE
from tests.extraction.extracted import all_rows, interrupted_after
from tests.extraction.imports.exporting import sentences, vllm_folder

PLAIN = ImportOptions(layer_ids="0:4", dtype="float32", producer="vllm 0.18")
EXAMPLES = {"train": sentences(), "dev": sentences(4)}


@pytest.fixture(scope="module")
def folder(exporter, tmp_path_factory):
    """A folder as vLLM leaves it, with the requests of both splits."""
    exported = [exporter.tokens(words) for words, _ in sentences(40)]
    return vllm_folder(tmp_path_factory.mktemp("states") / "v", exported)


@pytest.fixture
def imported(bert, folder, tmp_path):
    def run(options=PLAIN, examples=EXAMPLES, states=folder, **more):
        wanted = {"cache": tmp_path / "cache", "splits": list(examples), **more}
        return import_states(bert, "mine", states, examples=examples, options=options, **wanted)

    return run


def opened(bert, cache, entry=None):
    return open_features(bert, "mine", location=Location(cache=cache, entry=entry))


def test_it_is_found_by_its_model_and_said_to_be_imported(imported, bert, tmp_path, caplog):
    caplog.set_level(logging.INFO, "probekit")
    train, dev = imported()
    features = opened(bert, tmp_path / "cache")
    assert features.entries["train"].path == train.path and features.entries["dev"].path == dev.path
    assert f"{train.path}: its states were imported, computed by vllm 0.18" in caplog.text
    assert [row["state"] for row in list_cache(tmp_path / "cache")] == ["complete, imported"] * 2
    said = describe(train.path)["states"]
    assert said.startswith("imported, computed by vllm 0.18 (sha256 ") and "token-ids" in said
    assert train.manifest.request["model"] == train.manifest.model_info["identity"]
    before = train.path.stat().st_mtime_ns
    assert imported()[0].path == train.path and train.path.stat().st_mtime_ns == before


def test_neither_an_imported_nor_a_native_entry_is_taken_in_silence(
    imported, bert, tmp_path, caplog
):
    train, dev = imported()
    cache = tmp_path / "cache"
    native = extract(
        bert, "mine", examples=EXAMPLES, options=dataclasses.replace(NATIVE, limit=6), cache=cache,
        splits=["train"], device="cpu",
    )  # fmt: skip
    with pytest.raises(EntryNotFoundError) as refused:
        opened(bert, cache)
    said = str(refused.value)
    assert f"{train.manifest.key[:8]} (imported, computed by vllm 0.18" in said
    assert f"{native[0].manifest.key[:8]} (computed by probekit" in said
    chosen = opened(bert, cache, train.manifest.key[:8])
    assert {name: one.path for name, one in chosen.entries.items()} == {
        "train": train.path, "dev": dev.path,
    }  # fmt: skip
    probekit.extraction.maintenance.Removable.of(train.path).remove()
    opened(bert, cache)
    assert "come from different sources: train computed by probekit, dev imported" in caplog.text


def test_a_missing_split_is_to_be_imported(imported, bert, tmp_path):
    imported(examples={"dev": EXAMPLES["dev"]})
    with pytest.raises(EntryNotFoundError, match=r"import_states\(.*states=STATES"):
        opened(bert, tmp_path / "cache")


@pytest.mark.usefixtures("small_units")
@pytest.mark.parametrize("backend", ["zarr", "hdf5"])
def test_an_interrupted_import_resumes(imported, tmp_path, monkeypatch, backend):
    options, train = dataclasses.replace(PLAIN, format=backend), {"train": sentences(40)}
    (whole,) = imported(options, train, cache=tmp_path / "whole")
    with interrupted_after(2):
        imported(options, train)
    (row,) = list_cache(tmp_path / "cache")
    assert row["state"] == "unfinished"
    (partial,) = (tmp_path / "cache").glob("*/*/*.partial")
    with pytest.raises(EntryError, match=r"Run the same `probekit cache import` command"):
        probekit.store.Entry.open(partial.with_name(partial.name.removesuffix(".partial")))
    read, reads = Sequences.read, []
    monkeypatch.setattr(Sequences, "read", lambda self, i: reads.append(i) or read(self, i))
    (entry,) = imported(options, train)
    units = len(entry.manifest.extra["units"])
    assert units > 3 and entry.manifest.extra["computed"][0]["device"] == "imported"
    assert 0 < len(set(reads)) < 40, "units that were done are not read again"
    assert torch.equal(all_rows(entry), all_rows(whole)) and check_chunks(entry.path) > 0


def test_one_sequence_is_in_memory_at_a_time(imported, monkeypatch):
    """A pass holds the rows of a few sequences, however many there are."""
    read, alive = Sequences.read, []

    def counted(self, sequence):
        found = read(self, sequence)
        alive.append(found.numel())
        return found

    monkeypatch.setattr(Sequences, "read", counted)
    imported()
    assert max(alive) <= max(len(words) for words, _ in EXAMPLES["train"]) * 8 * 4 * 32


def test_another_file_is_another_entry(imported, exporter, tmp_path):
    first, _ = imported()
    exported = [exporter.tokens(words) for words, _ in EXAMPLES["train"]]
    exported[3][1].add_(1)
    again = imported(states=vllm_folder(tmp_path / "v", exported))[0]
    assert again.manifest.key != first.manifest.key
    asked = [{**entry.manifest.request, "imported": None} for entry in (first, again)]
    assert asked[0] == asked[1]


def test_a_model_that_is_a_mere_name(tmp_path):
    """As ELMo: no model of transformers has computed the rows, and none is looked for."""
    random = torch.Generator().manual_seed(0)
    rows = {
        split: [torch.randn(len(words), 3, 16, generator=random) for words, _ in own]
        for split, own in EXAMPLES.items()
    }
    options = ImportOptions(layer_ids="0,1,2", n_blocks=2, producer="AllenNLP")
    where = {"examples": EXAMPLES, "cache": tmp_path / "cache"}
    train, _ = import_states("elmo-original", "mine", rows, options=options, **where)
    assert (train.manifest.n_blocks, train.manifest.dim, train.manifest.model) == (
        2, 16, "elmo-original",
    )  # fmt: skip
    spec = TrainSpec(model="elmo-original", task="mine", head="mean", epochs=1, lr=0.01)
    location, head = Location(cache=tmp_path / "cache"), tmp_path / "head"
    (record,) = sweep([spec], location=location, out=tmp_path / "r.jsonl", save=head, device="cpu")
    assert record.entry == train.manifest.key
    with pytest.raises(EntryError, match="only the name of the model elmo-original is known"):
        verify_rows(train, 3)
    with pytest.raises(
        BackboneError, match="running the model gives different ones: nothing is kno"
    ):
        probekit.predict(head, [["Maria", "left"]])
    assert "not what the model computes here" in describe(train.path)["states"]
    with pytest.raises(OptionError, match=r"the arrays has 3 layers\. Give their numbers,"):
        import_states("elmo-original", "mine", rows, options=ImportOptions(n_blocks=2), **where)


def test_how_rows_of_words_were_made_must_be_known_to_verify_them(imported, exporter):
    rows = [exporter.of_words(words) for words, _ in EXAMPLES["dev"]]
    (entry,) = imported(examples={"dev": EXAMPLES["dev"]}, states=rows)
    with pytest.raises(EntryError, match="not known which subwords made the rows of words"):
        verify_rows(entry, 3)


def test_states_without_special_tokens_are_verified_as_they_were_read(imported, exporter):
    dev = {"dev": EXAMPLES["dev"]}
    exported = [exporter.tokens(words) for words, _ in EXAMPLES["dev"]]
    for said, pairs in {
        "stripped": [(ids[1:-1], states[1:-1]) for ids, states in exported],
        "absent": [
            exporter.tokens(words, add_special_tokens=False) for words, _ in EXAMPLES["dev"]
        ],
    }.items():
        ids, states = ([pair[i] for pair in pairs] for i in (0, 1))
        options = dataclasses.replace(PLAIN, special_tokens=said, keep=("words",))
        (entry,) = imported(options, dev, states, token_ids=ids)
        assert verify_rows(entry, 9, device="cpu").passed
        wrong = dataclasses.replace(
            options, special_tokens="absent" if said == "stripped" else "stripped"
        )
        (entry,) = imported(wrong, dev, states, token_ids=ids)
        assert not verify_rows(entry, 9, device="cpu").passed
