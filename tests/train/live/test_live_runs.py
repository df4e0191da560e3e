"""Runs whose model computes the rows: frozen as from the cache, trained as a loop by hand."""

import json
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_pre_hook
from transformers import AutoModel

from probekit.backbone import inspect_backbone
from probekit.base.numbers.seeding import torch_generator
from probekit.errors import BackboneError, OptionError
from probekit.extraction import ExtractOptions, extract
from probekit.features import Location, open_features
from probekit.probe.decoders.linear import Linear
from probekit.train.saved.labelling import predict
from probekit.train.stream import batches
from probekit.train.sweeps.run import fit, sweep
from probekit.train.sweeps.specs import TrainSpec
from probekit.train.sweeps.specs import product as spec_product
from tests.random_models import save_random
from tests.tiny import build
from tests.train.saved.test_prediction import dev_words, write_corpus
from tests.train.saved.test_prediction_texts import COLUMNS, write_texts

LR, EPOCHS, BATCH = 3e-3, 2, 8


@pytest.fixture(scope="module", params=["bert", "llama"])
def words(request, tmp_path_factory):
    """A model, the path of a corpus with words that some windows cut, and their caches."""
    root = tmp_path_factory.mktemp(request.param)
    model, corpus = build(request.param, root / "model", max_positions=24), root / "corpus"
    write_corpus(corpus)
    for dtype in ("float32", "float16"):
        options = ExtractOptions(compute_dtype="float32", dtype=dtype)
        extract(str(model), str(corpus), cache=root / dtype, device="cpu", options=options)
    return TrainSpec(model=str(model), task=str(corpus), head="p32", epochs=3), root


def run(spec, root, method, dtype="float32", batch_tokens=None, **more):
    spec = replace(spec, method=method, batch_tokens=batch_tokens)
    where = {"location": Location(cache=root / dtype), "out": root / f"{dtype}.jsonl"}
    (record,) = sweep([spec], predictions=True, **where, **more)
    return record


def predicted(record, split="dev"):
    table = pq.read_table(record.predictions)
    kept = [where == split for where in table["split"].to_pylist()]
    return [one for one, use in zip(table["predicted"].to_pylist(), kept, strict=True) if use]


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


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("head", ["last", "p32", "concat"])
def test_a_frozen_model_is_the_cache_word_by_word(words, head, dtype):
    spec, root = words
    spec = replace(spec, head=head, fit="adam")
    live, cached = (run(spec, root, method, dtype) for method in ("frozen", None))
    check_same(live, cached, 1e-4 if dtype == "float32" else 2e-3)


def test_a_frozen_model_that_is_cut_is_the_cache(words):
    spec, root = words
    spec, passes = replace(spec, head="p32", fit="adam", depth=2), Counter()

    def count(module, given):
        if type(module).__name__ in ("BertSelfAttention", "LlamaAttention"):
            passes[module.layer_idx] += 1

    hook = register_module_forward_pre_hook(count)
    live, cached = (run(spec, root, method) for method in ("frozen", None))
    hook.remove()
    check_same(live, cached, 1e-4)
    assert passes[0] == passes[1] > passes[2] == 1, "the last block, to see that none depends on it"


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_frozen_model_is_the_cache_for_a_head_over_subwords(words, dtype):
    spec, root = words
    spec = replace(spec, head="extra-layers")
    live, cached = (run(spec, root, method, dtype) for method in ("frozen", None))
    check_same(live, cached, 1e-4 if dtype == "float32" else 2e-3)


def test_a_head_over_subwords_trains_with_the_model(words, tmp_path):
    spec, root = words
    spec = replace(spec, head="extra-layers", depth=2)  # a layer that the cache has no subwords of
    record = run(spec, root, "full", save=tmp_path / "head", batch_tokens=40)
    assert record.layers == (2,) and record.n_backbone_params and record.batch_tokens == 40
    assert predict(tmp_path / "head", dev_words(root / "corpus")) == predicted(record)


def test_a_frozen_model_is_the_cache_under_a_solver(words):
    spec, root = words
    spec = replace(spec, epochs=None, normalize="standardize", l2=0.1)
    live, cached = (run(spec, root, method) for method in ("frozen", None))
    assert live.fitter == cached.fitter == "lbfgs"
    assert live.eval_score == cached.eval_score
    assert live.scores["dev/loss"] == pytest.approx(cached.scores["dev/loss"], rel=1e-3)


