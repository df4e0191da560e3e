"""Pivots, best options and the styles of a table."""

import csv
import io
import json
import re

import pytest

from probekit.errors import OptionError, RecordError, UnknownNameError
from probekit.metrics import Scale
from probekit.results.comparison import verdicts
from probekit.results.comparison.resampling import Estimate
from probekit.results.summaries.interval import Interval, interval
from probekit.results.summaries.select import CHOSE, best_options
from probekit.results.summaries.typeset import (
    Cell,
    Column,
    Table,
    latex_text,
    score_column,
    text_table,
)
from probekit.results.tables import pivot, summarise, table
from tests.results.samples import make_record


def tuned(**changes):
    """Two heads at 8 shots and all, at two rates each: the larger one is best on dev for p32."""
    dev = {("p32", 0.1): 0.7, ("p32", 0.01): 0.6, ("last", 0.1): 0.3, ("last", 0.01): 0.4}
    return [
        make_record(
            head, seed, shots=shots, lr=lr,
            eval_score=score + 0.01 * seed, **{"test_score": 1 - score} | changes,
        )
        for (head, lr), score in dev.items()
        for shots in (8, None)
        for seed in (0, 1)
    ]  # fmt: skip


def test_a_pivot_has_a_column_per_value():
    best = best_options(tuned())
    lines = text_table(pivot(best.records, "shots", split="dev").columns).splitlines()
    assert [re.split(r"\s{2,}", line) for line in (lines[0], *lines[2:])] == [
        ["head", "8 shots", "all sentences"],
        ["last", "40.50 ± 6.35", "40.50 ± 6.35"],
        ["p32", "70.50 ± 6.35", "70.50 ± 6.35"],
    ]


def test_what_follows_from_row_and_column_makes_no_rows():
    """The rate was searched for each number of shots."""
    records = [make_record("p32", s, shots=n, lr=n / 100) for n in (8, 16) for s in (0, 1)]
    assert len(pivot(records, "shots", split="test").columns[0].cells) == 1
    several = [*records, make_record("p32", 0, shots=8, lr=9.0)]
    lines = text_table(pivot(several, "shots", split="test").columns).splitlines()
    assert lines[0].split() == ["head", "lr", "8", "shots", "16", "shots"]
    assert lines[-1].split() == ["p32", "9", "72.58", "-"]


def test_a_pivot_as_json_has_a_cell_per_line():
    rows = [
        json.loads(line) for line in pivot(tuned(), "lr", split="test").text("jsonl").splitlines()
    ]
    assert len(rows) == 8
    assert {(row["head"], row["shots"], row["lr"]) for row in rows} >= {("p32", None, 0.1)}
    assert rows[0]["mean"] == pytest.approx(0.6) and rows[0]["split"] == "test"


def test_a_pivot_shows_troubles_and_verdicts():
    records = [
        make_record(
            head, seed, shots=n, diverged=head == "mean",
            test_score=score + (seed + seed % 3 * (head != "last")) / 1000,
        )
        for head, score in (("last", 0.5), ("p32", 0.8), ("mean", 0.5))
        for n in (8, 16)
        for seed in range(8)
    ]  # fmt: skip
    found = pivot(records, "shots", split="test", judged=verdicts(records))
    text = text_table(found.columns)
    assert re.findall(r"(\S+)\s+80\.\d\d ± \d\.\d\d(\S)\s+80\.\d\d ± \d\.\d\d(\S)", text) == [
        ("p32", "\N{UPWARDS ARROW}", "\N{UPWARDS ARROW}")
    ]
    assert text.count("*") == 2


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ("shot", UnknownNameError, "unknown option 'shot'. Did you mean 'shots'"),
        ("seed", UnknownNameError, "unknown option 'seed'"),
        (
            "depth",
            RecordError,
            r"--columns depth: depth is 'all' in each of 16 records, so there is nothing to "
            r"show side by side\. Options that differ: head, shots, lr\.",
        ),
    ],
)
def test_a_pivot_over_an_option_that_is_not_there(columns, error, message):
    with pytest.raises(error, match=message):
        pivot(tuned(), columns, split="dev")


# the best options


def test_dev_chooses_and_test_reports():
    best = best_options(tuned())
    assert {(r.head, r.lr) for r in best.records} == {("p32", 0.1), ("last", 0.01)}
    rows = summarise(best.records, best=best)
    assert [(row.among, row.chosen, row.marks) for row in rows] == [(2, ("lr",), ())] * 4
    text = table(rows)
    assert text.split("\n")[0].split()[:3] == ["head", "shots", "lr"]
    assert best.lines(on_dev=False) == [
        "chosen on dev, by the mean over seeds: lr (2 settings each); report test, because dev is "
        "optimistic"
    ]


def test_what_was_chosen_is_shown_where_all_have_the_same():
    records = [make_record(head, lr=lr, eval_score=lr, options={}) for head in ("p32", "last")
               for lr in (0.1, 0.2)]  # fmt: skip
    best = best_options(records)
    rows = summarise(best.records, best=best)
    assert "lr" in table(rows).splitlines()[0].split()
    assert "lr" not in table(summarise(best.records)).splitlines()[0].split()


