"""Runs that start from a saved head: a frozen fusion, all of it trained further, or as it is."""

import itertools
import json
import logging
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.stats import spearmanr
from seqeval.metrics import f1_score

from probekit import plot_fewshot
from probekit.errors import MissingFileError, OptionError, RecordError
from probekit.features import Location, open_features
from probekit.results.summaries.grouping import series
from probekit.results.tables import summarise, table
from probekit.train.baselines import run_baselines
from probekit.train.saved.head import TrainedHead
from probekit.train.source import TokenLayout
from probekit.train.stream import batches
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run import fit
from probekit.train.sweeps.run_views import saved_classes
from probekit.train.sweeps.specs import product
from tests.cli.console import done
from tests.planted import DIM, MODEL, NAMES, TASK, plant_all
from tests.planted_texts import plant_all_texts
from tests.saved_heads import unsealed
from tests.train.sweeps.samples import HEAD, PLAIN, fused, save

EITHER = pytest.mark.parametrize("option", ["fusion_from", "init_from"])
STILL = {"lr": 1e-30, "epochs": 1}
"""Steps that move nothing."""


def run_of(location, **options):
    return resolve(fused(**options), open_features(MODEL, TASK, "ner", location))


def key_of(location, **options):
    return run_of(location, **options).options.key


def tensors_of(folder, prefix=""):
    state = load_file(folder / "model.safetensors")
    return {name: value for name, value in state.items() if name.startswith(prefix)}


def rewrite(folder, tensors=None, **changes):
    """Change the tensors of a saved head, or what its config.json says."""
    if tensors is not None:
        save_file(tensors, folder / "model.safetensors")
    config = unsealed(folder)
    (folder / "config.json").write_text(json.dumps(config | changes))
    return config


@pytest.mark.parametrize("head", [HEAD, "extra-layers"])
def test_a_frozen_fusion_is_bit_for_bit_what_was_saved(source, words, target, tmp_path, head):
    folder = source if head == HEAD else save(tmp_path, words, head=head)
    before = tensors_of(folder)
    frozen = fit(fused(head=head, fusion_from=str(folder), freeze_fusion=True), location=target)
    fusion = tensors_of(folder, "head.")
    assert fusion and all(torch.equal(frozen.state[name], fusion[name]) for name in fusion)
    assert not torch.equal(frozen.state["decoder.weight"], before["decoder.weight"])
    assert frozen.n_head_params == 0
    assert frozen.n_params == before["decoder.weight"].numel() + before["decoder.bias"].numel()


def test_a_fusion_that_is_not_frozen_is_trained_from_there(source, target):
    fusion = tensors_of(source, "head.")
    result, moved = (
        fit(fused(fusion_from=str(source), **steps), location=target) for steps in (STILL, {})
    )
    for name, value in fusion.items():
        torch.testing.assert_close(result.state[name], value, atol=1e-9, rtol=0)
    assert any(not torch.equal(moved.state[name], value) for name, value in fusion.items())
    # The decoder is a new one, the one that a run without a saved head draws.
    fresh = fit(fused(**STILL), location=target)
    torch.testing.assert_close(result.state["decoder.weight"], fresh.state["decoder.weight"])


@pytest.mark.parametrize("normalize", ["none", "standardize"])
def test_a_continued_run_starts_with_the_saved_models_loss(
    source, words, target, tmp_path, normalize
):
    folder = source
    if normalize != "none":
        folder = save(tmp_path, words, normalize=normalize)
    train = open_features(MODEL, TASK, "ner", target).view("train", valid_only=True)
    one_step = {**STILL, "evals": 1000, "batch_size": 10, "normalize": normalize}
    result = fit(fused(init_from=str(folder), **one_step), location=target)
    head = TrainedHead.from_pretrained(folder)
    steps = batches(train.lengths, seed=0, epochs=1, batch_size=10)
    for step, (number, loss, _) in zip(steps, result.curve, strict=True):
        places = train.places(step)
        rows = train.array.read(torch.from_numpy(train.rows[places]), head.layers)
        logits = head._probe.logits(head._treat(rows, None)[0])
        targets = torch.from_numpy(train.targets[places])
        expected = torch.nn.functional.cross_entropy(logits, targets)
        assert loss == pytest.approx(float(expected), rel=1e-5), number
    fresh = fit(fused(**one_step), location=target)
    assert fresh.curve[0][1] > 1.1 * result.curve[0][1]
    for damage in ({}, {"normalization.scale": torch.ones(4, 4)}):
        if normalize != "none":
            kept = {n: v for n, v in tensors_of(folder).items() if n != "normalization.scale"}
            rewrite(folder, kept | damage)
            with pytest.raises(RecordError, match="that this run starts from is damaged"):
                fit(fused(init_from=str(folder), **one_step), location=target)


