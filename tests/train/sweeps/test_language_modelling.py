"""Language modelling from the cache: the model's own loss, frozen and trained output heads."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from probekit.base.numbers import bounds_of
from probekit.errors import DataError, OptionError
from probekit.extraction import ExtractOptions, extract
from probekit.features import Location, open_features
from probekit.features.sentence_groups import SentenceGroups
from probekit.features.view import cut_passages
from probekit.results.predictions import read_predicted
from probekit.train.baselines import run_baselines
from probekit.train.saved.head import TrainedHead
from probekit.train.scoring import TOP_KEPT
from probekit.train.source import TokenLayout
from probekit.train.sweeps.outputs import write_predictions
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run import fit
from probekit.train.sweeps.specs import TrainSpec
from tests import tiny
from tests.extraction.passages import passages

KIND = "language-modelling"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A tiny Llama's predictions on two files of texts: model, texts, where they are cached."""
    root = tmp_path_factory.mktemp("modelling")
    model = tiny.build("llama", root / "llama")
    texts = root / "texts"
    texts.mkdir()
    for split, count in (("train", 24), ("dev", 9)):
        (texts / f"{split}.txt").write_text("\n\n".join(passages(count)) + "\n", encoding="utf-8")
    extract(
        str(model), str(texts), kind=KIND, splits=["train", "dev"], cache=root / "cache",
        options=ExtractOptions(compute_dtype="float32", dtype="float32", max_length=32),
        device="cpu",
    )  # fmt: skip
    return model, texts, Location(cache=root / "cache", kind=KIND)


@pytest.fixture
def fitted(place):
    """Fit a head, by options of its run."""

    def fit_here(memory=None, **options):
        return fit(spec(place, **options), location=place[2], memory=memory)

    return fit_here


def spec(place, **options):
    defaults = {"head": "last", "epochs": 2, "lr": 1e-2, "select": "dev"}
    return TrainSpec(**{"model": str(place[0]), "task": str(place[1])} | defaults | options)


def splits_of(place, model=None, location=None):
    return open_features(str(model or place[0]), str(place[1]), None, location or place[2])


def live_probabilities(place, split):
    """Return the model's own probabilities at each predicting position, window by window."""
    live = AutoModelForCausalLM.from_pretrained(place[0]).eval()
    windows = []
    for row in splits_of(place).entries[split].examples.table.to_pylist():
        start = 0
        for size in row["windows"]:
            ids = torch.tensor([row["subwords"][start : start + size]])
            predicting = [n for n in range(size) if row["word_map"][start + n] >= 0]
            with torch.no_grad():
                windows.append(live(input_ids=ids).logits[0, predicting].double().softmax(1))
            start += size
    return torch.cat(windows).numpy()


def test_a_frozen_output_head_on_the_last_layer_is_the_model_itself(place, fitted):
    result = fitted()
    assert (result.n_params, result.n_head_params) == (0, 0)
    losses = {}
    for split in ("train", "dev"):
        p, gold = live_probabilities(place, split), splits_of(place).view(split).targets
        losses[split] = float(-np.log(p[np.arange(len(gold)), gold]).mean())
    assert len(result.predictions["dev"]) == len(gold)
    assert result.scores["dev/loss"] == pytest.approx(losses["dev"], rel=1e-4)
    assert result.eval_score == pytest.approx(math.exp(losses["dev"]), rel=1e-4)
    assert {score for _, _, score in result.curve} == {result.eval_score}
    # The steps were not taken, but their losses are noted.
    noted = sum(loss for _, loss, _ in result.curve) / len(result.curve)
    assert noted == pytest.approx(losses["train"], rel=0.05)
    assert result.confusion is None and result.class_weights == {}


def test_the_model_may_run_and_learn_as_well(fitted):
    """Frozen it gives what the cache gives; trained by the same steps it predicts better."""
    cached, frozen, trained = (
        fitted(head="dwatt", normalize="final-norm", fit="adam", method=method)
        for method in (None, "frozen", "full")
    )
    for one, other in zip(frozen.curve, cached.curve, strict=True):
        assert one == pytest.approx(other, rel=1e-5)
    assert trained.curve[0][1] == pytest.approx(cached.curve[0][1], rel=1e-3), "of the first step"
    assert trained.eval_score < cached.eval_score and trained.n_backbone_params


