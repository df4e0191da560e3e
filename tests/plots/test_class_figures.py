"""Figures of single classes show the right numbers, and say what they cannot draw."""

from itertools import pairwise

import numpy as np
import pytest

from probekit import Look, plot_attention, plot_classes, plot_confusion
from probekit.errors import OptionError, RecordError, UnknownNameError
from tests.plots.samples import cells_of, row_names
from tests.results.samples import TYPES, make_record


def _records(*heads, seeds=2, **options):
    return [make_record(head, seed, **options) for head in heads for seed in range(seeds)]


# classes


@pytest.mark.parametrize("split", ["dev", "test"])
def test_markers_are_means_at_their_class(split):
    records = _records("last", "p32")
    axes = plot_classes(records, split).axes[0]
    names = ["LOC", "PER", "ORG", "MISC"]
    assert row_names(axes) == ["LOC (300)", "PER (280)", "ORG (200)", "MISC (120)"]
    low, high = axes.get_ylim()
    assert low > high  # the first class is on top
    markers = [line for line in axes.lines if len(line.get_xdata()) == len(TYPES)]
    for line, head in zip(markers, ("last", "p32"), strict=True):
        assert line.get_linestyle() == "None"
        by_class = np.argsort(line.get_ydata())
        assert np.round(line.get_ydata()[by_class]).tolist() == [0, 1, 2, 3]
        expected = [
            50 * sum(r.scores[f"{split}/f1/{name}"] for r in records if r.head == head)
            for name in names
        ]
        assert line.get_xdata()[by_class] == pytest.approx(expected)
    assert len(axes.lines) == 2 + 2 * len(TYPES)  # and an interval each
    assert axes.get_xlabel() == f"{split} F1 (%)"


def test_chosen_classes_alone():
    axes = plot_classes(_records("p32"), classes=["PER", "LOC"]).axes[0]
    assert row_names(axes) == ["LOC (300)", "PER (280)"]
    with pytest.raises(OptionError, match=r"no class GPE in these records; choose from LOC, MISC"):
        plot_classes(_records("p32"), classes=["PER", "GPE"])


def test_tasks_have_panels_of_their_own():
    other = _records("p32", task="wnut17", scores={"dev/f1/person": 0.5})
    figure = plot_classes(_records("p32", confusion=None) + other)
    assert [row_names(axes) for axes in figure.axes] == [list(TYPES), ["person"]]


def test_the_support_of_spans_is_how_many_begin():
    names = ["B-LOC", "I-LOC", "B-PER", "S-PER", "I-ORG", "O"]
    counts = np.diag([5, 50, 4, 3, 20, 900])
    table = {"rows": names, "columns": names, "counts": counts}
    scores = {f"dev/f1/{name}": 0.5 for name in ("LOC", "ORG", "PER", "MISC")}
    axes = plot_classes(_records("p32", scores=scores, confusion=table)).axes[0]
    assert row_names(axes) == ["ORG (20)", "PER (7)", "LOC (5)", "MISC"]


def test_too_many_classes_name_the_option():
    scores = {f"dev/f1/slot{n}": 0.5 for n in range(31)}
    with pytest.raises(RecordError, match=r"31 classes.*--classes.*--where label="):
        plot_classes(_records("p32", scores=scores))


def test_classes_need_scores():
    with pytest.raises(RecordError, match=r"none of 1 records holds the dev F1.*`probekit train`"):
        plot_classes([make_record(scores={}, confusion=None)])
    dev_alone = make_record(scores={"dev/f1/LOC": 0.5})
    with pytest.raises(RecordError, match=r"the test F1 of .*; they hold that of dev: --split dev"):
        plot_classes([dev_alone], "test")
    with pytest.raises(UnknownNameError, match="unknown split"):
        plot_classes([make_record()], "train")


# confusion


def test_confusion_shows_shares_of_gold_and_how_many():
    table = {"rows": ["A", "O"], "columns": ["A", "B", "O"], "counts": [[6, 2, 2], [0, 0, 40]]}
    figure = plot_confusion(_records("p32", confusion=table))
    axes, bar = figure.axes
    assert row_names(axes) == ["O (40)", "A (10)"]  # by support, whatever the names
    assert [text.get_text() for text in axes.get_xticklabels()] == ["O", "A", "B"]
    cells = cells_of(axes)
    assert cells.filled(0).tolist() == [[100, 0, 0], [20, 60, 20]]
    assert cells.mask.tolist() == [[False, True, True], [False] * 3]  # no sea of zeros
    assert [text.get_text() for text in axes.texts] == ["100", "20", "60", "20"]
    assert not axes.patches  # nor of hatches
    assert " ".join(bar.get_xlabel().split()) == "share of the gold class (%) 2 seeds"


def test_confusion_has_a_panel_per_head():
    figure = plot_confusion(_records("last", "p32", "dwatt"))
    assert [axes.get_title() for axes in figure.axes[:-1]] == ["last", "p32", "dwatt"]
    with pytest.raises(RecordError, match="7 panels"):
        plot_confusion([make_record(normalize=f"{n}") for n in range(7)])


def _many_classes(count):
    names = [f"slot-{n}" for n in range(count)]
    counts = np.diag(np.arange(1, count + 1))
    counts[0, 1], counts[2, 3] = 5, 4  # all that is confused
    return {"rows": names, "columns": names, "counts": counts}