def test_without_test_scores_the_choice_is_a_trouble():
    best = best_options(tuned(test_score=None))
    rows = summarise(best.records, best=best)
    assert all(row.marks == (CHOSE,) for row in rows)
    assert table(rows).count("*") == 2 * len(rows)  # best and last
    assert best.lines(on_dev=True)[1].startswith("* options chosen on the reported split")
    alone = best_options([make_record("p32", test_score=None)])
    assert summarise(alone.records, best=alone)[0].marks == ()
    assert alone.lines(on_dev=True) == ["dev had nothing to choose: each head has one setting"]


def test_the_lowest_perplexity_is_the_best():
    records = [make_record("p32", lr=lr, metric="perplexity", eval_score=score, eval_last=score)
               for lr, score in ((0.1, 9.0), (0.2, 7.0))]  # fmt: skip
    assert best_options(records).records[0].lr == 0.2


def test_depth_shots_and_decoder_are_compared_not_chosen():
    records = [make_record("p32"), make_record("p32", depth=1), make_record("p32", shots=8),
               make_record("p32", decoder="crf", key="c")]  # fmt: skip
    assert len(best_options(records).records) == 4


def test_choices_that_would_not_be_fair_are_refused():
    with pytest.raises(OptionError, match="--best-on test: options can only be chosen on dev"):
        best_options(tuned(), "test")
    with pytest.raises(
        RecordError, match=r"lr 0\.1 has seeds 0, .*lr 0\.2 has 0, 1: --best-on dev"
    ):
        best_options([make_record("p32", s, lr=lr) for lr, s in ((0.1, 0), (0.2, 0), (0.2, 1))])


# styles


AWKWARD = [
    Column("a & b_c", ["50 % #1", 'quote "x", y', "new\nline"], words=True),
    Column("score", ["1.00 ± 0.50*", "[2]", "-"]),
]


def test_csv_is_read_back_as_it_was():
    rows = list(csv.reader(io.StringIO(Table(AWKWARD).text("csv"), newline="")))
    assert rows == [
        ["a & b_c", "score"],
        ["50 % #1", "1.00 ± 0.50*"],
        ['quote "x", y', "[2]"],
        ["new\nline", ""],
    ]
    assert Table(AWKWARD).text("csv").count("\r\n") == 4  # RFC 4180


def test_csv_has_plain_numbers():
    records = tuned(n_params=1234567)
    rows = summarise(records, judged=verdicts(records, "last", split="dev"))
    found = list(csv.DictReader(io.StringIO(table(rows, "csv"), newline="")))
    assert len(found) == 8
    one = next(
        row for row in found if (row["head"], row["shots"], row["lr"]) == ("p32", "8", "0.1")
    )
    assert float(one["dev best"]) == pytest.approx(70.5)
    assert float(one["dev best half width"]) == pytest.approx(6.3531, abs=1e-4)
    assert (one["params"], one["seconds"]) == ("1234567", "1.5")
    assert (one["against"], one["verdict"]) == ("last, 8 shots, lr 0.1", "open")
    assert not any("±" in value or "*" in value for row in found for value in row.values())


def test_latex_has_a_line_per_row_and_nothing_that_it_would_obey():
    text = Table(AWKWARD).text("latex")
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{@{}lr@{}}" and lines[-1] == r"\end{tabular}"
    assert lines[2] == r"a \& b\_c & score \\"
    assert lines[4] == r"50 \% \#1 & 1.00 $\pm$ 0.50* \\"
    assert lines[5] == r"quote \textquotedbl{}x\textquotedbl{}, y & {}[2] \\"
    assert lines[6] == r"new line & - \\"
    for line in lines[2:7:2]:
        assert len(re.findall(r"(?<!\\)&", line)) == 1
    assert latex_text(r"\~^{}$<") == (
        r"\textbackslash{}\textasciitilde{}\textasciicircum{}\{\}\$$<$"
    )


def test_an_option_that_dev_chose_is_said_to_be_chosen():
    records = [one for one in tuned() if one.head == "p32"]
    best = best_options(records)
    with pytest.raises(RecordError, match=r"lr is '0.1' in each .* which --best-on dev chose"):
        pivot(best.records, "lr", split="dev", best=best)


def cells(*intervals):
    scale = Scale(percent=False)
    return score_column("", [one and Cell(one, scale) for one in intervals]).cells


def test_a_zero_has_no_sign_of_its_own():
    tiny = -1e-9
    assert cells(Interval(tiny, 0.0, 2)) == ["0.00 ± 0.00"]
    assert Estimate(tiny, 2 * tiny, 0.1, 1.0).text() == "0.0 (0.0 to 0.1)"
    assert Estimate(tiny, -1.0, 0.1, 1.0).text(signed=True) == "+0.0 (-1.0 to +0.1)"


def test_signs_stand_one_below_the_other():
    found = cells(interval([1.0, 3.0]), interval([10.0]), None)
    assert found[0].startswith("2.00 ± ") and [one.strip() for one in found[1:]] == ["10.00", "-"]
    assert len({len(cell) - len(cell.lstrip()) for cell in found}) == 1


def test_a_perplexity_of_many_digits_is_short():
    assert cells(interval([6.4e46])) == ["6.4e+46"]
    assert cells(interval([999_999.0])) == ["999999.00"]
