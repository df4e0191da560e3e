"""Entries of imported states are worth what native ones are: rows, scores, verification."""

import dataclasses

import pytest
import torch
from transformers import T5EncoderModel

from probekit.backbone import inspect_backbone, load_backbone
from probekit.errors import OptionError
from probekit.extraction import ImportOptions, extract
from probekit.extraction.imports import import_states
from probekit.extraction.maintenance import check_chunks, verify_rows
from probekit.features import Location
from probekit.features.made_rows import token_rows
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from tests import tiny
from tests.extraction.extracted import PLAIN as NATIVE
from tests.extraction.extracted import all_rows
from tests.extraction.imports.exporting import PLAIN, Exporter, pairs, sentences, texts, vllm_folder

SPLITS = {"train": 12, "dev": 4}


MADE = {"words": sentences, "texts": texts, "pairs": pairs}


def items_of(examples):
    return [item for item, _ in examples]


def scores(model, cache, tmp_path, entries):
    """The dev score and loss of a head that was trained for some steps."""
    spec = TrainSpec(model=model, task="mine", head="mean", epochs=1, lr=0.01)
    location, out = Location(cache=cache), tmp_path / f"{cache.name}.jsonl"
    (record,) = sweep([spec], location=location, out=out, device="cpu")
    assert record.entry == entries[0].manifest.key
    return record.eval_score, pytest.approx(record.scores["dev/loss"], rel=1e-3)


def native(model, examples, cache, options=NATIVE):
    return extract(model, "mine", examples=examples, options=options, cache=cache, device="cpu")


def same_rows(imported, expected, atol=1e-5):
    for ours, theirs in zip(imported, expected, strict=True):
        torch.testing.assert_close(all_rows(ours), all_rows(theirs), rtol=1e-4, atol=atol)
        assert ours.manifest.counts["valid_words"] == theirs.manifest.counts["valid_words"]
    assert verify_rows(imported[0], 8, device="cpu").passed


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("cmpl-{hash:08x}-0.safetensors", "words"),
        ("hs_{number}.safetensors", "texts"),
        ("arrays", "pairs"),
    ],
)
def test_token_states_are_stored_as_native_ones(bert, exporter, tmp_path, form, kind):
    examples = {split: MADE[kind](count) for split, count in SPLITS.items()}
    exported = {
        split: [exporter.tokens(item) for item in items_of(of_split)]
        for split, of_split in examples.items()
    }
    if form == "arrays":
        states = {split: [rows for _, rows in pairs] for split, pairs in exported.items()}
        ids = {split: [ids for ids, _ in pairs] for split, pairs in exported.items()}
    else:
        states = {name: vllm_folder(tmp_path / name, p, form) for name, p in exported.items()}
        ids = None
    expected = native(bert, examples, tmp_path / "native")
    imported = import_states(
        bert, "mine", states, token_ids=ids, examples=examples, options=PLAIN,
        cache=tmp_path / "imported",
    )  # fmt: skip
    for ours, theirs in zip(imported, expected, strict=True):
        assert ours.manifest.key != theirs.manifest.key
        assert set(ours.arrays) == set(theirs.arrays)
        assert check_chunks(ours.path) > 0
        for name in ours.arrays:
            rows, wanted = (entry.arrays[name].read(torch.arange(5)) for entry in (ours, theirs))
            torch.testing.assert_close(rows, wanted, rtol=1e-4, atol=1e-5)
        assert ours.examples.table.equals(theirs.examples.table)
        assert ours.manifest.counts == theirs.manifest.counts
    assert verify_rows(imported[0], 10, device="cpu").passed


def test_the_bytes_are_those_of_the_native_entry(bert, exporter, tmp_path):
    """States that probekit's own pass returned, a text at a time, come back byte for byte."""
    backbone = load_backbone(inspect_backbone(bert), compute_dtype="float32")
    examples = {"train": sentences(12)}
    options = dataclasses.replace(NATIVE, batch_tokens=1, dtype="auto")
    (expected,) = native(bert, examples, tmp_path / "native", options)
    exported = []
    for words, _ in examples["train"]:
        ids = exporter.encode(words)["input_ids"]
        states = backbone.layers(ids, torch.tensor([ids.shape[1]]))
        exported.append((ids[0], torch.stack(states)[:, 0].transpose(0, 1)))
    (imported,) = import_states(
        bert, "mine", vllm_folder(tmp_path / "states", exported), examples=examples,
        options=ImportOptions(layer_ids="all"), cache=tmp_path / "imported",
    )  # fmt: skip
    chunks = [sorted(entry.path.glob("features.zarr/*/c*")) for entry in (imported, expected)]
    assert len(chunks[0]) == len(chunks[1]) == 5
    for ours, theirs in zip(*chunks, strict=True):
        assert ours.read_bytes() == theirs.read_bytes()
    assert imported.manifest.statistics == expected.manifest.statistics


def of_word_offsets(exporter, words):
    """States, and where each word begins among them and the last one ends."""
    encoded = exporter.encode(words)
    owners = [-1 if word is None else word for word in encoded.word_ids(0)]
    bounds = [owners.index(word) for word in range(len(words))]
    return exporter.states(encoded), [*bounds, len(owners) - 1]


