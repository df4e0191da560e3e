"""Runs that train the model from a solved head: before the first step they are that head."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from probekit.errors import OptionError
from probekit.extraction import extract
from probekit.features import Location
from probekit.train.sweeps import worker
from probekit.train.sweeps.run import fit, sweep
from tests.train.live.trained_runs import FLOAT32, prepared
from tests.tuning.cases import installed

STILL = {"lr": 1e-12, "rates": (("backbone", 1e-12), ("mixing", 1e-12)), "epochs": 1}
"""Steps that move nothing."""


@pytest.fixture
def words(bert):
    return replace(bert.cached, select="dev"), bert.location


def check_starts_there(spec, at, method, **still):
    cached = fit(replace(spec, decoder=None), location=at)
    live = fit(replace(spec, method=method, start="solved", **still), location=at)
    assert cached.diagnosis["strength"] > 0  # it was solved
    assert live.diagnosis["start_score"] == cached.eval_score
    assert live.best_step == 0 and live.eval_score == pytest.approx(cached.eval_score, abs=1e-6)
    assert live.eval_last == pytest.approx(cached.eval_score, abs=1e-6)
    np.testing.assert_allclose(live.predictions["dev"], cached.predictions["dev"], rtol=1e-4)
    assert live.modules["normalization"] == cached.modules["normalization"]
    for name, value in cached.state.items():
        torch.testing.assert_close(live.state[name], value)


@pytest.mark.parametrize(("head", "method"), [("last", "lora:rank=2"), ("p32", "full")])
def test_before_the_first_step_words_are_read_by_the_solved_head(words, head, method):
    installed(method)
    spec, at = words
    still = STILL | {"rates": STILL["rates"] if head == "p32" else STILL["rates"][:1]}
    check_starts_there(replace(spec, head=head), at, method, **still)


def test_a_prefix_moves_the_rows_at_once_and_starts_with_the_solved_head(words):
    installed("prefix")
    spec, at = words
    cached = fit(spec, location=at)
    still = STILL | {"rates": STILL["rates"][:1]}
    live = fit(replace(spec, method="prefix:length=2", start="solved", **still), location=at)
    assert live.diagnosis["start_score"] == cached.eval_score
    torch.testing.assert_close(live.state["decoder.weight"], cached.state["decoder.weight"])


def test_before_the_first_step_numbers_are_read_by_the_solved_head(tmp_path):
    spec, at = prepared(tmp_path, "llama", kind="regression", max_positions=24)
    still = STILL | {"rates": STILL["rates"][:1]}
    check_starts_there(replace(spec, head="mean", select="dev"), at, "full", **still)


def test_training_goes_on_from_there(words):
    spec, at = words
    tuned = replace(spec, method="full", epochs=1, rates=(("backbone", 3e-3),))
    solved = fit(replace(tuned, start="solved", decoder="linear:dropout=0.3"), location=at)
    drawn = fit(replace(tuned, decoder="linear:dropout=0.3"), location=at)
    assert solved.curve[0][1] < drawn.curve[0][1], "the loss of the first steps"
    assert solved.eval_score >= solved.diagnosis["start_score"]
    assert solved.curve[0][0] > 0, "what was not trained is no point of a curve"


def test_what_the_start_is_solved_on_is_what_the_run_trains_on(words, monkeypatch):
    """Where a share of the draw chooses the checkpoint, the start has not seen it."""
    spec, at = words
    seen, solve_start = [], worker.solve_start

    def note(stream, solving, dev, **how):
        seen.append((stream, solving))
        return solve_start(stream, solving, dev, **how)

    monkeypatch.setattr(worker, "solve_start", note)
    run = replace(spec, method="full", start="solved", **STILL | {"rates": STILL["rates"][:1]})
    for select, by in (("hold-out:0.25", "cv:5"), ("dev", "dev")):
        found = fit(replace(run, select=select), location=at)
        stream, solving = seen.pop()
        drawn, fitted = 24, stream.train.n_examples
        held = 0 if stream.judge is None else stream.judge.n_examples
        assert fitted + held == drawn and (held > 0) == (by == "cv:5")
        assert str(solving.select) == by
        assert found.best_step == 0
        if stream.judge is not None:
            assert not set(stream.train.positions) & set(stream.judge.positions)


def test_a_held_out_split_chooses_checkpoint_and_strength(words, tmp_path):
    spec, at = words
    spec = replace(spec, select=None, hold_out=0.25)
    still = STILL | {"rates": STILL["rates"][:1]}
    plan = [spec, replace(spec, method="full", start="solved", **still)]
    cached, live = sweep(plan, out=tmp_path / "runs.jsonl", location=at)
    assert cached.select == live.select == "held-out"
    assert live.diagnosis["start_score"] == cached.eval_score
    assert live.diagnosis["selection_score"] == cached.diagnosis["selection_score"]


def test_records_tell_starts_apart(words, tmp_path):
    spec, at = words
    spec = replace(spec, method="bitfit", epochs=1)
    plan = [replace(spec, start=start) for start in (None, "random", "solved")]
    drawn, solved = sweep(plan, out=tmp_path / "runs.jsonl", location=at)
    assert drawn.init is None and solved.init == "solved" and solved.key != drawn.key
    assert "start_score" not in drawn.diagnosis
    assert solved.stated()["start"] == "solved" and "start" not in drawn.stated()
    again = sweep(plan, out=tmp_path / "runs.jsonl", location=at)
    assert [one.key for one in again] == [drawn.key, solved.key]
    assert len((tmp_path / "runs.jsonl").read_text("utf-8").splitlines()) == 2


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"head": "dwatt"}, "the head dwatt trains maps of its own, so it cannot be solved"),
        ({"head": "concat"}, r"the head concat trains maps .* Or give --start random\."),
        ({"head": "extra-layers"}, "the head extra-layers trains maps of its own"),
        (
            {"decoder": "mlp"},
            "the decoder mlp is not convex in its weights, so it cannot be solved",
        ),
        ({"method": None}, "is for runs that train the model"),
        ({"method": "frozen"}, "is for runs that train the model"),
        ({"init_from": "saved"}, r"start='solved' and a saved head are two starts"),
        ({"start": "warm"}, "unknown start 'warm'"),
    ],
)
def test_what_cannot_be_solved_says_so(words, more, says):
    spec, at = words
    with pytest.raises((OptionError, ValueError), match=says):
        fit(replace(spec, **{"method": "full", "start": "solved", **more}), location=at)


def test_layers_that_the_cache_lacks_are_not_solved(words, tmp_path):
    spec, _ = words
    options = replace(FLOAT32, layers="-1")
    extract(spec.model, spec.task, cache=tmp_path, device="cpu", options=options)
    spec, at = replace(spec, head="mean", method="full", start="solved"), Location(cache=tmp_path)
    with pytest.raises(OptionError, match=r"reads layer 1.*Or give --start random"):
        fit(spec, location=at)
