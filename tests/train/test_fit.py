import math
import os

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from probekit.base.layers import parse_layers
from probekit.features import Location, open_features
from probekit.metrics import METRICS
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.probe.heads.contract import BackboneFacts
from probekit.train import steps as taken_steps
from probekit.train.fit import Interrupted, fit_group
from tests.planted import CONFIG, DIM, MODEL, TASK, plant_all
from tests.train.grouped import member_spec, stream_spec

ACCURACY = METRICS["accuracy"]


def splits_in(root, **options):
    return open_features(MODEL, TASK, "ner", Location(cache=plant_all(root, **options)))


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return splits_in(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def final_normed(tmp_path_factory):
    return splits_in(tmp_path_factory.mktemp("normed"), final_norm=True)


def member(head="last", layers=None, **options):
    spec = HEADS[head]().bind(BackboneFacts(n_blocks=3, dim=DIM, config=CONFIG))
    chosen = layers or parse_layers(spec.default_layers, 3)
    defaults = {"head": spec, "decoder": DECODERS["linear"](), "layers": chosen, "lr": 2e-2}
    return member_spec(**defaults | options)


def stream(splits, *members, **options):
    defaults = {"train": splits.view("train", valid_only=True), "seed": 0, "epochs": 20}
    return stream_spec(**defaults | options, members=members)


def fit(splits, *streams, metric=ACCURACY, **options):
    others = {"test": splits.view("test")}
    return fit_group(streams, splits.view("dev"), others, metric=metric, **options)


@pytest.mark.parametrize("head", HEADS)
def test_a_planted_signal_is_found(splits, head):
    (result,) = fit(splits, stream(splits, member(head)))[0]
    assert result.eval_score > 0.9
    assert result.test_score > 0.9


def test_shuffled_labels_are_at_chance(tmp_path):
    shuffled = splits_in(tmp_path, shuffled=True)
    results = fit(shuffled, stream(shuffled, *map(member, HEADS)))[0]
    # Five classes; dev and test have about 220 words, so a deviation of 0.027 at chance.
    assert max(result.test_score for result in results) < 0.2 + 5 * 0.027


def test_weights_find_the_layers_with_the_signal(splits):
    (result,) = fit(splits, stream(splits, member("p32", layers=(0, 1, 2, 3))))[0]
    assert sum(result.weights.values()) == pytest.approx(1, abs=1e-5)
    assert result.weights[2] + result.weights[3] > 0.7  # 0.5 without learning
    raw = torch.tensor(list(result.raw_weights.values()))
    expected = torch.tensor(list(result.weights.values()))
    torch.testing.assert_close(raw.softmax(0), expected)


def test_a_linear_probe_equals_scikit_learn(tmp_path):
    noisy = splits_in(tmp_path, noise=0.8, sentences=400)
    probe = member("last", lr=1e-2, decoder=DECODERS["linear"](dropout=0.0), weight_decay=0.0)
    (result,) = fit(noisy, stream(noisy, probe, epochs=40))[0]
    rows = {split: noisy.view(split) for split in ("train", "test")}
    x = {
        name: view.array.read(torch.from_numpy(view.rows), [3])[:, 0].numpy()
        for name, view in rows.items()
    }
    judge = LogisticRegression(C=1e6, max_iter=2000).fit(x["train"], rows["train"].targets)
    expected = judge.score(x["test"], rows["test"].targets)
    assert 0.5 < expected < 0.95  # neither chance nor perfect, so that equality says something
    assert result.test_score == pytest.approx(expected, abs=0.01)


def same(one, other):
    assert one.state.keys() == other.state.keys()
    for name, value in one.state.items():
        assert torch.equal(value, other.state[name]), name
    assert one.curve == other.curve
    assert (one.eval_score, one.test_score) == (other.eval_score, other.test_score)
    assert one.weights == other.weights


NORMALIZE = ("none", "layernorm", "standardize", "final-norm")


def test_a_member_is_the_same_alone_and_in_a_group(final_normed):
    members = [member(name, normalize=kind) for name in HEADS for kind in NORMALIZE]
    others = stream(final_normed, member("mean"), member("dwatt"), seed=1, epochs=3)
    group = fit(final_normed, stream(final_normed, *members, epochs=3), others)[0]
    for together, spec in zip(group, members, strict=True):
        (alone,) = fit(final_normed, stream(final_normed, spec, epochs=3))[0]
        same(alone, together)


def test_streaming_from_disk_takes_the_same_steps(splits):
    members = [member(head, normalize="standardize") for head in ("last", "dwatt")]
    much = fit(splits, stream(splits, *members, epochs=2), memory=10**9)[0]
    little = fit(splits, stream(splits, *members, epochs=2), memory=0)[0]
    for one, other in zip(much, little, strict=True):
        same(one, other)


def test_the_best_checkpoint_counts(splits):
    # A learning rate that destroys what was learnt makes the best differ from the last.
    (result,) = fit(splits, stream(splits, member(lr=3.0), epochs=10))[0]
    scores = [score for _, _, score in result.curve]
    best = scores.index(max(scores))
    assert result.eval_score == max(scores) == result.scores["dev/accuracy"]
    assert result.eval_last == scores[-1]
    assert result.best_step == result.curve[best][0]
    assert result.best_epoch == result.best_step / 4  # 60 sentences in batches of 16


def test_evaluations_are_evenly_spaced_and_end_with_the_last_step(splits):
    (result,) = fit(splits, stream(splits, member(), epochs=5, evals=4))[0]
    assert [step for step, _, _ in result.curve] == [5, 10, 15, 20]


@pytest.mark.parametrize(
    ("examples", "epochs", "evals", "expected"),
    [
        (10, 10, 10, tuple(range(10, 101, 10))),
        (7, 1, 2, (4, 7)),
        (3, 1, 10, (1, 2, 3)),
        (5, 1, 1, (5,)),
        (0, 1, 10, (0,)),
    ],
)
def test_evaluation_points_end_with_the_last_step(splits, examples, epochs, evals, expected):
    train = splits.view("train", valid_only=True).take(np.arange(examples))
    spec = stream(splits, member(), train=train, batch_size=1, epochs=epochs, evals=evals)
    assert spec.points == expected


def test_the_learning_rate_falls_to_zero_linearly(splits, monkeypatch):
    rates = []
    real = taken_steps.adam

    def spy(*args, **options):
        rates.append(options["lr"])
        real(*args, **options)

    monkeypatch.setattr(taken_steps, "adam", spy)
    fit(splits, stream(splits, member("p32", lr=1.0, rates=(("mixing", 0.1),)), epochs=1))
    rates = np.sort(np.reshape(rates, (-1, 2)))  # of both groups, in any order
    np.testing.assert_allclose(rates, [[0.1, 1], [0.075, 0.75], [0.05, 0.5], [0.025, 0.25]])


def test_seeds_give_other_results_and_repeat_theirs(splits):
    first, second, again = (
        fit(splits, stream(splits, member("concat"), seed=seed, epochs=1))[0][0]
        for seed in (0, 1, 0)
    )
    same(first, again)
    assert not torch.equal(first.state["head.weight"], second.state["head.weight"])


def test_the_global_generator_is_left_alone(splits):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit(splits, stream(splits, *map(member, HEADS), epochs=1))
    assert torch.equal(torch.rand(3), expected)


def test_without_test_there_is_no_test_score(splits):
    streams = [stream(splits, member(), epochs=1)]
    (result,) = fit_group(streams, splits.view("dev"), metric=ACCURACY, predictions=True)[0]
    assert result.test_score is None
    assert list(result.predictions) == ["dev"]
    view = splits.view("dev")
    assert (result.predictions["dev"] == view.targets).mean() == result.eval_score


@pytest.mark.parametrize("head", HEADS)
def test_a_run_that_diverges_stops_and_says_so_once(splits, caplog, head):
    (result,) = fit(splits, stream(splits, member(head, lr=1e38), epochs=2))[0]
    assert result.diverged
    assert caplog.text.count(f"{head} at --lr 1e+38: the loss or a trained value is no longer") == 1
    assert all(np.isfinite(point).all() for point in result.curve)
    assert all(np.isfinite(list(result.weights.values())))
    assert all(np.isfinite(list((result.raw_weights or {}).values())))


@pytest.mark.parametrize("head", ["p32", "last"])
def test_a_run_that_diverges_leaves_the_others_alone(splits, head):
    together = fit(splits, stream(splits, member(head, lr=1e38), member(head), epochs=2))[0]
    (alone,) = fit(splits, stream(splits, member(head), epochs=2))[0]
    assert [result.diverged for result in together] == [True, False]
    assert together[1].curve == alone.curve
    assert together[1].weights == alone.weights


@pytest.mark.parametrize("head", ["p32", "last"])
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


def test_training_keeps_few_kernels_in_memory(splits, monkeypatch):
    setting = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    monkeypatch.setenv(setting, "")  # so that it is put back
    monkeypatch.delenv(setting)
    fit(splits, stream(splits, member(), epochs=1))
    assert int(os.environ[setting]) < 1024


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
