"""Fits to the optimum, from rows in a cache to scores: against scikit-learn, folds, bad input."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.preprocessing import StandardScaler

from probekit import ExtractOptions, Location, TrainSpec, extract, open_features, product, sweep
from probekit.base.selection import Selection
from probekit.errors import OptionError
from probekit.metrics import METRICS
from probekit.probe.fitters import FITTERS
from probekit.train.fit import Interrupted, fit_group
from probekit.train.sampling import make_parts
from probekit.train.scoring import gold_of
from probekit.train.solving import mixture_fit, strength_path
from probekit.train.solving.path_fit import LinearFit
from probekit.train.solving.solved_stream import SOLVER_STEPS
from tests.tasks.real_files import DATA
from tests.train import grouped
from tests.train.grouped import splits_in, stream


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return splits_in(tmp_path_factory.mktemp("cache"), sentences=80, noise=0.6)


def spec(head="last", layers=(3,), decoder="linear", select="dev", **options):
    chosen = None if select is None else Selection.parse(select)
    return grouped.member(head, decoder, layers, **{"fitter": "lbfgs", "select": chosen} | options)


def fit(splits, *members, train=None, dev=None, metric="accuracy", **options):
    view = splits.view("train", valid_only=True) if train is None else train
    dev = splits.view("dev") if dev is None else dev
    options = {"others": {"test": splits.view("test")}, "metric": METRICS[metric]} | options
    return fit_group([stream(splits, *members, train=view)], dev, **options)[0]


def few(splits, count=32):
    return splits.view("train", valid_only=True).take(np.arange(count))


def arrays(splits, split, layer):
    view = splits.view(split, valid_only=split == "train")
    rows = view.array.read(torch.from_numpy(view.rows), (layer,))[:, 0]
    return rows.double().numpy(), view.targets


def judges(splits, layer, strengths):
    """Return scikit-learn's dev accuracy at every strength."""
    x, y = arrays(splits, "train", layer)
    dev, gold = arrays(splits, "dev", layer)
    scaler = StandardScaler().fit(x)
    found = []
    for l2 in strengths:
        model = LogisticRegression(C=1 / (len(x) * l2), tol=1e-8, max_iter=20_000)
        found.append(model.fit(scaler.transform(x), y).score(scaler.transform(dev), gold))
    return found, len(gold)


def test_every_depth_and_strength_as_scikit_learn(splits):
    results = fit(splits, *(spec(layers=(layer,)) for layer in (0, 3)))
    for layer, result in zip((0, 3), results, strict=True):
        diagnosis = result.diagnosis
        expected, n_rows = judges(splits, layer, diagnosis["strengths"][1::2])
        found = diagnosis["strength_scores"][1::2]
        np.testing.assert_allclose(found, expected, atol=1.5 / n_rows)
        assert diagnosis["converged"] and diagnosis["gradient"] <= diagnosis["tolerance"]
        best = diagnosis["strengths"][int(np.argmax(diagnosis["strength_scores"]))]
        assert diagnosis["strength"] == best
        assert result.eval_score == pytest.approx(max(diagnosis["strength_scores"]), abs=1e-9)
        assert result.eval_last == result.eval_score
    assert results[1].eval_score > results[0].eval_score + 0.2


@pytest.mark.parametrize(
    ("head", "decoder", "layers", "l2", "select"),
    [
        ("last", "linear", (3,), None, "cv:2"),
        ("mean", "crf", (2, 3), 0.01, "cv:2"),
        ("p32", "linear", (2, 3), 0.01, "dev"),
        ("attention-fusion", "linear", (2, 3), 0.01, "dev"),
    ],
)
def test_rows_on_the_disk_give_what_rows_in_memory_give(splits, head, decoder, layers, l2, select):
    one = spec(head, layers, decoder, select=select, l2=l2)
    train = few(splits, 8)
    (held,), (streamed,) = (fit(splits, one, train=train, memory=n) for n in (None, 0))
    assert streamed.diagnosis["strength"] == held.diagnosis["strength"]
    assert streamed.eval_score == pytest.approx(held.eval_score, abs=0.02)
    assert streamed.diagnosis["objective"] == pytest.approx(held.diagnosis["objective"], rel=1e-3)