def test_probabilities_of_tokens_are_those_of_the_model(place, swept):
    """The top ten of each position, and the scores of all, from the live model's softmax."""
    (record,) = swept([spec(place)], location=place[2], predictions=True)
    found = read_predicted(record.predictions)[1]["dev"]
    p, gold = live_probabilities(place, "dev"), splits_of(place).view("dev").targets
    assert np.array_equal(found.gold, gold) and found.kept.shape == (len(gold), TOP_KEPT)
    expected = -np.sort(-p, axis=1)[:, :TOP_KEPT]
    assert np.allclose(found.probabilities, expected, rtol=2e-3, atol=1e-6)
    assert np.allclose(np.take_along_axis(p, found.kept, 1), expected, rtol=2e-3, atol=1e-6)
    assert record.scores["dev/loss"] == pytest.approx(math.log(record.eval_score), rel=1e-6)
    brier = np.square(p - np.eye(p.shape[1])[gold]).sum(1).mean()
    assert record.scores["dev/brier"] == pytest.approx(brier, rel=1e-4)
    gaps, bins = p.max(1) - (p.argmax(1) == gold), np.ceil(15 * p.max(1))
    ece = sum(abs(gaps[bins == number].sum()) for number in range(1, 16)) / len(gold)
    assert record.scores["dev/ece"] == pytest.approx(ece, rel=1e-3)
    kept = (place[1] / "dev.txt").read_text(encoding="utf-8")
    assert all(text in kept for text in found.texts) and len(set(found.texts)) > 1


def test_a_trained_output_head_and_a_fusion_learn(place, swept):
    plan = [
        spec(place),
        spec(place, decoder="vocabulary:trained=true"),
        spec(place, head="p32", epochs=10),
        spec(place, head="p32", depth=1),
        spec(place, head="p32", rates=(("mixing", 0.01),)),  # nothing but mixing weights is trained
    ]
    frozen, trained, fused, shallow, mixed = swept(plan, location=place[2])
    assert {record.metric for record in (frozen, trained, fused)} == {"perplexity"}
    assert min(trained.eval_score, fused.eval_score) < frozen.eval_score
    assert mixed.weights != fused.weights and mixed.n_params == 3
    assert trained.n_params > 1000 and fused.n_params == 3 and shallow.n_params == 1
    planned = [resolve(run, splits_of(place)).n_params for run in plan]  # memory goes by these
    assert planned == [r.n_params for r in (frozen, trained, fused, shallow, mixed)]
    for record in (trained, fused):  # the best is the smallest
        assert record.eval_score == min(score for _, _, score in record.curve)


def test_what_is_drawn_and_what_is_refused(fitted):
    every, few = (
        fitted(fraction=share, epochs=1, batch_size=1).curve[-1][0] for share in (1.0, 0.25)
    )
    assert few == round(every / 4)
    with pytest.raises(OptionError, match=r"has no classes \(language-modelling\): give --fractio"):
        fitted(shots=2)
    again = r"holds only predicted\. .*--keep output-head,predicted,tokens\."
    with pytest.raises(DataError, match=rf"extra-layers reads 'tokens': .*{again}"):
        fitted(head="extra-layers")


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_new_layers_read_the_windows_that_a_piece_predicts_from(place, tmp_path, family):
    """Next tokens, and hidden ones; texts of several windows, cut into several passages."""
    model = tiny.build(family, tmp_path / family)
    keep = ("predicted", "tokens", "output-head")
    form = {"every": 2} if family == "llama" else {"passes": 2, "tie": "input"}
    options = ExtractOptions(dtype="float32", max_length=24, keep=keep, **form)
    location = Location(cache=tmp_path / "cache", kind=KIND)
    extract(
        str(model), str(place[1]), kind=KIND, cache=location.cache, options=options, device="cpu"
    )
    splits = splits_of(place, model, location)
    view = splits.view("train")
    offsets, owner = cut_passages(bounds_of(view.entry.examples.n_rows), 7)
    view = replace(view, offsets=offsets, ids=("",) * len(owner), positions=owner)
    layout, last = TokenLayout(view), splits.manifest.n_blocks
    some = np.array([5, 0, 3])
    tokens = layout.view.array.read(torch.from_numpy(layout.view.rows[layout.view.places(some)]))
    own = view.array.read(torch.from_numpy(view.rows[view.places(some)]), [last])
    found = layout.states(tokens[None, :, 0], some)
    assert torch.equal(found.pool(found.hidden), own[:, 0])
    windows = view.entry.examples.table["windows"].to_pylist()
    assert max(map(len, windows)) > 2 and layout.view.lengths.max() < max(map(sum, windows))
    few = spec(place, model=str(model), head="extra-layers", epochs=6, batch_size=4)
    losses = [loss for _, loss, _ in fit(few, location=location).curve]
    assert losses[-1] < losses[0] - 0.05


