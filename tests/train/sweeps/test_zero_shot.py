"""A saved head scored as it is, on what it was not trained on."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import spearmanr
from seqeval.metrics import f1_score

from probekit import plot_fewshot
from probekit.errors import OptionError
from probekit.features import Location, open_features
from probekit.results.summaries.grouping import series
from probekit.results.tables import summarise, table
from probekit.train.baselines import run_baselines
from probekit.train.saved.head import TrainedHead
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run import fit, sweep
from probekit.train.sweeps.specs import product
from probekit.train.sweeps.start import saved_classes
from probekit.train.token_rows import TokenLayout
from tests.cli.console import done
from tests.planted import DIM, MODEL, NAMES, TASK, plant_all
from tests.planted_texts import plant_all_texts
from tests.train.sweeps.starts import HEAD, PLAIN, save, spec


@pytest.mark.parametrize(
    ("head", "normalize", "decoder"),
    [
        ("attention-fusion", "none", PLAIN),
        ("p32", "standardize", "crf"),
        ("dwatt", "layernorm", "linear"),
        ("extra-layers", "standardize", "mlp"),
    ],
)
def test_without_shots_a_saved_head_is_scored_as_it_is(
    source, location, tmp_path, head, normalize, decoder
):
    options = {"head": head, "normalize": normalize, "decoder": decoder, "epochs": 2}
    folder = save(tmp_path, Location(cache=source[0].parent / "cache"), **options)
    before = load_file(folder / "model.safetensors")
    plan = [spec(**options, init_from=str(folder), shots=0)]
    (record,) = sweep(plan, out=tmp_path / "r.jsonl", location=location, save=tmp_path / "again")
    after = load_file(tmp_path / "again" / "model.safetensors")
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    found = {"dev": record.eval_score, "test": record.test_score}
    for split, score in found.items():
        assert score == pytest.approx(seqeval_of(folder, location, split), abs=1e-9), split
    assert found["dev"] > 0.2
    assert record.eval_last == record.eval_score
    assert (record.protocol, record.shots, record.best_epoch) == ("zero-shot", 0, 0.0)
    assert not record.curve and not record.diverged and record.train_seconds == 0


def seqeval_of(folder, location, split):
    """Return the span F1 of a saved head on a split, one sentence at a time."""
    head = TrainedHead.from_pretrained(folder)
    view = open_features(MODEL, TASK, "ner", location).view(split)
    layout = TokenLayout(view)
    predicted, gold = [], []
    for number, (start, stop) in enumerate(itertools.pairwise(view.offsets.tolist())):
        if head.reads == "tokens":
            one = np.array([number])
            places = layout.view.rows[layout.view.places(one)]
            hidden = layout.view.array.read(torch.from_numpy(places), head.layers)[:, 0]
            z = layout.states(hidden.float(), one)
        else:
            z = view.array.read(torch.from_numpy(view.rows[start:stop]), head.layers)
        predicted.append(head.predict(z))
        gold.append([view.labels.names[target] for target in view.targets[start:stop]])
    return f1_score(gold, predicted)


def test_a_saved_head_may_know_labels_that_the_target_has_none_of(saved, tmp_path):
    location = Location(cache=plant_all(tmp_path / "cache", names=NAMES[:3], seed=5))
    go_on = spec(init_from=str(saved), shots=2, epochs=2)
    plan = [replace(go_on, shots=0), go_on, spec(shots=2, epochs=2)]
    as_is, further, fresh = sweep(plan, out=tmp_path / "r.jsonl", location=location)
    for split, score in {"dev": as_is.eval_score, "test": as_is.test_score}.items():
        assert score == pytest.approx(seqeval_of(saved, location, split), abs=1e-9), split
    assert as_is.eval_score > 0.5
    # As many sentences are drawn as the target has entity types for, whatever the head knows.
    classes = saved_classes(go_on)
    splits = open_features(MODEL, TASK, "ner", location, classes=classes)
    assert splits.label_map.names == classes == tuple(sorted(NAMES))
    assert resolve(go_on, splits).n_sentences == 2
    assert further.n_params - fresh.n_params == 2 * (DIM + 1)
    for one, same in ((go_on, further), (plan[2], fresh)):
        assert fit(one, location=location).eval_score == same.eval_score
    held = run_baselines([go_on], out=tmp_path / "r.jsonl", location=location).heads[0]
    assert held.eval_score == further.eval_score
    # The uniform code is that of the target's three labels, not of the five that the head knows.
    uniform = held.scores["compression"] * held.scores["bits per label"]
    assert uniform == pytest.approx(math.log2(3))


def test_the_command_line_scores_a_saved_head_once_whatever_the_seeds(saved, location, tmp_path):
    words = ("--start", saved, "--head", HEAD, "--decoder", PLAIN, "--epochs", "1")
    outcome = done(
        "sweep", MODEL, TASK, *words, "--shots", "0,2", "--seeds", "2", "--cache", location.cache,
        "--out", tmp_path / "r.jsonl", "--json",
    )  # fmt: skip
    assert [(row["shots"], row["seed"]) for row in outcome.rows] == [(0, 0), (2, 0), (2, 1)]


def test_shots_from_none_on_are_one_curve(saved, location, tmp_path):
    plan = product(spec(init_from=str(saved), epochs=1), {"shots": [0, 2, None], "seed": [0, 1]})
    records = sweep(plan, out=tmp_path / "r.jsonl", location=location)
    rows = summarise(records)
    assert [(row.options["shots"], row.n) for row in rows] == [(0, 2), (2, 2), (None, 2)]
    assert rows[0].eval_score.low == rows[0].eval_score.high
    assert rows[1].eval_score.low < rows[1].eval_score.high
    assert [line.split()[1] for line in table(rows).splitlines()[2:5]] == ["0", "2", "all"]
    assert len(series(records, given=["shots"])) == 1
    assert len(plot_fewshot(records).axes[0].lines[0].get_xdata()) == 2
    assert sweep(plan, out=tmp_path / "r.jsonl", location=location) == records


def test_a_regression_is_scored_as_it_is_on_no_fraction(tmp_path):
    plant_all_texts(tmp_path / "a", "glue/stsb")
    plant_all_texts(tmp_path / "b", "glue/stsb", seed=5)
    options = {"task": "glue/stsb", "label": None, "head": "mean", "decoder": None, "epochs": 3}
    folder = save(tmp_path, Location(cache=tmp_path / "a"), **options)
    location = Location(cache=tmp_path / "b")
    result = fit(spec(**options, init_from=str(folder), fraction=0.0), location=location)
    head = TrainedHead.from_pretrained(folder)
    view = open_features(MODEL, "glue/stsb", None, location).view("dev")
    values = head.predict(view.array.read(torch.from_numpy(view.rows), head.layers))
    expected = spearmanr(values, view.targets).statistic
    assert result.eval_score == pytest.approx(expected, abs=1e-6)
    with pytest.raises(OptionError, match="--shots 0 draws sentences per class"):
        fit(spec(**options, init_from=str(folder), shots=0), location=location)
