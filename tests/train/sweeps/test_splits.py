"""What is fitted on, held out and scored; and noisy labels, or few of one class."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from probekit import TrainSpec, sweep
from probekit.errors import DataError, OptionError, UnknownNameError
from probekit.features import Location, open_features
from probekit.results.comparison import choose_run, compare
from probekit.results.tables import summarise, table
from probekit.results.tables.scores import score_table
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run import fit
from probekit.train.sweeps.run_views import sample, scored_views
from tests import tiny
from tests.extraction.extracted import entries_of
from tests.planted import MODEL, TASK, plant
from tests.planted_texts import plant_texts
from tests.train.sweeps.samples import spec


def base(**options):
    return spec(**{"epochs": 8, "lr": 2e-2} | options)


def splits_of(location, asked):
    return open_features(asked.model, asked.task, asked.label, location, fit_on=asked.fit_on)


def test_another_split_takes_the_place_of_train(swept, tmp_path):
    plant(tmp_path, "test", sentences=40)
    location, asked = Location(cache=tmp_path), base(fit_on="test", hold_out=0.25)
    (record,) = swept([asked], location=location)
    assert record.protocol == "full, fitted on test, hold-out 0.25"
    assert record.test_score is None and record.eval_score > 0.5
    assert not any(name.startswith("test/") for name in record.scores)
    splits = splits_of(location, asked)
    assert splits.entries["train"].manifest.split == "test" == splits.manifest.split
    kept, held = set(sample(asked, splits)), set(scored_views(asked, splits)["dev"].positions)
    assert len(held) == 10 and len(kept) == 30 and not kept & held
    assert list(resolve(asked, splits).options.entries) == ["train"]


def test_a_train_split_that_is_there_is_left_alone(words):
    on_dev = base(fit_on="dev", hold_out=0.3)
    splits = splits_of(words, on_dev)
    assert {name: entry.manifest.split for name, entry in splits.entries.items()} == {
        "train": "dev",
        "test": "test",
    }
    result = fit(on_dev, location=words)
    assert len(result.predictions["dev"]) < len(splits.view("train"))
    assert len(result.predictions["test"]) == len(splits.view("test"))
    # Held out for the same splits, but of train.
    other = base(hold_out=0.3)
    assert (
        resolve(on_dev, splits).options.key != resolve(other, splits_of(words, other)).options.key
    )
    # and dev is still scored by what is fitted on test
    predicted = fit(base(fit_on="test"), location=words).predictions
    assert {name: len(rows) for name, rows in predicted.items()} == {
        "dev": len(splits_of(words, base()).view("dev"))
    }


def test_what_cannot_be_fitted_on(words, tmp_path):
    with pytest.raises(DataError, match=r"--fit-on dev leaves no dev split: .* --hold-out 0\.1"):
        fit(base(fit_on="dev"), location=words)
    with pytest.raises(UnknownNameError, match=r"unknown split of conll 'dve'. Did you mean 'dev'"):
        fit(base(fit_on="dve"), location=words)
    cache, folder = tmp_path / "cache", tmp_path / "SST-2"
    for split in ("train", "dev", "test"):
        plant_texts(cache, split=split, labelled=split != "test")
    folder.mkdir()
    (folder / "test.tsv").write_text("index\tsentence\n0\tfine\n")
    on_test = base(task="glue/sst2", fit_on="test", hold_out=0.5)
    for data, message in ((None, "none are stored"), (tmp_path, "this split has no labels")):
        with pytest.raises(DataError, match=rf"test, labels 'label'.*{message}.* --fit-on"):
            fit(on_test, location=Location(cache=cache, data=data))


@pytest.mark.parametrize("options", [{}, {"epochs": None, "lr": None}])
def test_what_is_held_out_chooses_and_dev_is_scored(words, tmp_path, options):
    """By steps and solved: dev has no part in the choice, whatever its labels are."""
    asked = base(hold_out=0.5, **options)
    splits = splits_of(words, asked)
    run = resolve(asked, splits)
    assert set(run.options.entries) == {"train", "dev", "test"}
    assert run.spec.select == "held-out"
    result = fit(asked, location=words)
    views = scored_views(asked, splits)
    assert list(views) == ["dev", "test", "held-out"]
    assert {name: len(rows) for name, rows in result.predictions.items()} == {
        name: len(view) for name, view in views.items()
    }
    assert result.eval_score == result.scores["dev/span-f1"]
    assert result.diagnosis["selection_score"] == result.scores["held-out/span-f1"]
    drawn = splits.view("train").take(sample(asked, splits))
    assert not set(views["held-out"].ids) & set(drawn.ids)
    plant(tmp_path)
    plant(tmp_path, "dev", seed=9, shuffled=True)
    other = fit(asked, location=Location(cache=tmp_path))
    assert other.scores["held-out/span-f1"] == result.scores["held-out/span-f1"]


def test_dev_may_choose_beside_what_is_held_out(swept):
    (record,) = swept([base(hold_out=0.25, select="dev")])
    assert record.select == "dev" and "selection_score" not in record.diagnosis
    assert record.scores["dev/span-f1"] == record.eval_score
    assert {name.split("/")[0] for name in record.scores} == {"dev", "test", "held-out"}


def test_what_is_held_out_is_dev_where_there_is_none(swept, tmp_path):
    plant(tmp_path)
    location, asked = Location(cache=tmp_path), base(hold_out=0.25, select="held-out")
    with pytest.raises(DataError, match="dev split is not in the cache"):
        swept([base()], location=location)
    (record,) = swept([asked], location=location)
    assert (record.protocol, record.test_score) == ("full, hold-out 0.25", None)
    assert record.select == "dev"
    assert list(scored_views(asked, splits_of(location, asked))) == ["dev"]


def test_mismatched_splits_of_mnli_are_scored_as_well(texts, swept, tmp_path):
    asked = base(task="glue/mnli")
    plan = [asked, replace(asked, head="mean")]
    record, _ = swept(plan, location=texts, predictions=True)
    score = record.scores["dev-mm/accuracy"]
    assert score > 0.6
    first, *_, line = table(summarise([record])).splitlines()
    assert "dev-mm" in first and f"{100 * score:.2f}" in line
    one, two = (choose_run(f"{tmp_path / 'r.jsonl'}#head={head}") for head in ("last", "mean"))
    found = compare(one, two, split="dev-mm", samples=100)
    assert (found.n_sentences, found.score_a) == (40, score)
    assert record.scores["dev/accuracy"] == record.eval_score
    assert record.scores["test/accuracy"] == record.test_score
    assert not any(name.startswith("test-mm") for name in record.scores)
    rows = pq.read_table(record.predictions).to_pylist()
    right = [row["gold"] == row["predicted"] for row in rows if row["split"] == "dev-mm"]
    assert len(right) == 40 and sum(right) / 40 == pytest.approx(score)


def test_the_mismatched_split_alone_can_be_fitted_on(tmp_path):
    plant_texts(tmp_path, "glue/mnli", "dev-mm", count=150)
    asked = base(task="glue/mnli", fit_on="dev-mm", hold_out=0.2, epochs=None)
    assert fit(asked, location=Location(cache=tmp_path)).eval_score > 0.5


def test_only_labelled_splits_need_what_the_head_reads(tmp_path):
    """GLUE's test split, extracted as it comes, takes no part in training."""
    kept = ("cls", "mean", "last")
    for split in ("train", "dev"):
        plant_texts(tmp_path / "tokens", split=split)
    plant_texts(tmp_path / "tokens", split="test", labelled=False, keep=kept)
    asked = base(task="glue/sst2", head="extra-layers", epochs=1)
    assert fit(asked, location=Location(cache=tmp_path / "tokens")).test_score is None
    plant_texts(tmp_path / "rows")
    plant_texts(tmp_path / "rows", split="dev", keep=kept)
    for one in (asked, replace(asked, hold_out=0.2)):
        with pytest.raises(DataError, match=r"reads 'tokens'.*--keep cls,last,mean,tokens"):
            fit(one, location=Location(cache=tmp_path / "rows"))


