"""Presets fill in what the command line leaves out, and nothing else."""

import itertools
import re
from dataclasses import replace

import pytest

from probekit.cli.run_list import OF_RUNS, Target, TrainingOptions, make_plan
from probekit.cli.train import sweep
from probekit.errors import OptionError, ProbekitError
from probekit.train.sweeps.protocols import PROTOCOLS, get_protocol
from probekit.train.sweeps.specs import TrainSpec
from tests.cli.console import done, stated
from tests.planted import MODEL, plant_all
from tests.planted_texts import plant_all_texts


def plan(protocol, *, task="conll", head=None, epochs=None, depths=(None,), seeds=None, **options):
    shared = TrainingOptions(protocol=protocol, seeds=seeds)
    target = Target.of(MODEL, task, shared, {})
    asked = options | {"epochs": epochs}
    return make_plan(target, shared, asked, head=head, depths=depths)


@pytest.mark.parametrize(
    ("task", "kind"), [("conll", "tagging"), ("glue/sst2", "sentence"), ("glue/stsb", "regression")]
)
@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name != "sae-probes"])
def test_a_protocol_sets_what_it_says_and_nothing_else(name, task, kind):
    """What it says is that of the page: tests/test_readme.py; the rest is common to all."""
    protocol = PROTOCOLS[name]
    common = {"select": "dev", "as_published": True, "rate_from": "published"}
    common |= {"method": "full"} if name.endswith("-ft") else {}
    assert common.items() <= protocol.options.items() and protocol.tunes == ("method" in common)
    decoder = protocol.decoders.get(kind)
    spec = TrainSpec(model=MODEL, task=task, head="last", decoder=decoder, **protocol.options)
    runs = itertools.product(protocol.heads, range(protocol.seeds))
    assert plan(name, task=task) == [replace(spec, head=head, seed=seed) for head, seed in runs]


def test_that_of_sae_probes_takes_no_steps():
    spec = TrainSpec(model=MODEL, task="glue/sst2", head="last")
    assert plan("sae-probes", task="glue/sst2") == [replace(spec, fit="sae-probes", pooling="last")]


def test_without_a_protocol_nothing_is_filled_in():
    specs = plan(None, head="p32,mean")
    plain = TrainSpec(model=MODEL, task="conll", head="p32")
    assert specs == [plain, replace(plain, head="mean")]
    assert [spec.head for spec in plan(None)] == ["last", "p32", "concat", "dwatt"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr = 1", "p.toml: unknown field 'lr'. A protocol states optimizer, schedule, warmup"),
        ("optimizers = 'x'", "p.toml: unknown field 'optimizers'. Did you mean 'optimizer'? A"),
        ("batch_size = 'x'", "p.toml: batch_size must be a number, or an array of these; found"),
        ("optimizer = 3", "p.toml: optimizer must be text, or an array of these; found 3."),
        ("evals = []", "p.toml: evals must be a number, or an array of these; found []."),
        ("evals = true", "p.toml: evals must be a number, or an array of these; found True."),
        ("schedule = 'cosine'", "unknown schedule 'cosine'."),
        ("evals", "--protocol p.toml: not TOML"),
        (None, "--protocol p.toml: no such file"),
    ],
)
def test_a_file_that_is_no_protocol_is_told(here, text, message):
    if text is not None:
        (here / "p.toml").write_text(text)
    with pytest.raises(ProbekitError) as told:
        plan("p.toml")
    assert str(told.value).startswith(message)


def test_a_detail_may_have_several_values(here):
    _, file = stated(batch_size=[8, 16], optimizer=["adam", "adamw"], warmup=0.5)
    found = [(spec.batch_size, spec.optimizer, spec.warmup) for spec in plan(file, head="last")]
    assert found == [(size, name, 0.5) for size in (8, 16) for name in ("adam", "adamw")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2e-3,mixing=0.1", [(2e-3, {"mixing": 0.1})]),
        ("b=0.1,a=0.05", [(None, {"a": 0.05, "b": 0.1})]),
        ("1e-3,auto,search", [(rate, {}) for rate in (1e-3, None, "search")]),
        ("mixing=0.1,mixing=0.3", [(None, {"mixing": 0.1}), (None, {"mixing": 0.3})]),
        ("weights=0.1", [(0.1, {})]),
        ("mixing=", "--lr mixing=: give a number, such as mixing=0.1."),
        ("mixing=fast", "--lr mixing: 'fast' is not a number."),
        ("mixing=auto", "--lr mixing=auto: give a number, such as mixing=0.1."),
    ],
)
def test_rates_of_groups_are_typed_beside_the_rate(text, expected):
    if isinstance(expected, str):
        with pytest.raises(OptionError) as told:
            plan(None, lr=text)
        assert str(told.value) == expected
    else:
        specs = plan(None, head="p32", lr=text)
        assert [(spec.lr, dict(spec.rates)) for spec in specs] == expected


