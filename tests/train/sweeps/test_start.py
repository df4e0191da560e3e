"""Runs that start from a saved head: a frozen fusion, or everything, trained further."""

import json
import logging
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from probekit.errors import MissingFileError, OptionError, RecordError
from probekit.features import Location, open_features
from probekit.results.tables import summarise
from probekit.train.saved.head import TrainedHead
from probekit.train.stream import batches
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run import fit, sweep
from probekit.train.sweeps.specs import product
from tests.planted import MODEL, NAMES, TASK, plant_all
from tests.planted_texts import plant_all_texts
from tests.saved_heads import unsealed
from tests.train.sweeps.starts import HEAD, save, spec


def key_of(location, **options):
    splits = open_features(MODEL, TASK, "ner", location)
    return resolve(spec(**options), splits).options.key


def parts(state, prefix):
    return {name: value for name, value in state.items() if name.startswith(prefix)}


@pytest.mark.parametrize("head", ["attention-fusion", "p32", "dwatt", "concat", "extra-layers"])
def test_a_frozen_fusion_is_bit_for_bit_what_was_saved(source, location, tmp_path, head):
    folder = source[0]
    if head != HEAD:
        folder = save(tmp_path, Location(cache=folder.parent / "cache"), head=head)
    before = load_file(folder / "model.safetensors")
    frozen = fit(
        spec(head=head, fusion_from=str(folder), freeze_fusion=True),
        location=location,
    )
    assert parts(before, "head.")
    for name, value in parts(before, "head.").items():
        assert torch.equal(frozen.state[name], value), name
    assert not torch.equal(frozen.state["decoder.weight"], before["decoder.weight"])
    assert frozen.n_head_params == 0
    assert frozen.n_params == before["decoder.weight"].numel() + before["decoder.bias"].numel()


def test_a_fusion_that_is_not_frozen_is_trained_from_there(saved, location):
    before = load_file(saved / "model.safetensors")
    little = spec(fusion_from=str(saved), lr=1e-12, epochs=1)
    result = fit(little, location=location)
    for name, value in parts(before, "head.").items():
        torch.testing.assert_close(result.state[name], value, atol=1e-9, rtol=0)
    # The decoder is a new one, the one that a run without a saved head draws.
    fresh = fit(spec(lr=1e-12, epochs=1), location=location)
    torch.testing.assert_close(result.state["decoder.weight"], fresh.state["decoder.weight"])
    moved = fit(spec(fusion_from=str(saved)), location=location)
    names = list(parts(before, "head."))
    assert any(not torch.equal(moved.state[name], before[name]) for name in names)


@pytest.mark.parametrize("normalize", ["none", "layernorm", "standardize"])
def test_a_continued_run_starts_with_the_saved_models_loss(source, location, tmp_path, normalize):
    saved = source[0]
    if normalize != "none":
        saved = save(tmp_path, Location(cache=saved.parent / "cache"), normalize=normalize)
    splits = open_features(MODEL, TASK, "ner", location)
    train = splits.view("train", valid_only=True)
    one_step = {"epochs": 1, "evals": 10**6, "lr": 1e-30, "batch_size": 5, "normalize": normalize}
    result = fit(spec(init_from=str(saved), **one_step), location=location)
    head = TrainedHead.from_pretrained(saved)
    steps = batches(train.lengths, seed=0, epochs=1, batch_size=5)
    for step, (number, loss, _) in zip(steps, result.curve, strict=True):
        places = train.places(step)
        rows = train.array.read(torch.from_numpy(train.rows[places]), head.layers)
        logits = head._probe.logits(head._treat(rows))
        targets = torch.from_numpy(train.targets[places])
        expected = torch.nn.functional.cross_entropy(logits, targets)
        assert loss == pytest.approx(float(expected), rel=1e-5), number
    fresh = fit(spec(**one_step), location=location)
    assert fresh.curve[0][1] > 1.1 * result.curve[0][1]


def test_a_continued_regression_keeps_its_scale(tmp_path):
    plant_all_texts(tmp_path / "a", "glue/stsb")
    plant_all_texts(tmp_path / "b", "glue/stsb", seed=5)
    options = {"task": "glue/stsb", "label": None, "head": "last", "decoder": None}
    folder = save(tmp_path, Location(cache=tmp_path / "a"), **options)
    before = load_file(folder / "model.safetensors")
    small = options | {"lr": 1e-30, "epochs": 1}
    location = Location(cache=tmp_path / "b")
    after = fit(spec(init_from=str(folder), **small), location=location)
    assert torch.equal(after.state["decoder.mean"], before["decoder.mean"])
    assert torch.equal(after.state["decoder.deviation"], before["decoder.deviation"])
    fresh = fit(spec(**small), location=location)
    assert not torch.equal(fresh.state["decoder.mean"], before["decoder.mean"])


