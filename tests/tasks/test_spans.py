"""Labelled spans: edge-probing JSON, targets by index, and spans that labels of words make."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from probekit.errors import DataError, OptionError, UnknownNameError
from probekit.tasks import TextOptions, get_task
from probekit.tasks.given_examples import examples_task
from probekit.tasks.spans import derive_targets, format_target, parse_target, source_columns
from probekit.tasks.task import Choice
from tests.tasks.own_files import write

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
CONLLU = """1\tShe\t_\tPRON\t_\t_\t2\tnsubj\t_\t_
2\tsaw\t_\tVERB\t_\t_\t0\troot\t_\t_
3\thim\t_\tPRON\t_\t_\t2\tobj\t_\t_

"""


def save(folder, *records, name="train.jsonl"):
    return write(folder / name, [*records])


def read(path, **options):
    """Return the labels of the train split of a file."""
    task = get_task(path, TextOptions(**options)) if options else get_task(path)
    assert (task.kind, set(task.kinds.values())) == ("tagging", {"span"})
    split = task.read("train")
    return split.labels[task.columns[0]], [example.words for example in split.examples]


def test_edge_probing_json_is_known_by_its_targets(tmp_path):
    one = {"span1": [0, 1], "span2": [2, 4], "label": "A0"}
    other = {"span1": [3, 4], "span2": [0, 2], "label": ["A 1"]}
    path = save(
        tmp_path,
        {"text": "a b\u00a0c d  e", "targets": [one, other, {**one, "label": None}], "info": {}},
        {"text": "f g", "targets": []},
    )
    labels, words = read(path)
    assert labels == (("0:1,2:4 A0", "3:4,0:2 A 1"), ())
    assert words == [("a", "b\u00a0c", "d", "e"), ("f", "g")]
    assert [parse_target(target)[1] for target in labels[0]] == ["A0", "A 1"]
    assert read(path, kind="span") == (labels, words)


def test_a_word_is_labelled_by_its_index(tmp_path):
    table = "Sentence,Target Index,Form\nthe dogs ran,1,plural\nhe ran,1,past\n"
    labels, words = read(write(tmp_path / "train.csv", table), kind="span")
    assert labels == (("1:2 plural",), ("1:2 past",))
    assert words == [("the", "dogs", "ran"), ("he", "ran")]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"span1": [0, 3], "label": "x"}, "not of this sentence of 2 words"),
        ({"span1": [1, 1], "label": "x"}, "one past its last"),
        ({"span1": [True, 2], "label": "x"}, "one past its last"),
        ({"span1": "0", "label": "x"}, "one past its last"),
        ({"span1": [0, 1], "label": ["x", "y"]}, "kind span allows one"),
        ({"label": "x"}, "has no 'span1'"),
        ("0:1 x", "has no 'span1'"),
        ({"span1": [0, 1], "span2": [1, 2], "label": "x"}, "a pair of spans among single spans"),
    ],
)
def test_targets_that_are_none_are_refused_with_their_line(tmp_path, target, message):
    first = {"text": "a b", "targets": [{"span1": [0, 1], "label": "x"}]}
    path = save(tmp_path, first, {"text": "a b", "targets": [target]})
    with pytest.raises(DataError, match=f"line 2.*{message}"):
        get_task(path).read("train")


def test_a_split_without_targets_is_one_without_labels(tmp_path):
    one = {"span1": [0, 1], "label": "x"}
    save(tmp_path, {"text": "a b", "targets": one}, {"text": "c d", "targets": []})
    save(tmp_path, {"text": "e f"}, name="dev.jsonl")
    save(tmp_path, {"text": "g h", "targets": []}, name="test.jsonl")
    task = get_task(tmp_path)
    assert task.read("train").labels["label"] == (("0:1 x",), ())
    assert not task.read("dev").labels
    assert task.read("test").labels["label"] == ((),)


def test_other_files_are_no_spans(tmp_path):
    path = save(tmp_path, {"text": "a b", "label": "x"})
    with pytest.raises(DataError, match="kind span reads JSON records"):
        get_task(path, TextOptions(kind="span"))
    table = write(tmp_path / "dev.csv", "text,target index,label\na b,second,x\n")
    with pytest.raises(DataError, match="'second' in column 'target index' is not a word index"):
        get_task(table, TextOptions(kind="span"))


@given(st.lists(st.sampled_from(TAGS), max_size=8))
def test_spans_of_tags_are_those_of_seqeval(tags):
    expected = [format_target(((a, b + 1),), kind) for kind, a, b in get_entities(tags)]
    assert derive_targets("spans:ner", tags) == expected


def test_tags_of_ones_own_make_spans_wherever_they_come_from(tmp_path):
    words, tags = ["Ann", "saw", "Rome"], ["B-PER", "O", "B-LOC"]
    path = save(tmp_path, {"words": words, "ner": tags})
    in_memory = examples_task([{"words": words, "ner": tags}], "mine", Choice(label="spans:ner"))
    pairs = examples_task([(words, tags)], "mine", Choice(label="spans:ner"))
    for task in (get_task(path, None, "spans:ner"), in_memory, pairs):
        assert task.columns == ("spans:ner", "ner")
        assert task.kinds == {"ner": "tagging", "spans:ner": "span"}
        assert task.read("train").labels["ner"] == (tuple(tags),)


def test_arcs_join_words_with_their_heads(tmp_path):
    assert derive_targets("arcs:deprel", ["nsubj", "root", "", "obj"], ["2", "0", "2", "2"]) == [
        "0:1,1:2 nsubj",
        "3:4,1:2 obj",
    ]
    assert source_columns("arcs:deprel") == ("deprel", "head") and source_columns("feats:Case") == (
        "feats:Case",
    )
    task = get_task(write(tmp_path / "train.conllu", CONLLU), None, "arcs:deprel")
    assert task.columns == ("arcs:deprel", "deprel", "head")
    assert task.kinds["arcs:deprel"] == "span" and task.kind == "tagging"
    assert task.read("train").labels["head"] == (("2", "0", "2"),)
    with pytest.raises(UnknownNameError, match=r"for --label arcs:ner\) 'head'"):
        get_task("conll", None, "arcs:ner")
    with pytest.raises(OptionError, match="'pos' of conll holds no BIO tags"):
        get_task("conll", None, "spans:pos")
    with pytest.raises(OptionError, match="is of kind tagging"):
        get_task("conll", TextOptions(kind="sentence"), "spans:ner")
