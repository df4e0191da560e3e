"""``overthinking`` and ``exit`` of what ``depth`` has recorded."""

import json
import shutil

import numpy as np
import pandas
import pytest
from seqeval.metrics import f1_score

from tests.cli.console import done, refused
from tests.planted import plant_all

RUN = ("planted", "conll", "--label", "ner")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return plant_all(tmp_path_factory.mktemp("planted"), noise=0.05)


@pytest.fixture(scope="module")
def runs(cache, tmp_path_factory):
    """The records file of ``depth``."""
    out = tmp_path_factory.mktemp("runs") / "runs.jsonl"
    done("depth", *RUN, "--cache", cache, "--out", out)
    return out


def test_shares_as_text(runs):
    outcome = done("overthinking", runs, "--samples", 100)
    title, _, header, *lines = outcome.out.splitlines()
    assert title == ("last (planted, conll, ner, test): 25 sentences, one seed, depths 0 to 3")
    assert header.split()[:3] == ["%", "of", "words"]
    assert {line.split("  ")[0] for line in lines} >= {"wasteful", "destructive", "cumulative"}
    assert "one earlier depth in place of the last: 2 (chosen on dev)" in outcome.out
    assert outcome.err == ""


def test_json_is_one_object_per_head(runs):
    (row,) = done("overthinking", runs, "--json", "--samples", 100).rows
    assert (row["kind"], row["split"], row["depths"]) == ("overthinking", "test", [0, 1, 2, 3])
    names = [share["name"] for share in row["shares"]]
    assert names == ["wasteful", "destructive", "cumulative", "layers wasted"]
    assert row["shares"][0]["share"].keys() == {"value", "low", "high", "p"}
    assert row["shares"][0]["expected"] is None and row["shares"][1]["excess"]["p"] <= 1
    assert [one["depth"] for one in row["by_depth"]["earlier"]] == [0, 1, 2]


def test_exit_saves_the_planted_layer(runs):
    outcome = done("exit", runs, "--samples", 100)
    rules = [line.split("  ")[0] for line in outcome.out.splitlines()[4:-2]]
    assert rules == ["whole model", "confidence", "patience", "fixed depth", "oracle"]
    (row,) = done("exit", runs, "--samples", 100, "--json").rows
    points = {point["rule"]: point for point in row["points"]}
    assert points["fixed"]["layers"]["value"] == 2
    assert points["fixed"]["thresholds"] == ["depth 2"]
    assert points["fixed"]["saved"]["value"] == pytest.approx(1 / 3)


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """The records file of probes where layer 2 alone holds the labels."""
    root = tmp_path_factory.mktemp("lost")
    cache = plant_all(root / "cache", signal=(2,), noise=0.05)
    options = ("--l2", 0.01, "--cache", cache, "--out", root / "runs.jsonl")
    done("depth", *RUN, *options)  # equally right strengths are not equally sure: one given
    return root / "runs.jsonl"


def read_rows(runs, split):
    """Return the rows of a split of each depth, from the Parquet files alone."""
    records = [json.loads(line) for line in runs.read_text().splitlines()]
    files = [pandas.read_parquet(runs.parent / record["predictions"]) for record in records]
    kept = [rows[rows["split"] == split] for rows in files]
    return {r["depth"]: rows for r, rows in zip(records, kept, strict=True)}


def test_shares_are_those_of_the_parquet_files(lost):
    (found,) = done("overthinking", lost, "--samples", 100, "--json").rows
    shares = {one["name"]: one for one in found["shares"]}
    words = {run: rows[["gold", "predicted"]].explode(["gold", "predicted"])
             for run, rows in read_rows(lost, "test").items()}  # fmt: skip
    right = {run: (rows["gold"] == rows["predicted"]).to_numpy() for run, rows in words.items()}
    last, earlier = right[3], np.any([right[depth] for depth in range(3)], axis=0)
    expected = {"wasteful": last & earlier, "destructive": ~last & earlier,
                "cumulative": last | earlier}  # fmt: skip
    for name, rows in expected.items():
        assert shares[name]["share"]["value"] == pytest.approx(rows.mean()), name
    assert shares["destructive"]["excess"]["low"] > 0
    assert shares["destructive"]["share"]["value"] > 0.5  # layer 2 knows, and the last does not