@pytest.fixture(scope="module", params=[*product(COLUMNS, ["bert", "llama"])])
def texts(request, tmp_path_factory):
    """A model, a path of texts or pairs with labels or values, their caches, what they are."""
    kind, family = request.param
    root = tmp_path_factory.mktemp(f"{kind}-{family}")
    model, corpus = build(family, root / "model", max_positions=24), root / "corpus"
    write_texts(corpus, kind)
    named = {"kind": kind, "text": COLUMNS[kind]}
    for dtype in ("float32", "float16"):
        options = ExtractOptions(compute_dtype="float32", dtype=dtype)
        at = {"cache": root / dtype, "device": "cpu", "options": options, "label": "label"}
        extract(str(model), str(corpus), **at, **named)
    return TrainSpec(model=str(model), task=str(corpus), head="mean"), root, named


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_frozen_model_is_the_cache_text_by_text(texts, dtype, tmp_path):
    spec, root, named = texts
    at = Location(cache=root / dtype, **named)
    varied = {"method": ["frozen", None], "pooling": ["mean", "cls", "last"]}
    steps = spec_product(replace(spec, epochs=3, fit="adam"), varied)
    where = {"location": at, "out": tmp_path / "runs.jsonl", "predictions": True}
    records = sweep([*steps, *spec_product(spec, varied)], **where)
    for live, cached in zip(records[:3], records[3:6], strict=True):
        check_same(live, cached, 1e-4 if dtype == "float32" else 2e-3)
    for live, cached in zip(records[6:9], records[9:], strict=True):
        assert live.fitter == cached.fitter != "adam"
        assert live.eval_score == pytest.approx(cached.eval_score, abs=1e-3)


def test_a_saved_run_says_of_texts_what_it_scored(texts, tmp_path):
    spec, root, named = texts
    spec = replace(spec, method="full", pooling="mean", epochs=3, rates=(("backbone", LR),))
    where = {"location": Location(cache=root / "float32", **named), "out": tmp_path / "runs.jsonl"}
    (record,) = sweep([spec], predictions=True, save=tmp_path / "head", **where)
    view = open_features(spec.model, spec.task, location=where["location"]).view("dev")
    said = predict(tmp_path / "head", view.texts)
    wanted = [row[0] for row in predicted(record)]
    if isinstance(wanted[0], float):
        np.testing.assert_allclose(said, wanted, rtol=1e-4, atol=1e-5)
    else:
        assert list(said) == wanted


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
    model, corpus = build("bert", root / "model", max_positions=64), root / "corpus"
    config = json.loads((model / "config.json").read_text("utf-8"))
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (model / "config.json").write_text(json.dumps(config), "utf-8")
    write_corpus(corpus)
    options = ExtractOptions(compute_dtype="float32", dtype="float32")
    extract(str(model), str(corpus), cache=root / "float32", device="cpu", options=options)
    return TrainSpec(
        model=str(model), task=str(corpus), head="last", decoder="linear:dropout=0", method="full",
        epochs=EPOCHS, batch_size=BATCH, lr=LR, rates=(("backbone", LR),), evals=100,
        select="dev",
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


@pytest.mark.parametrize(
    "method", ["full", "bitfit", "lora:rank=2", "adapter:size=4", "diff-prune:share=0.1"]
)
def test_only_what_is_named_moves_and_a_saved_run_says_what_it_scored(words, method, tmp_path):
    if method.startswith("lora"):
        pytest.importorskip("peft", reason="the optional extra finetune is not installed")
    spec, root = words
    if method == "bitfit" and "llama" in root.name:
        with pytest.raises(OptionError, match=r"has none\. Choose another method"):
            run(spec, root, method)
        return
    record = run(spec, root, method, save=tmp_path / "head")
    assert record.method == method and record.fitter == "adam" and record.rates["backbone"] > 0
    assert 0 < record.n_backbone_params < record.n_params
    assert (record.backbone_share == 1) == (method == "full")
    assert predict(tmp_path / "head", dev_words(root / "corpus")) == predicted(record)
    again = run(spec, root, method, save=tmp_path / "head")
    assert again == record, "a run that is recorded is not trained again"


def test_a_frozen_model_that_cannot_be_cut_runs_whole(tmp_path):
    """All layers of ALBERT are one block."""
    model = save_random("albert", tmp_path / "model", embedding_size=16)
    write_corpus(tmp_path / "corpus")
    options = ExtractOptions(compute_dtype="float32", dtype="float32")
    at = {"cache": tmp_path / "cache", "device": "cpu", "options": options}
    extract(str(model), str(tmp_path / "corpus"), **at)
    spec = TrainSpec(model=str(model), task=str(tmp_path / "corpus"), head="last", depth=1)
    spec, where = replace(spec, fit="adam", epochs=1), Location(cache=tmp_path / "cache")
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
        for seed, folder in ((0, tmp_path / "a"), (0, tmp_path / "b"), (1, tmp_path / "c"))
    )
    assert one.curve == same.curve and one.curve != other.curve
    assert not any("/1/" in name for name in one.state)
    whole = fit(replace(spec, depth=None), location=Location(cache=root / "float32"))
    assert one.n_backbone_params < whole.n_backbone_params
    assert predict(tmp_path / "a", [["Paris", "is"]]) == predict(tmp_path / "b", [["Paris", "is"]])


