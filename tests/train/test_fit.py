"""Groups of probes trained by steps: what they find, and what notebooks show of them."""

import math
import os

import numpy as np
import pytest
import torch

import probekit
from probekit.features import Location, open_features
from probekit.probe.heads import HEADS
from probekit.results import Records
from probekit.store.entry import Entries
from probekit.train import steps as taken_steps
from probekit.train.fit import Interrupted
from tests.base.test_shown import OURS, Read
from tests.planted import LAYERS, MODEL, TASK, plant_all
from tests.train import grouped
from tests.train.grouped import same, splits_in

DAMAGES = ["p32", "last"]
"""A head that steps by itself, and one that steps with other linear probes."""


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return splits_in(tmp_path_factory.mktemp("cache"))


def member(head="last", **options):
    return grouped.member(head, **{"lr": 2e-2} | options)


def stream(splits, *members, **options):
    return grouped.stream(splits, *members, **{"epochs": 20} | options)


def fit(splits, *streams, **options):
    return grouped.fit(splits, *streams, others={"test": splits.view("test")}, **options)


def test_every_head_finds_a_planted_signal(splits):
    results = fit(splits, stream(splits, *map(member, HEADS), evals=1))[0]
    scores = {h: (one.eval_score, one.test_score) for h, one in zip(HEADS, results, strict=True)}
    assert min(map(min, scores.values())) > 0.9, scores


def test_shuffled_labels_are_at_chance(tmp_path):
    shuffled = splits_in(tmp_path, shuffled=True)
    results = fit(shuffled, stream(shuffled, *map(member, HEADS), epochs=4, evals=1))[0]
    # Five classes; dev and test have about 220 words, so a deviation of 0.027 at chance.
    assert max(result.test_score for result in results) < 0.2 + 5 * 0.027


def test_a_member_is_the_same_alone_and_in_a_group(tmp_path):
    splits = splits_in(tmp_path, final_norm=True)
    ways = ("none", "layernorm", "standardize", "final-norm")
    heads = ("last", "p32", "dwatt", "concat", "depth-lstm", "extra-layers")
    members = [member(name, normalize=ways[n % 4]) for n, name in enumerate(heads)]
    others = stream(splits, member("mean"), member("dwatt"), seed=1, epochs=1)
    group = fit(splits, stream(splits, *members, epochs=1, evals=2), others)[0]
    for together, spec in zip(group, members, strict=True):
        (alone,) = fit(splits, stream(splits, spec, epochs=1, evals=2))[0]
        same(alone, together)


def test_the_best_checkpoint_counts(splits):
    # A learning rate that destroys what was learnt makes the best differ from the last.
    (result,) = fit(splits, stream(splits, member(lr=3.0), epochs=10))[0]
    scores = [score for _, _, score in result.curve]
    best = scores.index(max(scores))
    assert result.eval_score == max(scores) == result.scores["dev/accuracy"]
    assert result.eval_last == scores[-1]
    assert result.best_step == result.curve[best][0]
    assert result.best_epoch == result.best_step / 4  # 60 sentences in batches of 16


@pytest.mark.parametrize(
    ("examples", "epochs", "evals", "expected"),
    [
        (10, 10, 10, tuple(range(10, 101, 10))), (7, 1, 2, (4, 7)), (3, 1, 10, (1, 2, 3)),
        (5, 1, 1, (5,)), (0, 1, 10, (0,)),
    ],
)  # fmt: skip
def test_evaluations_are_evenly_spaced_and_end_with_the_last_step(
    splits, examples, epochs, evals, expected
):
    train = splits.view("train", valid_only=True).take(np.arange(examples))
    spec = stream(splits, member(), train=train, batch_size=1, epochs=epochs, evals=evals)
    assert spec.points == expected


def test_seeds_give_other_results_and_repeat_theirs_whatever_was_drawn_before(splits, monkeypatch):
    setting = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    monkeypatch.setenv(setting, "")  # so that it is put back
    monkeypatch.delenv(setting)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, other, again = (
        fit(splits, stream(splits, *map(member, HEADS), seed=seed, epochs=1))[0]
        for seed in (0, 1, 0)
    )
    assert torch.equal(torch.rand(3), expected), "the global generator is left alone"
    assert int(os.environ[setting]) < 1024, "few kernels stay in memory"
    for first, second, repeated in zip(one, other, again, strict=True):
        same(first, repeated)
        assert not all(torch.equal(first.state[name], second.state[name]) for name in first.state)


