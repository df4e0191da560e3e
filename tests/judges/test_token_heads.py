"""Token heads against probelab: pools row by row, trained ones by what they find in one corpus."""

import itertools
from importlib.metadata import version

import numpy as np
import probelab
import pytest
import torch
from sklearn.metrics import roc_auc_score

from probekit import Location, open_features, sweep
from probekit.base.registry import parse
from probekit.features.made_rows import token_rows
from probekit.metrics import METRICS, LabelSets
from probekit.probe.token_heads import TOKEN_HEADS
from probekit.results.predictions import read_predicted
from probekit.train.sweeps.specs import TrainSpec
from tests import tiny
from tests.extraction.extracted import entries_of
from tests.train.sweeps.test_token_heads import OWN, write

pytestmark = pytest.mark.judges
PROBELAB = f"probelab {version('probelab')}"
POOLS = {
    "mean": probelab.pool.mean,
    "max": probelab.pool.max,
    "last": probelab.pool.last_token,
    "ema:alpha=0.3": lambda *of, **more: probelab.pool.ema(*of, alpha=0.3, **more),
    "rolling-max:window=5": lambda *of, **more: probelab.pool.rolling(*of, window_size=5, **more),
}


@pytest.mark.parametrize("text", POOLS)
def test_fixed_token_heads(judged, text):
    bounds = torch.tensor([0, 3, 4, 24, 60])
    z = torch.randn(60, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours = parse("token head", text, TOKEN_HEADS).build(1, 8, torch.Generator())(z[None], bounds)[0]
    # one text at a time: its rolling windows go on into the padding of a batch
    parts = [z[a:b] for a, b in itertools.pairwise(bounds.tolist())]
    theirs = [POOLS[text](part[None], torch.ones(1, len(part), dtype=torch.bool)) for part in parts]
    np.testing.assert_allclose(ours, torch.cat(theirs), rtol=1e-9, atol=1e-12)
    judged(PROBELAB, f"rows of the token head {text}", "equal to 1e-9")


def test_partial_auroc(judged):
    random = np.random.default_rng(4)
    has = random.random(900) < 0.3
    scores = np.round(random.normal(size=900) + 1.5 * has, 1)
    gold = LabelSets(has[:, None], np.arange(901), ("a",))
    ours = METRICS["partial-auroc"](gold).score(scores[:, None])["partial-auroc"]
    theirs = probelab.metrics.partial_auroc(has.astype(int), scores / 10 + 0.5)
    assert ours == pytest.approx(theirs, abs=1e-12)
    judged(PROBELAB, "partial AUROC up to 10 % false positives", "equal to 1e-12")


@pytest.mark.parametrize(
    ("head", "probe"),
    [("attention", probelab.probes.Attention), ("multimax", probelab.probes.MultiMax)],
)
def test_trained_token_heads_find_what_theirs_find(judged, tmp_path, head, probe):
    """One token of up to 25 decides; ours have no MLP, and a rate of their own."""
    texts, model = write(tmp_path / "texts"), tiny.build("bert", tmp_path / "tiny")
    splits, cache = ("train", "dev", "test"), tmp_path / "cache"
    entries_of(model, texts, cache, splits, keep=("tokens",), layers="1,2", **OWN)
    location = Location(cache=cache, kind="sentence", text="text")
    base = {"model": "tiny", "task": str(texts), "label": "label", "head": "last", "layers": "2"}
    specs = [
        TrainSpec(**base, token_head=head, fit="adam", lr=0.03, epochs=40, seed=seed)
        for seed in range(3)
    ]
    records = sweep(
        specs, out=tmp_path / "r.jsonl", location=location, predictions=True, progress=False
    )
    ours = []
    for record in records:
        path = tmp_path / "r-predictions" / f"{record.key[:16]}.parquet"
        found = read_predicted(path)[1]["test"]
        ours.append(roc_auc_score(found.gold, found.odds[:, 1]))
    features = open_features("tiny", str(texts), "label", location, token_head="mean")
    given = {split: activations(features, split) for split in splits}
    theirs = []
    for seed in range(3):
        fitted = probe(seed=seed, n_epochs=60, patience=60, dropout=0.0).fit(*given["train"])
        theirs.append(roc_auc_score(given["test"][1], fitted.predict(given["test"][0])))
    spread = np.ptp([*ours, *theirs])
    assert min(*ours, *theirs) > 0.9 and abs(np.mean(ours) - np.mean(theirs)) <= max(spread, 0.01)
    judged(PROBELAB, f"test AUROC of {head} over planted tokens, three seeds each", "within seeds")


def activations(features, split):
    """Return the tokens of layer 2 as probelab holds them, and the classes."""
    view = features.view(split)
    rows = token_rows(view.entry.examples)
    states = view.entry.arrays["tokens"].read(rows.values, [2])[:, 0].float()
    bounds, every = torch.from_numpy(rows.bounds), torch.ones(len(states), dtype=torch.bool)
    given = probelab.Activations(data=states, dims="bsh", offsets=bounds, detection_mask=every)
    return given, torch.from_numpy(view.targets)