def test_a_continued_regression_keeps_its_scale(texts, tmp_path):
    options = {"task": "glue/stsb", "head": "last", "decoder": None}
    folder = save(tmp_path, texts, **options)
    other = Location(cache=plant_all_texts(tmp_path / "b", "glue/stsb", seed=5))
    after, fresh = (
        fit(fused(**options, **STILL, **start), location=other).state
        for start in ({"init_from": str(folder)}, {})
    )
    scale = tensors_of(folder, "decoder.")
    for name in ("decoder.mean", "decoder.deviation"):
        assert torch.equal(after[name], scale[name])
        assert not torch.equal(fresh[name], scale[name])


@EITHER
def test_the_key_is_of_the_saved_heads_content_not_of_its_folder(
    saved, target, swept, tmp_path, option
):
    elsewhere = shutil.copytree(saved, tmp_path / "elsewhere")
    before, there = (key_of(target, **{option: str(folder)}) for folder in (saved, elsewhere))
    assert before == there != key_of(target)
    # another head that takes the folder is read again, by a sweep as well
    plan = [fused(**{option: str(saved)}, **STILL)]
    swept(plan, location=target, save=tmp_path / "first")
    rewrite(saved, {name: value + 1 for name, value in tensors_of(saved).items()})
    assert key_of(target, **{option: str(saved)}) != before
    swept(plan, location=target, save=tmp_path / "second")
    for name, value in tensors_of(saved, "head.").items():
        torch.testing.assert_close(tensors_of(tmp_path / "second")[name], value)
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 2


def test_the_ways_to_start_are_keys_and_rows_of_their_own(source, target, swept):
    fusion = {"fusion_from": str(source)}
    ways = (fusion, {**fusion, "freeze_fusion": True}, {"init_from": str(source)}, {})
    records = swept([fused(epochs=1, **way) for way in ways], location=target)
    assert [record.freeze for record in records] == [False, True, False, False]
    assert len({record.key for record in records}) == len(summarise(records)) == len(ways)


def test_a_start_is_the_same_over_seeds_of_either_run(source, words, target, tmp_path):
    def init(**start):
        return run_of(target, **start).init

    first = init(fusion_from=str(source))
    assert first.startswith(f"{TASK} ner ")
    assert init(fusion_from=str(source), seed=1) == first
    other = save(tmp_path, words, "other", seed=3)
    assert init(fusion_from=str(other), seed=2) == first
    longer = save(tmp_path, words, "longer", epochs=7)
    assert init(fusion_from=str(longer), seed=2) != first
    # a head that was itself continued from heads of several seeds
    twice = [
        save(tmp_path, target, f"b{seed}", seed=seed, epochs=1, init_from=str(folder))
        for seed, folder in ((0, source), (3, other))
    ]
    assert len({init(init_from=str(folder)) for folder in twice}) == 1


@EITHER
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"head": "p32"}, r"head .*attention-fusion.*, but this run has .*p32"),
        ({"layers": "2:4"}, r"layers \[0, 1, 2, 3\], but this run has \[2, 3\]"),
        ({"depth": 2}, r"layers \[0, 1, 2, 3\], but this run has \[0, 1, 2\]"),
        ({"normalize": "standardize"}, "normalization none, but this run has standardize"),
    ],
)
def test_a_head_saved_for_something_else_is_refused(source, target, option, changed, message):
    flag = "--start fusion:" if option == "fusion_from" else "--start "
    with pytest.raises(OptionError, match=rf"{flag}.*head: saved with {message}") as refusal:
        fit(fused(**{option: str(source)} | changed), location=target)
    assert "\n" not in str(refusal.value)


def test_blocks_of_another_configuration_are_refused_with_what_differs(words, tmp_path):
    folder = save(tmp_path, words, head="extra-layers", epochs=1)
    asked = fused(head="extra-layers", epochs=1, init_from=str(folder))
    head = unsealed(folder)["head"]
    head["config"] |= {"added_by_another_version": True}
    rewrite(folder, head=head)
    fit(asked, location=words)
    head["config"] |= {"hidden_act": "relu"}
    rewrite(folder, head=head)
    with pytest.raises(OptionError, match=r"configuration \{'hidden_act': 'relu'\}, .*'gelu'"):
        fit(asked, location=words)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("dim", 32, "width of the states 32, .*has 16"),
        ("n_blocks", 12, "blocks of the backbone 12, .*has 3"),
    ],
)
def test_a_head_of_a_backbone_of_another_shape_is_refused(words, tmp_path, field, value, message):
    # A real head of that shape: its tensors must load, so that the shape is what is refused.
    folder = save(tmp_path, words, head="last", epochs=1)
    tensors = tensors_of(folder)
    if field == "dim":
        tensors["decoder.weight"] = torch.zeros(len(NAMES), value)
    rewrite(folder, tensors, features=unsealed(folder)["features"] | {field: value})
    with pytest.raises(OptionError, match=message):
        fit(fused(head="last", init_from=str(folder)), location=words)


