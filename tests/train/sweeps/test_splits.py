"""Fitting on another split, and scoring splits beside dev and test."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from probekit.errors import DataError, OptionError, UnknownNameError
from probekit.features import Location, open_features
from probekit.results.comparison import choose_run, compare
from probekit.results.tables import summarise, table
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run import fit, sweep
from probekit.train.sweeps.run_views import sample, scored_views
from probekit.train.sweeps.specs import TrainSpec
from tests.planted import MODEL, TASK, plant, plant_all
from tests.planted_texts import plant_all_texts, plant_texts


def base(**options):
    defaults = {"model": MODEL, "task": TASK, "label": "ner", "head": "last"}
    return TrainSpec(**defaults | {"epochs": 8, "lr": 2e-2} | options)


def splits_of(cache, spec):
    location = Location(cache=cache)
    return open_features(spec.model, spec.task, spec.label, location, fit_on=spec.fit_on)


def test_another_split_takes_the_place_of_train(tmp_path):
    plant(tmp_path, "test", sentences=40)
    spec = base(fit_on="test", hold_out=0.25)
    (record,) = sweep([spec], out=tmp_path / "r.jsonl", location=Location(cache=tmp_path))
    assert record.protocol == "full, fitted on test, hold-out 0.25"
    assert record.test_score is None and record.eval_score > 0.5
    assert not any(name.startswith("test/") for name in record.scores)
    splits = splits_of(tmp_path, spec)
    assert splits.entries["train"].manifest.split == "test" == splits.manifest.split
    run = resolve(spec, splits)
    kept, held = set(sample(spec, splits)), set(scored_views(spec, splits)["dev"].positions)
    assert len(held) == 10 and len(kept) == 30 and not kept & held
    assert list(run.options.entries) == ["train"]


def test_a_train_split_that_is_there_is_left_alone(tmp_path):
    plant_all(tmp_path)
    location = Location(cache=tmp_path)
    on_dev = base(fit_on="dev", hold_out=0.3)
    splits = splits_of(tmp_path, on_dev)
    assert {name: entry.manifest.split for name, entry in splits.entries.items()} == {
        "train": "dev",
        "test": "test",
    }
    result = fit(on_dev, location=location)
    assert len(result.predictions["dev"]) < len(splits.view("train"))
    assert len(result.predictions["test"]) == len(splits.view("test"))
    with pytest.raises(DataError, match=r"--fit-on dev leaves no dev split: .* --hold-out 0\.1"):
        fit(base(fit_on="dev"), location=location)
    # Held out for the same splits, but of train.
    keys = {resolve(s, splits_of(tmp_path, s)).options.key for s in (on_dev, base(hold_out=0.3))}
    assert len(keys) == 2


def test_fitting_on_test_still_scores_dev(tmp_path):
    plant_all(tmp_path)
    spec = base(fit_on="test")
    result = fit(spec, location=Location(cache=tmp_path))
    assert set(result.predictions) == {"dev"}
    assert len(result.predictions["dev"]) == len(splits_of(tmp_path, base()).view("dev"))


def test_a_split_without_labels_cannot_be_fitted_on(tmp_path):
    for split in ("train", "dev"):
        plant_texts(tmp_path / "cache", split=split)
    plant_texts(tmp_path / "cache", split="test", labelled=False)
    folder = tmp_path / "SST-2"
    folder.mkdir()
    (folder / "test.tsv").write_text("index\tsentence\n0\tfine\n")
    spec = base(task="glue/sst2", label="label", fit_on="test", hold_out=0.5)
    for data, message in ((None, "none are stored"), (tmp_path, "this split has none")):
        with pytest.raises(DataError, match=rf"test, labels 'label'.*{message}.* --fit-on"):
            fit(spec, location=Location(cache=tmp_path / "cache", data=data))


def test_a_split_that_does_not_exist_is_refused(tmp_path):
    plant_all(tmp_path)
    with pytest.raises(UnknownNameError, match=r"unknown split of conll 'dve'. Did you mean 'dev'"):
        fit(base(fit_on="dve"), location=Location(cache=tmp_path))


@pytest.mark.parametrize("options", [{}, {"epochs": None, "lr": None}])
def test_what_is_held_out_chooses_and_dev_is_scored(tmp_path, options):
    """By steps and solved: dev has no part in the choice, whatever its labels are."""
    plant_all(tmp_path)
    spec, location = base(hold_out=0.5, **options), Location(cache=tmp_path)
    splits = splits_of(tmp_path, spec)
    run = resolve(spec, splits)
    assert set(run.options.entries) == {"train", "dev", "test"}
    assert run.spec.select == "held-out"
    result = fit(spec, location=location)
    views = scored_views(spec, splits)
    assert list(views) == ["dev", "test", "held-out"]
    assert {name: len(rows) for name, rows in result.predictions.items()} == {
        name: len(view) for name, view in views.items()
    }
    assert result.eval_score == result.scores["dev/span-f1"]
    assert result.diagnosis["selection_score"] == result.scores["held-out/span-f1"]
    assert not set(views["held-out"].ids) & set(splits.view("train").take(sample(spec, splits)).ids)
    plant(tmp_path / "other")
    plant(tmp_path / "other", "dev", seed=9, shuffled=True)
    other = fit(spec, location=Location(cache=tmp_path / "other"))
    assert other.scores["held-out/span-f1"] == result.scores["held-out/span-f1"]


def test_dev_may_choose_beside_what_is_held_out(tmp_path):
    plant_all(tmp_path)
    spec = base(hold_out=0.25, select="dev")
    (record,) = sweep([spec], out=tmp_path / "r.jsonl", location=Location(cache=tmp_path))
    assert record.select == "dev" and "selection_score" not in record.diagnosis
    assert record.scores["dev/span-f1"] == record.eval_score
    assert {name.split("/")[0] for name in record.scores} == {"dev", "test", "held-out"}


def test_what_is_held_out_is_dev_where_there_is_none(tmp_path):
    plant(tmp_path, "train")
    spec = base(hold_out=0.25, select="held-out")
    splits = splits_of(tmp_path, spec)
    assert resolve(spec, splits).spec.select == "dev"
    assert list(scored_views(spec, splits)) == ["dev"]
    with pytest.raises(OptionError, match=r"--select held-out chooses by what --hold-out F keeps"):
        base(select="held-out")


def test_mismatched_splits_of_mnli_are_scored_as_well(tmp_path):
    plant_all_texts(tmp_path, "glue/mnli")
    for seed, split in enumerate(("dev-mm", "test-mm"), start=7):
        plant_texts(tmp_path, "glue/mnli", split, count=40, seed=seed, labelled=split == "dev-mm")
    spec = base(task="glue/mnli", label=None)
    file = tmp_path / "r.jsonl"
    record, _ = sweep(
        [spec, replace(spec, head="mean")],
        out=file,
        location=Location(cache=tmp_path),
        predictions=True,
    )
    assert record.scores["dev-mm/accuracy"] > 0.6
    first, *_, line = table(summarise([record])).splitlines()
    assert "dev-mm" in first and f"{100 * record.scores['dev-mm/accuracy']:.2f}" in line
    one, two = (choose_run(f"{file}#head={head}") for head in ("last", "mean"))
    found = compare(one, two, split="dev-mm", samples=100)
    assert (found.n_sentences, found.score_a) == (40, record.scores["dev-mm/accuracy"])
    assert record.scores["dev/accuracy"] == record.eval_score
    assert record.scores["test/accuracy"] == record.test_score
    assert not any(name.startswith("test-mm") for name in record.scores)
    rows = pq.read_table(record.predictions).to_pylist()
    right = [row["gold"] == row["predicted"] for row in rows if row["split"] == "dev-mm"]
    assert len(right) == 40
    assert sum(right) / 40 == pytest.approx(record.scores["dev-mm/accuracy"])


def test_the_mismatched_split_alone_can_be_fitted_on(tmp_path):
    plant_texts(tmp_path, "glue/mnli", "dev-mm", count=150)
    spec = base(task="glue/mnli", label=None, fit_on="dev-mm", hold_out=0.2, epochs=None)
    assert fit(spec, location=Location(cache=tmp_path)).eval_score > 0.5


def test_an_unlabelled_split_need_not_hold_what_the_head_reads(tmp_path):
    """GLUE's test split, extracted as it comes, takes no part in training."""
    for split in ("train", "dev"):
        plant_texts(tmp_path, split=split)
    plant_texts(tmp_path, split="test", labelled=False, keep=("cls", "mean", "last"))
    spec = base(task="glue/sst2", label=None, head="extra-layers", epochs=1)
    assert fit(spec, location=Location(cache=tmp_path)).test_score is None


def test_dev_needs_what_the_head_reads(tmp_path):
    plant_texts(tmp_path)
    plant_texts(tmp_path, split="dev", keep=("cls", "mean", "last"))
    spec = base(task="glue/sst2", label=None, head="extra-layers", epochs=1)
    for one in (spec, replace(spec, hold_out=0.2)):
        with pytest.raises(DataError, match="reads 'tokens'"):
            fit(one, location=Location(cache=tmp_path))


def test_a_chosen_entry_leaves_out_splits_of_other_extractions(tmp_path, caplog):
    train = plant(tmp_path, "train")
    plant(tmp_path, "dev")
    plant(tmp_path, "test", request="limited")
    caplog.set_level("INFO")
    location = Location(cache=tmp_path, entry=train.path.name)
    splits = open_features(MODEL, TASK, "ner", location)
    assert set(splits.entries) == {"train", "dev"}
    assert "test is left out: no entry" in caplog.text