def test_several_depths_share_their_passes_and_differ_in_nothing(splits):
    specs = [spec(layers=(layer,), select="hold-out:0.2") for layer in (0, 3)]
    together = fit(splits, *specs, memory=0)
    for one, result in zip(specs, together, strict=True):
        (alone,) = fit(splits, one, memory=0)
        assert alone.diagnosis == result.diagnosis
        assert all(torch.equal(alone.state[name], result.state[name]) for name in alone.state)


def test_folds_choose_as_scikit_learn_would_and_dev_is_only_scored(splits):
    view = splits.view("train", valid_only=True)
    (result,) = fit(splits, spec(select="cv:4"))
    shuffled = splits.view("dev")
    shuffled = replace(shuffled, targets=np.roll(shuffled.targets, 7))
    (other,) = fit(splits, spec(select="cv:4"), dev=shuffled)
    assert other.diagnosis["strength_scores"] == result.diagnosis["strength_scores"]
    assert other.eval_score < result.eval_score - 0.2
    x, y = arrays(splits, "train", 3)
    folds = np.repeat(make_parts(view, Selection.parse("cv:4")).judged, view.lengths) - 1
    scaled = StandardScaler().fit_transform(x)
    for place in (2, 3, 4):
        l2 = result.diagnosis["strengths"][place]
        fitted = len(x) * 3 / 4
        model = LogisticRegression(C=1 / (fitted * l2), tol=1e-8, max_iter=20_000)
        found = cross_val_predict(model, scaled, y, cv=PredefinedSplit(folds))
        assert result.diagnosis["strength_scores"][place] == pytest.approx(
            (found == y).mean(), abs=4 / len(y)
        )


@pytest.mark.parametrize(
    ("head", "decoder", "layers"), [("last", "crf", (3,)), ("p32", "linear", (1, 2, 3))]
)
def test_where_the_loss_is_what_counts_it_chooses(splits, head, decoder, layers):
    one = spec(head, layers, decoder)
    train = few(splits)
    (result,) = fit(splits, one, train=train, metric="perplexity")
    if head == "p32":
        assert result.diagnosis["selection_score"] == min(result.diagnosis["candidate_scores"])
        return
    strengths, losses = map(result.diagnosis.get, ("strengths", "strength_scores"))
    assert result.eval_score == pytest.approx(np.exp(result.diagnosis["selection_score"]), rel=1e-4)
    assert result.diagnosis["strength"] == strengths[int(np.argmin(losses))]
    fixed = [replace(one, select=None, l2=strength) for strength in strengths[::4]]
    scores = [own.eval_score for own in fit(splits, *fixed, train=train, metric="perplexity")]
    np.testing.assert_allclose(losses[::4], np.log(scores), rtol=1e-3)


@pytest.mark.parametrize(
    ("decoder", "select", "n"),
    [("linear", "dev", 60), ("linear", "cv:2", 12), ("linear", "cv:2", 60), ("crf", "dev", 12)],
)
def test_the_choice_is_that_of_all_solved_to_the_end(splits, decoder, select, n, monkeypatch):
    members = [spec(layers=(layer,), decoder=decoder, select=select) for layer in (1, 3)]
    found = []
    for large in (1, np.inf):
        monkeypatch.setattr(strength_path, "LARGE", large)
        found.append(fit(splits, *members, train=few(splits, n)))
    for left, whole in zip(*found, strict=True):
        assert left.diagnosis["converged"] and left.eval_score == whole.eval_score
        for name in ("strength", "selection_score"):
            assert left.diagnosis[name] == whole.diagnosis[name]
        objectives = [one.diagnosis["objective"] for one in (left, whole)]
        np.testing.assert_allclose(*objectives, rtol=1e-6)