def test_a_chosen_entry_leaves_out_splits_of_other_extractions(tmp_path, caplog):
    train = plant(tmp_path, "train")
    plant(tmp_path, "dev")
    plant(tmp_path, "test", request="limited")
    caplog.set_level("INFO")
    location = Location(cache=tmp_path, entry=train.path.name)
    splits = open_features(MODEL, TASK, "ner", location)
    assert set(splits.entries) == {"train", "dev"}
    assert "test is left out: no entry" in caplog.text


SPLITS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """Return model, texts of two classes of which a third is `yes`, and where features lie."""
    root = tmp_path_factory.mktemp("regimes")
    model, folder = tiny.build("bert", root / "tiny"), root / "texts"
    folder.mkdir()
    for split in SPLITS:
        rows = [
            {"text": f"the {'cat' if n % 3 == 0 else 'dog'} sat", "label": "ny"[n % 3 == 0]}
            for n in range(90)
        ]
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    entries_of(model, folder, root / "cache", SPLITS, kind="sentence", label=None, keep=("mean",))
    return {"model": str(model), "task": str(folder)}, Location(cache=root / "cache")


def opened(cached, **options):
    data, location = cached
    return open_features(**data, location=location, **options)


def test_noise_replaces_as_many_labels_of_train_as_it_says(cached):
    clean = opened(cached)
    before, changed = np.array(clean.labels["train"].values), []
    for share in (0.1, 0.3):
        noisy = opened(cached, label_noise=share)
        now = np.array(noisy.labels["train"].values)
        changed.append(now != before)
        assert changed[-1].sum() == round(share * 90)
        assert noisy.labels["train"].fingerprint != clean.labels["train"].fingerprint
        for split in ("dev", "test"):
            assert noisy.labels[split] == clean.labels[split]
    assert changed[1][changed[0]].all(), "a larger share has those of a smaller one"


