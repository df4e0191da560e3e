"""Entries of imported states are worth what native ones are: rows, scores, verification."""

import dataclasses

import pytest
import torch
from transformers import T5EncoderModel

from probekit.backbone import inspect_backbone, load_backbone
from probekit.errors import OptionError
from probekit.extraction import ExtractOptions, extract
from probekit.extraction.imports import ImportOptions, import_states
from probekit.extraction.maintenance import check_chunks, verify_rows
from probekit.features import Location
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from tests import tiny
from tests.extraction.extracted import all_rows
from tests.extraction.imports.exporting import (
    Exporter,
    pairs,
    sentences,
    texts,
    vllm_folder,
)

NATIVE = ExtractOptions(compute_dtype="float32", dtype="float32")
PLAIN = ImportOptions(layer_ids="0:4", dtype="float32")
SPLITS = {"train": 20, "dev": 6}


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    return {k: str(tiny.build(k, tmp_path_factory.mktemp(k))) for k in ("bert", "llama")}


@pytest.fixture(scope="session")
def exporters(models):
    return {kind: Exporter(folder) for kind, folder in models.items()}


MADE = {"words": sentences, "texts": texts, "pairs": pairs}


def items_of(examples):
    return [item for item, _ in examples]


def scores(model, cache, tmp_path, entries):
    """The dev score and loss of a head that was trained for some steps."""
    spec = TrainSpec(model=model, task="mine", head="mean", epochs=2, lr=0.01)
    location = Location(cache=cache)
    records = sweep([spec], location=location, out=tmp_path / f"{cache.name}.jsonl", device="cpu")
    assert {record.entry for record in records} == {entries[0].manifest.key}
    loss = "dev/loss"
    return [(one.eval_score, pytest.approx(one.scores[loss], rel=1e-3)) for one in records]


def native(model, examples, cache):
    return extract(model, "mine", examples=examples, options=NATIVE, cache=cache, device="cpu")


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("cmpl-{hash:08x}-0.safetensors", "words"),
        ("hs_{number}.safetensors", "texts"),
        ("arrays", "texts"),
        ("arrays", "pairs"),
    ],
)
def test_token_states_score_as_native_ones(models, exporters, tmp_path, form, kind):
    examples = {split: MADE[kind](count) for split, count in SPLITS.items()}
    found = {
        split: [exporters["bert"].tokens(item) for item in items_of(own)]
        for split, own in examples.items()
    }
    if form == "arrays":
        states = {split: [rows for _, rows in own] for split, own in found.items()}
        ids = {split: [one for one, _ in own] for split, own in found.items()}
    else:
        states = {split: vllm_folder(tmp_path / split, own, form) for split, own in found.items()}
        ids = None
    expected = native(models["bert"], examples, tmp_path / "native")
    imported = import_states(
        models["bert"], "mine", states, token_ids=ids, examples=examples, options=PLAIN,
        cache=tmp_path / "imported",
    )  # fmt: skip
    for one, two in zip(imported, expected, strict=True):
        assert one.manifest.key != two.manifest.key
        assert set(one.arrays) == set(two.arrays)
        assert check_chunks(one.path) > 0
        for name in one.arrays:
            rows, wanted = (entry.arrays[name].read(torch.arange(5)) for entry in (one, two))
            torch.testing.assert_close(rows, wanted, rtol=1e-4, atol=1e-5)
        assert one.examples.table.equals(two.examples.table)
        assert one.manifest.counts == two.manifest.counts
    assert verify_rows(imported[0], 10, device="cpu").passed
    one = scores(models["bert"], tmp_path / "imported", tmp_path, imported)
    assert one == scores(models["bert"], tmp_path / "native", tmp_path, expected)


def test_the_bytes_are_those_of_the_native_entry(models, tmp_path):
    """States that probekit's own pass returned, a text at a time, come back byte for byte."""
    inspection = inspect_backbone(models["bert"])
    backbone = load_backbone(inspection, compute_dtype="float32")
    examples = sentences(20)
    (expected,) = extract(
        models["bert"], "mine", examples={"train": examples}, cache=tmp_path / "native",
        options=dataclasses.replace(NATIVE, batch_tokens=1, dtype="auto"), device="cpu",
    )  # fmt: skip
    exporter, found = Exporter(models["bert"]), []
    for words, _ in examples:
        ids = exporter.encode(words)["input_ids"]
        states = backbone.layers(ids, torch.tensor([ids.shape[1]]))
        found.append((ids[0], torch.stack(states)[:, 0].transpose(0, 1)))
    (imported,) = import_states(
        models["bert"], "mine", vllm_folder(tmp_path / "states", found),
        examples={"train": examples}, options=ImportOptions(layer_ids="all"),
        cache=tmp_path / "imported",
    )  # fmt: skip
    chunks = [sorted(one.path.glob("features.zarr/*/c*")) for one in (imported, expected)]
    assert len(chunks[0]) == len(chunks[1]) == 5
    for one, two in zip(*chunks, strict=True):
        assert one.read_bytes() == two.read_bytes()
    assert imported.manifest.statistics == expected.manifest.statistics


