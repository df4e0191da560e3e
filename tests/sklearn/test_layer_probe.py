"""The estimator: scikit-learn's own checks, its optimum against another solver, rows of a cache."""

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_classifiers_train,
    check_estimators_dtypes,
    parametrize_with_checks,
)

import probekit
from probekit.errors import OptionError, UnknownNameError
from probekit.features import Location, open_features
from probekit.sklearn import LayerProbe
from probekit.store.feature_array import FeatureArray
from tests.planted import DIM, LAYERS, MODEL, TASK, plant_all

EXPECTED_FAILED = {
    "check_sample_weight_equivalence_on_dense_data": "repeated rows are cut into other folds than "
    "weighted ones, and at one strength seven digits are asked of rows multiplied in float32"
}
"""Every check of scikit-learn that fails, with the reason."""


@parametrize_with_checks(
    [LayerProbe(l2=1e-2)],  # at one strength, which takes a tenth of the time
    expected_failed_checks=lambda estimator: EXPECTED_FAILED,
)
@pytest.mark.filterwarnings("ignore:SCIPY_ARRAY_API is not set")
def test_scikit_learn_knows_it(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", [check_classifiers_train, check_estimators_dtypes])
def test_scikit_learn_knows_it_as_it_is_by_default(check):
    check("LayerProbe", LayerProbe())


def samples(classes, n=400, seed=0):
    X, y = make_classification(
        n, 20, n_informative=8, n_classes=classes, random_state=seed, flip_y=0.1
    )
    return 3 * X + 5, np.array([f"class {number}" for number in y])


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    root = plant_all(tmp_path_factory.mktemp("cache"), sentences=80, noise=0.6, signal=(2,))
    return open_features(MODEL, TASK, "ner", Location(cache=root))


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("l2", [1.0, 1e-4])
def test_the_optimum_is_that_of_logistic_regression(classes, l2):
    X, y = samples(classes)
    probe = LayerProbe(l2=l2).fit(X, y)
    Z = StandardScaler().fit_transform(X)
    other = LogisticRegression(C=1 / (len(X) * l2), tol=1e-10, max_iter=5000).fit(Z, y)
    assert probe.converged_ and probe.n_iter_ >= 1 and probe.l2_ == l2
    assert probe.classes_.tolist() == other.classes_.tolist()
    assert probe.coef_.shape == other.coef_.shape
    np.testing.assert_allclose(probe.coef_ * X.std(0), other.coef_, atol=2e-3)
    np.testing.assert_allclose(probe.predict_proba(X), other.predict_proba(Z), atol=2e-3)
    np.testing.assert_allclose(probe.decision_function(X), other.decision_function(Z), atol=1e-2)
    np.testing.assert_allclose(np.exp(probe.predict_log_proba(X)), probe.predict_proba(X))
    gap = -np.log(other.predict_proba(Z)[np.arange(len(y)), np.unique(y, return_inverse=True)[1]])
    expected = gap.mean() + l2 / 2 * np.square(other.coef_).sum()
    assert probe.objective_ == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("scale", [1e-320, 1e308])
def test_weights_of_any_scale(scale):
    X, y = samples(2)
    plain = LayerProbe(l2=1e-2).fit(X, y)
    scaled = LayerProbe(l2=1e-2).fit(X, y, sample_weight=np.full(len(X), scale))
    np.testing.assert_allclose(scaled.coef_, plain.coef_, rtol=1e-6)


def test_weights_count_rows_as_repeating_them_does():
    X, y = samples(3)
    times = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = LayerProbe(l2=1e-2).fit(X, y, sample_weight=times)
    repeated = LayerProbe(l2=1e-2).fit(np.repeat(X, times, 0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-3)
    plain = LayerProbe(l2=1e-2).fit(X, y)
    assert abs(weighted.predict_proba(X) - plain.predict_proba(X)).max() > 0.01


def test_a_strength_is_chosen_by_folds_and_scores():
    X, y = samples(3)
    probe = LayerProbe(select=4, scoring="neg_log_loss").fit(X, y)
    assert probe.l2_ == probe.strengths_[probe.strength_scores_.argmax()]
    assert len(probe.strengths_) == len(probe.strength_scores_) >= 6
    place = int(np.flatnonzero(probe.strengths_ == probe.l2_)[0])
    for n in (0, place):
        one = LayerProbe(l2=probe.strengths_[n])
        said = cross_val_predict(one, X, y, cv=4, method="predict_proba")
        own = said[np.arange(len(y)), np.unique(y, return_inverse=True)[1]]
        # rows are standardised by all that were drawn here, and by those of the fold there
        assert probe.strength_scores_[n] == pytest.approx(np.log(own).mean(), abs=5e-3)


def test_weaker_strengths_are_tried_while_the_weakest_is_the_best():
    X, y = samples(2)
    X[:, 0] = np.where(y == y[0], 9, 1)  # which says it all
    probe = LayerProbe(select=4, scoring="neg_log_loss").fit(X, y)
    assert probe.l2_ == min(probe.strengths_) and len(probe.strengths_) > 8


def test_it_finds_what_a_run_of_the_same_options_finds(splits):
    """Folds, strengths, scores and optimum are those of ``--fit lbfgs --select cv:5``."""
    location = Location(cache=splits.entries["train"].path.parents[2])
    options = {"head": "last", "layers": "2", "fit": "lbfgs", "select": "cv:5", "control": 0}
    run = probekit.fit(probekit.TrainSpec(model=MODEL, task=TASK, **options), location=location)
    features = open_features(MODEL, TASK, "ner", location, control=0)  # scored by accuracy
    X, y, _ = features.rows("train", valid_only=True)
    probe = LayerProbe(layer=2).fit(X, y)
    assert probe.l2_ == run.diagnosis["strength"]
    assert probe.strengths_.tolist() == run.diagnosis["strengths"]
    np.testing.assert_allclose(probe.strength_scores_, run.diagnosis["strength_scores"], atol=2e-3)
    assert probe.objective_ == pytest.approx(run.diagnosis["objective"], rel=1e-6)
    names = np.array(features.label_map.names)
    assert (probe.predict(features.rows("dev").X) == names[run.predictions["dev"]]).mean() > 0.995


def test_a_search_over_layers_reads_one_layer_a_fit(splits, monkeypatch):
    read = []
    original = FeatureArray.read

    def counting(self, rows, layers=None, out=None):
        if not isinstance(rows, slice):
            read.append(tuple(layers))
        return original(self, rows, layers, out)

    monkeypatch.setattr(FeatureArray, "read", counting)
    X, y, words = splits.rows("train")
    groups = splits.row_groups("train")
    assert groups.tolist() == words[:, 0].tolist() == X.groups.tolist()
    search = GridSearchCV(LayerProbe(l2=1e-2), {"layer": list(LAYERS)}, cv=GroupKFold(3))
    search.fit(X, y, groups=groups)
    assert search.best_params_ == {"layer": 2}
    assert {len(layers) for layers in read} == {1}
    test = splits.rows("test")
    assert search.score(test.X, test.y) > 0.6
    in_memory = LayerProbe(layer=2, l2=1e-2).fit(X.read(), y)
    stored = search.best_estimator_
    np.testing.assert_allclose(in_memory.coef_, stored.coef_, rtol=1e-5, atol=1e-7)
    assert (in_memory.predict(test.X.read()) == stored.predict(test.X)).all()


@pytest.mark.parametrize("head", ["last", "mean", "concat-ffn"])
def test_heads_make_one_row_of_several_layers(splits, head):
    X, y, _ = splits.rows("train")
    states = X.read()
    made = {"last": states[:, -1], "mean": states[:, 1:].mean(1)}
    made["concat-ffn"] = states[:, 1:].reshape(len(states), -1)
    several = LayerProbe(head=head, l2=0.1).fit(X, y)
    alone = LayerProbe(l2=0.1).fit(made[head], y)
    np.testing.assert_allclose(several.coef_, alone.coef_, rtol=1e-3, atol=1e-5)
    flat = LayerProbe(head=head, l2=0.1, n_layers=len(LAYERS)).fit(states.reshape(len(y), -1), y)
    np.testing.assert_allclose(several.predict_proba(X), flat.predict_proba(states), atol=1e-5)
    assert several.n_features_in_ == flat.n_features_in_ == DIM * len(LAYERS)


def test_layers_are_chosen_in_words_and_tensors_are_taken(splits):
    X, y, _ = splits.rows("train")
    two = LayerProbe("2:", head="mean", l2=0.1).fit(torch.from_numpy(X.read()), y)
    assert two.layers_ == (2, 3)
    np.testing.assert_allclose(two.predict_proba(X), two.predict_proba(X.read()), atol=1e-6)


def test_groups_stay_on_one_side():
    """Rows that are repeated in both sides of a cut are known by heart; in groups they are not."""
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.normal(size=(40, 60)), 4, 0), np.repeat(rng.integers(0, 2, 40), 4)
    known = LayerProbe(select="cv:4").fit(X, y)
    grouped = LayerProbe(select="cv:4").fit(X, y, groups=np.repeat(np.arange(40), 4))
    assert known.strength_scores_.max() > 0.9 > 0.7 > grouped.strength_scores_.max()


def test_held_out_rows_choose():
    X, y = samples(2)
    probe = LayerProbe(select="hold-out:0.25").fit(X, y)
    hundredths = probe.strength_scores_ * 100  # of 100 rows that were held out
    np.testing.assert_allclose(hundredths, hundredths.round(), atol=1e-9)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"layer": 7, "l2": 1.0}, "layer 7 does not exist"),
        ({"layer": 2.5, "l2": 1.0}, "layer=2.5"),
        ({"head": "dwatt"}, "choose one of last, mean, concat-ffn"),
        ({"l2": 0}, "l2 must be a number above 0"),
        ({"l2": "strong"}, "'strong'"),
        ({"l2": True}, "True"),
        ({"select": "dev"}, "an estimator is given one split"),
        ({"select": "cv:900"}, "needs 900 rows or more, and there are 400"),
        ({"select": "often"}, "choose dev, cv:K"),
        ({"n_layers": 3, "l2": 1.0}, "20 columns, which are not 3 layers"),
        ({"n_layers": 0, "l2": 1.0}, "n_layers must be a whole number"),
    ],
)
def test_options_that_cannot_be_used_are_named(options, expected):
    with pytest.raises(OptionError, match=expected):
        LayerProbe(**options).fit(*samples(2))


