"""What notebooks show of records and comparisons: the cells and lines of the text tables."""

import re

import pytest

from probekit.results import Records, comparison, load_records
from probekit.results.layer_geometry import Geometry, LayerGeometry, MassiveChannel
from probekit.results.summaries.typeset import STYLES, Column, Table
from probekit.results.tables import depth_table, score_table, summarise, table
from tests.base.test_shown import OURS, Read
from tests.results.comparison.files import add_run, classes
from tests.results.samples import make_record


def words(text):
    """The words of a table as text, without rules."""
    return [word for word in re.split(r"\s+", text) if word and not set(word) <= {"-"}]


def shown(html):
    read = Read(html)
    assert read.tags <= OURS and not read.open
    return words(" ".join(read.cells))


def records():
    return Records(make_record(head, seed) for head in ("last", "p32") for seed in range(3))


def test_records_show_the_table_of_scores():
    assert shown(records()._repr_html_()) == words(score_table(records()).text())
    assert "no records" in Records()._repr_html_()


def test_trials_are_left_out_as_in_tables():
    more = Records([*records(), make_record("mean", trial=True)])
    assert more._repr_html_() == records()._repr_html_()


def test_html_is_a_style_of_every_table():
    assert "html" in STYLES
    html = table(summarise(records()), "html")
    assert shown(html) == words(table(summarise(records())))
    assert html._repr_html_() == html
    depths = [make_record("last", depth=depth) for depth in range(4)]
    assert shown(depth_table(depths).text("html")) == words(depth_table(depths).text())
    many = [Column("n", [str(n) for n in range(500)])]
    assert len(shown(Table(many).text("html"))) == 501  # a file has all rows


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "runs.jsonl"
    for seed in range(3):
        add_run(path, "p32", seed, classes(0.8, seed))
        add_run(path, "last", seed, classes(0.6, seed))
    return path


def test_comparisons_show_what_their_tables_say(file):
    one = comparison.compare(
        comparison.choose_run(f"{file}#head=p32"), comparison.choose_run(f"{file}#head=last")
    )
    assert shown(one._repr_html_()) == words(comparison.comparison_table(one).text())
    found = comparison.compare_all(load_records(file))
    assert isinstance(found, list) and len(found) == 1
    assert shown(found._repr_html_()) == words(comparison.pairs_table(found).text())
    assert shown(comparison.pairs_table(found).text("html")) == words(
        comparison.pairs_table(found).text()
    )
    judged = comparison.verdicts(load_records(file), "last")
    text = " ".join(shown(judged._repr_html_()))
    assert "p32" in text and all(" ".join(line.split()) in text for line in judged.lines)


def test_geometry_shows_its_table():
    layer = LayerGeometry(
        layer=0, effective_rank=None, anisotropy=0.5, intrinsic_dimension=3.21, norm=2.0,
        norm_deviation=0.1, median=0.2, dimension_low=2.94, dimension_high=3.5, dimension_rows=8,
        massive=[MassiveChannel(channel=7, rows=9, largest=300.0)],
    )  # fmt: skip
    found = Geometry(
        model="m", task="t", split="train", entry="0", array="words", dim=4, rows=9, of_rows=9,
        sample=9, seed=0, layers=[layer], cka=[[1.0]], version="0",
    )  # fmt: skip
    text = " ".join(shown(found._repr_html_()))
    assert (
        "massive 0 0.500 3.2 (2.9 to 3.5) 2 ± 0.1 1.000 7 (9 rows)" in text
    )  # dashes are left out above
    assert "m, t train: 9 rows of words, 4 wide; rank: effective rank of their covariance" in text
    assert "by TwoNN from 8 distinct rows among 9 drawn rows, with its 95 % interval" in text