def test_a_saved_run_says_what_it_scored_in_bfloat16(short, tmp_path):
    spec, _ = short
    options = ExtractOptions(compute_dtype="bfloat16", dtype="float32")
    extract(spec.model, spec.task, cache=tmp_path, device="cpu", options=options)
    where = {"location": Location(cache=tmp_path), "out": tmp_path / "runs.jsonl"}
    (record,) = sweep([spec], predictions=True, save=tmp_path / "head", **where)
    assert predict(tmp_path / "head", dev_words(Path(spec.task))) == predicted(record)


CUT = (
    *("full", "bitfit", "lora", "adapter:size=4", "prompt:length=2", "prefix:length=2"),
    "diff-prune",
)


@pytest.mark.parametrize("method", CUT)
def test_every_method_takes_a_model_without_blocks(short, method, tmp_path):
    """What depends on none of what a method trains is read by a head that learns alone."""
    if method.partition(":")[0] in ("lora", "prompt", "prefix"):
        pytest.importorskip("peft", reason="the optional extra finetune is not installed")
    spec, root = short
    spec, at = replace(spec, depth=0, rates=()), Location(cache=root / "float32")
    found = fit(replace(spec, method=method), location=at, save=tmp_path)
    if method.partition(":")[0] in ("lora", "prefix"):
        cached = fit(replace(spec, method=None, fit="adam"), location=at)
        assert found.n_backbone_params == 0
        assert [p[1] for p in found.curve] == pytest.approx([p[1] for p in cached.curve], rel=1e-4)
    assert found.layers == (0,) and len(predict(tmp_path, [["Paris", "is"]])[0]) == 2


@pytest.mark.parametrize("method", CUT[1:])
def test_every_method_takes_a_cut_model(short, method, tmp_path):
    if method.partition(":")[0] in ("lora", "prompt", "prefix"):
        pytest.importorskip("peft", reason="the optional extra finetune is not installed")
    spec, root = short
    spec = replace(spec, method=method, depth=1, epochs=1, rates=())
    found = fit(spec, location=Location(cache=root / "float32"), save=tmp_path)
    own = {name: value for name, value in found.state.items() if name.startswith("backbone.")}
    assert own and found.layers == (1,) and not any("layer/1" in name for name in own)
    if method.startswith("prefix"):
        assert [value.shape for value in own.values()] == [(2, 2 * 32)]
    assert len(predict(tmp_path, [["Paris", "is"]])[0]) == 2


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
        ({"fit": "lbfgs"}, "--method full trains what makes them"),
        ({"method": "frozen", "rates": (("backbone", 1e-3),)}, "has no parameters called backbone"),
        ({"method": None, "rates": (("backbone", 1e-3),)}, "has no parameters called backbone"),
        ({"rates": (("gates", 1e-3),)}, "no parameters called gates; it trains weights and backb"),
        ({"method": "prefix:length=64"}, "64 virtual tokens leave nothing of the 64 positions"),
        ({"method": None, "rates": (), "batch_tokens": 64}, "a run from the cache runs no model"),
        ({"depth": 9}, "this model has 3 blocks"),
        ({"shots": 0}, "--method full trains the model, and here nothing is trained"),
    ],
)
def test_what_cannot_be_trained(short, more, says):
    spec, root = short
    steps = {"lr": None, "epochs": None, "batch_size": None, "evals": None, "rates": ()}
    with pytest.raises(OptionError, match=says):
        asked = {"decoder": None, **(steps if "fit" in more else {}), **more}
        fit(replace(spec, **asked), location=Location(cache=root / "float32"))