def test_the_help_of_a_sweep_names_the_options_that_may_have_several_values():
    (line,) = (line for line in sweep.__doc__.splitlines() if "Lists may" in line)
    several = {name for name, field in OF_RUNS.fields.items() if "each" in field.metadata}
    named = set(re.findall(r"--([a-z0-9-]+)", line))
    assert named == {name.replace("_", "-") for name in several | {"head"}}


@pytest.mark.parametrize(
    ("option", "given", "expected"),
    [
        ("method", "bitfit", "bitfit"),
        ("lr", "0.1", 0.1),
        ("lr", "auto", None),  # the head's published rate
        ("decoder", "mlp:hidden=8", "mlp:hidden=8"),
        ("warmup", 0.5, 0.5),
    ],
)
@pytest.mark.parametrize("name", ["p32", "attention-fusion-ft"])
def test_every_option_can_be_overridden_alone(name, option, given, expected, here):
    before = plan(name)
    if option == "method" and not name.endswith("-ft"):  # which has no rate for a model
        with pytest.raises(OptionError, match=f"Give --protocol {name}-ft, or that rate: --lr ba"):
            plan(name, method=given)
        return
    if option == "warmup":
        _, file = stated(warmup=given)
        after = plan(f"{name},{file}")
        assert plan(f"{file},{name}") == after
    else:
        after = plan(name, **{option: given})
    changes = {option: expected} | ({"rate_from": None} if option == "lr" else {})
    assert [replace(spec, **changes) for spec in before] == after


def test_what_is_given_goes_before_the_protocol():
    specs = plan("p32", head="laya,p32", epochs="3", seeds=2, shots="4,8", hold_out=0.2)
    found = [(spec.head, spec.shots, spec.seed) for spec in specs]
    assert found == [(h, k, s) for h in ("laya", "p32") for k in (4, 8) for s in (0, 1)]
    assert {(spec.epochs, spec.lr, spec.hold_out) for spec in specs} == {(3, 2e-3, 0.2)}


def test_each_label_column_has_the_decoder_of_its_kind():
    """ATIS: one extraction, slots per word and one intent per sentence."""
    specs = plan("attention-fusion", task="atis", label="slots,intent", seeds=1, head="last")
    assert [(spec.label, spec.decoder) for spec in specs] == [("slots", "crf"), ("intent", "mlp")]
    with pytest.raises(OptionError, match=r"--label names no value\."):
        plan("attention-fusion", label=",")


def test_one_run_trains_the_protocols_own_head():
    own = ["dwatt", "attention-fusion", "p32", "last", "dwatt", "last", "p32"]
    assert [get_protocol(name).heads[-1] for name in PROTOCOLS] == own
    assert get_protocol(None).heads[-1] == "dwatt"


def test_records_hold_the_options_and_not_the_name(here):
    plant_all(here / "cache")
    words = ("train", MODEL, "conll", "--protocol", "attention-fusion", "--epochs", "1")
    rows = done(*words, "--json").rows
    assert [(row["head"], row["decoder"], row["seed"]) for row in rows] == [
        ("attention-fusion", "crf", seed) for seed in range(3)
    ]
    for row in rows:
        assert (row["lr"], row["batch_size"], row["epochs"]) == (2e-3, 32, 1)
        assert row["optimizer"] == "Adam, constant rate"
        assert "attention-fusion" not in row["protocol"]
    by_hand = ("train", MODEL, "conll", "--head", "attention-fusion", "--decoder", "crf")
    by_hand += ("--lr", "2e-3,mixing=2e-3,transitions=2e-3", "--select", "dev", "--seeds", "3")
    by_hand += stated(batch_size=32, optimizer="adam", schedule="constant")
    outcome = done(*by_hand, "--epochs", "1", "--json")
    assert outcome.rows == rows and "3 of 3 runs are recorded" in outcome.err


def test_depth_follows_a_protocol_too(here):
    plant_all_texts(here / "cache")
    words = ("depth", MODEL, "glue/sst2", "--every", "3", "--seeds", "1", "--shots", "8", "--json")
    rows = done(*words, "--protocol", "p32", "--epochs", "1").rows
    assert [(row["head"], row["depth"]) for row in rows] == [
        (head, depth) for head in PROTOCOLS["p32"].heads for depth in (0, 3)
    ]
    rows = done(*words, "--protocol", "p32", "--head", "mean").rows
    assert {(row["head"], row["epochs"]) for row in rows} == {("mean", 20)}
    rows = done(*words).rows
    assert {(row["head"], row["epochs"], row["fitter"]) for row in rows} == {
        ("last", None, "lbfgs")
    }