def test_random_labels_are_not_read(tmp_path):
    found = splits_in(tmp_path, sentences=200, shuffled=True)
    (result,) = fit(found, spec())
    gold = found.view("dev").targets
    majority = np.bincount(gold).max() / len(gold)
    limit = majority + 4 * np.sqrt(majority * (1 - majority) / len(gold))
    assert max(result.diagnosis["strength_scores"]) <= limit


def test_a_mixture_finds_the_layers_that_know_however_short_the_first_look(splits, monkeypatch):
    monkeypatch.setattr(mixture_fit, "_FIRST", 2)
    (result,) = fit(splits, spec("p32", (0, 1, 2, 3), normalize="standardize"))
    assert result.weights[2] + result.weights[3] > 0.95
    assert result.diagnosis["converged"] and result.diagnosis["starts"] == 5
    assert result.diagnosis["projected_gradient"] < 1e-3
    (single,) = fit(splits, spec("last", (3,)))
    assert result.eval_score >= single.eval_score


@pytest.mark.parametrize(
    ("head", "decoder", "select"),
    [("p32", "linear", "cv:2"), ("p32", "crf", "dev"), ("attention-fusion", "linear", "cv:2")],
)
def test_a_mixture_is_never_behind_what_it_contains(splits, head, decoder, select):
    train = few(splits, 3 if decoder == "crf" else 16)
    layers = (2, 3)
    options = {"select": select, "l2": 0.01 if decoder == "crf" else None}
    one = spec(head, layers, decoder, **options)
    parts = [spec("mean", layers, decoder, **options)]
    if head == "p32":  # a query leaves no layer alone
        parts += [spec("last", (layer,), decoder, **options) for layer in layers]
    (result,) = fit(splits, one, train=train)  # alone: it solves what it contains by itself
    contained = [part.diagnosis["selection_score"] for part in fit(splits, *parts, train=train)]
    names = ["average", *(f"layer {layer}" for layer in layers)][: len(parts)]
    found = result.diagnosis
    scored = dict(zip(found["candidates"], found["candidate_scores"], strict=True))
    assert [scored[name] for name in names] == pytest.approx(contained, abs=1e-12)
    assert found["selection_score"] == max(scored.values()) == scored[found["chosen"]]
    assert found["selection_score"] >= max(contained) - 1e-12
    if select == "dev":
        assert result.eval_score == pytest.approx(found["selection_score"], abs=1e-6)
    assert "trained" in scored and "from trained" in scored


def test_mixtures_of_one_stream_solve_what_they_contain_once(splits, monkeypatch):
    solved = []
    visits = LinearFit.visits

    def counted(self):
        solved.append((self.member.spec.head.name, self.member.spec.layers))
        return visits(self)

    monkeypatch.setattr(LinearFit, "visits", counted)
    layers = (("p32", (1, 2)), ("p32", (1, 2, 3)), ("last", (3,)))
    members = [spec(head, read, l2=0.01) for head, read in layers]
    train = few(splits, 12)
    together = fit(splits, *members, train=train)
    assert sorted(solved) == [
        ("last", (1,)), ("last", (2,)), ("last", (3,)), ("mean", (1, 2)), ("mean", (1, 2, 3))
    ]  # fmt: skip
    (alone,) = fit(splits, members[1], train=train)
    assert alone.diagnosis == together[1].diagnosis
    assert all(one.train_seconds > 0 for one in together)


def test_classes_that_were_not_drawn_are_never_predicted_and_cost_what_unseen_ones_do(splits):
    view = splits.view("train", valid_only=True)
    name = view.labels.names.index("B-LOC")
    own = [view.targets[view.places(np.array([n]))] for n in range(view.n_examples)]
    kept = [n for n, targets in enumerate(own) if name not in targets]
    drawn = view.take(np.array(kept))
    for decoder in ("linear", "crf"):
        (result,) = fit(splits, spec(decoder=decoder), train=drawn, predictions=True)
        assert name not in result.predictions["dev"] and name not in result.predictions["test"]
        assert result.diagnosis["absent"] == 0, "LOC is still there, inside of names"
        assert all(torch.isfinite(value).all() for value in result.state.values())