@pytest.mark.parametrize("share", [0.02, 0.25, 1 / 3, 0.5, 0.9])
def test_train_has_the_share_of_positives_that_is_asked_for(cached, share):
    splits = opened(cached, positives=share)
    labels = np.array(splits.labels["train"].values)[splits.drawable]
    positive, negative = (labels == "y").sum(), (labels == "n").sum()
    assert positive / len(labels) == pytest.approx(share, abs=1 / len(labels))
    assert positive == 30 or negative == 60, "no more are left out than must be"
    assert len(splits.view("test")) == 90


def test_runs_under_both_are_told_apart(cached, tmp_path):
    data, location = cached
    regimes = [{}, {"label_noise": 0.4}, {"positives": 0.1}, {"label_noise": 0.4, "shots": 20}]
    plan = [TrainSpec(**data, head="last", **regime) for regime in regimes]
    records = sweep(plan, location=location, out=tmp_path / "runs.jsonl")
    assert [record.protocol for record in records] == [
        "full", "full, label noise 0.4", "full, positives 0.1", "few-shot, label noise 0.4",
    ]  # fmt: skip
    assert len({record.key for record in records}) == 4
    assert records[0].test_score == 1.0
    table = score_table(records).text()
    assert "labels fingerprint" not in table and "full, positives 0.1" in table


@pytest.mark.parametrize("options", [{"label_noise": 1.0}, {"positives": 0}, {"positives": "a"}])
def test_shares_are_between_0_and_1(cached, options):
    with pytest.raises(OptionError, match="a number between 0 and 1"):
        TrainSpec(**cached[0], head="last", **options)
    if "a" not in options.values():
        with pytest.raises(OptionError, match="a number between 0 and 1"):
            opened(cached, **options)


def test_what_has_no_classes_has_no_noise(tmp_path):
    model, folder = tiny.build("bert", tmp_path / "tiny"), tmp_path / "texts"
    folder.mkdir()
    rows = [f"the cat sat,{n}.5" for n in range(6)]
    (folder / "train.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    (entry,) = entries_of(
        model, folder, tmp_path / "cache", kind="regression", label=None, keep=("mean",)
    )
    for option, message in (("label_noise", "replaces classes"), ("positives", "of two classes")):
        with pytest.raises(OptionError, match=message):
            open_features(entry, location=Location(cache=tmp_path / "cache"), **{option: 0.2})
