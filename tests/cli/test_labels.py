"""Labels from a file to a score: schemes, words without any, and texts with several each."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

import probekit
from probekit.features import Location, open_features
from probekit.results.predictions import read_predicted
from probekit.sklearn import LayerProbe
from probekit.train.saved.directions import export
from probekit.train.saved.head import TrainedHead
from probekit.train.saved.labelling import predict
from tests.cli.conftest import FLOAT32
from tests.cli.console import done, refused

SENTENCES = 12


def write_corpus(folder, rows):
    """The same sentences in train, dev and test; every third has no label at all."""
    folder.mkdir()
    blind = "".join(f"{row.split()[0]} _\n" for row in rows)
    labelled = "".join(f"{row}\n" for row in rows)
    text = "\n".join(blind if n % 3 == 2 else labelled for n in range(SENTENCES))
    for split in ("train", "dev", "test"):
        (folder / f"{split}.conll").write_text(text)
    return folder


@pytest.mark.parametrize(
    "options",
    [
        ("--head", "mean"),
        ("--head", "last,dwatt", "--decoder", "crf", "--epochs", "2"),
        ("--head", "last", "--control", "1", "--hold-out", "0.5"),
    ],
)
def test_words_without_a_label_are_neither_fitted_on_nor_scored(bert, here, options):
    rows = ("Maria S-PER", "left -100", "New B-LOC", "York E-LOC", "at O", "ten _")
    data = write_corpus(here / "mine", rows)
    said = done("extract", bert, data, *FLOAT32).err
    assert said.count("tags of column '1' are IOBES; they are converted to BIO") == 1
    assert "train.conll: 40 words have no label in column '1' (-100, _)" in said
    for row in done("sweep", bert, data, *options, "--predictions", "--json").rows:
        assert row["metric"] == ("accuracy" if "--control" in options else "span-f1")
        found = pq.read_table(row["predictions"]).to_pylist()
        for one in (one for one in found if one["split"] == "dev"):
            place = int(one["id"].removeprefix("dev-"))
            gold = [] if place % 3 == 2 else ["B-PER", "B-LOC", "I-LOC", "O"]
            assert "--control" in options or one["gold"] == gold
            assert len(one["predicted"]) == len(gold)
            assert "" not in one["predicted"]


def test_chunks_without_a_type_are_scored_by_span_f1(bert, here):
    data = write_corpus(here / "phrases", ("The O", "black B", "cat I", "sleeps O"))
    done("extract", bert, data, *FLOAT32)
    (row,) = done("train", bert, data, "--head", "last", "--shots", "4", "--json").rows
    assert (row["metric"], row["seen"]["examples"]) == ("span-f1", 4)
    assert "test/f1/_" in row["scores"]


def test_pairs_without_a_label_are_refused_until_they_are_left_out(bert, here):
    rows = [f"a man runs {n}\the moves\t{['yes', 'no', '-'][n % 3]}\n" for n in range(12)]
    (here / "nli.tsv").write_text("premise\thypothesis\tgold_label\n" + "".join(rows))
    extract = ("extract", bert, "nli.tsv", "--kind", "pair", *FLOAT32)
    message = refused(*extract)
    assert message.startswith("nli.tsv, line 4: no label in column 'gold_label' (- means no label;")
    assert "the first of 4 such rows" in message
    assert message.endswith("or give --skip unlabelled to leave such rows out.")
    done(*extract, "--skip", "unlabelled")
    train = ("train", bert, "nli.tsv", "--hold-out", "0.5", "--head", "last")
    (row,) = done(*train, "--json").rows
    assert row["seen"]["of_examples"] == 8
    assert row["confusion"]["columns"] == ["no", "yes"]


WORDS = {"sea": "water", "river": "water", "hill": "land", "field": "land", "rain": "weather"}
LABELS = ["land", "water", "weather"]


def rows(count, seed, extra=()):
    """Return texts of known words, each with the labels that its words stand for."""
    rng, found = np.random.default_rng(seed), []
    for number in range(count):
        words = [*rng.choice([*WORDS, "Maria", "left", "the", "house"], 4)]
        labels = [WORDS[word] for word in words if word in WORDS]  # one may be there twice
        found.append({"text": f"{' '.join(words)} {number}", "labels": labels})
    return [*found, *extra]


def write(folder, **splits):
    folder.mkdir()
    for split, of_split in splits.items():
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, of_split)))
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory, bert):
    """Records, predictions and saved heads of every depth (do not change them)."""
    root = tmp_path_factory.mktemp("sets")
    unseen = [{"text": "a new thing", "labels": ["novel", "land"]}]
    data = write(
        root / "data", train=rows(120, 0), dev=rows(60, 1, unseen), test=rows(60, 2, unseen)
    )
    done("extract", bert, data, "--kind", "multilabel", *FLOAT32, "--cache", root / "cache")
    common = (bert, data, "--cache", root / "cache")
    out = root / "records.jsonl"
    done("depth", *common, "--out", out, "--save", root / "heads", "--seeds", "1")
    return root, common, out


def records_of(out):
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.fixture(scope="module")
def splits(world, bert):
    root, _, _ = world
    where = Location(cache=root / "cache", kind="multilabel")
    return open_features(str(bert), str(root / "data"), location=where)


def test_every_label_is_the_logistic_regression_of_scikit_learn(world, splits):
    root, _, out = world
    for record in records_of(out):
        assert record["decoder"] == "one-vs-rest" and record["diagnosis"]["converged"]
        layer, l2 = record["depth"], record["diagnosis"]["strength"]
        folders = (root / "heads").glob(f"*depth{layer}-*")
        head = TrainedHead.from_pretrained(next(iter(folders)))
        x, y, _ = splits.numpy("train", layer)
        scaler = StandardScaler().fit(x)
        judge = LogisticRegression(C=1 / (len(x) * l2), tol=1e-10, max_iter=50_000)
        judge = OneVsRestClassifier(judge).fit(scaler.transform(x.astype(np.float64)), y)
        test = splits.view("test")
        z = test.array.read(test.rows, [layer])
        _, found = head.probabilities(z)
        expected = judge.predict_proba(scaler.transform(z[:, 0].double().numpy()))
        given = np.array([[of_text[name] for name in LABELS] for of_text in found])
        np.testing.assert_allclose(given, expected, atol=1e-4)


def test_scores_are_those_of_scikit_learn_at_thresholds_that_dev_chose(world, splits):
    _, _, out = world
    record = records_of(out)[-1]
    about, predicted = read_predicted(out.parent / record["predictions"])
    assert about.classes == tuple(LABELS)
    diagnosis = record["diagnosis"]
    assert diagnosis["thresholds_by"] == "F1 on dev" and diagnosis["labels"] == LABELS
    for split in ("dev", "test"):
        found, scores = predicted[split], record["scores"]
        assert found.names == (*LABELS, "novel") and found.content == "sets"
        gold, said = found.gold, found.predicted
        np.testing.assert_array_equal(gold, splits.view(split).targets == 1)
        np.testing.assert_array_equal(said[:, :3], found.odds > 0)
        f1 = f1_score(gold, said, average="macro", zero_division=0)
        assert scores[f"{split}/macro-f1"] == pytest.approx(f1, abs=1e-12)
        shown = np.hstack([found.odds, np.full((len(gold), 1), -1)])
        for name, judge in (
            ("auroc", roc_auc_score),
            ("average-precision", average_precision_score),
        ):
            assert scores[f"{split}/{name}"] == pytest.approx(judge(gold, shown), abs=1e-12)
        p = found.probabilities.astype(float)
        above = p > diagnosis["thresholds"]
        assert (above == said[:, :3]).mean() > 0.99  # half precision may move one to its threshold
    dev = predicted["dev"]
    for label in range(3):  # no other cut is better on dev
        for cut in np.unique(dev.odds[:, label]):
            other = f1_score(dev.gold[:, label], dev.odds[:, label] > cut, zero_division=0)
            assert other <= f1_score(dev.gold[:, label], dev.predicted[:, label]) + 1e-12
    assert record["eval_score"] > 0.4


def test_a_head_that_descends_learns_them_too(world, here):
    _, common, out = world
    ways = ("--fit", "adam", "--epochs", "12", "--lr", "0.02", "--normalize", "standardize")
    done("train", *common, "--head", "mean", *ways, "--predictions", "--out", "adam.jsonl")
    (record,) = records_of(here / "adam.jsonl")
    assert "dev last" in done("table", "adam.jsonl").out
    assert "dev last" not in done("table", "adam.jsonl", "--metric", "auroc").out
    solved = records_of(out)[-1]
    assert record["eval_score"] == pytest.approx(solved["eval_score"], abs=0.2)
    assert record["diagnosis"]["thresholds_by"] == "F1 on dev"
    (compared,) = done("compare", f"{out}#depth={solved['depth']}", "adam.jsonl", "--json").rows
    assert compared["split"] == "test" and compared["metric"] == "macro-f1"


@pytest.mark.parametrize("head", ["p32", "attention-fusion", "concat"])
def test_heads_of_several_layers(world, here, head):
    _, common, _ = world
    done("train", *common, "--head", head, "--epochs", "2", "--ablate", "mean", "--out", "r.jsonl")
    (record,) = records_of(here / "r.jsonl")
    assert sum(record["shares"].values()) == pytest.approx(1) and record["ablation"]
    weighed = record.get("class_weights", {})
    assert set(weighed) == ({*LABELS, "novel"} if head == "attention-fusion" else set())


def test_runs_are_compared_by_every_metric_of_sets(world):
    _, _, out = world
    last = records_of(out)[-1]["depth"]
    for metric in (None, "micro-f1", "auroc", "average-precision", "loss", "brier"):
        by = () if metric is None else ("--metric", metric)
        rows = done("compare", f"{out}#depth=0", f"{out}#depth={last}", *by, "--json").rows
        assert rows[0]["metric"] == (metric or "macro-f1")
        shown = done("table", out, "--of", "depth", "--style", "jsonl", *by).rows[0]
        assert shown["mean"] == rows[0]["score_a"]
        assert shown["half"] == pytest.approx(rows[0]["over_both_a"]["half"])
    message = refused("compare", f"{out}#depth=0", f"{out}#depth={last}", "--metric", "accuracy")
    assert "accuracy scores classes" in message and "micro-f1" in message


def test_tables_plots_and_the_page(world, here):
    _, _, out = world
    assert "macro F1" in done("table", out, "--also", "auroc,micro-f1").out
    done("plot", "depth", out, "-o", here / "depth.svg")
    done("plot", "depth", out, "-o", here / "auroc.svg", "--metric", "auroc")
    assert "AUROC" in (here / "auroc.svg").read_text()
    assert "hold" in refused("plot", "learning", out, "-o", here / "l.svg", "--metric", "auroc")
    message = refused("plot", "overthinking", out, "-o", here / "o.svg")
    assert "sets of labels" in message
    done("report", out, "-o", here / "page.html")
    page = (here / "page.html").read_text()
    assert "land, water" in page and "(none)" in page


def test_baselines_are_frequencies_and_all_labels(world, here, splits):
    _, common, _ = world
    done("train", *common, "--head", "last", "--baselines", "--out", "b.jsonl")
    by_head = {record["head"]: record for record in records_of(here / "b.jsonl")}
    assert {"last", "majority", "all labels"} <= by_head.keys()
    gold = splits.view("test").targets
    said = np.arange(gold.shape[1]) < len(LABELS)  # those of train
    expected = f1_score(gold, np.tile(said, (len(gold), 1)), average="macro", zero_division=0)
    assert by_head["all labels"]["test_score"] == pytest.approx(expected)
    assert by_head["majority"]["test_score"] <= expected < by_head["last"]["test_score"]


def test_shots_are_texts_per_label(world):
    _, common, _ = world
    (record,) = done("train", *common, "--head", "last", "--shots", "8", "--json").rows
    assert record["seen"]["examples"] == 8 * len(LABELS)


def test_new_texts_are_labelled(world):
    root, _, _ = world
    folder = sorted((root / "heads").iterdir())[-1]
    texts = ["the sea and the hill", "rain", "Maria left"]
    labels = predict(folder, texts)
    assert all(set(of_text) <= set(LABELS) for of_text in labels) and len(labels) == 3
    surely = predict(folder, texts, probabilities=True)
    assert [each.label for each in surely] == labels
    assert all(set(each.probabilities) == set(LABELS) for each in surely)
    lines = done("predict", folder, "-", text="\n".join(texts)).out.splitlines()
    shown = [f"{text}\t{';'.join(names)}" for text, names in zip(texts, labels, strict=True)]
    assert lines == shown
    row = done("predict", folder, "-", "--json", text=texts[0]).rows[0]
    assert row["labels"] == labels[0] and set(row["probabilities"]) == set(LABELS)
    directions = export(folder)
    along = directions.contrast("land")
    assert (along == directions.direction[:, 0]).all()


def test_rows_go_to_scikit_learn_one_label_at_a_time(splits):
    x, y, _ = splits.rows("train", [2])
    with pytest.raises(ValueError, match="OneVsRestClassifier"):
        LayerProbe().fit(x, y)
    rows = x.read()[:, 0]
    fitted = OneVsRestClassifier(LayerProbe(l2=0.1)).fit(rows, y)
    assert fitted.predict(rows).shape == y.shape
    frame = splits.to_frame("train")
    assert [sorted(names) for names in frame["label"]] == [
        [name for name, has in zip(LABELS, of_text, strict=True) if has] for of_text in y
    ]


def small(labels):
    return [{"text": f"text {n}", "labels": of_text} for n, of_text in enumerate(labels)]


def extracted(bert, here, **splits):
    write(here / "own", **splits)
    done("extract", bert, "own", "--kind", "multilabel", *FLOAT32)
    return bert, "own", "--head", "last", "--out", "own.jsonl"


@pytest.mark.parametrize(("labels", "says"), [([], "no text has a label"), (["a"], "same labels")])
def test_labels_that_no_text_or_all_texts_have_are_refused(bert, here, labels, says):
    command = extracted(bert, here, train=small([labels] * 6), dev=small([labels] * 4))
    assert says in refused("train", *command)


@pytest.mark.parametrize("fit", ["lbfgs", "adam"])
def test_a_label_of_one_text_and_a_dev_without_labels_are_scored(bert, here, fit):
    train = small([["a"], ["b"], [], ["a"], ["a", "rare"], ["b"], [], ["a", "b"]])
    command = extracted(bert, here, train=train, dev=small([[]] * 4))
    epochs = ("--epochs", "1") if fit == "adam" else ()
    done("train", *command, "--fit", fit, *epochs, "--predictions")
    (record,) = records_of(here / "own.jsonl")
    assert record["eval_score"] == 0.0 and record["scores"]["dev/auroc"] == 0.5
    assert record["diagnosis"]["thresholds"] == [0.5] * 3


def test_of_more_than_200_labels_what_was_decided_is_kept_alone(bert, here):
    train = small([[f"l{n}", f"l{n + 1}"] for n in range(200)])
    command = extracted(bert, here, train=train, dev=train[:20])
    for l2 in ("1", "9"):
        done("train", *command, "--l2", l2, "--predictions")
    first, _ = records_of(here / "own.jsonl")
    _, splits = read_predicted(first["predictions"])
    assert splits["dev"].odds is None and splits["dev"].kept.shape == (20, 10)
    pair = ("own.jsonl#l2=1", "own.jsonl#l2=9")
    assert done("compare", *pair, "--json").rows[0]["metric"] == "macro-f1"
    assert "kept of up to 200 classes" in refused("compare", *pair, "--metric", "auroc")


def test_classes_are_compared_by_their_ranks(bert, here):
    examples = rows(40, 3)
    lines = [f"{row['text']}\t{'water' in row['labels']}".lower() for row in examples]
    (here / "two").mkdir()
    for split in ("train", "dev"):
        (here / "two" / f"{split}.tsv").write_text("\n".join(["text\tclass", *lines]))
    own = (bert, "two")
    done("extract", *own, "--kind", "sentence", *FLOAT32)
    done("depth", *own, "--out", "two.jsonl", "--seeds", "1")
    first, *_, last = records_of(here / "two.jsonl")
    pair = (f"two.jsonl#depth={first['depth']}", f"two.jsonl#depth={last['depth']}")
    _, splits = read_predicted(last["predictions"])
    dev = splits["dev"]
    expected = roc_auc_score(dev.gold, dev.odds[:, 1])
    assert last["scores"]["dev/auroc"] == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(dev.odds[:, 0], -dev.odds[:, 1], rtol=1e-5, atol=1e-5)
    for metric in ("auroc", "average-precision", "macro-f1"):
        assert done("compare", *pair, "--metric", metric, "--json").rows[0]["metric"] == metric


def test_python_reads_examples_in_memory(bert, here):
    examples = {
        split: [(row["text"], row["labels"]) for row in rows(30, n)]
        for n, split in enumerate(("train", "dev"))
    }
    entries = probekit.extract(str(bert), "mine", examples=examples, kind="multilabel")
    result = probekit.fit(head="last", task="mine", model=str(bert))
    assert len(entries) == 2 and result.predictions["dev"].shape == (30, 3)
    assert 0 <= result.eval_score <= 1
