"""What the page holds is what the records and side files hold, computed here in other ways."""

import base64
import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from probekit import write_report
from probekit.errors import MissingFileError, OptionError, RecordError, StorageError
from probekit.page import report_page
from probekit.page.example_grids import packed_grids
from probekit.page.report_page import ReportOptions, page_data, score_tables
from probekit.results.predictions import read_predicted
from tests.page import samples
from tests.results.overthinking.held import add
from tests.results.samples import make_record

QUICK = ReportOptions(samples=100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("side-files")


@pytest.fixture(scope="module")
def depths(folder):
    return samples.hostile_records(folder)


@pytest.fixture(scope="module")
def data(folder, depths):
    return page_data([*depths, *samples.whole_records(folder)], QUICK)


def figures(data, section):
    return [one for one in data["figures"] if one.section == section]


def test_every_section_has_a_picture(data):
    found = {one.section for one in data["figures"]}
    assert found == {"depth", "weights", "amount", "overthinking", "exit"}
    for one in data["figures"]:
        assert one.rows and all(len(row) == len(one.headings) == len(one.words) for row in one.rows)
        assert one.svg.count("<title>") >= len(one.rows)


def column(figure, name):
    """Return the numbers of a picture's column."""
    place = list(figure.headings).index(name)
    return [float(row[place]) for row in figure.rows]


def test_depth_curve_is_the_records(data, depths):
    (figure,) = figures(data, "depth")
    assert column(figure, "layer (0 = emb)") == list(range(samples.DEPTHS))
    scores = [100 * one.eval_score for one in sorted(depths, key=lambda one: one.depth)]
    np.testing.assert_allclose(column(figure, figure.headings[2]), scores, rtol=1e-5)
    assert column(figure, "seeds") == [1] * samples.DEPTHS
    low, high = column(figure, "95 % from"), column(figure, "95 % to")
    assert all(a < s < b for a, s, b in zip(low, scores, high, strict=True))
    assert "over 40 sentences" in figure.svg
    assert any("best on dev: layer" in caption for caption in figure.captions)


def test_cells_are_multiples_of_an_equal_part(data):
    figure = figures(data, "weights")[0]
    rows = [row for row in figure.rows if "8 shots" in row[0]]
    values = [float(row[list(figure.headings).index("value")]) for row in rows]
    np.testing.assert_allclose(sum(values), len(values), rtol=1e-4)


def named(sentences, numbers):
    return [sentences["names"][one] for one in numbers]


def test_grid_is_the_side_files(data, depths):
    (grid,) = [one for one in data["examples"]["grids"] if one["along"] == "depth"]
    sentences = data["examples"]["sentences"][grid["sentences"]]
    assert grid["columns"] == ["0 = emb", "1", "2", "3"]
    assert sorted(sentences["names"]) == sorted(samples.LABELS)
    assert sentences["lengths"] == list(samples.LENGTHS)
    rows = sum(samples.LENGTHS)
    shape = (samples.DEPTHS, rows)
    predicted = np.frombuffer(base64.b64decode(grid["predicted"]), "u1").reshape(shape)
    steps = np.frombuffer(base64.b64decode(grid["probabilities"]), "u1").reshape(shape)
    gold = np.frombuffer(base64.b64decode(sentences["gold"]), "u1")
    probes = sorted(depths, key=lambda one: one.depth)
    for depth, record in enumerate(probes):
        found = read_predicted(record.predictions)[1]["dev"]
        for numbers, expected in ((predicted[depth], found.predicted), (gold, found.gold)):
            assert named(sentences, numbers) == [found.names[one] for one in expected]
        expected = found.probabilities.astype(float)[np.arange(rows), found.predicted]
        np.testing.assert_allclose(steps[depth] / 254, expected, atol=0.5 / 254 + 1e-6)
    words = [word for text in sentences["texts"] for word in text]
    assert words == [samples.HOSTILE[row % len(samples.HOSTILE)] for row in range(rows)]


def test_grids_of_one_split_share_their_sentences(data):
    grids = data["examples"]["grids"]
    shared = {one["sentences"] for one in grids}
    assert {one["along"] for one in grids} == {"depth", "head"}
    assert len(data["examples"]["sentences"]) == len(shared)


def test_fewer_examples_are_evenly_spaced(depths):
    packed, _ = packed_grids(depths, None, 3)
    (sentences,) = packed["sentences"]
    assert sentences["ids"] == ["dev-0", "dev-20", "dev-39"]
    assert sentences["lengths"] == [samples.LENGTHS[0], samples.LENGTHS[20], samples.LENGTHS[39]]
    assert sentences["of"] == 40
    assert packed_grids(depths, None, 0)[0]["grids"] == []


def test_more_classes_than_a_byte_has_take_two(folder):
    names = tuple(f"class {n}" for n in range(300))
    gold = np.arange(300)
    record = add(gold[::-1].copy(), gold, names=names, lengths=[100] * 3, confidence=None)
    packed, missing = packed_grids([samples.on_disk(record, folder)], None, 10)
    assert missing == []
    (own,), (sentences,) = packed["grids"], packed["sentences"]
    predicted = np.frombuffer(base64.b64decode(own["predicted"]), "<u2")
    assert named(sentences, predicted) == list(names[::-1])
    assert sentences["kind"] == "u2"
    assert set(base64.b64decode(own["probabilities"])) == {255}


def test_scores_stand_in_a_table_and_its_csv(data):
    (table,) = [one for one in data["tables"] if "shots" in one.headings and len(one.rows) > 2]
    place = table.headings.index("head")
    heads = {row[place] for row in table.rows}
    assert heads == {"last", "p32"}
    read = list(csv.DictReader(io.StringIO(table.csv)))
    assert [row["head"] for row in read] == [row[place] for row in table.rows]
    assert all(float(row["test"] or row["dev best"]) > 0 for row in read)
    assert any("95 % interval" in note or "so no interval" in note for note in table.notes)


def test_scores_are_compared_with_what_is_asked_for(folder):
    wholes = [one for one in samples.whole_records(folder) if one.predictions]
    (plain,) = score_tables(wholes, None, None, 100)
    (asked,) = score_tables(wholes, "p32", None, 100)
    assert any("p32" in line for line in asked.notes) and plain.notes != asked.notes


def test_scores_stand_before_how_heads_were_trained():
    records = [make_record("last", lr=lr, epochs=lr and 5) for lr in (1e-3, 2e-3)]
    (table,) = score_tables(records, None, None, 100)
    headings = table.headings
    assert headings[0] == "head" and headings.index("test") < headings.index("lr")
    place = headings.index("lr")
    assert [row[place] for row in table.rows] == ["0.001", "0.002"]


def test_depths_are_compared_in_their_curves_alone(depths):
    (table,) = score_tables(depths, None, None, 100)
    assert len(table.rows) == samples.DEPTHS and not any("--against" in one for one in table.notes)


def test_the_file_holds_all_of_it(tmp_path, data, monkeypatch):
    monkeypatch.setattr(report_page, "page_data", lambda records, options: data)
    out = write_report([], tmp_path / "report.html", QUICK)
    read = samples.PageReader(out.read_text(encoding="utf-8"))
    (title,) = read.texts("h1")
    assert title.endswith('on own"><h1>task') and samples.MODEL.rpartition("/")[2] in title
    assert read.data["grids"]
    assert {"Depth curves", "Overthinking", "Early exit", "Examples"} < set(read.texts("nav"))
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_records_without_predictions_say_what_to_run():
    records = [make_record(head, seed) for head in ("last", "p32") for seed in range(2)]
    data = page_data(records, QUICK)
    assert data["tables"] and figures(data, "weights")
    assert data["examples"]["grids"] == []
    said = "\n".join(data["absent"])
    for text in (
        "ner: its 4 records kept no predictions; ",
        "run `probekit depth`",
        "--predictions",
    ):
        assert text in said


def test_a_side_file_that_is_gone_leaves_the_rest(depths):
    gone = [replace(one, predictions="/nowhere/file.parquet") for one in depths]
    data = page_data(gone, QUICK)
    assert figures(data, "depth") and data["examples"]["grids"] == []
    assert "/nowhere/file.parquet: no such file of predictions" in "\n".join(data["absent"])


def test_losses_have_no_grid():
    record = make_record("last", metric="perplexity", task="wikitext2", confusion=None)
    _, (missing,) = packed_grids([record], None, 10)
    assert "wikitext2" in missing and "scores losses" in missing


def test_values_are_a_grid_of_numbers(folder):
    records = samples.regression_records(folder)
    packed, _ = packed_grids(records, None, 100)
    (grid,), (sentences,) = packed["grids"], packed["sentences"]
    assert sentences["kind"] == "f4" and "probabilities" not in grid
    gold = np.frombuffer(base64.b64decode(sentences["gold"]), "<f4")
    predicted = np.frombuffer(base64.b64decode(grid["predicted"]), "<f4").reshape(-1, len(gold))
    for depth, record in enumerate(records):
        found = read_predicted(record.predictions)[1]["dev"]
        np.testing.assert_allclose(gold, found.gold, rtol=1e-6)
        np.testing.assert_allclose(predicted[depth], found.predicted, rtol=1e-6)
    assert [one for one, _ in sentences["texts"]] == list(samples.HOSTILE) * 6


def test_no_records_are_refused():
    for records in ([], [make_record(trial=True)]):
        with pytest.raises(RecordError, match="run `probekit train`, `sweep` or `depth`"):
            page_data(records, QUICK)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("report.pdf", OptionError, "one HTML file, and this ends in '.pdf'"),
        ("report", OptionError, "ends in 'nothing'"),
        ("folder.html", OptionError, "this is a folder"),
        ("none/report.html", MissingFileError, "the folder .*none does not exist; create it"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_first(tmp_path, name, error, message):
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(error, match=message):
        write_report([make_record()], tmp_path / name, QUICK)


def test_a_disk_that_is_full_is_said(tmp_path, monkeypatch):
    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report_page, "page_data", lambda records, options: samples.plain_page())
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StorageError, match="No space left on device"):
        write_report([make_record()], tmp_path / "report.html", QUICK)
    with pytest.raises(StorageError, match=r"No space left on device\); choose another file\.$"):
        report_page.write_token_page(tmp_path / "texts.html", "texts", [])  # of --page


def test_options_are_checked():
    with pytest.raises(OptionError, match="--examples -1"):
        ReportOptions(examples=-1)
    with pytest.raises(OptionError):
        ReportOptions(samples=3)
    with pytest.raises(KeyError, match="train"):
        ReportOptions(split="train")


def test_depths_of_several_tasks_have_their_mean_first():
    depths = [
        make_record("last", task=f"truth/{n}", label="label", depth=layer, metric="accuracy")
        for n in range(3)
        for layer in range(3)
    ]
    mean, *of_tasks = score_tables(depths, None, None, 100)
    assert [mean.title, *(table.title for table in of_tasks)] == [
        "Mean over tasks", *(f"truth/{n}, label" for n in range(3)),
    ]  # fmt: skip
    assert mean.headings == ["layer, test", "tiny-model, last"]
    mixed = [*depths, make_record("last", task="conll", depth=1)]
    assert all(t.title != "Mean over tasks" for t in score_tables(mixed, None, None, 100))
