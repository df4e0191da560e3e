"""Direction and bias give a linear probe's logits on raw states; other probes say what they are."""

import json
import re

import numpy as np
import pytest
import torch
from safetensors import safe_open

from probekit.errors import OptionError, StorageError, UnknownNameError
from probekit.features import Location
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.probe.normalization import NORMALIZATIONS
from probekit.train.saved.directions import directions, export, write_directions
from probekit.train.saved.folder import HeadFeatures, SavedHead, save_head
from probekit.train.saved.head import TrainedHead
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec, product
from tests.planted import MODEL, TASK, plant_all

LAYERS, DIM, CLASSES = (1, 2, 4), 12, ("a", "b", "c")
LINEAR_HEADS = {"last", "mean", "p32", "scalar-mix", "concat", "concat-ffn"}
LINEAR_DECODERS = {"linear", "crf", "regression", "one-vs-rest"}
LINEAR_NORMALIZATIONS = {"none", "standardize"}
ROW_HEADS = [name for name, spec in HEADS.items() if spec.reads == "rows"]
OWN_DECODERS = [name for name in DECODERS if name != "vocabulary"]  # which a saved head has not


def trained(head, decoder="linear", normalize="none", layers=LAYERS, **features):
    """A head with values far from their start, on states with large means."""
    generator = torch.Generator().manual_seed(3)
    labels = () if decoder == "regression" else CLASSES
    module = HEADS[head]().build(layers, DIM, generator)
    parts = {
        "head.": module,
        "decoder.": DECODERS[decoder]().build(module.width, len(CLASSES), generator),
    }
    state = {
        f"{prefix}{name}": value + 0.3 * torch.randn(value.shape, generator=generator)
        for prefix, part in parts.items()
        for name, value in part.state_dict().items()
    }
    said = {"name": normalize, "kind": "layernorm", "eps": 1e-5, "already_normed": None}
    if normalize == "standardize":
        state["normalization.mean"] = 30 * torch.randn(len(layers), DIM, generator=generator)
        state["normalization.scale"] = torch.rand(len(layers), DIM, generator=generator) + 0.1
    if normalize == "final-norm":
        state |= {"normalization.weight": torch.ones(DIM), "normalization.bias": torch.zeros(DIM)}
    about = {
        "dim": DIM, "n_blocks": 4, "pooling": "last", "dtype": "float32",
        "compute_dtype": "float32", "max_length": None, "overlong": "stride", "entry": "e" * 64,
    }  # fmt: skip
    saved = SavedHead(
        head=HEADS[head]().to_json(), decoder=DECODERS[decoder]().to_json(),
        normalization=said | features.pop("said", {}), layers=layers, n_params=1,
        model={"name": "m", "final_norm": True, "identity": {"configuration": {"model_type": "x"}}},
        features=HeadFeatures.of(about), task="t", label="l", labels=labels, metric="accuracy",
        eval_score=0.5, test_score=None, options={}, key="k" * 64,
    )  # fmt: skip
    return TrainedHead(saved, state)


def raw_states(layers=LAYERS):
    return 30 + 5 * torch.randn(7, len(layers), DIM, generator=torch.Generator().manual_seed(5))


def logits(head, z):
    """The logits as the probe itself gives them, normalisation first."""
    module, decoder, normalization = head.modules
    return decoder(module(normalization(z)))


ONE_OTHER = [
    *((name, "linear", "standardize", "") for name in sorted(LINEAR_HEADS)),
    *((name, "linear", "none", f"head {name} are not linear") for name in ROW_HEADS),
    *(("mean", name, "none", f"decoder {name} has a nonlinearity") for name in OWN_DECODERS),
    *(("mean", "linear", name, f"--normalize {name} divides") for name in NORMALIZATIONS),
]
LINEAR = {*LINEAR_HEADS, *LINEAR_DECODERS, *LINEAR_NORMALIZATIONS}


@pytest.mark.parametrize(("head", "decoder", "normalize", "reason"), ONE_OTHER)
def test_direction_and_bias_are_the_probe_and_others_say_why_there_are_none(
    head, decoder, normalize, reason
):
    """Also the other way round: no part is linear that does not say so."""
    one, z = trained(head, decoder, normalize), raw_states() / 40
    middle = (z[:1] + z[1:2]) / 2
    mean = (logits(one, z[:1]) + logits(one, z[1:2])) / 2
    affine = torch.allclose(logits(one, middle), mean, atol=1e-4, rtol=1e-4)
    assert affine == ({head, decoder, normalize} <= LINEAR)
    if not affine:
        with pytest.raises(OptionError, match=reason):
            directions(one)
        return
    found, z = directions(one), raw_states()
    expected = logits(one, z)
    # an independent way to the same numbers: one product by NumPy over raw states
    by_hand = np.einsum("rld,lcd->rc", z.double(), found.direction.double()) + found.bias.numpy()
    assert found.direction.shape == (len(LAYERS), expected.shape[1], DIM)
    torch.testing.assert_close(found.logits(z), expected.float(), rtol=1e-4, atol=2e-3)
    torch.testing.assert_close(found.logits(z.numpy()), found.logits(z))
    torch.testing.assert_close(found.logits(z[2]), found.logits(z)[2])
    np.testing.assert_allclose(by_hand, expected.numpy(), rtol=1e-4, atol=2e-3)