def test_exits_are_those_of_the_parquet_files(lost):
    (found,) = done("exit", lost, "--samples", 100, "--json").rows
    points = {point["rule"]: point for point in found["points"]}
    test, dev = ([read_rows(lost, split)[depth] for depth in range(4)] for split in ("test", "dev"))
    grid = [*np.quantile(least_sure(dev)[:-1], np.linspace(0, 1, 41)), np.inf]
    tried = [left_early(dev, threshold) for threshold in grid]
    last, _ = tried[-1]
    *_, n = min((layers, -f1, n) for n, (f1, layers) in enumerate(tried) if f1 >= last - 0.01)
    score, layers = left_early(test, grid[n])
    assert points["confidence"]["layers"]["value"] == pytest.approx(layers)
    assert points["confidence"]["score"]["value"] == pytest.approx(score)


def least_sure(depths):
    """Return the largest probability of each sentence's least sure word, by depth."""
    return np.array(
        [[min(max(word) for word in words) for words in rows["probabilities"]] for rows in depths]
    ).astype(float)


def left_early(depths, threshold):
    """Return the score and the mean layers of sentences that leave by their confidence."""
    surely = least_sure(depths) >= threshold
    surely[-1] = True
    places = surely.argmax(0)
    predicted = [list(depths[at]["predicted"].iloc[n]) for n, at in enumerate(places)]
    return f1_score([list(words) for words in depths[0]["gold"]], predicted), places.mean()


def test_figures_of_a_records_file_and_of_the_commands(runs, here):
    look = ("--width", 3, "--title", "A title", "--font-size", 9, "-o")
    only = ("--where", "head=last")  # there are scalar mixes as well
    for kind in ("overthinking", "exit"):
        done("plot", kind, runs, *only, *look, f"{kind}.svg")
        done(kind, runs, "--samples", 100, *look, "own.svg")
        assert 'width="216pt"' in (here / f"{kind}.svg").read_text()  # 3 of 72
        assert (here / "own.svg").read_bytes() == (here / f"{kind}.svg").read_bytes()
    message = refused("overthinking", runs, *look[:-1])
    assert message == "--width is for the figure: say where to draw it, -o FILE."
    assert "a width of 99 inches" in refused("exit", runs, "-o", "a.svg", "--width", 99)


def test_records_that_are_not_there(runs, cache, tmp_path):
    assert "no records with head=p32" in refused("exit", runs, "--head", "p32")
    assert "no such file" in refused("exit", "nowhere.jsonl")
    plain = tmp_path / "plain.jsonl"
    done("depth", *RUN, "--cache", cache, "--out", plain, "--no-predictions")
    assert "with --predictions" in refused("overthinking", plain)


def test_a_folder_of_records_is_read_as_its_files(runs, tmp_path):
    shutil.copytree(runs.parent, tmp_path / "runs")
    options = ("--samples", 100)
    folder = done("exit", tmp_path / "runs", *options).out
    assert folder == done("exit", tmp_path / "runs" / runs.name, *options).out
    (tmp_path / "empty.jsonl").touch()
    for command in (("exit",), ("overthinking",), ("plot", "depth"), ("table",)):
        assert "empty.jsonl: no record in there" in refused(*command, tmp_path / "empty.jsonl")


@pytest.mark.parametrize(
    ("command", "option", "said"),
    [
        ("exit", ("--tolerance", -1), "--tolerance -1"),
        ("exit", ("--tolerance", 5), "from 0 to 1, where 0.01 is one point of a percentage"),
        ("exit", ("--samples", 5), "--samples 5:"),
        ("exit", ("-o", "a.gif"), "a.gif: cannot write a figure as '.gif'"),
        ("exit", ("--split", "tset"), "Did you mean 'test'?"),
        ("overthinking", ("--examples", -3), "--examples -3:"),
    ],
)
def test_what_cannot_be_measured_is_refused(runs, here, command, option, said):
    assert said in refused(command, runs, *option)
    assert not list(here.iterdir())


def test_figures_of_moved_files_and_of_the_tolerance(runs, here):
    for found in (runs, runs.with_name("runs-predictions")):
        copy = shutil.copytree if found.is_dir() else shutil.copy
        copy(found, here / found.name)
    text = runs.read_text().replace(str(runs.parent), str(here / "gone"))
    (here / "runs.jsonl").write_text(text)
    done("overthinking", "runs.jsonl", "--samples", 100, "-o", "o.svg")
    strict, loose = (
        done("exit", "runs.jsonl", "--samples", 100, "-o", f"{loss}.svg", "--tolerance", loss)
        for loss in (0, 1)
    )
    assert strict.out != loose.out
    assert (here / "0.svg").read_bytes() != (here / "1.svg").read_bytes()
    assert "paired over 30 sentences" in done("table", "runs.jsonl", "--of", "depth").out
