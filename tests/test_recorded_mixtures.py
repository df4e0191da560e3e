"""Recorded runs of solved mixtures: none is behind what it contains, by what chose it."""

from pathlib import Path

import pytest

from probekit import load_records

RESULTS = Path(__file__).parents[1] / "analyses" / "results"


@pytest.fixture(scope="module")
def records():
    return load_records(RESULTS / "rows_and_fitters.jsonl")


def solved(records, head):
    """Return solved runs of a head, by model, shots, rows and seed."""
    own = [one for one in records if one.fitter == "lbfgs" and one.head == head]
    return {(one.model, one.shots, one.normalize, one.seed): one for one in own}


@pytest.mark.parametrize("head", ["p32", "attention-fusion"])
def test_no_mixture_is_behind_the_average_or_a_candidate(records, head):
    averages, mixtures = solved(records, "mean"), solved(records, head)
    assert len(mixtures) >= 3
    for key, one in mixtures.items():
        found = one.diagnosis
        assert found["selection_score"] == max(found["candidate_scores"]), key
        if head == "p32":  # an average of the same layers; attention fusion has layer 0 besides
            average = found["candidate_scores"][found["candidates"].index("average")]
            recorded = averages[key].diagnosis["selection_score"]
            assert average == pytest.approx(recorded, abs=2e-3), key
            assert one.eval_score >= averages[key].eval_score - 2e-3, key
            assert {f"layer {n}" for n in one.layers} <= set(found["candidates"])