def test_other_labels_rows_or_decoders_are_refused_for_a_continued_run_only(
    source, texts, tmp_path
):
    names = (*NAMES[:3], "B-ORG", "I-ORG")
    location = Location(cache=plant_all(tmp_path / "cache", names=names))
    message = r"does not know these labels: B-ORG, I-ORG\. Take only its fusion: "
    with pytest.raises(OptionError, match=message):
        fit(fused(init_from=str(source)), location=location)
    with pytest.raises(OptionError, match=r"saved with decoder .*linear.*this run has .*mlp"):
        fit(fused(init_from=str(source), decoder="mlp"), location=location)
    fit(fused(fusion_from=str(source), decoder="mlp", epochs=1), location=location)
    options = {"task": "glue/sst2", "head": "mean", "epochs": 1}
    folder = save(tmp_path, texts, pooling="cls", **options)
    fit(fused(init_from=str(folder), pooling="cls", **options), location=texts)
    with pytest.raises(OptionError, match="saved with rows cls, but this run has mean"):
        fit(fused(init_from=str(folder), pooling="mean", **options), location=texts)


def test_a_head_of_three_classes_does_not_go_on_where_two_are_scored(tmp_path):
    location = Location(cache=plant_all_texts(tmp_path / "cache", "glue/mrpc"))
    options = {"task": "glue/mrpc", "head": "mean", "epochs": 1}
    folder = save(tmp_path, location, **options)
    rewrite(folder, labels=["0", "1", "2"])
    with pytest.raises(OptionError, match=r"has 3 labels, and glue/mrpc is scored by the F1 of"):
        fit(fused(**options, init_from=str(folder)), location=location)


def test_another_backbone_of_the_same_shape_is_warned_of(saved, target, swept, caplog):
    caplog.set_level(logging.WARNING, "probekit")
    plan = product(fused(fusion_from=str(saved), epochs=1), {"seed": [0, 1]})
    swept(plan, "before", location=target)
    assert "another backbone" not in caplog.text
    model = unsealed(saved)["model"] | {"identity": {"weights": "1" * 64}, "name": "other/model"}
    rewrite(saved, model=model)
    swept(plan, location=target)
    assert caplog.text.count(f"{saved} was trained on another backbone (other/model)") == 1


@EITHER
def test_a_head_that_is_not_there_or_damaged_is_refused(saved, target, tmp_path, option):
    with pytest.raises(MissingFileError, match=r"nothing: no saved head here"):
        fit(fused(**{option: str(tmp_path / "nothing")}), location=target)
    asked = fused(**{option: str(saved)})
    lost = tensors_of(saved, "decoder.") | tensors_of(saved, "normalization.")
    config = rewrite(
        saved, lost | {f"{part}.extra": torch.zeros(3) for part in ("head", "decoder")}
    )
    with pytest.raises(RecordError, match=r"starts from is damaged .*extra") as refusal:
        fit(asked, location=target)
    assert "\n" not in str(refusal.value)
    layers = config.pop("layers")
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(RecordError, match=r"the saved head is damaged .*'layers'"):
        fit(asked, location=target)
    weights = saved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:50])
    rewrite(saved, layers=layers)
    with pytest.raises(RecordError, match="the saved head is damaged"):
        fit(asked, location=target)


@pytest.mark.parametrize(
    ("head", "normalize", "decoder"),
    [("p32", "standardize", "crf"), ("extra-layers", "layernorm", "mlp")],
)
def test_without_shots_a_saved_head_is_scored_as_it_is(
    words, target, swept, tmp_path, head, normalize, decoder
):
    options = {"head": head, "normalize": normalize, "decoder": decoder, "epochs": 2}
    folder = save(tmp_path, words, **options)
    plan = [fused(**options, init_from=str(folder), shots=0)]
    (record,) = swept(plan, location=target, save=tmp_path / "again")
    before, after = (load_file(path / "model.safetensors") for path in (folder, tmp_path / "again"))
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    check_scores(record, folder, target)
    assert record.eval_score > 0.2 and record.eval_last == record.eval_score
    assert (record.protocol, record.shots, record.best_epoch) == ("zero-shot", 0, 0.0)
    assert not record.curve and not record.diverged and record.train_seconds == 0


