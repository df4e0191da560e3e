"""Runs whose model computes the rows: frozen as from the cache, trained as a loop by hand."""

import functools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional
from transformers import AutoModel

from probekit.backbone import inspect_backbone
from probekit.base.numbers import torch_generator
from probekit.errors import BackboneError, OptionError
from probekit.extraction import ExtractOptions, extract
from probekit.features import Location, open_features
from probekit.probe.decoders.linear import Linear
from probekit.train.saved.labelling import predict
from probekit.train.stream import batches
from probekit.train.sweeps.run import fit, sweep
from tests.random_models import save_random
from tests.tiny import build
from tests.train.live.trained_runs import prepared
from tests.train.saved.test_prediction import dev_words, write_corpus
from tests.tuning.cases import installed, predicted

LR, EPOCHS, BATCH = 3e-3, 2, 8


@pytest.fixture(scope="module")
def words_of(tmp_path_factory):
    """Return the runs over a corpus with words that some windows cut, by family and dtype."""
    root = tmp_path_factory.mktemp("words")

    @functools.cache
    def made(family, dtype):
        spec, _ = prepared(root / family, family, dtype=dtype, max_positions=24)
        return replace(spec, head="p32", epochs=1), root / family

    return made


@pytest.fixture
def words(words_of):
    return words_of("bert", "float32")


def run(spec, root, method, dtype="float32", batch_tokens=None, **more):
    spec = replace(spec, method=method, batch_tokens=batch_tokens)
    where = {"location": Location(cache=root / dtype), "out": root / f"{dtype}.jsonl"}
    (record,) = sweep([spec], predictions=True, **where, **more)
    return record


def check_same(live, cached, tolerance):
    assert live.method == "frozen" and cached.method is None and live.key != cached.key
    assert live.entry == cached.entry and live.n_params == cached.n_params
    assert [p[0] for p in live.curve] == [p[0] for p in cached.curve]
    np.testing.assert_allclose(
        [point[1] for point in live.curve], [point[1] for point in cached.curve], rtol=tolerance
    )
    one, other = (np.concatenate([np.atleast_1d(p) for p in predicted(r)]) for r in (live, cached))
    same = np.isclose(one, other, rtol=tolerance) if one.dtype.kind == "f" else one == other
    assert same.mean() >= 0.995
    assert live.eval_score == pytest.approx(cached.eval_score, abs=0.01)


@pytest.mark.parametrize(
    ("family", "head", "dtype"),
    [("bert", "extra-layers", "float32"), ("llama", "concat", "float16")],
)
def test_a_frozen_model_is_the_cache_word_by_word(words_of, family, head, dtype):
    spec, root = words_of(family, dtype)
    spec = replace(spec, head=head, fit="adam", epochs=1)
    live, cached = (run(spec, root, method, dtype) for method in ("frozen", None))
    check_same(live, cached, 1e-4 if dtype == "float32" else 2e-3)


def test_a_head_over_subwords_trains_with_the_model(words, tmp_path):
    spec, root = words
    spec = replace(spec, head="extra-layers", depth=2)  # a layer that the cache has no subwords of
    record = run(spec, root, "full", save=tmp_path / "head", batch_tokens=40)
    assert record.layers == (2,) and record.n_backbone_params and record.batch_tokens == 40
    assert predict(tmp_path / "head", dev_words(root / "corpus")) == predicted(record)


@pytest.mark.parametrize(
    ("kind", "family", "pooling", "fitters"),
    [("pair", "bert", "mean", ("adam", "auto")), ("regression", "llama", "last", ("adam",))],
)
def test_a_frozen_model_is_the_cache_text_by_text(kind, family, pooling, fitters, tmp_path):
    spec, at = prepared(tmp_path / "of", family, kind=kind, max_positions=24)
    spec = replace(spec, head="mean", pooling=pooling)
    steps, *solved = (
        [replace(spec, fit=name, epochs=1 if name == "adam" else None, method=method)
         for method in ("frozen", None)] for name in fitters
    )  # fmt: skip
    where = {"location": at, "out": tmp_path / "runs.jsonl", "predictions": True}
    check_same(*sweep(steps, **where), 1e-4)
    for plan in solved:
        live, cached = sweep(plan, **where)
        assert live.fitter == cached.fitter != "adam"
        assert live.eval_score == pytest.approx(cached.eval_score, abs=1e-3)


def by_hand(spec, root):
    """Full fine-tuning as a loop over transformers and torch alone; returns losses and weights."""
    splits = open_features(spec.model, spec.task, location=Location(cache=root / "float32"))
    view = splits.view("train", valid_only=True)
    examples, tokenizer = view.entry.examples, inspect_backbone(spec.model).tokenizer
    model = AutoModel.from_pretrained(spec.model)
    layer = Linear().build(model.config.hidden_size, view.n_outputs,
                           torch_generator(0, "decoder", "linear"))  # fmt: skip
    layer.eval()  # it has no dropout here
    optimizer = torch.optim.AdamW([*model.parameters(), *layer.parameters()], lr=LR)
    order = list(batches(view.lengths, seed=0, epochs=EPOCHS, batch_size=BATCH))
    first_subword = model.config.model_type == "bert"
    losses = []
    for step, chosen in enumerate(order):
        rows, targets = [], []
        for example in chosen:
            said = list(examples.words(int(view.positions[example])))
            text = tokenizer(said, is_split_into_words=True, return_tensors="pt")
            states = model(**{"input_ids": text["input_ids"]}).last_hidden_state[0]
            owners = text.word_ids(0)
            for place in view.places(np.array([example])):
                word = int(view.word_places[place])
                found = [at for at, owner in enumerate(owners) if owner == word]
                rows.append(states[found[0] if first_subword else found[-1]])
                targets.append(int(view.targets[place]))
        loss = functional.cross_entropy(layer(torch.stack(rows)), torch.tensor(targets))
        optimizer.param_groups[0]["lr"] = LR * (1 - step / len(order))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, dict(model.named_parameters())


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """Sentences that one window holds, and a model without dropout."""
    root = tmp_path_factory.mktemp("short")
    config = json.loads((build("bert", root / "model") / "config.json").read_text("utf-8"))
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (root / "model" / "config.json").write_text(json.dumps(config), "utf-8")
    write_corpus(root / "corpus")
    spec, _ = prepared(root)
    return replace(
        spec, decoder="linear:dropout=0", method="full", epochs=EPOCHS, batch_size=BATCH, lr=LR,
        rates=(("backbone", LR),), evals=100, select="dev",
    ), root  # fmt: skip


