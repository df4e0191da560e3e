"""What layers count: shares, losses without a layer and first weights, against NumPy by hand."""

import numpy as np
import pytest
import torch
from scipy.special import erf, log_softmax, softmax

from probekit.features import Location, open_features
from probekit.metrics import METRICS
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.probe.heads.laya import LAYA
from probekit.train.attribution import Contributions, reduced
from probekit.train.fit import fit_group
from tests.planted import MODEL, TASK, plant_all
from tests.train.grouped import member_spec, stream_spec

LAYERS = (1, 2, 3)
SIGNAL = 2
SPECS = {
    "mean": {"fitter": "lbfgs", "l2": 1e-3},
    "p32": {"fitter": "lbfgs", "l2": 1e-3},
    "scalar-mix": {"fitter": "lbfgs", "l2": 1e-3},
    "attention-fusion": {"lr": 0.1},
    "concat": {"lr": 1e-2},
    "concat-ffn": {"fitter": "lbfgs", "l2": 1e-3},
    "dwatt": {"lr": 1e-2},
    "laya": {"lr": 1e-2},
}
LEARNED = ("p32", "scalar-mix", "attention-fusion", "concat", "dwatt", "laya")


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    root = plant_all(tmp_path_factory.mktemp("cache"), signal=(SIGNAL,), noise=0.15)
    return open_features(MODEL, TASK, "ner", Location(cache=root))


def member(name, **options):
    head = LAYA(width=16, scorer=16) if name == "laya" else HEADS[name]()
    given = {"head": head, "decoder": DECODERS["linear"](dropout=0.0), "layers": LAYERS}
    return member_spec(**given | SPECS.get(name, {"lr": 1e-2}) | options)


def fit(splits, *members, seed=0, epochs=8, **options):
    train = splits.view("train", valid_only=True)
    stream = stream_spec(train=train, seed=seed, epochs=epochs, members=members)
    dev = splits.view("dev")
    return fit_group([stream], dev, metric=METRICS["accuracy"], **options)[0]


@pytest.fixture(scope="module")
def fitted(splits):
    """Every head that is a sum over layers, fitted to a signal in one of them."""
    solved = [one for one in SPECS if "fitter" in SPECS[one]]
    stepped = [one for one in SPECS if "fitter" not in SPECS[one]]
    return {
        name: result
        for names in (solved, stepped)
        for name, result in zip(names, fit(splits, *map(member, names), ablate=True), strict=True)
    }


def rows_of(splits, split="dev"):
    view = splits.view(split, valid_only=split == "train")
    z = view.array.read(torch.from_numpy(view.rows), list(LAYERS)).double().numpy()
    return z, view.targets


def state(result):
    return {name: value.double().numpy() for name, value in result.state.items()}


def shares(parts):
    """Cov(part, sum) / Var(sum) of parts (layers, rows, classes), rows and classes centred."""
    parts = parts - parts.mean(2, keepdims=True)
    parts = parts - parts.mean(1, keepdims=True)
    total = parts.sum(0)
    return [(part * total).sum() / (total**2).sum() for part in parts]


def p32_parts(z, s):
    return softmax(s["head.lambda_"])[:, None, None] * z.transpose(1, 0, 2)


def attention_parts(z, s):
    attention = softmax(z @ s["head.q"], axis=1)
    return (attention[:, :, None] * z).transpose(1, 0, 2)


def layer_norm(x, weight=1.0, bias=0.0):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def mlp(x, s, name, n):
    """W LN(gelu(U x)) of layer n (DWAtt, eq. 11)."""
    hidden = x @ s[f"{name}.u"][n] + s[f"{name}.u_bias"][n]
    hidden = hidden * 0.5 * (1 + erf(hidden / np.sqrt(2)))
    hidden = layer_norm(hidden, s[f"{name}.norm.weight"][n], s[f"{name}.norm.bias"][n])
    return hidden @ s[f"{name}.w"][n] + s[f"{name}.w_bias"][n]


def dwatt_parts(z, s):
    """DWAtt, eq. 3-10: the attention's share of each value, and the residual of the last layer."""
    x = z[:, -1] + mlp(z[:, -1], s, "head.query", 0)
    query = 1 + np.where(x > 0, x, np.expm1(x))
    keys = s["head.pos"] @ s["head.key"] + s["head.key_bias"]
    attention = softmax(query @ keys.T, axis=1)
    values = [
        layer_norm(
            mlp(z[:, n], s, "head.value", n),
            s["head.value_norm.weight"][n],
            s["head.value_norm.bias"][n],
        )
        for n in range(z.shape[1])
    ]
    parts = np.stack([attention[:, n, None] * value for n, value in enumerate(values)])
    parts[-1] += z[:, -1]
    return parts


PARTS = {"p32": p32_parts, "attention-fusion": attention_parts, "dwatt": dwatt_parts}


@pytest.mark.parametrize("head", PARTS)
def test_shares_equal_a_computation_by_hand(splits, fitted, head):
    z, s = rows_of(splits)[0], state(fitted[head])
    expected = shares(PARTS[head](z, s) @ s["decoder.weight"].T)
    assert list(fitted[head].shares) == list(LAYERS)
    assert list(fitted[head].shares.values()) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("head", PARTS)
