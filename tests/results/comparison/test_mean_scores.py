"""Mean scores and their intervals: over sentences, groups and seeds, or why there is none."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from probekit import plot_depth, plot_fewshot
from probekit.metrics import METRICS, Gold
from probekit.results import load_records
from probekit.results.comparison import RecordedRun, compare
from probekit.results.comparison.mean_scores import mean_score
from probekit.results.summaries.interval import Drawn, Interval, drawn_text, interval, interval_text
from probekit.results.tables import depth_table, pivot, score_table
from tests.results.comparison.files import IDS, add_run, classes, grouped, score

DOCUMENTS = np.arange(len(IDS)) // 5
LACKING = "no interval: one seed and no stored predictions; run again with --predictions."


def depths(path, change=lambda found: found, seeds=(0,), **options):
    """Return records of three depths with predictions of 60 sentences."""
    records = [
        add_run(path, "last", seed, change(classes(0.3 + 0.2 * depth, 10 * depth + seed)),
                depth=depth, key=f"k{depth}-{seed}-{path.stem}", **options)
        for depth in range(3)
        for seed in seeds
    ]  # fmt: skip
    return [replace(record, eval_last=record.eval_score) for record in records]


@pytest.mark.parametrize("groups", [np.arange(60), DOCUMENTS], ids=["sentences", "documents"])
def test_one_seed_has_the_jackknife_of_what_is_resampled(tmp_path, groups):
    """Each left out by itself, scored anew, and Student's t of their pseudo-values."""
    found = classes(0.6, 1)
    known = grouped(found, groups) if groups is DOCUMENTS else found
    record = add_run(tmp_path / "r.jsonl", "last", 0, known)
    of_row = np.repeat(groups, np.diff(found.offsets))
    n, whole = groups.max() + 1, score(found, "span-f1")
    values = []
    for group in range(n):
        lengths = np.diff(found.offsets)[groups != group]
        rows, offsets = of_row != group, np.concatenate([[0], np.cumsum(lengths)])
        scorer = METRICS["span-f1"](Gold(found.gold[rows], offsets, found.names))
        left_out = scorer.score(found.predicted[rows])["span-f1"]
        values.append(n * whole - (n - 1) * left_out)
    half = stats.t.ppf(0.975, n - 1) * stats.sem(values)
    mean = mean_score([record], "test_score", "last")
    assert (mean.mean, mean.half, mean.n) == (record.test_score, pytest.approx(half), 1)
    assert mean.drawn == Drawn(n, "documents" if groups is DOCUMENTS else "sentences")


def test_several_seeds_have_what_compare_says_of_them(tmp_path):
    path = tmp_path / "r.jsonl"
    runs = [
        RecordedRun.of(head, [add_run(path, head, s, classes(0.6, s + n)) for s in range(3)])
        for n, head in enumerate(("last", "mean"))
    ]
    compared = compare(*runs, samples=100).over_both_a
    mean = mean_score(runs[0].records, "test_score", "last")
    assert [mean.low, mean.high] == pytest.approx([compared.low, compared.high])
    assert (mean.n, mean.over) == (3, "seeds and sentences")
    seeds = mean_score(runs[0].records, "eval_last", "last")  # nothing predicted by the last step
    assert seeds == interval(record.eval_last for record in runs[0].records)


def test_tables_and_figures_of_one_seed_say_what_was_resampled_once(tmp_path):
    records = depths(tmp_path / "r.jsonl")
    table, columns = depth_table(records), pivot(records, "depth")
    for shown in (table, columns, score_table(records)):
        assert shown.caption.count("over 60 sentences, one seed.") == 1
        assert shown.text().count(" ± ") >= 4
    assert plot_depth(records).axes[0].collections, "a band"
    grouped_by = depths(tmp_path / "g.jsonl", lambda one: grouped(one, DOCUMENTS), shots=8)
    grouped_by += depths(tmp_path / "h.jsonl", lambda one: grouped(one, DOCUMENTS), shots=32)
    for draw in (plot_depth, plot_fewshot):
        title = " ".join(draw(grouped_by).legends[0].get_title().get_text().split())
        assert title == "95 % interval over 12 documents, one seed"


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)], ids=str)
def test_without_predictions_it_is_said(tmp_path, seeds):
    records = [replace(r, predictions=None) for r in depths(tmp_path / "r.jsonl", seeds=seeds)]
    over_seeds = "(Student's t) over 3 seeds."
    for shown in (depth_table(records), pivot(records, "depth"), score_table(records)):
        assert shown.caption.endswith(LACKING if len(seeds) == 1 else over_seeds)
    title = " ".join(plot_depth(records).legends[0].get_title().get_text().split())
    assert title == (LACKING[:-1] if len(seeds) == 1 else "mean and 95 % interval over 3 seeds")


def test_what_lies_beside_the_records_no_more_is_said(tmp_path):
    depths(tmp_path / "r.jsonl", seeds=(0, 1))
    (tmp_path / "r-predictions" / "k1-0-r.parquet").unlink()
    caption = depth_table(load_records(tmp_path / "r.jsonl")).caption
    assert "over 2 seeds and 60 sentences, or over 2 seeds, not over sentences: /" in caption
    assert "k1-0-r.parquet: no such file of predictions; run the same" in caption


def test_a_score_that_no_sentence_changes_has_no_interval(tmp_path):
    record = add_run(tmp_path / "r.jsonl", "last", 0, classes(1.0, 0))
    assert mean_score([record], "test_score", "last").half is None
    caption = score_table([record]).caption
    assert caption.endswith("no interval: one seed and all sentences scored alike.")


def test_what_several_intervals_are_over_is_one_line():
    both = Interval(0.5, 0.1, 3, "seeds and sentences", Drawn(60))
    one = Interval(0.5, 0.1, 1, "sentences", Drawn(150))
    assert interval_text([both, one]) == (
        "95 % interval over 3 seeds and 60 sentences, or over 150 sentences"
    )
    assert interval_text([one, replace(one, half=None, why_not="x is gone")]) == (
        "95 % interval over 150 sentences, one seed; elsewhere none: x is gone"
    )
    alike = replace(one, n=3)
    assert interval_text([alike]) == "95 % interval over 150 sentences, 3 seeds that all agree"
    assert interval_text([interval([0.5])]) == "one seed, so no interval"
    found = [Drawn(277), Drawn(3453), Drawn(231, "documents"), Drawn(277)]
    assert drawn_text(found) == "277 to 3,453 sentences or 231 documents"