@pytest.mark.parametrize("select", ["dev", "cv:2"])
def test_two_classes_of_several_are_chosen_by_their_own_numbers(splits, select):
    view = splits.view("train", valid_only=True)
    two = replace(view, targets=np.where(view.targets == 4, 4, 1))
    options = {"metric": "matthews", "predictions": True}
    (result,) = fit(splits, spec(select=select), train=two, **options)
    best = max(result.diagnosis["strength_scores"])
    assert set(result.predictions["dev"]) == {1, 4}
    assert best == result.eval_score if select == "dev" else best > 0.5


def test_what_cannot_be_solved_or_chosen(splits):
    view = splits.view("train", valid_only=True)
    one = replace(view, targets=np.zeros_like(view.targets))
    with pytest.raises(OptionError, match=r"have the same class, .*draw more"):
        fit(splits, spec(), train=one)
    with pytest.raises(OptionError, match="--select cv:5: no class has 5 examples"):
        fit(splits, spec(select="cv:5"), train=few(splits, 3))


GOLDEN = {
    "lbfgs": (2, {"last": 0.6945, "mean": 0.7696, "p32": 0.8396}),
    "adam": (1, {"last": 0.6195, "mean": 0.6758}),
}
"""Dev accuracies of `test_stored_scores_move_with_their_version_alone`, as this code gave them.
Where they move, raise the fitter's ``numerics`` and write the new ones here."""


def golden(splits, name, head):
    """Return the dev accuracy of a head on the planted rows."""
    layers = (3,) if head == "last" else (1, 2, 3)
    options = {"normalize": "standardize"} if head == "p32" else {}
    if name == "adam":
        options |= {"fitter": "adam", "lr": 2e-2}
    members = (spec(head, layers, **options),)
    return grouped.fit(splits, stream(splits, *members, epochs=6))[0][0].eval_score


@pytest.mark.parametrize("name", GOLDEN)
def test_stored_scores_move_with_their_version_alone(splits, name):
    version, scores = GOLDEN[name]
    assert FITTERS[name].numerics == version, "new arithmetic: write its scores here"
    found = {head: golden(splits, name, head) for head in scores}
    assert found == pytest.approx(scores, abs=0.008)


def judged(splits, held, kept, seed, *members):
    """Steps over a part of train, of which the other chooses the checkpoint; or dev does."""
    return stream(splits, *members, train=kept, judge=held, seed=seed, epochs=1)


def parted(splits):
    view = splits.view("train", valid_only=True)
    return view.take(np.arange(10)), view.take(np.arange(10, view.n_examples))


STEPS = {"fitter": "adam", "lr": 1e-2}


def test_heads_of_several_seeds_may_share_a_judge(splits):
    held, kept = parted(splits)
    members = spec("last", (3,), **STEPS), spec("extra-layers", (3,), **STEPS)
    streams = [judged(splits, held, kept, seed, one) for seed, one in enumerate(members)]
    for (result,) in grouped.fit(splits, *streams):
        assert result.eval_last == result.eval_score
        assert 0 <= result.diagnosis["selection_score"] <= 1


def test_a_judge_of_one_stream_serves_members_beside_others_that_read_more(splits):
    held, kept = parted(splits)
    steps = {**STEPS, "normalize": "standardize"}
    one = judged(splits, held, kept, 0, spec("last", (3,), **steps))
    other = judged(splits, None, kept, 0, spec("mean", (1, 2, 3), **steps))
    ((together,), _), ((alone,),) = grouped.fit(splits, one, other), grouped.fit(splits, one)
    assert together.scores == alone.scores
    assert together.diagnosis == alone.diagnosis


def test_equal_scores_and_a_strength_that_is_given_are_no_edge(splits):
    view = splits.view("train", valid_only=True)
    clear = replace(view, targets=(view.targets > 0).astype(np.int64))
    (result,) = fit(splits, spec(), train=clear, dev=clear)
    scores = result.diagnosis["strength_scores"]
    assert scores.count(max(scores)) > 1 and "edge" not in result.diagnosis
    (fixed,) = fit(splits, spec(select=None, l2=0.05))
    assert fixed.diagnosis["strength"] == 0.05
    assert "strengths" not in fixed.diagnosis and "edge" not in fixed.diagnosis


