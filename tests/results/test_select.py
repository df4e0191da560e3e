"""Records are selected by what tables print."""

import pytest

from probekit.errors import OptionError, RecordError, UnknownNameError
from probekit.results import select
from probekit.results.summaries.grouping import USUAL_EVALS
from probekit.results.tables import summarise, table
from probekit.train.option_groups import DEFAULT_EVALS
from tests.results.samples import make_record

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