@pytest.mark.parametrize("option", ["fusion_from", "init_from"])
def test_the_key_is_of_the_saved_heads_content_not_of_its_folder(saved, location, tmp_path, option):
    elsewhere = shutil.copytree(saved, tmp_path / "elsewhere")
    here, there = (key_of(location, **{option: str(folder)}) for folder in (saved, elsewhere))
    assert here == there != key_of(location)
    tensors = load_file(elsewhere / "model.safetensors")
    save_file({name: value + 1 for name, value in tensors.items()}, elsewhere / "model.safetensors")
    unsealed(elsewhere)
    assert key_of(location, **{option: str(elsewhere)}) != here


def test_the_ways_to_start_have_keys_of_their_own(saved, location):
    keys = {
        key_of(location),
        key_of(location, fusion_from=str(saved)),
        key_of(location, fusion_from=str(saved), freeze_fusion=True),
        key_of(location, init_from=str(saved)),
    }
    assert len(keys) == 4


@pytest.mark.parametrize("option", ["fusion_from", "init_from"])
def test_a_head_that_was_replaced_in_its_folder_is_read_again(saved, location, tmp_path, option):
    plan = [spec(**{option: str(saved)}, lr=1e-30, epochs=1)]
    out = tmp_path / "r.jsonl"
    sweep(plan, out=out, location=location, save=tmp_path / "first")
    tensors = load_file(saved / "model.safetensors")
    changed = {name: value + 1 for name, value in tensors.items()}
    save_file(changed, saved / "model.safetensors")
    unsealed(saved)
    sweep(plan, out=out, location=location, save=tmp_path / "second")
    found = load_file(tmp_path / "second" / "model.safetensors")
    for name, value in parts(changed, "head.").items():
        torch.testing.assert_close(found[name], value)
    assert len(out.read_text().splitlines()) == 2


def test_a_start_is_the_same_over_seeds_of_either_run(source, location, tmp_path):
    plan = product(spec(fusion_from=str(source[0])), {"seed": [0, 1]})
    records = sweep(plan, out=tmp_path / "r.jsonl", location=location)
    assert len({record.init for record in records}) == 1
    assert records[0].init.startswith(f"{TASK} ner ")
    other = save(tmp_path, Location(cache=source[0].parent / "cache"), "other", seed=3)
    third = sweep(
        [spec(fusion_from=str(other), seed=2)], out=tmp_path / "r.jsonl", location=location
    )
    assert third[0].init == records[0].init
    longer = save(tmp_path, Location(cache=source[0].parent / "cache"), "longer", epochs=7)
    fourth = sweep(
        [spec(fusion_from=str(longer), seed=2)], out=tmp_path / "r.jsonl", location=location
    )
    assert fourth[0].init != records[0].init
    assert not records[0].freeze


def test_the_ways_to_start_are_rows_of_their_own(saved, location, tmp_path):
    ways = ({"fusion_from": str(saved)}, {"fusion_from": str(saved), "freeze_fusion": True})
    plan = [spec(**way) for way in (*ways, {"init_from": str(saved)}, {})]
    records = sweep(plan, out=tmp_path / "r.jsonl", location=location)
    assert len(summarise(records)) == len(plan)


def test_a_second_transfer_is_the_same_over_seeds_too(source, location, tmp_path):
    """A head that was itself continued from heads of several seeds."""
    names = []
    for seed in (0, 1):
        first = save(tmp_path, Location(cache=source[0].parent / "cache"), f"a{seed}", seed=seed)
        second = save(tmp_path, location, f"b{seed}", seed=seed, init_from=str(first))
        (record,) = sweep(
            [spec(seed=seed, init_from=str(second))], out=tmp_path / "r.jsonl", location=location
        )
        names.append(record.init)
    assert names[0] == names[1]


REFUSED = [
    ({"head": "p32"}, r"head .*attention-fusion.*, but this run has .*p32"),
    ({"layers": "2:4"}, r"layers \[0, 1, 2, 3\], but this run has \[2, 3\]"),
    ({"depth": 2}, r"layers \[0, 1, 2, 3\], but this run has \[0, 1, 2\]"),
    ({"normalize": "standardize"}, "normalization none, but this run has standardize"),
]


@pytest.mark.parametrize("option", ["fusion_from", "init_from"])
@pytest.mark.parametrize(("changed", "message"), REFUSED)
def test_a_head_saved_for_something_else_is_refused(saved, location, option, changed, message):
    asked = spec(**{option: str(saved)} | changed)
    flag = "--start fusion:" if option == "fusion_from" else "--start "
    with pytest.raises(OptionError, match=rf"{flag}.*saved: saved with {message}") as refusal:
        fit(asked, location=location)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("option", ["fusion_from", "init_from"])