def test_a_mixture_of_states_too_wide_to_be_rotated(splits, monkeypatch):
    one = spec("p32", (2, 3), normalize="standardize", l2=0.01)
    (rotated,) = fit(splits, one, train=few(splits, 12))
    monkeypatch.setattr("probekit.probe.fitters.preconditioner.MOST_ROTATED", 4)
    (plain,) = fit(splits, one, train=few(splits, 12))
    assert plain.diagnosis["objective"] == pytest.approx(rotated.diagnosis["objective"], rel=1e-3)
    assert plain.eval_score == pytest.approx(rotated.eval_score, abs=0.02)


def test_an_interrupt_brings_what_is_solved(splits):
    """The first member is solved to the end, the second one never begins."""
    said = []

    def interrupt(news):
        said.append(news)
        if news == SOLVER_STEPS:
            raise KeyboardInterrupt

    members = [spec(layers=(3,)), spec(layers=(2,))]
    with pytest.raises(Interrupted) as caught:
        fit(splits, *members, report=interrupt)
    found, none = caught.value.finished
    assert none is None
    whole = fit(splits, members[0])[0]
    assert (found.eval_score, found.test_score) == (whole.eval_score, whole.test_score)
    best = 100 * found.diagnosis["selection_score"]
    assert said == ["last seed 0", f"last seed 0: {best:.1f}", SOLVER_STEPS]


MODELS = Path(os.environ.get("PROBEKIT_TEST_MODELS", "no-folder-was-named"))
SUBJECTS = {"minilm-l6": 1, "smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf": 6}
"""Real models, and the distance between the layers that are compared."""

TASKS = {
    "atis": ("atis", "intent", 900), "glue/sst2": ("glue/SST-2", None, 900),
    "glue/rte": ("glue/RTE", None, 900), "conll": ("conll2003", "ner", 120),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_depth_curve_is_scikit_learns(tmp_path, name, task):
    folder, label, limit = TASKS[task]
    if not (MODELS / name).exists() or not (DATA / folder).is_dir():
        pytest.skip("no real models or data: set PROBEKIT_TEST_MODELS and PROBEKIT_TEST_DATA")
    path, location = str(MODELS / name), Location(cache=tmp_path / "cache")
    extract(
        path, task, data=DATA / folder, splits=["train", "dev"], cache=location.cache,
        options=ExtractOptions(limit=limit),
    )  # fmt: skip
    spec = TrainSpec(model=path, task=task, label=label, head="last", select="dev")
    splits = open_features(path, task, label, location)
    depths = range(0, splits.manifest.n_blocks + 1, SUBJECTS[name])
    records = sweep(product(spec, {"depth": depths}), out=tmp_path / "r.jsonl", location=location)
    metric = METRICS[splits.metric]
    pooling = records[0].pooling
    train = splits.view("train", pooling=pooling, valid_only=True)
    dev = splits.view("dev", pooling=pooling)
    scorer = metric(gold_of(dev, metric))
    for record in records:
        assert record.diagnosis["converged"], record.depth
        x, z = (rows(view, record.depth) for view in (train, dev))
        scaler = StandardScaler().fit(x)
        for l2, found in zip(
            *map(record.diagnosis.get, ("strengths", "strength_scores")), strict=True
        ):
            judge = LogisticRegression(C=1 / (len(x) * l2), tol=1e-8, max_iter=20_000)
            judge.fit(scaler.transform(x), train.targets)
            expected = scorer.score(judge.predict(scaler.transform(z)))[metric.name]
            assert abs(found - expected) <= max(1.5 / dev.n_examples, 0.003), (record.depth, l2)


def rows(view, layer):
    """Return the rows of a layer in float64."""
    return np.asarray(view.array.read(torch.from_numpy(view.rows), (layer,))[:, 0].double())
