"""Rates of groups of parameters: defaults, protocols, what the user gives, what there is not."""

import pytest

from probekit.errors import OptionError
from probekit.features import Location
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.results.tables import summarise, table
from probekit.train.sweeps.fitting import settle_rates
from probekit.train.sweeps.protocols import PROTOCOLS
from probekit.train.sweeps.run import fit, sweep
from probekit.train.sweeps.specs import TrainSpec
from tests.planted import MODEL, TASK, plant_all


def spec(**options):
    return TrainSpec(**{"model": MODEL, "task": TASK, "label": "ner", "head": "p32"} | options)


def settled(head="p32", decoder="linear", **options):
    one = spec(head=head, decoder=decoder, **options)
    return settle_rates(one, HEADS[head](), DECODERS[decoder]())


@pytest.mark.parametrize(
    ("head", "decoder", "options", "lr", "rates"),
    [
        ("last", "linear", {}, 1e-2, {}),
        # Hidden layers in the decoder stand less than a linear layer.
        ("last", "mlp", {}, 3e-3, {}),
        ("concat", "mlp", {}, 1e-3, {}),
        ("p32", "linear", {}, 1e-2, {"mixing": 0.2}),
        ("scalar-mix", "crf", {}, 1e-2, {"mixing": 0.2, "transitions": 0.1}),
        ("dwatt", "crf", {}, 1e-3, {"mixing": 1e-3, "transitions": 0.1}),
        # A number is the rate of weights, and of groups without a default.
        ("dwatt", "crf", {"lr": 2e-3}, 2e-3, {"mixing": 2e-3, "transitions": 0.1}),
        ("p32", "linear", {"lr": 1e-3}, 1e-3, {"mixing": 0.2}),
        ("p32", "crf", {"rates": (("transitions", 1),)}, 1e-2, {"mixing": 0.2, "transitions": 1}),
        # One rate is the paper's way.
        (
            "p32",
            "crf",
            {"lr": 1e-3, "as_published": True},
            1e-3,
            {"mixing": 1e-3, "transitions": 1e-3},
        ),
        ("p32", "linear", {"as_published": True, "rates": (("mixing", 1),)}, 1e-2, {"mixing": 1}),
    ],
)
def test_every_group_has_a_rate(head, decoder, options, lr, rates):
    found = settled(head, decoder, **options)
    assert (found.lr, dict(found.rates), found.as_published) == (lr, rates, False)
    again = settle_rates(found, HEADS[head](), DECODERS[decoder]())
    assert again == found


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ({}, "fixed"),
        ({"lr": 2e-3}, "fixed"),
        ({"rates": (("mixing", 0.1),)}, "fixed"),
        ({"lr": 2e-3, "rate_from": "published"}, "published"),
    ],
)
def test_where_a_rate_is_from(options, source):
    assert settled(**options).rate_from == source


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("head", HEADS)
def test_a_protocol_has_as_published_for_all_groups(name, head):
    options = {**PROTOCOLS[name].options}
    found = settled(head, "crf", **options)
    assert {found.lr, *dict(found.rates).values()} == {options["lr"]}
    assert found.rate_from == "published"


def test_a_group_that_is_not_trained_has_no_rate():
    with pytest.raises(OptionError, match=r"--lr mixing=0\.1: last .* trains weights\. Leave"):
        settled("last", rates=(("mixing", 0.1),))
    with pytest.raises(OptionError, match=r"no parameters called mix; it trains weights and mix"):
        settled("p32", rates=(("mix", 0.1),))
    frozen = {"fusion_from": "saved", "freeze_fusion": True}
    assert settled("p32", "crf", **frozen).rates == (("transitions", 0.1),)
    with pytest.raises(OptionError, match=r"its fusion frozen, has no parameters called mixing"):
        settled("p32", rates=(("mixing", 0.1),), **frozen)


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    return Location(cache=plant_all(tmp_path_factory.mktemp("cache"), sentences=30))


def test_groups_step_at_their_rates(location):
    options = {"decoder": "crf", "epochs": 1, "lr": 1e-3}
    slow, fast = (
        fit(spec(**options, rates=(("transitions", rate),)), location=location)
        for rate in (1e-9, 0.5)
    )
    for name in ("transitions", "start", "end"):
        assert slow.state[f"decoder.{name}"].abs().max() < 1e-7
        assert fast.state[f"decoder.{name}"].abs().max() > 0.3
    default = fit(spec(**options), location=location).state["decoder.transitions"]
    tenth = fit(spec(**options, rates=(("transitions", 0.1),)), location=location)
    assert default.equal(tenth.state["decoder.transitions"])


def test_runs_with_other_rates_are_other_runs_and_rows(location, tmp_path):
    plan = [spec(epochs=1, rates=rates) for rates in ((), (("mixing", 0.1),), (("mixing", 0.2),))]
    records = sweep(plan, out=tmp_path / "runs.jsonl", location=location)
    assert [(dict(r.rates), r.rate_from) for r in records] == [
        ({"mixing": 0.2}, "fixed"),
        ({"mixing": 0.1}, "fixed"),
    ]  # the default and the same rate by hand are one run
    header, _, first, second = table(summarise(records)).splitlines()[:4]
    assert ["rates" in header, "rate " in header] == [True, False]
    assert "mixing=0.1" in first and "mixing=0.2" in second