def test_the_baseline_is_the_frequency_of_tokens(place, tmp_path):
    found = run_baselines([spec(place)], out=tmp_path / "r.jsonl", location=place[2], device="cpu")
    (guess,) = found.guesses
    train, dev = (splits_of(place).view(split) for split in ("train", "dev"))
    counts, total = Counter(train.targets.tolist()), len(train) + dev.n_outputs
    losses = [-math.log((counts[target] + 1) / total) for target in dev.targets.tolist()]
    assert guess.eval_score == pytest.approx(math.exp(sum(losses) / len(losses)))
    assert guess.metric == "perplexity" and guess.head == "majority"
    noted = [note.split(":")[0] for note in found.notes]
    assert noted[:2] == ["no control task", "no code length"]


@pytest.mark.parametrize("decoder", [None, "vocabulary:trained=true"])
def test_a_saved_head_can_be_started_from_and_labels_no_text(
    place, fitted, swept, tmp_path, decoder
):
    options, folder = {"head": "p32", "decoder": decoder}, tmp_path / "head"
    (saved,) = swept([spec(place, **options)], location=place[2], save=folder)
    small = options | {"epochs": 1, "lr": 1e-30, "as_published": True}
    again = fitted(init_from=str(folder), **small)
    assert again.eval_score == pytest.approx(saved.eval_score, rel=1e-5)
    assert fitted(fusion_from=str(folder), freeze_fusion=True, **small).n_head_params == 0
    with pytest.raises(OptionError, match=r"predicts tokens .* labels no text\."):
        TrainedHead.from_pretrained(folder)


@pytest.mark.parametrize(
    ("passes", "ids", "starts", "groups"),
    [
        (1, ("a#0", "a#1", "b#0", "c#0"), [0, 3, 7], ("x", "x", "y", "x")),  # # is of the name
        (2, ("a", "b", "c"), [0, 7], ("x", "y", "x")),
    ],
)
def test_predictions_are_kept_text_by_text(
    place, tmp_path, monkeypatch, passes, ids, starts, groups
):
    """Pieces of a text, and its readings under other masks, are one thing to resample."""
    view = splits_of(place).view("dev")
    monkeypatch.setitem(view.entry.manifest.request["masking"], "passes", passes)
    losses = np.linspace(0, 1, len(view))
    cut = replace(
        view,
        ids=("a#0", "a#0", "a#1", "b#0", "c#0"),
        offsets=np.array([0, 2, 3, 7, len(view) - 1, len(view)]),
        positions=np.array([0, 0, 1, 2, 3]),
        resampled=SentenceGroups("document", ["x", "x", "y", "x"]),
    )
    options = {"key": "k" * 64, "metric": "perplexity", "labels_fingerprint": "f" * 64}
    write_predictions(tmp_path / "p", {"dev": losses}, {"dev": cut}, **options)
    found = read_predicted(tmp_path / "p")[1]["dev"]
    assert (found.ids, found.groups) == (ids, groups)
    assert found.offsets.tolist() == [*starts, len(view) - 1, len(view)]
    assert found.content == "losses" and found.predicted.tolist() == losses.tolist()
