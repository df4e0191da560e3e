import logging
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.base.numbers import bounds_of, ragged_arange
from probekit.errors import DataError, EntryNotFoundError, UnknownNameError
from probekit.features import LabelMap, Location, load_labels, open_features
from probekit.features.sentence_groups import SentenceGroups, load_documents
from probekit.features.split_labels import join_labels
from probekit.store.layout import labels_folder
from probekit.tasks import Example, Split
from tests.planted import MODEL, NAMES, TASK, plant, plant_all, store_groups, store_labels


def open_here(root, **options):
    return open_features(MODEL, TASK, "ner", Location(cache=root, **options))


def fresh_split(entry, labels):
    table = entry.examples
    examples = tuple(Example(name, table.words(n)) for n, name in enumerate(table.ids))
    return Split(task=TASK, name="train", examples=examples, labels={"ner": labels}, origin="here")


def labels_like(entry, name="O"):
    return tuple((name,) * int(count) for count in entry.examples.n_rows)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=20))
def test_runs_expand_to_their_places(runs):
    starts = np.array([start for start, _ in runs], np.int64)
    lengths = np.array([length for _, length in runs], np.int64)
    expected = [start + n for start, length in runs for n in range(length)]
    assert ragged_arange(starts, lengths).tolist() == expected
    assert bounds_of(lengths)[-1] == len(expected)


def test_labels_become_the_classes_of_train(tmp_path):
    splits = open_here(plant_all(tmp_path))
    assert splits.label_map.names == tuple(sorted(NAMES))
    assert splits.metric == "span-f1" and splits.manifest.n_blocks == 3
    assert set(splits.labels) == {"train", "dev", "test"}
    view = splits.view("dev")
    names = [view.all_names[number] for number in view.targets]
    assert names == list(splits.labels["dev"].values)


def test_taking_examples_takes_their_rows(tmp_path):
    view = open_here(plant_all(tmp_path)).view("train")
    taken = view.take(np.array([7, 2]))
    first = slice(view.offsets[7], view.offsets[8])
    second = slice(view.offsets[2], view.offsets[3])
    assert taken.ids == (view.ids[7], view.ids[2])
    assert taken.rows.tolist() == [*view.rows[first], *view.rows[second]]
    assert taken.targets.tolist() == [*view.targets[first], *view.targets[second]]
    assert taken.lengths.tolist() == view.lengths[[7, 2]].tolist()


def test_the_text_of_a_sentence_that_has_one_label_is_its_words(tmp_path):
    """Such as the intent of a sentence of ATIS, whose entry knows words alone."""
    view = open_here(plant_all(tmp_path)).view("dev")
    whole = replace(view, kind="sentence").take(np.array([2, 0]))
    assert whole.texts == [" ".join(view.entry.examples.words(n)) for n in (2, 0)]
    assert all(whole.texts)


def test_invalid_words_are_scored_but_not_trained_on(tmp_path):
    splits = open_here(plant_all(tmp_path, invalid=0.2))
    valid = splits.entries["train"].examples.valid
    train = splits.view("train", valid_only=True)
    assert len(train) == valid.sum() < len(valid) == len(splits.view("train"))
    assert train.offsets[-1] == len(train)
    norms = train.array.read(train.rows, [1])[:, 0].norm(dim=-1)
    assert (norms > 0).all()


def test_a_label_unseen_in_train_counts_as_an_error_and_is_reported_once(tmp_path, caplog):
    plant(tmp_path, names=NAMES[:3])
    plant(tmp_path, "dev")
    with caplog.at_level(logging.WARNING):
        splits = open_here(tmp_path)
        view = splits.view("dev")
        splits.view("dev")
    unseen = view.targets >= len(splits.label_map)
    assert view.unseen == ("B-LOC", "I-LOC")
    assert unseen.sum() == sum(n in view.unseen for n in splits.labels["dev"].values)
    warnings = [r.getMessage() for r in caplog.records if "does not have" in r.getMessage()]
    assert len(warnings) == 1 and f"have: {unseen.sum()} (" in warnings[0]


def test_the_newest_labels_count(tmp_path):
    entry = plant(tmp_path)
    before = open_here(tmp_path)
    labels = labels_like(entry, "B-ORG")
    store_labels(entry, labels, "f" * 64)
    after = open_here(tmp_path)
    assert after.label_map.names == ("B-ORG",)
    assert after.labels["train"].fingerprint != before.labels["train"].fingerprint


def test_labels_of_another_text_are_passed_over(tmp_path):
    entry = plant(tmp_path)
    before = load_labels(entry, "ner")
    labels = labels_like(entry)
    store_labels(entry, labels, "a" * 64, text="one with other words")
    assert load_labels(entry, "ner").fingerprint == before.fingerprint
    store_labels(entry, (*labels[:-1], (*labels[-1], "O")), "b" * 64)
    with pytest.raises(DataError, match=r"\.parquet: example 'train-59' needs"):
        load_labels(entry, "ner")