def check_scores(record, folder, location):
    """Compare a record with the span F1 of a saved head, one sentence at a time."""
    head = TrainedHead.from_pretrained(folder)
    for split, score in {"dev": record.eval_score, "test": record.test_score}.items():
        view = open_features(MODEL, TASK, "ner", location).view(split)
        layout = TokenLayout(view)
        predicted, gold = [], []
        for number, (start, stop) in enumerate(itertools.pairwise(view.offsets.tolist())):
            if head.reads == "tokens":
                one = np.array([number])
                places = layout.view.rows[layout.view.places(one)]
                hidden = layout.view.array.read(torch.from_numpy(places), head.layers)[:, 0]
                z = layout.states(hidden.float()[None], one)
            else:
                z = view.array.read(torch.from_numpy(view.rows[start:stop]), head.layers)
            predicted.append(head.predict(z))
            gold.append([view.labels.names[target] for target in view.targets[start:stop]])
        assert score == pytest.approx(f1_score(gold, predicted), abs=1e-9), split


def test_a_saved_head_may_know_labels_that_the_target_has_none_of(source, swept, tmp_path):
    location = Location(cache=plant_all(tmp_path / "cache", names=NAMES[:3], seed=5))
    go_on = fused(init_from=str(source), shots=2, epochs=2)
    plan = [replace(go_on, shots=0), go_on, fused(shots=2, epochs=2)]
    as_is, further, fresh = swept(plan, location=location)
    check_scores(as_is, source, location)
    assert as_is.eval_score > 0.5
    # As many sentences are drawn as the target has entity types for, whatever the head knows.
    classes = saved_classes(go_on)
    splits = open_features(MODEL, TASK, "ner", location, classes=classes)
    assert splits.label_map.names == classes == tuple(sorted(NAMES))
    assert resolve(go_on, splits).n_sentences == 2
    assert further.n_params - fresh.n_params == 2 * (DIM + 1)
    for one, same in ((go_on, further), (plan[2], fresh)):
        assert fit(one, location=location).eval_score == same.eval_score
    held = run_baselines([go_on], out=tmp_path / "r.jsonl", location=location).heads[0]
    assert held.eval_score == further.eval_score
    # The uniform code is that of the target's three labels, not of the five that the head knows.
    uniform = held.scores["compression"] * held.scores["bits per label"]
    assert uniform == pytest.approx(math.log2(3))


def test_the_command_line_scores_a_saved_head_once_whatever_the_seeds(source, target, tmp_path):
    words = ("--start", source, "--head", HEAD, "--decoder", PLAIN, "--epochs", "1")
    outcome = done(
        "sweep", MODEL, TASK, *words, "--shots", "0,2", "--seeds", "2", "--cache", target.cache,
        "--out", tmp_path / "r.jsonl", "--json",
    )  # fmt: skip
    assert [(row["shots"], row["seed"]) for row in outcome.rows] == [(0, 0), (2, 0), (2, 1)]


def test_shots_from_none_on_are_one_curve(source, target, swept):
    start = fused(init_from=str(source), epochs=1)
    plan = product(start, {"shots": [0, 2, None], "seed": [0, 1]})
    records = swept(plan, location=target)
    rows = summarise(records)
    assert [(row.options["shots"], row.n) for row in rows] == [(0, 2), (2, 2), (None, 2)]
    assert rows[0].eval_score.low == rows[0].eval_score.high
    assert rows[1].eval_score.low < rows[1].eval_score.high
    assert [line.split()[1] for line in table(rows).splitlines()[2:5]] == ["0", "2", "all"]
    assert len(series(records, given=["shots"])) == 1
    assert len(plot_fewshot(records).axes[0].lines[0].get_xdata()) == 2
    assert swept(plan, location=target) == records


def test_a_regression_is_scored_as_it_is_on_no_fraction(texts, tmp_path):
    options = {"task": "glue/stsb", "head": "mean", "decoder": None, "epochs": 3}
    folder = save(tmp_path, texts, **options)
    other = Location(cache=plant_all_texts(tmp_path / "b", "glue/stsb", seed=5))
    result = fit(fused(**options, init_from=str(folder), fraction=0.0), location=other)
    head = TrainedHead.from_pretrained(folder)
    view = open_features(MODEL, "glue/stsb", None, other).view("dev")
    values = head.predict(view.array.read(torch.from_numpy(view.rows), head.layers))
    expected = spearmanr(values, view.targets).statistic
    assert result.eval_score == pytest.approx(expected, abs=1e-6)
    with pytest.raises(OptionError, match="--shots 0 draws sentences per class"):
        fit(fused(**options, init_from=str(folder), shots=0), location=other)
