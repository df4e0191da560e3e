"""What layers count: shares, losses without a layer and first weights, against NumPy by hand."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.probe.heads.laya import LAYA
from probekit.train.attribution import Contributions, reduced
from probekit.train.member import Probe
from tests.train import grouped
from tests.train.grouped import splits_in, stream

LAYERS = (1, 2, 3)
SIGNAL = 2
SPECS = {
    "mean": {"fitter": "lbfgs", "l2": 1e-3}, "p32": {"fitter": "lbfgs", "l2": 1e-3},
    "scalar-mix": {"fitter": "lbfgs", "l2": 1e-3}, "attention-fusion": {"lr": 0.1},
    "concat": {"lr": 1e-2}, "concat-ffn": {"fitter": "lbfgs", "l2": 1e-3}, "dwatt": {"lr": 1e-2},
    "laya": {"lr": 1e-2},
}  # fmt: skip
LEARNED = ("p32", "scalar-mix", "attention-fusion", "concat", "dwatt", "laya")


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return splits_in(tmp_path_factory.mktemp("cache"), signal=(SIGNAL,), noise=0.15)


def member(name, **options):
    head = LAYA(width=16, scorer=16) if name == "laya" else name
    given = {"decoder": "linear:dropout=0", "layers": LAYERS}
    return grouped.member(head, **given | SPECS.get(name, {"lr": 1e-2}) | options)


def fit(splits, *members, seed=0, epochs=8, **options):
    return grouped.fit(
        splits, stream(splits, *members, seed=seed, epochs=epochs, evals=1), **options
    )[0]


@pytest.fixture(scope="module")
def fitted(splits):
    """Every head that is a sum over layers, fitted to a signal in one of them."""
    solved = [name for name in SPECS if "fitter" in SPECS[name]]
    stepped = [name for name in SPECS if "fitter" not in SPECS[name]]
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
    """Cov(part, sum) / Var(sum) of parts (layers, rows, outputs), rows and outputs centred."""
    if parts.shape[2] > 1:
        parts = parts - parts.mean(2, keepdims=True)
    parts = parts - parts.mean(1, keepdims=True)
    total = parts.sum(0)
    return [(part * total).sum() / (total**2).sum() for part in parts]


def p32_parts(z, s):
    return softmax(s["head.lambda_"])[:, None, None] * z.transpose(1, 0, 2)


def attention_parts(z, s):
    attention = softmax(z @ s["head.q"], axis=1)
    return (attention[:, :, None] * z).transpose(1, 0, 2)


def concat_parts(z, s):
    return np.einsum("rld,ldo->lro", z, s["head.weight"])


PARTS = {"p32": p32_parts, "attention-fusion": attention_parts}


@pytest.mark.parametrize("head", [*PARTS, "concat"])
def test_shares_equal_a_computation_by_hand(splits, fitted, head):
    z, s = rows_of(splits)[0], state(fitted[head])
    expected = shares((PARTS | {"concat": concat_parts})[head](z, s) @ s["decoder.weight"].T)
    assert list(fitted[head].shares) == list(LAYERS)
    assert list(fitted[head].shares.values()) == pytest.approx(expected, abs=1e-5)
    if head == "concat":  # whose weights are its shares, alike for all rows
        assert list(fitted[head].weights.values()) == pytest.approx(expected, abs=1e-5)
        assert fitted[head].class_weights == {}


@pytest.mark.parametrize(
    ("head", "normalize"), [*((head, "none") for head in PARTS), ("p32", "standardize")]
)
def test_losses_without_a_layer_equal_a_computation_by_hand(splits, fitted, head, normalize):
    result = fitted[head]
    if normalize != "none":
        options = {"lr": 1e-2, "normalize": normalize, "fitter": "adam", "l2": None}
        (result,) = fit(splits, member(head, **options), epochs=2, ablate=True)
    (z, gold), (train, _), s = rows_of(splits), rows_of(splits, "train"), state(result)
    if normalize != "none":
        mean, scale = train.mean(0), 1 / train.std(0)
        z, train = (z - mean) * scale, (train - mean) * scale

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
    others = [value for layer, value in result.ablation.items() if layer != SIGNAL]
    assert result.ablation[SIGNAL] > 10 * max(map(abs, others))
    if head in LEARNED:
        assert max(result.weights, key=result.weights.get) == SIGNAL


def test_weights_before_training_are_those_that_training_starts_from(splits, fitted):
    even = dict.fromkeys(LAYERS, 1 / 3)
    for head in ("attention-fusion", "dwatt", "laya"):
        assert sum(fitted[head].initial_weights.values()) == pytest.approx(1, abs=1e-6)
        (still,) = fit(splits, member(head, lr=1e-30), epochs=1)
        assert still.weights == pytest.approx(still.initial_weights, abs=1e-7)
        assert still.initial_weights == pytest.approx(fitted[head].initial_weights, abs=1e-12)
        assert (still.initial_weights == pytest.approx(even, abs=1e-3)) == (head[0] == "a")
    assert fitted["p32"].initial_weights == {} == fitted["concat"].initial_weights
    (solved,) = fit(splits, member("attention-fusion", fitter="lbfgs", l2=1e-3, lr=None))
    assert solved.initial_weights == pytest.approx(even, abs=1e-7)
    first = fitted["dwatt"]  # which another run starts from
    start = {name: value for name, value in first.state.items() if name.startswith("head.")}
    (again,) = fit(splits, member("dwatt", start=start), seed=5, epochs=1)
    assert again.initial_weights == pytest.approx(first.weights, abs=1e-7)
    assert again.weights != pytest.approx(first.weights, abs=1e-4)


def test_heads_without_the_measure_have_none(splits):
    last, alone, lstm, mlp_over = fit(
        splits, member("last"), member("last", layers=(3,)), member("depth-lstm"),
        member("concat", decoder="mlp:hidden=8:dropout=0"), epochs=1, ablate=True,
    )  # fmt: skip
    assert last.shares == pytest.approx({1: 0, 2: 0, 3: 1}, abs=1e-12)
    assert last.ablation[1] == last.ablation[2] == 0 != last.ablation[3]
    assert (alone.shares, alone.ablation, alone.ablated) == ({3: 1.0}, {}, None)
    assert lstm.shares == {} and lstm.initial_weights and len(lstm.ablation) == 3
    assert mlp_over.shares == {} and sum(mlp_over.weights.values()) == pytest.approx(1)
    (unasked,) = fit(splits, member("concat"), epochs=1)
    assert (unasked.ablation, unasked.ablated) == ({}, None) and unasked.shares


def probe_and_rows(decoder="linear", n_classes=4):
    generator = torch.Generator().manual_seed(0)
    head = HEADS["concat"]().build(LAYERS, 6, generator)
    z = torch.randn(200, len(LAYERS), 6, generator=generator) + 3  # far from zero
    z[:, 1] += z[:, 0]  # layers that go together
    return Probe(head, DECODERS[decoder]().build(6, n_classes, generator)).eval(), z


def contributions(probe, z, size=64):
    found = Contributions(probe.head, probe.decoder.logit_weight)
    for first in range(0, len(z), size):
        found.add(z[first : first + size])
    return found


@pytest.mark.parametrize("size", [200, 64, 1])
@pytest.mark.parametrize(("decoder", "n_classes"), [("linear", 9), ("linear", 1), ("mlp", 4)])
def test_blocks_of_any_size_equal_a_direct_computation(decoder, n_classes, size):
    """Parts of the logits, of no more products than h has channels; of h if not affine."""
    probe, z = probe_and_rows(decoder, n_classes)
    parts = concat_parts(
        z.double().numpy(), {"head.weight": probe.head.weight.detach().double().numpy()}
    )
    assert (probe.decoder.affine is None) == (decoder == "mlp")
    if decoder == "linear":
        assert len(reduced(probe.decoder.weight)) == min(n_classes, 6)
        parts = parts @ probe.decoder.weight.detach().double().numpy().T
    found = contributions(probe, z, size).weights()
    assert found.layers == LAYERS and found.weights.dtype == torch.float64
    assert found.weights.numpy() == pytest.approx(shares(parts), abs=1e-5)
    assert float(found.weights.sum()) == pytest.approx(1, abs=1e-12)


def test_logits_that_do_not_vary_have_even_shares():
    probe, z = probe_and_rows()
    with torch.no_grad():
        probe.decoder.weight.zero_()
    found = contributions(probe, z)
    assert found.weights().weights.tolist() == [1 / 3] * 3 and found.shares() == {}
    with torch.no_grad():
        probe.decoder.weight.fill_(float("inf"))
    found = contributions(probe, z)
    assert found.weights().weights.isnan().all() and found.shares() == {}