def test_runs_that_diverge_stop_say_so_once_and_leave_the_others_alone(splits, caplog):
    bad = [member(head, lr=1e38) for head in HEADS]
    sound = [member(head) for head in DAMAGES]
    results = fit(splits, stream(splits, *bad, *sound, epochs=2))[0]
    assert [result.diverged for result in results] == [True] * len(bad) + [False] * len(sound)
    for head, result in zip(HEADS, results, strict=False):
        said = f"{head} at --lr 1e+38: the loss or a trained value is no longer"
        assert caplog.text.count(f" {said}") + caplog.text.count(f"\n{said}") == 1
        assert all(np.isfinite(point).all() for point in result.curve)
        assert all(np.isfinite(list(result.weights.values())))
        assert all(np.isfinite(list((result.raw_weights or {}).values())))
    for spec, result in zip(sound, results[len(bad) :], strict=True):
        same(fit(splits, stream(splits, spec, epochs=2))[0][0], result)


@pytest.mark.parametrize("head", DAMAGES)
def test_the_best_checkpoint_is_from_before_the_divergence(splits, monkeypatch, head):
    steps = 0

    def stepping(values, gradients, *args, **options):
        nonlocal steps
        steps += 1
        for gradient in gradients if steps > 6 else ():
            gradient *= math.inf
        real(values, gradients, *args, **options)

    real = taken_steps.adam
    monkeypatch.setattr(taken_steps, "adam", stepping)
    (result,) = fit(splits, stream(splits, member(head), epochs=4))[0]
    assert result.diverged
    assert result.best_step <= 6 < result.curve[-1][0]
    assert all(torch.isfinite(values).all() for values in result.state.values())
    assert sum(result.weights.values()) == pytest.approx(1)


def test_which_head_was_scored_last_is_reported(splits):
    news = []
    streams = [stream(splits, member(), seed=seed, epochs=2, evals=2) for seed in (0, 7)]
    (two,) = fit(splits, *streams, report=news.append)[1]
    said = [text for text in news if isinstance(text, str)]
    assert [text.split(":")[0] for text in said] == ["last seed 0", "last seed 7"] * 2
    assert said[-1] == f"last seed 7: {100 * two.eval_last:.1f} (dev)"
    steps = sum(count for count in news if isinstance(count, int))
    assert steps == 2 * 2 * streams[0].steps_per_epoch


def test_an_interrupt_before_anything_is_finished_has_no_results(splits):
    def interrupt(news):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        fit(splits, stream(splits, member()), report=interrupt)
    assert not isinstance(caught.value, Interrupted)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return plant_all(tmp_path_factory.mktemp("<b>cache"), sentences=20)


def cells(value):
    html = value._repr_html_()
    read = Read(html)
    assert read.tags <= OURS and not read.open and "<b>" not in html
    return read.cells


def test_features_and_entries_say_what_there_is(root):
    features = open_features(MODEL, TASK, "ner", Location(cache=root))
    found = cells(features)
    assert found[0] == "planted on conll" and "ner (tagging), scored by span-f1" in found
    assert f"{features.n_rows('dev'):,}" in found and str(features.entries["dev"].path) in found
    other = cells(open_features(MODEL, TASK, "ner", Location(cache=root), control=3, fit_on="dev"))
    assert "random labels by word type, seed 3" in other and "is the split dev" in other
    entry = features.entries["train"]
    found = cells(entry)
    assert found[0] == "planted, conll train" and "the whole split: 20 examples" in found
    assert f"{len(LAYERS)} (0 to 3)" in found and "1 (3)" in found
    listed = cells(Entries(features.entries.values()))
    assert [str(one.path) in listed for one in features.entries.values()] == [True] * 3


def test_the_outcome_of_a_run_says_scores_options_and_layers(root):
    spec = probekit.TrainSpec(model=MODEL, task=TASK, head="p32", fit="lbfgs", l2=0.1)
    result = probekit.fit(spec, location=Location(cache=root))
    found = cells(result)
    assert found[0] == "p32, fitted"
    for name in ("dev/span-f1", "test/loss"):
        assert f"{result.scores[name]:.4f}" in found
    assert [f"{result.weights[layer]:.3f}" in found for layer in result.layers] == [True] * 3


def test_a_sweep_returns_records_that_show_themselves(root, tmp_path):
    plan = [
        probekit.TrainSpec(model=MODEL, task=TASK, head=head, fit="lbfgs", select="cv:5")
        for head in ("last", "mean")
    ]
    out = tmp_path / "runs.jsonl"
    records = probekit.sweep(plan, out=out, location=Location(cache=root))
    assert isinstance(records, Records) and set(records.origins.values()) == {out}
    assert {"last", "mean"} <= set(cells(records)) and len(records.to_pandas()) == 2