def test_a_layer_that_is_normed_already_passes_the_final_norm():
    said = {"already_normed": 0}
    one = trained("last", normalize="final-norm", layers=(4,), said=said)
    z = raw_states((4,))
    torch.testing.assert_close(directions(one).logits(z), logits(one, z), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_logits_of_one_layer_take_rows_as_numpy_has_them(dtype):
    found, rows = directions(trained("last", layers=(4,))), raw_states((4,))[:, 0].numpy()
    rows = rows.astype(dtype)
    rows.flags.writeable = False  # as those of a file
    by_hand = rows @ found.direction[0].numpy().T + found.bias.numpy()
    np.testing.assert_allclose(found.logits(rows), by_hand, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(found.logits(rows[:1]), by_hand[:1], rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(found.logits(rows[0]), by_hand[0], rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("shape", [(7, 4, DIM), (7, DIM), (3, DIM - 1), (DIM,), (1, 7, 3, DIM)])
def test_states_of_other_layers_or_widths_are_refused(shape):
    message = re.escape(f"states of shape {shape}: this probe reads layers 1, 2, 4 of 12 numbers")
    with pytest.raises(OptionError, match=message):
        directions(trained("mean")).logits(np.zeros(shape))


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    """Saved heads of every depth, and a mixture, trained on planted rows."""
    root = tmp_path_factory.mktemp("directions")
    location = Location(cache=plant_all(root / "cache"))
    base = TrainSpec(model=MODEL, task=TASK, head="last", l2=1.0)
    every = product(base, {"depth": [0, 1, 2, 3], "normalize": ["standardize"]})
    sweep(every, out=root / "r.jsonl", location=location, save=root / "depths")
    mixed = TrainSpec(model=MODEL, task=TASK, head="p32", l2=1.0)
    sweep([mixed], out=root / "r.jsonl", location=location, save=root / "mixed")
    return root


def test_the_probes_of_all_depths_go_together(heads):
    found = export(heads / "depths")
    assert found.layers == (0, 1, 2, 3) and not found.one_probe
    z = raw_states((0, 1, 2, 3))[..., :1].expand(-1, -1, 16)
    together = found.logits(z)
    for folder in (heads / "depths").iterdir():
        one = TrainedHead.from_pretrained(folder)
        place = found.layers.index(one.layers[0])
        torch.testing.assert_close(
            together[:, place], logits(one, z[:, place : place + 1]), rtol=1e-4, atol=2e-3
        )


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([("last", "linear", (2,))] * 2, "task and label column, and read a different layer"),
        ([("mean", "linear", LAYERS)], "its head mean reads 3 layers together"),
        (
            [("last", "linear", (2,)), ("last", "regression", (3,))],
            "its heads must be of one model, task and label column",
        ),
    ],
)
def test_heads_that_do_not_go_together(tmp_path, parts, message):
    for number, (head, decoder, layers) in enumerate(parts):
        part = trained(head, decoder, layers=layers)
        save_head(tmp_path / f"{number}", part.saved, part.state)
    with pytest.raises(OptionError, match=message):
        export(tmp_path)


@pytest.mark.parametrize("folder", ["mixed", "depths"])
def test_npz_and_safetensors_hold_the_same(heads, tmp_path, folder):
    found = export(heads / folder)
    with np.load(write_directions(found, "npz", tmp_path / "x.npz"), allow_pickle=False) as file:
        arrays = dict(file)
    file = write_directions(found, "safetensors", tmp_path / "x.safetensors")
    with safe_open(file, "np") as tensors:
        about = {key: json.loads(value) for key, value in tensors.metadata().items()}
        for name in ("direction", "bias", "layers"):
            np.testing.assert_array_equal(arrays[name], tensors.get_tensor(name))
    assert about == json.loads(str(arrays["about"]))
    assert arrays["classes"].tolist() == about["classes"] == list(found.classes)
    assert about["one_probe"] == (folder == "mixed")
    np.testing.assert_array_equal(arrays["direction"], found.direction.numpy())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npz", "x.safetensors"]


def test_a_contrast_is_how_far_a_class_gains_on_the_others():
    found = directions(trained("mean"))
    along = found.contrast("b")
    z = raw_states()
    rise = (found.logits(z + along) - found.logits(z))[0]
    expected = float((along * along).sum())  # the gradient of what rises, times itself
    assert float(rise[1] - rise[[0, 2]].mean()) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("form", "file", "message"),
    [
        ("npy", "x", r"unknown format 'npy'. Did you mean 'npz'"),
        ("npz", "x", r"for npz, choose a name that ends in \.npz"),
        ("npz", "file/x.npz", "cannot be written"),
    ],
)
def test_what_cannot_be_written(tmp_path, form, file, message):
    (tmp_path / "file").write_text("")
    with pytest.raises((OptionError, StorageError, UnknownNameError), match=message):
        write_directions(directions(trained("mean")), form, tmp_path / file)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_contrast_is_of_one_class():
    found = directions(trained("mean"))
    with pytest.raises(OptionError, match=r"belongs to one class: name one of a, b, c\."):
        found.contrast()
    with pytest.raises(OptionError, match=r"class 'd': this head has no such class; it has a, b"):
        found.contrast("d")
    number = directions(trained("mean", "regression"))
    torch.testing.assert_close(number.contrast(), number.direction[:, 0])
    with pytest.raises(OptionError, match="predicts a number; name no class"):
        number.contrast("a")
