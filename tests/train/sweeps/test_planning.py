"""How runs are divided into groups, and the sizes that this goes by."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.features import open_features
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.train.sweeps.resolve import Run, resolve
from probekit.train.sweeps.run import fit
from probekit.train.sweeps.specs import ResolvedOptions
from probekit.train.sweeps.sweeping import MOST_COST, cost, make_groups, member_bytes
from tests.planted import MODEL, TASK
from tests.train.grouped import member
from tests.train.sweeps.samples import TEXTS, spec


def run(seed=0, label="ner", n_params=0, epochs=2, head="last", layers=(1,), **known):
    asked = spec(label=label, head=head, seed=seed, epochs=epochs, lr=1e-3, batch_size=16)
    about = {"task": "t", "metric": "f1", "entries": {}, "labels_fingerprint": str(n_params)}
    options = ResolvedOptions(spec=asked, layers=layers, numerics=1, **about)
    planned = {"member": member(head, layers=layers, lr=1e-3), "n_sentences": 40}
    return Run(options=options, **planned, n_params=n_params, **known)


OPTIONS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 3), "label": st.sampled_from(["ner", "pos"]),
        "n_params": st.integers(0, 3_000_000), "epochs": st.integers(1, 3),
    }
)  # fmt: skip


@given(st.lists(OPTIONS, max_size=60), st.integers(1, 4), st.integers(10**6, 10**9))
def test_groups_hold_every_run_once_within_the_limits(options, workers, memory):
    runs = [run(**chosen) for chosen in options]
    groups = make_groups(runs, workers=workers, memory=memory)
    assert sorted(map(id, itertools.chain(*groups))) == sorted(map(id, runs))
    for group in groups:
        assert 0 < len(group) <= 32
        assert len({item.data_key for item in group}) == 1
        assert len(group) == 1 or sum(map(member_bytes, group)) <= memory
    costs = [sum(map(cost, group)) for group in groups]
    assert costs == sorted(costs, reverse=True)


def test_one_worker_with_room_gets_one_group_and_streams_stay_together():
    runs = [run(seed=seed, n_params=size) for size in (0, 5) for seed in (0, 1, 2)]
    (group,) = make_groups(runs, workers=1, memory=10**9)
    streams = [item.stream_key for item in group]
    assert len({item.stream_key for item in runs}) == 3
    assert [key for key, _ in itertools.groupby(streams)] == list(dict.fromkeys(streams))
    assert [len(group) for group in make_groups(runs, workers=2, memory=10**9)] == [2, 2, 2]


def test_long_sweeps_record_every_few_minutes():
    runs = [run(seed=seed, n_params=8_000_000, epochs=500) for seed in range(12)]
    assert sum(map(cost, runs)) > 2 * MOST_COST
    groups = make_groups(runs, workers=1, memory=10**12)
    assert len(groups) > 2
    assert all(len(group) == 1 or sum(map(cost, group)) < 1.5 * MOST_COST for group in groups)


def test_linear_probes_of_many_depths_stay_in_one_group():
    probes, others = (
        [run(layers=(depth,), epochs=1000, linear=linear) for depth in range(31)]
        for linear in (True, False)
    )
    assert len(make_groups(probes, workers=1, memory=10**9)) == 1
    assert len(make_groups(others, workers=1, memory=10**9)) > 1


def test_what_makes_a_run_dear():
    """Subwords, which are more than words, and a recurrent head's layers."""
    subwords, plain = (run(n_params=8_000_000, head=name) for name in ("extra-layers", "concat"))
    assert 3 * cost(plain) < cost(subwords)
    one, two = (
        run(n_params=800_000, head="depth-lstm", layers=layers) for layers in ((12,), (1, 12))
    )
    assert cost(two) - cost(one) == two.steps * (800_000 + 20_000)


@pytest.mark.parametrize(
    ("head", "decoder", "expected"),
    [
        ("last", "linear", True),
        ("concat-ffn", "linear", True),
        ("last", "mlp", False),
        ("p32", "linear", False),
    ],
)
def test_what_trains_a_linear_layer_alone(words, head, decoder, expected):
    splits = open_features(MODEL, TASK, "ner", words)
    assert resolve(spec(head=head, decoder=decoder), splits).linear == expected


KINDS = {TASK: "tagging", **dict(zip(TEXTS, ("sentence", "pair", "regression"), strict=True))}
SIZED = [("glue/rte", {"head": head}) for head in HEADS] + [
    (task, {"decoder": decoder})
    for decoder in ("linear", "pooler", "regression", "mlp:hidden=32", "crf:hidden=8")
    for task, kind in KINDS.items()
    if kind in DECODERS[decoder.partition(":")[0]].kinds
]


@pytest.mark.parametrize(("task", "options"), SIZED)
def test_what_planning_takes_for_a_runs_size_is_what_it_trains(words, texts, task, options):
    where = words if task == TASK else texts
    asked = spec(
        task=task, **{"head": "p32", "epochs": 1, "evals": 1, "fraction": 0.1, "lr": 1e-3} | options
    )
    planned = resolve(asked, open_features(MODEL, task, None, where)).n_params
    assert planned == fit(asked, location=where, device="cpu").n_params > 0
