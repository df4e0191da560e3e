"""Heads over spans and pairs of spans, made of cached words."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from probekit import Location, TrainSpec, open_features, predict, sweep
from probekit.errors import DataError, OptionError
from probekit.results.predictions import read_predicted
from tests import tiny
from tests.extraction.extracted import all_rows, entries_of

WORDS = ("cat", "dog", "mat", "sat", "tree", "big", "saw", "the")
SPLITS = ("train", "dev", "test")


def write(folder, *, pairs, counts=(160, 50, 50)):
    """Write sentences with two spans or pairs each, labelled by whether a span has a cat."""
    rng = np.random.default_rng(3)
    folder.mkdir(parents=True)
    for split, count in zip(SPLITS, counts, strict=True):
        lines = []
        for _ in range(count):
            words = list(rng.choice(WORDS, 9))
            targets = []
            for start in (0, 5):
                spans = {"span1": [start, start + 3]}
                if pairs:
                    spans["span2"] = [start + 3, start + 4]
                label = "cat" if "cat" in words[start : start + 3] else "none"
                targets.append({**spans, "label": label})
            lines.append(json.dumps({"text": " ".join(words), "targets": targets}))
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """Return the folders of single spans and of pairs, the model, and where features lie."""
    root = tmp_path_factory.mktemp("spans")
    model = tiny.build("bert", root / "tiny")
    folders = {pairs: write(root / f"pairs-{pairs}", pairs=pairs) for pairs in (False, True)}
    for folder in folders.values():
        entries_of(model, folder, root / "cache", SPLITS, kind="span", label=None)
    return folders, model, Location(cache=root / "cache")


@pytest.fixture
def trained(cached, tmp_path):
    """Train a run on single spans or pairs, by its options and those of its sweep."""

    def train(pairs, name="runs", memory=None, save=None, predictions=None, **options):
        folders, model, location = cached
        spec = TrainSpec(model=str(model), task=str(folders[pairs]), **{"head": "last"} | options)
        how = {"memory": memory, "save": save, "predictions": predictions}
        return sweep(spec, location=location, out=tmp_path / f"{name}.jsonl", **how)[0]

    return train


@pytest.mark.parametrize(
    ("pairs", "token_head", "joined"),
    [
        (False, None, lambda a: a.mean(0)),
        (False, "ends", lambda a: np.concatenate([a[0], a[-1]])),
        (False, "max", lambda a: a.max(0)),
        (True, None, lambda a, b: np.concatenate([a.mean(0), b.mean(0)])),
        (True, "mean:pair=product", lambda a, b: a.mean(0) * b.mean(0)),
        (True, "last:pair=difference", lambda a, b: a[-1] - b[-1]),
    ],
)
def test_rows_of_spans_are_those_by_hand(cached, pairs, token_head, joined):
    folders, model, location = cached
    splits = open_features(model, folders[pairs], location=location, token_head=token_head)
    X, y, places = splits.numpy("dev", 1)
    rows = all_rows(splits.entries["dev"])[:, 1].float().numpy()
    expected = []
    for sentence in range(50):
        for start in (0, 5):
            of = rows[9 * sentence + start : 9 * sentence + start + 4]
            expected.append(joined(of[:3], of[3:]) if pairs else joined(of[:3]))
    np.testing.assert_allclose(X, expected, rtol=1e-5, atol=1e-6)
    assert splits.dim == X.shape[1]
    assert places.tolist() == [[n, k] for n in range(50) for k in (0, 1)]
    frame = splits.to_frame("dev")
    assert ((y == "cat") == frame["word"].str.split(r" \| ").str[0].str.contains("cat")).all()
    assert splits.row_groups("dev").tolist() == np.repeat(np.arange(50), 2).tolist()


def test_a_solved_probe_of_pairs_is_that_of_scikit_learn(cached, trained, tmp_path):
    folders, model, location = cached
    record = trained(True, layers="1", l2=0.01, normalize="none", predictions=True)
    splits = open_features(model, folders[True], location=location)
    (X, y, _), (X_test, y_test, _) = (splits.numpy(split, 1) for split in ("train", "test"))
    _, kept = read_predicted(tmp_path / "runs-predictions" / f"{record.key[:16]}.parquet")
    ours = kept["test"]
    theirs = LogisticRegression(C=1 / (0.01 * len(X)), tol=1e-8, max_iter=5000).fit(X, y)
    agreed = np.array(ours.names)[ours.predicted] == theirs.predict(X_test)
    assert agreed.mean() > 0.98
    assert record.test_score == pytest.approx(theirs.score(X_test, y_test), abs=0.02)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("memory", [None, 0])
def test_attention_over_the_words_of_spans(trained, pairs, memory):
    record = trained(
        pairs, head="scalar-mix", layers="0,1", token_head="attention", fit="adam", epochs=15,
        lr=0.05, evals=3, memory=memory,
    )  # fmt: skip
    assert record.test_score > 0.9
    attention, mix, decoder = 2 * 32, 3, 2 * 32 * (1 + pairs) + 2
    assert record.n_params == attention + mix + decoder


def test_a_saved_head_of_spans_scores_others_and_labels_no_plain_text(trained, tmp_path):
    options, head = {"head": "mean", "token_head": "ends"}, tmp_path / "head"
    first = trained(True, **options, save=head)
    second = trained(True, "again", **options, init_from=str(head), shots=0)
    assert second.test_score == first.test_score
    with pytest.raises(OptionError, match="plain texts do not say which"):
        predict(head, ["the cat sat"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "mean"}, "--pooling mean does not apply"),
        ({"method": "bitfit"}, "--method bitfit does not apply"),
        ({"token_head": "mean:pair=concat"}, "these labels are not of pairs"),
        ({"control": 1}, "needs labels of words"),
        ({"decoder": "crf"}, "does not fit span labels"),
    ],
)
def test_what_has_no_meaning_for_spans_is_refused(trained, options, message):
    with pytest.raises(OptionError, match=message):
        trained(False, **options)


def test_pairs_are_fused_by_layer_first_in_no_order(cached):
    folders, model, location = cached
    with pytest.raises(OptionError, match="labels are of pairs"):
        open_features(model, folders[True], location=location, token_head="mean:order=layers-first")


def test_splits_of_pairs_and_of_single_spans_do_not_mix(cached, tmp_path):
    folders, model, _ = cached
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for name, pairs in (("train", False), ("dev", True)):
        (mixed / f"{name}.jsonl").write_bytes((folders[pairs] / f"{name}.jsonl").read_bytes())
    cache = tmp_path / "cache"
    entries_of(model, mixed, cache, ("train", "dev"), kind="span", label=None)
    with pytest.raises(DataError, match="one split has pairs of spans"):
        open_features(model, mixed, location=Location(cache=cache))


def test_a_dev_without_labels_is_none_and_train_needs_them(cached, tmp_path):
    folders, model, _ = cached
    bare, cache = tmp_path / "bare", tmp_path / "cache"
    bare.mkdir()
    text = (folders[False] / "train.jsonl").read_text("utf-8")
    (bare / "train.jsonl").write_text(text, "utf-8")
    (bare / "dev.jsonl").write_text('{"text": "the cat", "targets": []}\n', "utf-8")
    entries = entries_of(model, bare, cache, ("train", "dev"), kind="span", label=None)
    assert [*open_features(entries, location=Location(cache=cache)).labels] == ["train"]
    spec = TrainSpec(model=str(model), task=str(bare), head="last", hold_out=0.3)
    (record,) = sweep([spec], location=Location(cache=cache), out=tmp_path / "runs.jsonl")
    assert record.eval_score > 0.5
    with pytest.raises(DataError, match="no span has a label"):
        open_features(model, bare, location=Location(cache=cache), fit_on="dev")


def test_a_head_outside_its_sentence_is_told(tmp_path):
    model, path = tiny.build("bert", tmp_path / "tiny"), tmp_path / "train.conllu"
    path.write_text("".join(f"{n}\tcat\t_\tX\t_\t_\t{2 * n}\tdep\t_\t_\n" for n in (1, 2, 3)))
    (entry,) = entries_of(model, path, tmp_path / "cache", label="arcs:deprel")
    with pytest.raises(DataError, match="has 3 words, and one of them has the head 4"):
        open_features(entry, label="arcs:deprel", location=Location(cache=tmp_path / "cache"))
