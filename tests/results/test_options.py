"""Options tell records apart, in an order of values alone, and choose what is shown."""

import random

import pytest

from probekit.errors import OptionError, RecordError, UnknownNameError
from probekit.results import select
from probekit.results.record import Record
from probekit.results.summaries.grouping import (
    USUAL_EVALS,
    check_seeds,
    distinguishing,
    grouped,
    head_order,
    series,
)
from probekit.results.summaries.wording import OPTIONS
from probekit.results.tables import summarise, table
from probekit.train.option_groups import DEFAULT_EVALS
from tests.results.samples import HEADS, make_record


def test_options_are_the_inputs_of_a_record():
    outcomes = "eval_score eval_last best_epoch test_score scores curve weights raw_weights "
    outcomes += "class_weights diverged confusion n_params train_seconds predictions "
    outcomes += "version key seed rate_from trial diagnosis environment seen "
    outcomes += "initial_weights shares ablation ablated left_out n_backbone_params backbone_share "
    outcomes += "duplicates predictions_digest spec"
    assert set(OPTIONS) | set(outcomes.split()) == set(Record.__dataclass_fields__)


def test_order_depends_on_values_alone():
    records = [make_record(h, shots=k) for h in (*HEADS, "new") for k in (8, 64, 128, None)]
    expected = [(h, k) for h in [*head_order(), "new"] for k in (8, 64, 128, None)]
    expected = [key for key in expected if key[0] in (*HEADS, "new")]
    random.Random(0).shuffle(records)
    assert list(grouped(records, ["head", "shots"])) == expected


def test_unknown_option():
    with pytest.raises(UnknownNameError, match="Did you mean 'shots'"):
        grouped([make_record()], ["shot"])


def test_only_what_tells_records_apart():
    records = [
        make_record(head, seed, lr=lr, normalize=normalize)
        for head, lr in (("last", 2e-3), ("dwatt", 5e-5))
        for normalize in ("standardize", "none")
        for seed in (0, 1)
    ]
    assert distinguishing(records, ["head"]) == ["normalize"]  # lr and layers follow from the head
    assert list(series(records)) == [
        "last, raw",
        "last, standardize",
        "dwatt, raw",
        "dwatt, standardize",
    ]
    assert list(series(records, given=["normalize"])) == ["last", "dwatt"]


def test_models_with_one_last_name_stay_apart():
    records = [make_record(model=model) for model in ("a/base", "b/base", "c/large")]
    assert list(series(records)) == ["p32, a/base", "p32, b/base", "p32, c/large"]


def test_a_repeated_seed_names_what_differs():
    records = [make_record(seed=0, lr=1e-3), make_record(seed=0, lr=1e-4)]
    with pytest.raises(RecordError, match=r"p32: 2 records share seeds.* differ in lr\."):
        check_seeds(records, "p32")
    check_seeds([make_record(seed=0), make_record(seed=1)], "p32")


def test_settings_tell_records_apart():
    records = [make_record(options=options) for options in ({"n": 2}, {"n": 1}, {})]
    assert list(series(records)) == ["p32, n=1", "p32, n=2", "p32, defaults"]
    starts = ("wikiann/de ner 1a2b3c4d", "wikiann/en ner 5e6f7a8b", None)
    records = [make_record(init=init, freeze=bool(init)) for init in starts]
    assert list(series(records)) == [
        "p32, from wikiann/de ner 1a2b3c4d",
        "p32, from wikiann/en ner 5e6f7a8b",
        "p32, from scratch",
    ]


def test_a_pooling_is_not_taken_for_a_head():
    records = [make_record("mean", pooling=how) for how in ("mean", "cls", None)]
    assert list(series(records)) == ["mean, pooling cls", "mean, pooling mean", "mean, no pooling"]


def test_raw_layers_come_first():
    records = [make_record(normalize=how) for how in ("standardize", "layernorm", "none")]
    assert list(series(records)) == ["p32, raw", "p32, layernorm", "p32, standardize"]


# records by their options


RECORDS = [
    make_record(head, shots=shots, lr=lr)
    for head in ("last", "p32")
    for shots in (8, 128, None)
    for lr in (2e-3, 5e-5)
]


