"""Training steps against loops written with torch alone."""

import numpy as np
import pytest
import torch

from probekit.base.numbers.seeding import torch_generator
from probekit.base.registry import parse
from probekit.features import Location, open_features
from probekit.metrics import METRICS
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.train.fit import fit_group
from probekit.train.stream import batches
from tests.planted import DIM, MODEL, NAMES, TASK, plant_all
from tests.train.grouped import member_spec, stream_spec

ACCURACY = METRICS["accuracy"]
PLAIN = parse("decoder", "linear:dropout=0", DECODERS)
SETTINGS = [
    (optimizer, schedule) for optimizer in ("adamw", "adam") for schedule in ("linear", "constant")
]


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    root = plant_all(tmp_path_factory.mktemp("cache"), sentences=45)
    return open_features(MODEL, TASK, "ner", Location(cache=root))


def fitted(splits, head="last", **options):
    layers = (3,) if head == "last" else (1, 2, 3)
    defaults = {"head": HEADS[head](), "decoder": PLAIN, "layers": layers, "lr": 5e-2}
    spec = stream_spec(
        train=splits.view("train", valid_only=True),
        seed=2,
        epochs=1,
        evals=1,
        members=(member_spec(**defaults | options),),
    )
    return fit_group([spec], splits.view("dev"), metric=ACCURACY)[0][0]


def optimizer_of(name, groups, weight_decay):
    if name == "adam":
        return torch.optim.Adam(groups)
    return torch.optim.AdamW(groups, weight_decay=weight_decay)


def by_hand(splits, optimizer, schedule, weight_decay=0.01):
    """Three steps of cross entropy over a linear layer, as any tutorial writes them."""
    view = splits.view("train", valid_only=True)
    rows = view.array.read(torch.from_numpy(view.rows), [3])[:, 0]
    targets = torch.from_numpy(view.targets)
    start = PLAIN.build(DIM, len(NAMES), torch_generator(2, "decoder", "linear"))
    weight, bias = (value.detach().clone().requires_grad_() for value in start.parameters())
    trainer = optimizer_of(optimizer, [{"params": [weight, bias], "lr": 5e-2}], weight_decay)
    losses = []
    for number, step in enumerate(batches(view.lengths, seed=2, epochs=1, batch_size=16)):
        places = np.concatenate([np.arange(view.offsets[n], view.offsets[n + 1]) for n in step])
        loss = torch.nn.functional.cross_entropy(rows[places] @ weight.T + bias, targets[places])
        trainer.zero_grad()
        loss.backward()
        for group in trainer.param_groups:
            group["lr"] = 5e-2 * (1 - number / 3 if schedule == "linear" else 1)
        trainer.step()
        losses.append(float(loss.detach()))
    assert len(losses) == 3
    return weight.detach(), bias.detach(), sum(losses) / 3


@pytest.mark.parametrize(("optimizer", "schedule"), SETTINGS)
def test_three_steps_equal_a_loop_by_hand(splits, optimizer, schedule):
    result = fitted(splits, optimizer=optimizer, schedule=schedule)
    weight, bias, loss = by_hand(splits, optimizer, schedule)
    torch.testing.assert_close(result.state["decoder.weight"], weight, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(result.state["decoder.bias"], bias, atol=1e-6, rtol=1e-5)
    assert result.curve == ((3, pytest.approx(loss, rel=1e-5), result.eval_score),)


def test_every_optimizer_and_schedule_makes_a_difference(splits):
    weights = [
        fitted(splits, optimizer=optimizer, schedule=schedule).state["decoder.weight"]
        for optimizer, schedule in SETTINGS
    ]
    for place, one in enumerate(weights):
        for other in weights[place + 1 :]:
            assert float((one - other).abs().max()) > 1e-4


def test_weight_decay_is_adamws_alone(splits):
    def weight(optimizer, decay):
        result = fitted(splits, optimizer=optimizer, weight_decay=decay)
        return result.state["decoder.weight"]

    assert torch.equal(weight("adam", 0.0), weight("adam", 0.01))  # any other is refused
    expected = by_hand(splits, "adamw", "linear", weight_decay=0.5)[0]
    torch.testing.assert_close(weight("adamw", 0.5), expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(weight("adamw", 0.0), weight("adam", 0.0), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("optimizer", "schedule"), SETTINGS)
def test_mixing_weights_have_a_rate_of_their_own(splits, optimizer, schedule):
    options = {"head": "p32", "optimizer": optimizer, "schedule": schedule}
    slow, fast = (fitted(splits, rates=(("mixing", rate),), **options) for rate in (1e-9, 0.5))
    start = HEADS["p32"]().build((1, 2, 3), DIM, torch_generator(2, "head", "p32")).state_dict()
    (name,) = start
    assert float((slow.state[f"head.{name}"] - start[name]).abs().max()) < 1e-8
    assert float((fast.state[f"head.{name}"] - start[name]).abs().max()) > 0.3
