"""``overthinking`` and ``exit`` of what ``depth`` has recorded."""

import shutil

import pytest

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
    outcome = done("overthinking", runs)
    title, _, header, *lines = outcome.out.splitlines()
    assert title == ("last (planted, conll, ner, test): 25 sentences, one seed, depths 0 to 3")
    assert header.split()[:3] == ["%", "of", "words"]
    assert {line.split("  ")[0] for line in lines} >= {"wasteful", "destructive", "cumulative"}
    assert "one earlier depth in place of the last: 2 (chosen on dev)" in outcome.out
    assert outcome.err == ""


def test_json_is_one_object_per_head(runs):
    (row,) = done("overthinking", runs, "--json").rows
    assert (row["kind"], row["split"], row["depths"]) == ("overthinking", "test", [0, 1, 2, 3])
    names = [share["name"] for share in row["shares"]]
    assert names == ["wasteful", "destructive", "cumulative", "layers wasted"]
    assert row["shares"][0]["share"].keys() == {"value", "low", "high", "p"}
    assert row["shares"][0]["expected"] is None and row["shares"][1]["excess"]["p"] <= 1
    assert [one["depth"] for one in row["by_depth"]["earlier"]] == [0, 1, 2]


def test_another_head_is_one_of_several_conditions(cache, runs, tmp_path):
    file = shutil.copytree(runs.parent, tmp_path / "two") / runs.name
    done("depth", *RUN, "--cache", cache, "--out", file, "--head", "mean")
    for where, name in (("shots=all", "last"), ("shots=all,head=mean", "mean")):
        (row,) = done("overthinking", file, "--where", where, "--json").rows
        assert row["name"] == name


def test_exit_saves_the_planted_layer(runs):
    outcome = done("exit", runs)
    rules = [line.split("  ")[0] for line in outcome.out.splitlines()[4:-2]]
    assert rules == ["whole model", "confidence", "patience", "fixed depth", "oracle"]
    (row,) = done("exit", runs, "--json").rows
    points = {point["rule"]: point for point in row["points"]}
    assert points["fixed"]["layers"]["value"] == 2
    assert points["fixed"]["thresholds"] == ["depth 2"]
    assert points["fixed"]["saved"]["value"] == pytest.approx(1 / 3)


def test_figures_of_a_records_file(runs, here):
    look = ("--width", 3, "--title", "A title", "-o")
    only = ("--where", "head=last")  # there are scalar mixes as well
    for kind in ("overthinking", "exit"):
        done("plot", kind, runs, *only, *look, f"{kind}.svg")
        assert 'width="216pt"' in (here / f"{kind}.svg").read_text()  # 3 of 72


def test_a_folder_of_records_is_read_as_its_files(runs, tmp_path):
    shutil.copytree(runs.parent, tmp_path / "runs")
    folder = done("exit", tmp_path / "runs").out
    assert folder == done("exit", tmp_path / "runs" / runs.name).out
    (tmp_path / "empty.jsonl").touch()
    for command in (("exit",), ("overthinking",), ("plot", "depth"), ("table",)):
        assert refused(*command, tmp_path / "empty.jsonl").startswith("no records in /")


@pytest.mark.parametrize(
    ("command", "option", "said"),
    [
        ("exit", ("--tolerance", -1), "--tolerance -1"),
        ("exit", ("--split", "tset"), "Did you mean 'test'?"),
    ],
)
def test_what_cannot_be_measured_is_refused(runs, here, command, option, said):
    assert said in refused(command, runs, *option)
    assert not list(here.iterdir())


def test_moved_files_are_found_and_the_tolerance_counts(runs, here):
    for found in (runs, runs.with_name("runs-predictions")):
        copy = shutil.copytree if found.is_dir() else shutil.copy
        copy(found, here / found.name)
    text = runs.read_text().replace(str(runs.parent), str(here / "gone"))
    (here / "runs.jsonl").write_text(text)
    done("plot", "overthinking", "runs.jsonl", "-o", "o.svg")
    strict, loose = (done("exit", "runs.jsonl", "--tolerance", loss) for loss in (0, 1))
    assert strict.out != loose.out
    assert "paired over 30 sentences" in done("table", "runs.jsonl", "--of", "depth").out
