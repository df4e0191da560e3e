"""Figures of single classes show the right numbers, and say what they cannot draw."""

import numpy as np
import pytest
from matplotlib.collections import QuadMesh

from probekit import plot_attention, plot_classes, plot_confusion
from probekit.errors import OptionError, RecordError, UnknownNameError
from tests.results.samples import TYPES, make_record


def _records(*heads, seeds=2, **options):
    return [make_record(head, seed, **options) for head in heads for seed in range(seeds)]


def _cells(axes):
    (mesh,) = (item for item in axes.collections if isinstance(item, QuadMesh))
    return mesh.get_array()


def _row_names(axes):
    return [text.get_text() for text in axes.get_yticklabels()]


# classes


@pytest.mark.parametrize("split", ["dev", "test"])
def test_markers_are_means_at_their_class(split):
    records = _records("last", "p32")
    axes = plot_classes(records, split).axes[0]
    assert _row_names(axes) == list(TYPES)
    low, high = axes.get_ylim()
    assert low > high  # the first class is on top
    markers = [line for line in axes.lines if len(line.get_xdata()) == len(TYPES)]
    for line, head in zip(markers, ("last", "p32"), strict=True):
        assert line.get_linestyle() == "None"
        assert np.round(line.get_ydata()).tolist() == [0, 1, 2, 3]
        expected = [
            50 * sum(r.scores[f"{split}/f1/{name}"] for r in records if r.head == head)
            for name in TYPES
        ]
        assert line.get_xdata() == pytest.approx(expected)
    assert len(axes.lines) == 2 + 2 * len(TYPES)  # and an interval each
    assert axes.get_xlabel() == f"{split} F1 (%)"


def test_chosen_classes_alone():
    axes = plot_classes(_records("p32"), classes=["PER", "LOC"]).axes[0]
    assert _row_names(axes) == ["LOC", "PER"]
    with pytest.raises(OptionError, match=r"no class GPE in these records; choose from LOC, MISC"):
        plot_classes(_records("p32"), classes=["PER", "GPE"])


def test_tasks_have_panels_of_their_own():
    other = _records("p32", task="wnut17", scores={"dev/f1/person": 0.5})
    figure = plot_classes(_records("p32") + other)
    assert [_row_names(axes) for axes in figure.axes] == [list(TYPES), ["person"]]


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
    axes, bar = plot_confusion(_records("p32", confusion=table)).axes
    assert _row_names(axes) == ["A (10)", "O (40)"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["A", "B", "O"]
    assert _cells(axes).tolist() == [[60, 20, 20], [0, 0, 100]]
    assert [text.get_text() for text in axes.texts] == ["60", "20", "20", "0", "0", "100"]
    assert bar.get_xlabel() == "share of the gold class (%),\n2 seeds"


def test_confusion_has_a_panel_per_head():
    figure = plot_confusion(_records("last", "p32", "dwatt"))
    assert [axes.get_title(loc="left") for axes in figure.axes[:-1]] == ["last", "p32", "dwatt"]
    with pytest.raises(RecordError, match="7 panels"):
        plot_confusion([make_record(normalize=f"{n}") for n in range(7)])


def test_confusion_of_many_classes_merges_the_rarest():
    names = [f"slot-{n}" for n in range(40)]
    counts = np.diag(np.arange(1, 41))
    table = {"rows": names, "columns": names, "counts": counts}
    axes = plot_confusion([make_record(confusion=table)]).axes[0]
    assert len(_row_names(axes)) == 30 and _row_names(axes)[-1] == "11 others (66)"


def test_confusion_needs_one():
    with pytest.raises(RecordError, match="holds a confusion of classes"):
        plot_confusion([make_record(confusion=None)])
    twice = [make_record(), make_record(key="again")]
    with pytest.raises(RecordError, match="share seeds"):
        plot_confusion(twice)


# attention


def test_attention_shows_means_by_class_below_the_mean_of_all():
    records = [
        make_record(
            "dwatt",
            seed,
            weights={1: 0.5, 2: 0.5},
            class_weights={"O": {1: 0.25, 2: 0.75}, "B-A": {1: seed / 2, 2: 1 - seed / 2}},
        )
        for seed in (0, 1)
    ]
    axes = plot_attention([*records, *_records("p32")]).axes[0]
    assert _row_names(axes) == ["all", "B-A", "O"]
    cells = _cells(axes)
    assert cells[:, 1:].tolist() == [[0.5, 0.5], [0.25, 0.75], [0.25, 0.75]]
    assert cells.mask[:, 0].all()
    assert axes.get_xlabel() == "layer (0 = emb; hatched: not read)"
    assert axes.get_title(loc="left") == "dwatt, tiny-model, conll, ner"


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
    assert [_row_names(axes) for axes in panels] == [["all", "LOC", "PER"]]


def test_attention_of_many_classes_draws_the_most_frequent():
    names = [f"slot{n:02}" for n in range(70)]
    table = {"rows": names, "columns": names, "counts": np.diag(np.arange(70) // 2)}
    weights = {name: {1: 0.5, 2: 0.5} for name in names}
    record = make_record("dwatt", class_weights=weights, confusion=table)
    axes = plot_attention([record]).axes[0]
    assert _row_names(axes) == ["all", *names[10:]]
    title = " ".join(axes.get_title(loc="left").split())
    assert title == "dwatt, 60 of 70 classes, tiny-model, conll, ner"
    axes = plot_attention([make_record("dwatt", class_weights=weights, confusion=None)]).axes[0]
    assert _row_names(axes) == ["all", *names[:60]]
