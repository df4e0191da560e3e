"""What probekit computes from rows and predictions, against other programs that compute the same.

Where they differ by definition, docs/judged.md says how.
"""

import json
import subprocess
import sys
from importlib.metadata import version
from itertools import accumulate
from unittest.mock import MagicMock, patch

import numpy as np
import probelab
import pytest
import torch
from ckatorch import cka_base
from concept_erasure import LeaceEraser, LeaceFitter
from conlleval import evaluate
from nervaluate import Evaluator
from skdim.id import TwoNN
from torchcrf import CRF as OtherCRF

import probekit
from probekit.features import Location
from probekit.metrics import METRICS, ROW_SCORES, Gold, LossGold, SpanF1, encode_gold
from probekit.probe.decoders import CRF
from probekit.probe.heads import HEADS
from probekit.sklearn import LayerProbe
from tests.judges.environments import environment
from tests.planted import MODEL, TASK, plant

with patch.dict(
    sys.modules, {f"s3prl.{part}": MagicMock() for part in ("hub", "util.pseudo_data")}
):  # what downloads models of speech, and makes sounds; the featurizer needs neither
    from s3prl.nn.upstream import Featurizer

pytestmark = pytest.mark.judges

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-MISC", "I-MISC")
KINDS_OF_TAGS = {True: "tags that are well formed", False: "tags of which spans may begin with I-"}


def said(package):
    """The judge as the page names it."""
    return f"{package} {version(package)}"


def labellings(well_formed, n_sentences=400):
    """Gold and predicted tags of sentences; a third of the predicted ones are drawn anew."""
    rng = np.random.default_rng(5)
    gold, predicted = [], []
    for length in rng.integers(1, 15, n_sentences):
        first = rng.integers(0, len(TAGS), length)
        second = np.where(rng.random(length) < 1 / 3, rng.integers(0, len(TAGS), length), first)
        for tags, to in ((first, gold), (second, predicted)):
            names = [TAGS[tag] for tag in tags]
            to.append(beginning(names) if well_formed else names)
    return gold, predicted


def beginning(names):
    """The same tags, with B- in front of what continues nothing."""
    whole = ["O"]
    for name in names:
        continues = name[0] != "I" or whole[-1][1:] == name[1:]
        whole.append(name if continues else f"B{name[1:]}")
    return whole[1:]


def span_scores(gold, predicted):
    known = encode_gold(gold, TAGS)
    return SpanF1(known).score(encode_gold(predicted, TAGS).ids)


@pytest.mark.parametrize("well_formed", [True, False])
def test_span_f1_by_conlleval(judged, well_formed):
    gold, predicted = labellings(well_formed)
    lines = [
        line
        for sentence in zip(gold, predicted, strict=True)
        for line in [*(f"w {a} {b}" for a, b in zip(*sentence, strict=True)), ""]
    ]
    found, ours = evaluate(lines), span_scores(gold, predicted)
    theirs = found["overall"]["chunks"]["evals"]
    assert (ours["precision"], ours["recall"], ours["span-f1"]) == (
        theirs["prec"], theirs["rec"], theirs["f1"],
    )  # fmt: skip
    assert 0.3 < ours["span-f1"] < 0.9
    for kind, scores in found["slots"]["chunks"].items():
        assert ours[f"f1/{kind}"] == scores["evals"]["f1"]
    judged(said("conlleval"), f"span F1, {KINDS_OF_TAGS[well_formed]}", "equal to the bit")


@pytest.mark.parametrize("well_formed", [True, False])
def test_span_f1_by_nervaluate(judged, well_formed):
    gold, predicted = labellings(well_formed)
    found = Evaluator(gold, predicted, tags=["PER", "LOC", "MISC"], loader="list").evaluate()
    theirs, ours = found["overall"]["strict"], span_scores(gold, predicted)
    scores = (theirs.precision, theirs.recall, theirs.f1)
    assert scores == pytest.approx((ours["precision"], ours["recall"], ours["span-f1"]), abs=1e-12)
    for kind, by_schema in found["entities"].items():
        assert ours[f"f1/{kind}"] == pytest.approx(by_schema["strict"].f1, abs=1e-12)
    judged(said("nervaluate"), f"span F1, strict, {KINDS_OF_TAGS[well_formed]}", "equal to 1e-12")


