import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.train.sweeps.resolve import Run, size_head
from probekit.train.sweeps.run_groups import (
    MOST_COST,
    cost,
    data_key,
    make_groups,
    member_bytes,
    stream_key,
)
from probekit.train.sweeps.specs import ResolvedOptions, TrainSpec
from tests.train.grouped import member_spec


def run(seed=0, label="ner", n_params=0, epochs=2, head="last", layers=(1,), linear=False):
    spec = TrainSpec(
        model="m", task="t", label=label, head=head, seed=seed, lr=1e-3, decoder="linear",
        epochs=epochs, batch_size=16,
    )  # fmt: skip
    options = ResolvedOptions(
        spec=spec,
        task="t",
        layers=layers,
        metric="f1",
        entries={},
        labels_fingerprint=str(n_params),
        numerics=1,
    )
    member = member_spec(head=HEADS[head](), decoder=DECODERS["linear"](), layers=layers, lr=1e-3)
    return Run(options=options, member=member, n_sentences=40, n_params=n_params, linear=linear)


OPTIONS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 3),
        "label": st.sampled_from(["ner", "pos"]),
        "n_params": st.integers(0, 3_000_000),
        "epochs": st.integers(1, 3),
    }
)


@given(st.lists(OPTIONS, max_size=60), st.integers(1, 4), st.integers(10**6, 10**9))
def test_groups_hold_every_run_once_within_the_limits(options, workers, memory):
    runs = [run(**chosen) for chosen in options]
    groups = make_groups(runs, workers=workers, memory=memory)
    assert sorted(map(id, itertools.chain(*groups))) == sorted(map(id, runs))
    for group in groups:
        assert 0 < len(group) <= 32
        assert len({data_key(item) for item in group}) == 1
        assert len(group) == 1 or sum(map(member_bytes, group)) <= memory
    costs = [sum(map(cost, group)) for group in groups]
    assert costs == sorted(costs, reverse=True)


def test_one_worker_with_room_gets_one_group_and_streams_stay_together():
    runs = [run(seed=seed, n_params=size) for size in (0, 5) for seed in (0, 1, 2)]
    (group,) = make_groups(runs, workers=1, memory=10**9)
    streams = [stream_key(item) for item in group]
    assert len({stream_key(item) for item in runs}) == 3
    assert [key for key, _ in itertools.groupby(streams)] == list(dict.fromkeys(streams))


def test_long_sweeps_record_every_few_minutes():
    runs = [run(seed=seed, n_params=8_000_000, epochs=500) for seed in range(12)]
    assert sum(map(cost, runs)) > 2 * MOST_COST
    groups = make_groups(runs, workers=1, memory=10**12)
    assert len(groups) > 2
    assert all(len(group) == 1 or sum(map(cost, group)) < 1.5 * MOST_COST for group in groups)


def test_a_head_over_subwords_is_dearer_than_its_values_say():
    words, subwords = (run(n_params=8_000_000, head=name) for name in ("concat", "extra-layers"))
    assert 3 * cost(words) < cost(subwords)


def test_a_recurrent_head_uses_its_values_once_per_layer():
    one, many = (
        run(n_params=800_000, head="depth-lstm", layers=layers) for layers in ((12,), (1, 12))
    )
    assert cost(many) - cost(one) == many.steps * (800_000 + 20_000)


def test_linear_probes_of_many_depths_stay_in_one_group():
    probes, others = (
        [run(layers=(depth,), epochs=1000, linear=linear) for depth in range(31)]
        for linear in (True, False)
    )
    assert len(make_groups(probes, workers=1, memory=10**9)) == 1
    assert len(make_groups(others, workers=1, memory=10**9)) > 1


@pytest.mark.parametrize(
    ("head", "decoder", "frozen", "expected"),
    [
        ("last", "linear", False, True),
        ("mean", "linear", False, True),
        ("concat-ffn", "linear", False, True),
        ("last", "mlp", False, False),
        ("p32", "linear", False, False),
        ("p32", "linear", True, True),
        ("p32", "crf", True, False),
    ],
)
def test_what_trains_a_linear_layer_alone(head, decoder, frozen, expected):
    member = member_spec(
        head=HEADS[head](), decoder=DECODERS[decoder](), layers=(1, 2), lr=1e-3, freeze_head=frozen
    )
    assert size_head(member, 16).linear == expected


def test_what_a_run_scores_costs_a_third_of_training_on_it():
    one = run(n_params=900_000)
    scoring = replace(one, n_scored=3.0 * one.steps)
    assert cost(scoring) - cost(one) == one.steps * (900_000 + 20_000)


def test_two_workers_get_work_to_share():
    runs = [run(seed=seed) for seed in range(8)]
    groups = make_groups(runs, workers=2, memory=10**9)
    assert len(groups) == 4
    assert {len(group) for group in groups} == {2}


@pytest.mark.parametrize(("head", "expected"), [("last", 0), ("p32", 24), ("concat", 25_166_848)])
def test_a_head_is_counted_without_its_memory(head, expected):
    spec = HEADS[head]()
    layers = (24,) if head == "last" else tuple(range(1, 25))
    member = member_spec(head=spec, decoder=DECODERS["linear"](), layers=layers, lr=1e-3)
    assert size_head(member, 1024).n_values == expected