def test_input_that_cannot_be_used_is_named(splits):
    X, y = samples(2)
    with pytest.raises(UnknownNameError, match="mean"):
        LayerProbe(head="meen", l2=1.0).fit(X, y)
    with pytest.raises(OptionError, match="one class"):
        LayerProbe(l2=1.0).fit(X, np.zeros(len(X)))
    with pytest.raises(OptionError, match="X has 4 layers"):
        LayerProbe(l2=1.0, n_layers=3).fit(np.zeros((8, 4, 2)), [0, 1] * 4)
    rows = splits.rows("train")
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        LayerProbe(l2=1.0).fit(rows.X, rows.y[1:])
    probe = LayerProbe(layer=2, l2=1.0).fit(*rows[:2])
    with pytest.raises(OptionError, match=r"found layers \[2, 3\] of width"):
        probe.predict(splits.rows("dev", layers=[2, 3]).X)
    with pytest.raises(OptionError, match=r"X has no layer 0; it has \[2, 3\]"):
        LayerProbe(layer=0, l2=1.0).fit(splits.rows("train", layers=[2, 3]).X, rows.y)


def test_what_did_not_converge_is_said(monkeypatch):
    from probekit.probe.fitters import linear_problems

    monkeypatch.setattr(linear_problems, "Descent", partial(linear_problems.Descent, most=1))
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        probe = LayerProbe(l2=1e-4).fit(*samples(3))
    assert not probe.converged_