def test_confusion_of_many_classes_draws_those_that_are_confused():
    axes = plot_confusion([make_record(confusion=_many_classes(40))]).axes[0]
    names = row_names(axes)
    assert len(names) == 16
    assert {"slot-0 (6)", "slot-1 (2)", "slot-2 (7)", "slot-3 (4)"} < set(names)
    assert names[-1].startswith("25 others (")  # however many rows they have
    sizes = [int(name.rpartition("(")[2][:-1]) for name in names[:-1]]
    assert sizes == sorted(sizes, reverse=True)


def test_a_narrow_confusion_has_fewer_classes_whose_names_do_not_collide():
    figure = plot_confusion([make_record(confusion=_many_classes(40))], look=Look(width=3.3))
    axes = figure.axes[0]
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.get_xticklabels()]
    assert 5 <= len(boxes) < 16
    assert all(left.x1 <= right.x0 for left, right in pairwise(boxes))


def test_heads_of_one_task_show_the_same_classes():
    one, two = _many_classes(40), _many_classes(40)
    two["counts"] = two["counts"].T[::-1, ::-1]  # confuses slots 36 to 39
    records = [make_record("p32", confusion=one), make_record("last", confusion=two)]
    few = {"rows": ["A", "B"], "columns": ["A", "B"], "counts": [[3, 1], [0, 5]]}
    figure = plot_confusion([*records, make_record("last", task="other", confusion=few)])
    named = [[text.get_text() for text in axes.get_xticklabels()] for axes in figure.axes[:-1]]
    together = [names for names in named if len(names) > 2]
    assert together[0] == together[1] and len(named) == 3
    assert {"slot-0", "slot-3", "slot-39", "slot-36"} < set(together[0])


def test_confusion_needs_one():
    with pytest.raises(RecordError, match="holds a confusion of classes"):
        plot_confusion([make_record(confusion=None)])
    twice = [make_record(), make_record(key="again")]
    with pytest.raises(RecordError, match="share seeds"):
        plot_confusion(twice)


# attention


def test_attention_shows_means_by_class_below_the_mean_of_all():
    of_class = [{"O": {1: 0.25, 2: 0.75}, "B-A": {1: n / 2, 2: 1 - n / 2}} for n in (0, 1)]
    records = [
        make_record("dwatt", seed, weights={1: 0.5, 2: 0.5}, class_weights=own)
        for seed, own in enumerate(of_class)
    ]
    axes = plot_attention([*records, *_records("p32")]).axes[0]
    assert row_names(axes) == ["all", "O (4,000)", "B-A"]
    cells = cells_of(axes)
    assert cells[:, 1:3].tolist() == [[2, 2], [1, 3], [1, 3]]  # times the four layers it read
    assert cells.mask[:, 0].all()
    assert axes.get_xlabel() == "layer (0 = emb; hatched: not read)"
    assert axes.get_title() == "dwatt, tiny-model, conll, ner"


def test_attention_before_training_stands_below_that_of_all():
    weights = {1: 0.75, 2: 0.25}
    of_class = {"class_weights": {"O": weights}, "initial_weights": {1: 0.5, 2: 0.5}}
    records = _records("dwatt", layers=[1, 2], weights=weights, **of_class)
    axes = plot_attention(records).axes[0]
    assert row_names(axes)[:2] == ["all", "all, before training"]
    assert cells_of(axes)[:2, 1:].tolist() == [[1.5, 0.5], [1, 1]]


def test_attention_has_a_panel_per_head_on_one_scale():
    *panels, _ = plot_attention(_records("attention-fusion", "dwatt")).axes
    limits = {mesh.get_clim() for axes in panels for mesh in axes.collections}
    assert len(panels) == 2 and len(limits) == 1


def test_attention_cannot_be_drawn():
    with pytest.raises(RecordError, match="--head attention-fusion"):
        plot_attention(_records("p32"))
    with pytest.raises(RecordError, match="7 panels"):
        plot_attention([make_record("dwatt", normalize=f"{n}") for n in range(7)])
    many = {f"c{n}": {1: 1.0} for n in range(61)}
    with pytest.raises(RecordError, match=r"61 classes.* name fewer"):
        plot_attention([make_record("dwatt", class_weights=many)], list(many))
    with pytest.raises(OptionError, match="no class GPE in these records; choose from c0, c1, c10"):
        plot_attention([make_record("dwatt", class_weights=many)], ["c0", "GPE"])


def test_attention_of_named_classes():
    weights = {name: {1: 0.25, 2: 0.75} for name in ("LOC", "O", "PER")}
    other = make_record("dwatt", task="wnut17", class_weights={"person": {1: 1.0}})
    records = [make_record("dwatt", class_weights=weights), other]
    *panels, _ = plot_attention(records, ["PER", "LOC"]).axes
    assert [row_names(axes) for axes in panels] == [["all", "LOC (300)", "PER (280)"]]


def test_attention_of_many_classes_draws_the_most_frequent():
    names = [f"slot{n:02}" for n in range(70)]
    table = {"rows": names, "columns": names, "counts": np.diag(np.arange(70) // 2)}
    weights = {name: {1: 0.5, 2: 0.5} for name in names}
    record = make_record("dwatt", class_weights=weights, confusion=table)
    axes = plot_attention([record]).axes[0]
    drawn = [f"slot{n:02} ({n // 2})" for n in range(69, 29, -1)]
    assert sorted(row_names(axes)[1:]) == sorted(drawn)
    sizes = [int(name.rpartition("(")[2][:-1]) for name in row_names(axes)[1:]]
    assert sizes == sorted(sizes, reverse=True)
    title = " ".join(axes.get_title().split())
    assert title == "dwatt, 40 of 70 classes, tiny-model, conll, ner"
    axes = plot_attention([make_record("dwatt", class_weights=weights, confusion=None)]).axes[0]
    assert row_names(axes) == ["all", *names[:40]]