@pytest.mark.parametrize(
    ("form", "pooling"), [("words", "mean"), ("offsets", "last"), ("offsets", "mean")]
)
def test_states_of_words_are_pooled_and_score_as_native_ones(
    bert, exporter, tmp_path, form, pooling
):
    examples = {split: sentences(count) for split, count in SPLITS.items()}
    states, offsets = {}, None if form == "words" else {}
    for split, of_split in examples.items():
        if offsets is None:
            states[split] = [exporter.of_words(words, pooling) for words in items_of(of_split)]
            continue
        found = [of_word_offsets(exporter, words) for words in items_of(of_split)]
        states[split], offsets[split] = zip(*found, strict=True)
    chosen = {"pooling": pooling, "keep": ("words",)}
    expected = native(bert, examples, tmp_path / "native", dataclasses.replace(NATIVE, **chosen))
    imported = import_states(
        bert, "mine", states, word_offsets=offsets, examples=examples,
        options=dataclasses.replace(PLAIN, **chosen), cache=tmp_path / "imported",
    )  # fmt: skip
    same_rows(imported, expected)
    if form == "words":
        score = scores(bert, tmp_path / "imported", tmp_path, imported)
        assert score == scores(bert, tmp_path / "native", tmp_path, expected)


def raw_states(exporter, item):
    """Ids, and states of which the last layer is before the final norm, as vLLM has them."""
    kept = []
    handle = exporter.model.norm.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    ids, states = exporter.tokens(item)
    handle.remove()
    states[:, -1] = kept[0][0]
    return ids, states


def test_a_last_layer_before_the_final_norm_is_said_and_verified(tmp_path):
    llama = str(tiny.build("llama", tmp_path / "llama"))
    examples, exporter = {"train": texts(8), "dev": texts(3)}, Exporter(llama)
    exported = [raw_states(exporter, item) for own in examples.values() for item in items_of(own)]
    folder = vllm_folder(tmp_path / "states", exported)
    where = {"examples": examples, "cache": tmp_path / "cache", "splits": ["train", "dev"]}
    with pytest.raises(
        ValueError, match=r"vLLM writes it before .*--last-layer raw.*--layers 0,1,2"
    ):
        import_states(llama, "mine", folder, options=PLAIN, **where)
    raw = dataclasses.replace(PLAIN, last_layer="raw", producer="vllm 0.18")
    train, _ = import_states(llama, "mine", folder, options=raw, **where)
    assert not train.manifest.final_norm
    assert train.manifest.states_from == "imported, computed by vllm 0.18"
    assert verify_rows(train, 5, device="cpu").passed
    normed = dataclasses.replace(PLAIN, last_layer="normed")
    wrong, _ = import_states(llama, "mine", folder, options=normed, **where)
    assert not verify_rows(wrong, 5, device="cpu").passed
    inner, _ = import_states(
        llama, "mine", folder, options=dataclasses.replace(PLAIN, layers="0,2"), **where
    )
    assert inner.arrays["mean"].layers == (0, 2) and verify_rows(inner, 5, device="cpu").passed


def test_states_of_the_encoder_of_an_encoder_decoder(tmp_path):
    folder, examples = str(tiny.build("t5", tmp_path / "t5")), sentences(4)
    wanted = dataclasses.replace(NATIVE, part="encoder")
    expected = native(folder, examples, tmp_path / "native", wanted)
    exporter = Exporter(folder)
    exporter.model = T5EncoderModel.from_pretrained(folder).eval()
    states = vllm_folder(tmp_path / "v", [exporter.tokens(words) for words, _ in examples])
    layers = ",".join(map(str, expected[0].arrays["words"].layers))
    options = ImportOptions(layer_ids=layers, dtype="float32", part="encoder", last_layer="normed")
    given = {"examples": examples, "cache": tmp_path / "imported"}
    same_rows(import_states(folder, "mine", states, options=options, **given), expected, atol=1e-4)
    with pytest.raises(OptionError, match="--part encoder"):
        options = dataclasses.replace(options, part=None)
        import_states(folder, "mine", states, options=options, **given)


def test_tokens_of_texts_are_those_of_every_layer(bert, exporter, tmp_path):
    examples = {"train": texts(8)}
    states = [exporter.tokens(text) for text, _ in examples["train"]]
    chosen = {"keep": ("tokens",)}
    expected = native(
        bert, examples, tmp_path / "native", dataclasses.replace(NATIVE, layers="0,1,2", **chosen)
    )
    ids, rows = zip(*((ids, rows[:, :3]) for ids, rows in states), strict=True)
    imported = import_states(
        bert, "mine", rows, token_ids=ids, examples=examples, cache=tmp_path / "imported",
        options=dataclasses.replace(PLAIN, layer_ids="0:3", **chosen),
    )  # fmt: skip
    assert imported[0].arrays["tokens"].layers == (0, 1, 2)
    ours, theirs = (
        of.arrays["tokens"].read(token_rows(of.examples).values) for (of,) in (imported, expected)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert verify_rows(imported[0], 8, device="cpu").passed