@pytest.mark.parametrize("pooling", ["mean"])
def test_word_states_score_as_native_ones(models, exporters, tmp_path, pooling):
    examples = {split: sentences(count) for split, count in SPLITS.items()}
    rows = {
        split: [exporters["bert"].of_words(words, pooling) for words in items_of(own)]
        for split, own in examples.items()
    }
    options = dataclasses.replace(NATIVE, pooling=pooling, keep=("words",))
    expected = extract(
        models["bert"], "mine", examples=examples, options=options, cache=tmp_path / "native",
        device="cpu",
    )  # fmt: skip
    imported = import_states(
        models["bert"], "mine", rows, examples=examples, cache=tmp_path / "imported",
        options=dataclasses.replace(PLAIN, pooling=pooling),
    )  # fmt: skip
    for one, two in zip(imported, expected, strict=True):
        torch.testing.assert_close(all_rows(one), all_rows(two), rtol=1e-4, atol=1e-5)
        assert one.manifest.counts["valid_words"] == two.manifest.counts["valid_words"]
    assert verify_rows(imported[0], 10, device="cpu").passed
    one = scores(models["bert"], tmp_path / "imported", tmp_path, imported)
    assert one == scores(models["bert"], tmp_path / "native", tmp_path, expected)


def test_word_offsets_pool_as_extraction_does(models, exporters, tmp_path):
    examples, exporter = sentences(12), exporters["bert"]
    states, offsets = [], []
    for words, _ in examples:
        encoded = exporter.encode(words)
        owners = [-1 if one is None else one for one in encoded.word_ids(0)]
        bounds = [owners.index(word) for word in range(len(words))]
        offsets.append([*bounds, len(owners) - 1])
        states.append(exporter.states(encoded))
    for pooling in ("last", "mean"):
        wanted = dataclasses.replace(NATIVE, pooling=pooling, keep=("words",))
        (expected,) = extract(
            models["bert"], "mine", examples=examples, options=wanted, device="cpu",
            cache=tmp_path / f"native-{pooling}",
        )  # fmt: skip
        options = dataclasses.replace(PLAIN, pooling=pooling, keep=("words",))
        (imported,) = import_states(
            models["bert"], "mine", states, word_offsets=offsets, examples=examples,
            options=options, cache=tmp_path / pooling,
        )  # fmt: skip
        torch.testing.assert_close(all_rows(imported), all_rows(expected), rtol=1e-4, atol=1e-5)
        assert verify_rows(imported, 5, device="cpu").passed


def raw_states(exporter, item):
    """Ids, and states of which the last layer is before the final norm, as vLLM has them."""
    kept = []
    handle = exporter.model.norm.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    ids, states = exporter.tokens(item)
    handle.remove()
    states[:, -1] = kept[0][0]
    return ids, states


def test_a_last_layer_before_the_final_norm_is_said_and_verified(models, exporters, tmp_path):
    examples, exporter = {"train": texts(16), "dev": texts(5)}, exporters["llama"]
    found = [raw_states(exporter, item) for own in examples.values() for item in items_of(own)]
    folder = vllm_folder(tmp_path / "states", found)
    where = {"examples": examples, "cache": tmp_path / "cache", "splits": ["train", "dev"]}
    with pytest.raises(
        ValueError, match=r"vLLM writes it before.*--last-layer raw.*--layers 0,1,2"
    ):
        import_states(models["llama"], "mine", folder, options=PLAIN, **where)
    raw = dataclasses.replace(PLAIN, last_layer="raw", producer="vllm 0.18")
    train, _ = import_states(models["llama"], "mine", folder, options=raw, **where)
    assert not train.manifest.final_norm
    assert train.manifest.states_from == "imported, computed by vllm 0.18"
    assert verify_rows(train, 10, device="cpu").passed
    normed = dataclasses.replace(PLAIN, last_layer="normed")
    wrong, _ = import_states(models["llama"], "mine", folder, options=normed, **where)
    assert not verify_rows(wrong, 10, device="cpu").passed
    inner, _ = import_states(
        models["llama"], "mine", folder, options=dataclasses.replace(PLAIN, layers="0,2"), **where
    )
    assert inner.arrays["mean"].layers == (0, 2) and verify_rows(inner, 10, device="cpu").passed


def test_states_of_the_encoder_of_an_encoder_decoder(tmp_path):
    folder, examples = str(tiny.build("t5", tmp_path / "t5")), sentences(4)
    wanted = dataclasses.replace(NATIVE, part="encoder")
    (expected,) = extract(
        folder, "mine", examples=examples, options=wanted, cache=tmp_path / "native", device="cpu"
    )
    exporter = Exporter(folder)
    exporter.model = T5EncoderModel.from_pretrained(folder).eval()
    states = vllm_folder(tmp_path / "v", [exporter.tokens(words) for words, _ in examples])
    layers = ",".join(map(str, expected.arrays["words"].layers))
    options = ImportOptions(layer_ids=layers, dtype="float32", part="encoder", last_layer="normed")
    given = {"examples": examples, "cache": tmp_path / "imported"}
    (entry,) = import_states(folder, "mine", states, options=options, **given)
    torch.testing.assert_close(all_rows(entry), all_rows(expected), rtol=1e-4, atol=1e-4)
    assert verify_rows(entry, 5).passed
    with pytest.raises(OptionError, match="--part encoder"):
        options = dataclasses.replace(options, part=None)
        import_states(folder, "mine", states, options=options, **given)