def test_full_is_what_a_loop_by_hand_does(short):
    spec, root = short
    found = fit(spec, location=Location(cache=root / "float32"))
    losses, weights = by_hand(spec, root)
    np.testing.assert_allclose([point[1] for point in found.curve], losses, rtol=1e-4)
    moved = 0.0
    plain = dict(AutoModel.from_pretrained(spec.model).named_parameters())
    assert found.best_step == found.curve[-1][0], "the best state is the last one"
    for name, value in found.state.items():
        if name.startswith("backbone."):
            own = name.removeprefix("backbone.").replace("/", ".")
            torch.testing.assert_close(value, weights[own], rtol=1e-3, atol=2e-5)
            moved = max(moved, float((value - plain[own].detach()).abs().max()))
    assert moved > 1e-3


def test_a_frozen_model_that_cannot_be_cut_runs_whole(tmp_path):
    """All layers of ALBERT are one block."""
    save_random("albert", tmp_path / "model", embedding_size=16)
    write_corpus(tmp_path / "corpus")
    spec, where = prepared(tmp_path)
    spec = replace(spec, depth=1, fit="adam", epochs=1)
    live, cached = (
        fit(replace(spec, method=method), location=where) for method in ("frozen", None)
    )
    assert [p[1] for p in live.curve] == pytest.approx([p[1] for p in cached.curve], rel=1e-4)
    with pytest.raises(BackboneError, match="cannot be cut to 1 blocks"):
        fit(replace(spec, method="full"), location=where)


def test_a_depth_cuts_the_model_and_dropout_is_the_seeds(words, tmp_path):
    spec, root = words
    spec = replace(spec, method="full", depth=1, epochs=1)
    one, same, other = (
        fit(replace(spec, seed=seed), location=Location(cache=root / "float32"), save=folder)
        for seed, folder in ((0, tmp_path / "a"), (0, tmp_path / "b"), (1, None))
    )
    assert one.curve == same.curve and one.curve != other.curve
    assert any("/0/" in name for name in one.state) and not any("/1/" in name for name in one.state)
    assert predict(tmp_path / "a", [["Paris", "is"]]) == predict(tmp_path / "b", [["Paris", "is"]])


@pytest.mark.parametrize("method", ["full", "lora", "prefix:length=2"])
def test_every_method_takes_a_model_without_blocks(short, method, tmp_path):
    """What depends on none of what a method trains is read by a head that learns alone."""
    installed(method)
    spec, root = short
    spec, at = replace(spec, depth=0, rates=(), evals=1), Location(cache=root / "float32")
    found = fit(replace(spec, method=method), location=at, save=tmp_path)
    if method.startswith(("lora", "prefix")):
        cached = fit(replace(spec, method=None, fit="adam"), location=at)
        assert found.n_backbone_params == 0
        assert [p[1] for p in found.curve] == pytest.approx([p[1] for p in cached.curve], rel=1e-4)
    assert found.layers == (0,) and len(predict(tmp_path, [["Paris", "is"]])[0]) == 2


def test_layers_that_the_cache_lacks_are_made(short, tmp_path):
    spec, _ = short
    options = ExtractOptions(compute_dtype="float32", dtype="float32", layers="-1")
    extract(spec.model, spec.task, cache=tmp_path, device="cpu", options=options)
    at = Location(cache=tmp_path)
    found = fit(replace(spec, head="p32", epochs=1), location=at)
    assert found.layers == (1, 2, 3)
    with pytest.raises(OptionError, match="the head reads layer 1"):
        fit(replace(spec, head="p32", method=None, rates=()), location=at)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"fit": "lbfgs"}, "--method full changes them by training"),
        ({"method": "frozen", "rates": (("backbone", 1e-3),)}, "has no parameters called backbone"),
        ({"method": None, "rates": (("backbone", 1e-3),)}, "has no parameters called backbone"),
        ({"rates": (("gates", 1e-3),)}, "no parameters called gates; it trains weights and backb"),
        ({"method": "prefix:length=64"}, "64 virtual tokens fill all 64 positions"),
        ({"method": None, "rates": (), "batch_tokens": 64}, "a run from the cache runs no model"),
        ({"depth": 9}, "this model has 3 blocks"),
        ({"shots": 0}, "--method full is for training, and here nothing is trained"),
    ],
)
def test_what_cannot_be_trained(short, more, says):
    spec, root = short
    steps = {"lr": None, "epochs": None, "batch_size": None, "evals": None, "rates": ()}
    with pytest.raises(OptionError, match=says):
        asked = {"decoder": None, **(steps if "fit" in more else {}), **more}
        fit(replace(spec, **asked), location=Location(cache=root / "float32"))