def test_crf_by_pytorch_crf(judged):
    """Log-likelihood, its gradients and the best path, with the same scores of transitions."""
    generator = torch.Generator().manual_seed(2)
    lengths, n_tags = [7, 1, 12, 3, 12, 5], 6
    ours = CRF().build(4, n_tags, generator).double().eval()
    theirs = OtherCRF(n_tags, batch_first=True).double()
    pairs = (
        (ours.transitions, theirs.transitions),
        (ours.start, theirs.start_transitions),
        (ours.end, theirs.end_transitions),
    )
    for scores, of_other in pairs:
        scores.data.normal_(generator=generator)
        of_other.data.copy_(scores.data)
    logits = torch.randn(sum(lengths), n_tags, dtype=torch.float64, generator=generator)
    tags = torch.randint(0, n_tags, (sum(lengths),), generator=generator)
    offsets = torch.tensor([0, *accumulate(lengths)])
    emissions, padded_tags = (
        torch.nn.utils.rnn.pad_sequence(rows.split(lengths), batch_first=True)
        for rows in (logits, tags)
    )
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    likelihoods = theirs(emissions, padded_tags, mask, reduction="none")
    losses = ours.row_losses(logits, tags, offsets)
    torch.testing.assert_close(losses[offsets[:-1]], -likelihoods, rtol=1e-12, atol=1e-12)
    losses.sum().backward()
    (-likelihoods.sum()).backward()
    for scores, of_other in pairs:
        torch.testing.assert_close(scores.grad, of_other.grad, rtol=1e-10, atol=1e-10)
    best = [tag for path in theirs.decode(emissions, mask) for tag in path]
    assert ours.predict(logits, offsets).tolist() == best
    assert best != logits.argmax(1).tolist()
    name = said("pytorch-crf")
    judged(name, "log-likelihood of `crf` and its gradients", "equal to 1e-10")
    judged(name, "best path of `crf`", "equal tags")


def test_mixture_by_s3prl(judged):
    """Featurizer sums softmax(weights) times layers; `scalar-mix` does, times gamma, here 1."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(5, 40, 7, 24, generator=generator)
    upstream = MagicMock(hidden_sizes=[24] * 5, downsample_rates=[1] * 5, num_layers=5)
    theirs = Featurizer(upstream)
    head = HEADS["scalar-mix"]().build(tuple(range(5)), 24, generator)
    theirs.weights.data.normal_(generator=generator)
    head.s.data.copy_(theirs.weights.data)
    summed, _ = theirs(list(states), [torch.full((40,), 7)] * 5)
    ours = head(states.flatten(1, 2).transpose(0, 1))
    torch.testing.assert_close(ours, summed.flatten(0, 1), rtol=1e-5, atol=1e-6)
    judged(said("s3prl"), "sum of layers by `scalar-mix` (gamma 1)", "equal to 1e-5")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Planted rows of two classes: layers 2 and 3 show them."""
    root = tmp_path_factory.mktemp("planted")
    for split, seed in (("train", 0), ("dev", 1)):
        plant(root, split, seed=seed, names=("O", "B-PER"), sentences=200)
    return root


def standardised_rows(cache, layer):
    """Rows of a layer, standardised in float64, with the deviations and whether each is B-PER."""
    features = probekit.open_features(MODEL, TASK, location=Location(cache=cache))
    X, y, _ = features.numpy("train", layer=layer, valid_only=True)
    x = torch.from_numpy(X).double()
    deviation = x.std(0, correction=0)
    is_name = torch.from_numpy(y == "B-PER")
    return (x - x.mean(0)) / deviation, deviation, is_name


def exported(cache, tmp_path, layer, l2):
    """What `probekit.export` finds in a head of one layer, along B-PER, for standardised rows."""
    spec = probekit.TrainSpec(
        model=MODEL, task=TASK, head="last", depth=layer, normalize="standardize", l2=l2
    )
    location = Location(cache=cache)
    probekit.sweep([spec], out=tmp_path / "r.jsonl", location=location, save=tmp_path / "heads")
    return probekit.export(tmp_path / "heads").contrast("B-PER")[0].double()


def cosine(a, b):
    return float(torch.cosine_similarity(a.double(), b.double(), dim=0))


def test_direction_by_concept_erasure_and_probelab(judged, cache, tmp_path):
    """Under a strong penalty the direction is that between the means, which both have closed."""
    x, deviation, is_name = standardised_rows(cache, 2)
    along = exported(cache, tmp_path, 2, l2=1e4) * deviation
    fitter = LeaceFitter.fit(x, is_name.double()[:, None], method="orth", shrinkage=False)
    erased = fitter.eraser.proj_left[:, 0]  # of either sign
    means = probelab.probes.MassMean().initialize(x, is_name).direction
    for theirs, package in (
        (erased * (erased @ along).sign(), "concept-erasure"),
        (means, "probelab"),
    ):
        assert 1 - cosine(along, theirs) < 1e-6
        what = "direction of a solved probe, l2 10,000: that between the means"
        judged(said(package), what, "cosine 1 to 1e-6")


def test_no_direction_is_left_after_leace(judged, cache):
    """Erased by LEACE, no linear probe learns anything: the solved one is the constant."""
    x, _, is_name = standardised_rows(cache, 2)
    eraser = LeaceEraser.fit(x, is_name.double()[:, None], shrinkage=False, svd_tol=1e-8)
    norms = [
        float(np.linalg.norm(LayerProbe(l2=1e-2).fit(rows.numpy(), is_name.numpy()).coef_))
        for rows in (x, eraser(x))
    ]
    assert norms[1] < 1e-5 < 0.1 < norms[0]
    judged(said("concept-erasure"), "direction of a solved probe on rows erased by LEACE", "none")