@pytest.mark.parametrize("normalize", ["none", "standardize"])
def test_losses_without_a_layer_equal_a_computation_by_hand(splits, fitted, head, normalize):
    result = fitted[head]
    if normalize != "none":
        ways = {"normalize": normalize, "fitter": "adam"}
        options = {"lr": 1e-2} | ways if head == "p32" else ways
        (result,) = fit(splits, member(head, **options), epochs=2, ablate=True)
    (z, gold), (train, _), s = rows_of(splits), rows_of(splits, "train"), state(result)
    if normalize != "none":
        mean, scale = train.mean(0), 1 / train.std(0)
        z, train = (z - mean) * scale, (train - mean) * scale
        assert np.abs(train.mean(0)).max() < 1e-9  # what stands for a layer is then 0

    def loss(z):
        logits = PARTS[head](z, s).sum(0) @ s["decoder.weight"].T + s["decoder.bias"]
        return -log_softmax(logits, axis=1)[np.arange(len(gold)), gold].mean()

    def without(place):
        changed = z.copy()
        changed[:, place] = train[:, place].mean(0)
        return loss(changed)

    assert result.scores["dev/loss"] == pytest.approx(loss(z), abs=1e-5)
    expected = [without(place) - loss(z) for place in range(len(LAYERS))]
    assert (list(result.ablation), result.ablated) == (list(LAYERS), "mean")
    assert list(result.ablation.values()) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("head", SPECS)
def test_a_signal_of_one_layer_is_attributed_to_it(fitted, head):
    result = fitted[head]
    assert sum(result.shares.values()) == pytest.approx(1, abs=1e-9)
    assert max(result.shares, key=result.shares.get) == SIGNAL
    assert max(result.ablation, key=result.ablation.get) == SIGNAL
    others = [value for layer, value in result.ablation.items() if layer != SIGNAL]
    assert result.ablation[SIGNAL] > 10 * max(map(abs, others))
    if head in LEARNED:
        assert max(result.weights, key=result.weights.get) == SIGNAL


def test_weights_before_training_are_those_that_training_starts_from(splits, fitted):
    for head in ("attention-fusion", "dwatt", "laya"):
        assert sum(fitted[head].initial_weights.values()) == pytest.approx(1, abs=1e-6)
        (still,) = fit(splits, member(head, lr=1e-30), epochs=1)
        assert still.weights == pytest.approx(still.initial_weights, abs=1e-7)
        assert still.initial_weights == pytest.approx(fitted[head].initial_weights, abs=1e-12)
    even = dict.fromkeys(LAYERS, 1 / 3)
    assert fitted["attention-fusion"].initial_weights == pytest.approx(even, abs=1e-7)
    assert fitted["dwatt"].initial_weights != pytest.approx(even, abs=0.01)
    assert fitted["p32"].initial_weights == {} == fitted["concat"].initial_weights


def test_a_saved_fusion_has_its_own_weights_before_training(splits, fitted):
    first = fitted["dwatt"]
    start = {name: value for name, value in first.state.items() if name.startswith("head.")}
    (again,) = fit(splits, member("dwatt", start=start), seed=5, epochs=1)
    assert again.initial_weights == pytest.approx(first.weights, abs=1e-7)
    assert again.weights != pytest.approx(first.weights, abs=1e-4)


def test_a_solved_attention_has_the_weights_of_its_first_start(splits):
    (solved,) = fit(splits, member("attention-fusion", fitter="lbfgs", l2=1e-3))
    assert solved.initial_weights == pytest.approx(dict.fromkeys(LAYERS, 1 / 3), abs=1e-7)


def test_heads_without_the_measure_have_none(splits):
    last, alone, lstm, mlp_over = fit(
        splits,
        member("last"),
        member("last", layers=(3,)),
        member("depth-lstm"),
        member("concat", decoder=DECODERS["mlp"](hidden=8, dropout=0.0)),
        epochs=1,
        ablate=True,
    )
    assert last.shares == pytest.approx({1: 0, 2: 0, 3: 1}, abs=1e-12)
    assert last.ablation[1] == last.ablation[2] == 0 != last.ablation[3]
    assert (alone.shares, alone.ablation, alone.ablated) == ({3: 1.0}, {}, None)
    assert lstm.shares == {} and lstm.initial_weights and len(lstm.ablation) == 3
    assert mlp_over.shares == {} and sum(mlp_over.weights.values()) == pytest.approx(1)


def test_nothing_is_left_out_unless_asked_for(splits):
    (result,) = fit(splits, member("concat"), epochs=1)
    assert (result.ablation, result.ablated) == ({}, None) and result.shares


@pytest.mark.parametrize("classes", [5, 40])
def test_the_logits_products_need_no_more_outputs_than_h_has_channels(classes):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(classes, 8, generator=generator) + 2
    z = torch.randn(50, 3, 8, generator=generator)
    head = HEADS["mean"]().build(LAYERS, 8, generator)
    found = Contributions(head, weight)
    found.add(z)
    assert len(reduced(weight)) == min(classes, 8)
    parts = np.einsum("rld,cd->lrc", z.double().numpy() / 3, weight.double().numpy())
    assert list(found.shares().values()) == pytest.approx(shares(parts), abs=1e-6)


def test_the_shares_of_a_regression_are_those_of_its_value():
    generator = torch.Generator().manual_seed(0)
    decoder = DECODERS["regression"]().build(8, 1, generator)
    decoder.fit_targets(torch.tensor([1.0, 2.0, 5.0]))
    head = HEADS["mean"]().build(LAYERS, 8, generator)
    z = torch.randn(50, 3, 8, generator=generator)
    decoder.eval()
    rest = decoder(head(z)).detach() - head.layer_parts(z, decoder.logit_weight.detach()).sum(0)
    assert float(rest.std()) < 1e-5  # a constant: parts in the unit of the targets
    found = Contributions(head, decoder.logit_weight)
    found.add(z)
    values = np.einsum("rld,d->lr", z.double().numpy(), decoder.weight[0].detach().double().numpy())
    values = values - values.mean(1, keepdims=True)
    total = values.sum(0)
    expected = [(value * total).sum() / (total**2).sum() for value in values]
    assert list(found.shares().values()) == pytest.approx(expected, abs=1e-6)