def test_fresh_labels_replace_the_stored_ones(tmp_path):
    entry = plant(tmp_path)
    found = load_labels(entry, "ner", fresh_split(entry, labels_like(entry)))
    assert set(found.values) == {"O"}
    stored = load_labels(entry, "ner")
    assert stored.fingerprint != found.fingerprint


def test_documents_are_those_of_fresh_files_else_those_that_are_stored(tmp_path):
    entry = plant(tmp_path)
    assert load_documents(entry, None) is None
    stored = [f"a#{n // 10}" for n in range(60)]
    store_groups(entry, stored)
    plain = fresh_split(entry, labels_like(entry))
    for split in (None, plain):  # a file of labels alone knows no documents
        assert load_documents(entry, split) == SentenceGroups("document", stored)
    fresh = replace(plain, documents=tuple(f"b#{n // 20}" for n in range(60)))
    assert load_documents(entry, fresh).names == list(fresh.documents)
    part = replace(fresh, examples=fresh.examples[1:], documents=fresh.documents[1:])
    assert load_documents(entry, part) is None  # of the first sentence none is known


def test_documents_are_no_label_and_cut_nothing(tmp_path):
    store_groups(plant(tmp_path), ["a"] * 60)
    splits = open_here(tmp_path)
    assert (splits.column, splits.task.columns) == ("ner", ("ner", "pos", "chunk"))
    view = splits.view("train")
    assert view.groups is None and view.resampled == SentenceGroups("document", ["a"] * 60)
    named = open_features(MODEL, TASK, "ner", Location(cache=tmp_path), group="document")
    assert named.view("train").groups.tolist() == [0] * 60


def test_fresh_labels_of_another_text_are_refused(tmp_path):
    entry = plant(tmp_path)
    good = fresh_split(entry, labels_like(entry))
    words = good.examples[3].words
    changed = Example("train-3", (*words[:-1], "other"))
    examples = (*good.examples[:3], changed, *good.examples[4:])
    with pytest.raises(DataError, match=rf"word {len(words)} of example 'train-3' is 'other', but"):
        load_labels(entry, "ner", replace(good, examples=examples))
    with pytest.raises(UnknownNameError, match="unknown label column 'pos'"):
        load_labels(entry, "pos", good)


def test_labels_that_do_not_fit_name_the_example():
    with pytest.raises(DataError, match=r"example 'b' needs 2 labels .* but has 1"):
        join_labels(["a", "b"], [1, 2], {"a": ["O"], "b": ["O"]}, where="dev")
    with pytest.raises(DataError, match="no labels for example 'b'"):
        join_labels(["a", "b"], [1, 2], {"a": ["O"]}, where="dev")


def test_a_split_to_fit_on_needs_labels_and_leaves_none_for_dev(tmp_path):
    root = plant_all(tmp_path)
    about = open_features(MODEL, TASK, "ner", Location(cache=root), fit_on="dev")
    assert set(about.labels) == {"train", "test"}
    assert "--fit-on dev leaves no dev split" in about.missing_dev
    for path in root.rglob("labels/test-*"):
        path.unlink()
    with pytest.raises(DataError, match=r"test, labels 'ner': none are stored"):
        open_features(MODEL, TASK, "ner", Location(cache=root), fit_on="test")


def test_no_labels_say_what_to_do(tmp_path):
    entry = plant(tmp_path)
    with pytest.raises(DataError, match=r"labels 'pos': none are stored .* --data DIR"):
        load_labels(entry, "pos")
    with pytest.raises(UnknownNameError):
        open_features(MODEL, TASK, "nerr", Location(cache=tmp_path))


def test_several_entries_need_a_choice(tmp_path):
    plant(tmp_path)
    other = plant(tmp_path, request="another")
    with pytest.raises(EntryNotFoundError, match="path of one in place"):
        open_here(tmp_path)
    chosen = open_here(tmp_path, entry=other.manifest.key[:8])
    assert chosen.entries["train"].manifest.key == other.manifest.key


def test_a_split_without_labels_is_not_scored(tmp_path):
    plant(tmp_path)
    test = plant(tmp_path, "test")
    for path in labels_folder(test.path).glob("test-*"):
        path.unlink()
    splits = open_here(tmp_path)
    assert set(splits.entries) == {"train", "test"}
    assert set(splits.labels) == {"train"}


@given(st.lists(st.sampled_from("abc"), max_size=9), st.lists(st.sampled_from("abcde"), max_size=9))
def test_encoding_is_undone_by_the_names(train, other):
    label_map = LabelMap(tuple(sorted(set(train))))
    numbers, unseen = label_map.encode(other)
    names = label_map.names + unseen
    assert [names[number] for number in numbers] == other
    assert all((name in unseen) == (name not in train) for name in other)


def test_what_is_printed_is_short(tmp_path):
    splits = open_here(plant_all(tmp_path))
    view = splits.view("train")
    for one in (splits, splits.entries["train"], view, view.array):
        assert len(repr(one)) < 2000 and type(one).__name__ in repr(one)
    counts = f"{view.n_examples} examples, {len(view)} rows of 'words'"
    assert repr(view) == f"FeatureView({MODEL}, {TASK} train: {counts})"