def test_blocks_of_another_configuration_are_refused_with_what_differs(source, tmp_path, option):
    location = Location(cache=source[0].parent / "cache")
    folder = save(tmp_path, location, head="extra-layers", epochs=1)
    asked = spec(head="extra-layers", epochs=1, **{option: str(folder)})
    config = unsealed(folder)
    config["head"]["config"] |= {"added_by_another_version": True}
    (folder / "config.json").write_text(json.dumps(config))
    fit(asked, location=location)
    config["head"]["config"] |= {"hidden_act": "relu"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(OptionError, match=r"configuration \{'hidden_act': 'relu'\}, .*'gelu'"):
        fit(asked, location=location)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("dim", 32, "width of the states 32, .*has 16"),
        ("n_blocks", 12, "blocks of the backbone 12, .*has 3"),
    ],
)
@pytest.mark.parametrize("option", ["fusion_from", "init_from"])
def test_a_head_of_a_backbone_of_another_shape_is_refused(tmp_path, option, field, value, message):
    # A real head of that shape: its tensors must load, so that the shape is what is refused.
    location = Location(cache=plant_all(tmp_path / "cache"))
    folder = save(tmp_path, location, head="last")
    config = unsealed(folder)
    config["features"][field] = value
    if field == "dim":
        tensors = load_file(folder / "model.safetensors")
        tensors["decoder.weight"] = torch.zeros(len(NAMES), value)
        save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(OptionError, match=message):
        fit(spec(head="last", **{option: str(folder)}), location=location)


def test_other_labels_or_another_decoder_are_refused_for_a_continued_run_only(saved, tmp_path):
    names = (*NAMES[:3], "B-ORG", "I-ORG")
    location = Location(cache=plant_all(tmp_path / "cache", names=names))
    with pytest.raises(
        OptionError,
        match=r"does not know these labels: B-ORG, I-ORG\. Take only its fusion: ",
    ):
        fit(spec(init_from=str(saved)), location=location)
    fit(spec(fusion_from=str(saved), epochs=1), location=location)
    with pytest.raises(OptionError, match=r"saved with decoder .*linear.*this run has .*mlp"):
        fit(spec(init_from=str(saved), decoder="mlp"), location=location)
    fit(spec(fusion_from=str(saved), decoder="mlp", epochs=1), location=location)


def test_a_head_of_three_classes_does_not_go_on_where_two_are_scored(tmp_path):
    location = Location(cache=plant_all_texts(tmp_path / "cache", "glue/mrpc"))
    options = {"task": "glue/mrpc", "label": None, "head": "mean", "epochs": 1}
    folder = save(tmp_path, location, **options)
    config = unsealed(folder)
    (folder / "config.json").write_text(json.dumps(config | {"labels": ["0", "1", "2"]}))
    with pytest.raises(OptionError, match=r"knows 3 labels, and glue/mrpc is scored by the F1 of"):
        fit(spec(**options, init_from=str(folder)), location=location)


def test_another_backbone_of_the_same_shape_is_warned_of(saved, location, caplog, tmp_path):
    with caplog.at_level(logging.WARNING, "probekit"):
        fit(spec(fusion_from=str(saved), epochs=1), location=location)
    assert "another backbone" not in caplog.text
    config = unsealed(saved)
    config["model"] |= {"identity": {"weights": "1" * 64}, "name": "other/model"}
    (saved / "config.json").write_text(json.dumps(config))
    with caplog.at_level(logging.WARNING, "probekit"):
        sweep(
            product(spec(fusion_from=str(saved), epochs=1), {"seed": [0, 1]}),
            out=tmp_path / "r.jsonl",
            location=location,
        )
    warning = f"{saved} was trained on another backbone (other/model)"
    assert caplog.text.count(warning) == 1


def test_combinations_that_mean_nothing_are_refused():
    with pytest.raises(OptionError, match="freeze_fusion needs a fusion to freeze"):
        spec(freeze_fusion=True)
    with pytest.raises(OptionError, match="freeze_fusion needs a fusion to freeze"):
        spec(freeze_fusion=True, init_from="x")
    with pytest.raises(OptionError, match="fusion_from and init_from were both given"):
        spec(fusion_from="x", init_from="x")


def test_a_folder_without_a_saved_head_is_named(location, tmp_path):
    for option in ("fusion_from", "init_from"):
        with pytest.raises(MissingFileError, match=r"nothing: no saved head here"):
            fit(spec(**{option: str(tmp_path / "nothing")}), location=location)


@pytest.mark.parametrize("option", ["fusion_from", "init_from"])
def test_damaged_files_are_refused(saved, location, option):
    asked = spec(**{option: str(saved)})
    tensors = load_file(saved / "model.safetensors")
    lost = {name: value for name, value in tensors.items() if not name.startswith("head.")}
    wrong = {f"{part}.extra": torch.zeros(3) for part in ("head", "decoder")}
    save_file(lost | wrong, saved / "model.safetensors")
    unsealed(saved)
    with pytest.raises(RecordError, match=r"starts from is damaged .*extra") as refusal:
        fit(asked, location=location)
    assert "\n" not in str(refusal.value)
    config = unsealed(saved)
    del config["layers"]
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(RecordError, match=r"the saved head is damaged .*'layers'"):
        fit(asked, location=location)
    whole = (saved / "model.safetensors").read_bytes()
    (saved / "model.safetensors").write_bytes(whole[:50])
    (saved / "config.json").write_text(json.dumps(config | {"layers": [0, 1, 2, 3]}))
    with pytest.raises(RecordError, match="the saved head is damaged"):
        fit(asked, location=location)