@pytest.mark.parametrize("strength", [1.0, 0.01])
def test_logistic_regression_by_probelab(judged, cache, strength):
    x, _, is_name = standardised_rows(cache, 2)
    rows = probelab.Activations(data=x.float(), dims="bh", layers=None)
    theirs = probelab.probes.Logistic(C=1 / (strength * len(x))).fit(rows, is_name.long())
    ours = LayerProbe(l2=strength).fit(x.float().numpy(), is_name.numpy())
    found = theirs.linear.weight.detach()[0].double() / theirs.scaler_std
    np.testing.assert_allclose(ours.coef_[0], found.numpy(), atol=1e-3 * np.abs(ours.coef_).max())
    what = f"weights of logistic regression, l2 {strength:g}"
    judged(said("probelab"), what, "equal to 0.1 % of the largest")


def test_metrics_by_probelab(judged):
    """Its Brier score is of the second class alone: half of that of two classes."""
    rng = np.random.default_rng(3)
    is_positive = rng.integers(0, 2, 500)
    p = np.clip(0.3 * is_positive + rng.random(500) * 0.7, 0, 1).round(2)  # with ties
    p[p == 0.5] = 0.51  # its threshold is above, not at, one half
    gold = Gold(is_positive.astype(np.int64), np.array([0, 500]), ("0", "1"))
    predicted, both = (p > 0.5).astype(np.int64), np.stack([1 - p, p], axis=1)
    rows = np.zeros(500, ROW_SCORES)
    rows["brier"] = ((both - np.eye(2)[is_positive]) ** 2).sum(1)
    f1 = METRICS["f1"](gold).score(predicted)
    ours = {
        **{name: f1[name] for name in ("accuracy", "precision", "recall", "f1")},
        "auroc": METRICS["auroc"](gold).score(both)["auroc"],
        "average_precision": METRICS["average-precision"](gold).score(both)["average-precision"],
        "brier_score": METRICS["brier"](LossGold(500)).score(rows)["brier"] / 2,
    }
    for name, value in ours.items():
        tolerance = 1e-7 if name == "brier_score" else 1e-12  # rows are kept in float32
        theirs = getattr(probelab.metrics, name)(is_positive, p)
        assert value == pytest.approx(theirs, abs=tolerance)
    what = "accuracy, precision, recall, F1, AUROC, average precision of two classes"
    judged(said("probelab"), what, "equal to 1e-12")
    judged(said("probelab"), "half of the Brier score of two classes", "equal to 1e-7")


@pytest.fixture(scope="module")
def measured(cache):
    """The geometry of the planted rows, and the rows themselves by layer."""
    features = probekit.open_features(MODEL, TASK, location=Location(cache=cache))
    geometry = probekit.geometry(MODEL, TASK, location=Location(cache=cache))
    rows = [
        features.numpy("train", layer=layer.layer, valid_only=True)[0].astype(np.float64)
        for layer in geometry.layers
    ]
    return geometry, rows


def test_cka_by_ckatorch(judged, measured):
    geometry, rows = measured
    layers = list(map(torch.from_numpy, rows))
    theirs = [[float(cka_base(one, other)) for other in layers] for one in layers]
    np.testing.assert_allclose(geometry.cka, theirs, atol=1e-6)
    assert np.triu(theirs, 1).max() > 0.1
    judged(said("ckatorch"), "linear CKA of all pairs of layers", "equal to 1e-6")


def test_dimension_by_scikit_dimension(judged, measured):
    geometry, rows = measured
    theirs = [TwoNN(discard_fraction=0.1).fit(layer).dimension_ for layer in rows]
    ours = [layer.intrinsic_dimension for layer in geometry.layers]
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    judged(said("scikit-dimension"), "intrinsic dimension (TwoNN)", "equal to 1e-6")


DADAPY = """
import json, sys
import numpy as np
from dadapy import Data
ids = []
for file in sys.argv[1:]:
    ids.append(float(Data(np.load(file), maxk=3).compute_id_2NN(mu_fraction=0.9)[0]))
print(json.dumps(ids))
"""


@pytest.mark.timeout(3000)
def test_dimension_by_dadapy(judged, measured, tmp_path):
    """It needs a NumPy below 2, and so an environment of its own."""
    geometry, rows = measured
    files = [tmp_path / f"{number}.npy" for number in range(len(rows))]
    for file, layer in zip(files, rows, strict=True):
        np.save(file, layer)
    python = environment("dadapy==0.3.4")
    done = subprocess.run(
        (python, "-c", DADAPY, *files), capture_output=True, text=True, check=True
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose([n.intrinsic_dimension for n in geometry.layers], theirs, rtol=1e-4)
    judged("dadapy 0.3.4", "intrinsic dimension (TwoNN)", "equal to 1e-4")