@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        ([], 12), (["head=p32"], 6), (["head=p32,last"], 12), (["shots=8, 128"], 8),
        (["shots=all"], 4), (["lr=5e-5"], 6), (["lr=0.002", "head=last", "shots=8"], 1),
        (["model=org/tiny-model"], 12), (["model=tiny-model", "normalize=none", "layers=1-4"], 6),
        (["seed=0"], 12), (["head=p32,shots=8,128"], 4),
        (["head=p32, shots=8", "lr=5e-5,model=tiny-model"], 1),
    ],
)  # fmt: skip
def test_select(conditions, count):
    assert len(select(RECORDS, conditions)) == count


def test_nothing_left_lists_what_occurs():
    with pytest.raises(RecordError, match=r"no records with shots=16; shots is 8 or 128 or all\."):
        select(RECORDS, ["shots=16"])
    with pytest.raises(RecordError, match=r"no records with head=p32,lst; head is last or p32\."):
        select(RECORDS, ["head=p32,lst"])
    with pytest.raises(RecordError, match=r"seed is 0\."):
        select(RECORDS, ["seed=one"])


def test_values_with_commas():
    values = ("full", "online code, full", "code", "it's")
    records = [make_record(protocol=value) for value in values]

    def chosen(condition):
        return [record.protocol for record in select(records, [condition])]

    for whole in values:
        assert chosen(f"protocol={whole}") == [whole]
    assert chosen("protocol='online code, full',code") == ["online code, full", "code"]
    assert chosen('protocol="online code, full",head=p32') == ["online code, full"]
    assert chosen("protocol=code,full") == ["full", "code"]
    with pytest.raises(
        RecordError, match="protocol is code or full or it's or 'online code, full'"
    ):
        select(records, ["protocol=none"])
    settings = [make_record(options={"n": (1, 2), "k": k}) for k in (3, 4)]
    assert len(select(settings, ["options=k=4:n=1,2,seed=0"])) == 1


def test_a_number_as_a_table_prints_it():
    assert len(select([make_record(lr=1 / 3)], ["lr=0.333333"])) == 1


def test_the_usual_number_of_evaluations_has_its_number():
    """Records do not write it; tables and conditions do."""
    records = [make_record("last"), make_record("last", evals=4), make_record("majority", epochs=0)]
    assert USUAL_EVALS == DEFAULT_EVALS
    assert select(records, [f"evals={DEFAULT_EVALS}"]) == records[:1]
    assert {"10", "4"} <= set(table(summarise(records)).split())
    with pytest.raises(RecordError, match="evals is 4 or 10 or -"):
        select(records, ["evals=5"])


def test_malformed_condition():
    with pytest.raises(OptionError, match="condition ''"):
        select(RECORDS, [""])
    with pytest.raises(OptionError, match="write name=value"):
        select(RECORDS, ["shots"])
    with pytest.raises(UnknownNameError, match="Did you mean 'shots'"):
        select(RECORDS, ["shot=8"])


def test_a_fitter_is_chosen_as_figures_say_it():
    records = [make_record(fitter="adam", key="a"), make_record(fitter="lbfgs", key="b")]
    assert [one.key for one in select(records, ["fit=lbfgs"])] == ["b"]


def test_a_setting_is_chosen_by_its_own_name():
    settings = ({}, {"decoder.hidden": 64}, {"decoder.hidden": 128, "steps.clip": 0.01})
    records = [make_record(seed=n, options=own) for n, own in enumerate(settings)]

    def seeds(*conditions):
        return [record.seed for record in select(records, conditions)]

    assert seeds("decoder.hidden=128") == [2]
    assert seeds("decoder.hidden=64,128") == [1, 2]
    assert seeds("decoder.hidden=none") == [0]
    assert seeds("seed=1,2,decoder.hidden=128,steps.clip=1e-2") == [2]
    with pytest.raises(RecordError, match=r"decoder\.hidden is none or 64 or 128"):
        seeds("decoder.hidden=32")
    with pytest.raises(UnknownNameError, match=r"unknown option 'decoder\.hiden'"):
        seeds("decoder.hiden=64")
