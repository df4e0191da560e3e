"""Token heads in training: what they find, what they make of disk and memory, what they save."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from probekit import Location, TrainSpec, open_features, predict, predict_tokens, sweep
from probekit.errors import BackboneError, DataError, OptionError
from probekit.metrics import Gold, RecallAtFPR, alarm_threshold
from probekit.probe.heads import HEADS
from probekit.probe.heads.over_tokens import OverTokens
from probekit.probe.heads.token_inputs import TextTokens
from probekit.probe.token_heads import TOKEN_HEADS
from probekit.results.comparison.mean_scores import mean_score
from probekit.results.comparison.resampling import Bootstrap, Groups
from probekit.results.predictions import read_predicted
from probekit.results.summaries.scored import scored_by
from probekit.results.tables.scores import score_table
from probekit.train.saved.head import TrainedHead
from probekit.train.source import Source, TextLayout
from tests import tiny
from tests.data.test_chat import TRIMMED
from tests.extraction import extracted
from tests.extraction.extracted import entries_of
from tests.extraction.test_texts import states_of
from tests.planted import MODEL as PLANTED
from tests.planted import TASK, plant_all

MODEL, LAYERS = "tiny", "1,2,3"
OWN = {"kind": "sentence", "text": "text", "label": "label"}
WORDS = ("cat", "mat", "dog", "tree", "house", "river", "moon", "bread")


def write(folder, sizes=(("train", 240), ("dev", 80), ("test", 80)), longest=24):
    """Write texts whose label is one word of up to 25, wherever it stands: yes or no."""
    rng = np.random.default_rng(5)
    folder.mkdir(parents=True)
    for split, count in sizes:
        rows = []
        for n in range(count):
            words = list(rng.choice(WORDS, rng.integers(10, longest)))
            words.insert(int(rng.integers(len(words))), "yes" if n % 2 else "no")
            rows.append(json.dumps({"text": " ".join(words), "label": "ab"[n % 2]}))
        (folder / f"{split}.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Return the folder of the texts and the cache root."""
    root = tmp_path_factory.mktemp("tokens")
    model = tiny.build("bert", root / MODEL)
    texts = write(root / "texts")
    splits = ("train", "dev", "test")
    entries_of(model, texts, root / "cache", splits, keep=("tokens", "mean"), layers=LAYERS, **OWN)
    return texts, root / "cache"


def where(cache):
    return Location(cache=cache, kind="sentence", text="text")


def train(planted, out, heads, *, location=None, **more):
    """Train a run for every token head, by options of a sweep and of its runs."""
    texts, cache = planted
    shared = {"model": MODEL, "task": str(texts), "head": "last", "layers": "3", "label": "label"}
    of_sweep = ("predictions", "save", "memory", "ablate")
    options = {name: more.pop(name) for name in of_sweep if name in more}
    specs = [TrainSpec(**{**shared, "token_head": head, **more}) for head in heads]
    return sweep(specs, out=out / "runs.jsonl", location=location or where(cache), **options)


def saved(planted, out, token_head, **more):
    """Train one run, and return its record and the folder that its head is saved in."""
    folder = out / "heads"
    (record,) = train(planted, out, [token_head], save=folder, **more)
    return record, folder


STEPS = {"fit": "adam", "epochs": 30, "lr": 0.02, "decoder": "linear:dropout=0"}


@pytest.fixture(scope="module")
def trained(planted, tmp_path_factory):
    """Return the records of three heads that were trained by steps, and where they are saved."""
    root, heads = tmp_path_factory.mktemp("trained"), ("mean", "attention", "multimax")
    return train(planted, root, heads, **STEPS, save=root / "heads"), root / "heads"


def test_a_planted_token_is_found_by_attention_and_not_by_the_average(trained):
    (mean, attention, multimax), _ = trained
    assert attention.test_score > 0.9 and multimax.test_score > 0.9
    assert mean.test_score < attention.test_score - 0.15
    assert attention.spec["token_head"] == "attention" and mean.key != attention.key


def test_a_head_of_short_texts_is_scored_on_long_ones(planted, trained, tmp_path):
    """Ten times as many words draw an attention away from the one that it found; no maximum."""
    texts, cache = planted
    rng, ((_, *short), folder) = np.random.default_rng(7), trained
    long = tmp_path / "long"
    long.mkdir()
    for split in ("train", "dev", "test"):
        rows = [json.loads(line) for line in (texts / f"{split}.jsonl").read_text().splitlines()]
        rows = rows if split == "test" else rows[:8]
        for row in rows:
            around = list(rng.choice(WORDS, 9 * len(row["text"].split())))
            around.insert(int(rng.integers(len(around))), row["text"])
            row["text"] = " ".join(around)
        (long / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
    entries_of(
        cache.parent / MODEL, long, cache, ("train", "dev", "test"), keep=("tokens",), layers="3",
        **OWN,
    )  # fmt: skip
    heads = {}
    for path in folder.rglob("config.json"):
        name = (json.loads(path.read_text("utf-8"))["head"].get("token_head") or {}).get("name")
        heads[name] = str(path.parent)
    attention, multimax = (
        train((long, cache), tmp_path, [head], **STEPS, init_from=heads[head], shots=0)[0]
        for head in ("attention", "multimax")
    )
    assert attention.test_score < short[0].test_score - 0.2
    assert multimax.test_score > short[1].test_score - 0.15 > 0.75
    with pytest.raises(OptionError, match="saved with token head attention"):
        train((long, cache), tmp_path, ["mean"], **STEPS, init_from=heads["attention"], shots=0)


def test_the_mean_is_solved_as_the_stored_means_are(planted, tmp_path):
    tokens, stored = train(planted, tmp_path, ("mean", None), pooling=None)
    assert tokens.fitter == stored.fitter == "lbfgs"
    assert tokens.test_score == stored.test_score
    assert tokens.scores["dev/loss"] == pytest.approx(stored.scores["dev/loss"], rel=1e-3)


@pytest.mark.parametrize("head", ["max", "attention", "mean:order=layers-first"])
def test_memory_changes_no_number(planted, tmp_path, head):
    given = {**STEPS, "epochs": 2, "head": "p32", "layers": LAYERS}
    (held,) = train(planted, tmp_path / "held", [head], **given)
    (read,) = train(planted, tmp_path / "read", [head], memory=0, **given)
    assert held.scores == read.scores and held.weights == read.weights


@pytest.mark.parametrize(
    "head", ["max", "rolling-max:window=3", "attention:heads=2", "multimax:order=layers-first"]
)
def test_a_saved_head_labels_new_texts_as_it_was_scored(planted, tmp_path, head):
    options = {"head": "mean", "layers": LAYERS, "fit": "adam", "epochs": 4, "lr": 0.02}
    record, folder = saved(planted, tmp_path, head, **options)
    rows = [
        json.loads(line) for line in (planted[0] / "test.jsonl").read_text("utf-8").splitlines()
    ]
    labels = predict(folder, [row["text"] for row in rows])
    right = np.mean([label == row["label"] for label, row in zip(labels, rows, strict=True)])
    assert right == pytest.approx(record.test_score)


def test_rows_in_python_are_those_of_training(planted):
    def opened(token_head=None):
        data = MODEL, str(planted[0]), "label", where(planted[1])
        return open_features(*data, token_head=token_head)

    X, y, words = opened("mean").numpy("train", 2)
    stored = opened().numpy("train", 2, pooling="mean")
    np.testing.assert_allclose(X, stored.X, rtol=1e-4, atol=1e-5)
    assert (y == stored.y).all() and (words == stored.words).all()
    with pytest.raises(OptionError, match="is trained with a head"):
        opened("attention").numpy("train", 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "extra-layers", "layers": None}, "reads the tokens of texts itself"),
        ({"pooling": "cls"}, "--pooling has nothing to do"),
        ({"method": "full"}, "--method has nothing to do"),
        ({"layers": "0,1"}, "holds layers"),
        # what is made by training has no mean
        (
            {"token_head": "attention", "head": "p32", "layers": LAYERS, "ablate": "mean"},
            r"--ablate mean .* --token-head attention .*refit",
        ),
    ],
)
def test_what_does_not_go_together_is_told(planted, tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        train(planted, tmp_path, ["max"], **options)


def test_an_entry_without_tokens_is_told(planted, tmp_path):
    texts, _ = planted
    model = tiny.build("bert", tmp_path / MODEL)
    extracted.run(model, texts, tmp_path / "cache", keep=("mean",), **OWN)
    extracted.run(model, texts, tmp_path / "cache", "dev", keep=("mean",), **OWN)
    with pytest.raises(DataError, match=r"--token-head max reads tokens: .* --keep mean,tokens"):
        train((texts, tmp_path / "cache"), tmp_path, ["max"])


def test_what_only_keeps_is_what_is_read_again(planted, tmp_path):
    """A head over the last two tokens finds nothing but what they say, and reads them again."""
    texts, _ = planted
    model = tiny.build("bert", tmp_path / MODEL)
    splits = ("train", "dev")
    entries_of(
        model, texts, tmp_path / "cache", splits, keep=("tokens",), layers="3", only="last:2", **OWN
    )
    _, folder = saved((texts, tmp_path / "cache"), tmp_path, "mean")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    assert config["features"]["only"] == "last:2"
    items = ["cat dog moon river bread", "yes dog moon river bread"]
    said = predict(folder, items, probabilities=True)
    tokenizer = AutoTokenizer.from_pretrained(model)
    inputs = [tokenizer(text, return_tensors="pt") for text in items]
    rows = torch.stack([z[3:4, -2:].mean(1) for z in states_of(model, inputs)])
    _, expected = TrainedHead.from_pretrained(folder).probabilities(rows, torch.arange(3))
    for found, by_name in zip(said, expected, strict=True):
        assert found.probabilities == pytest.approx(by_name, abs=1e-4)


@pytest.mark.parametrize("token_head", ["attention", "max", "ema", None])
def test_a_token_is_labelled_as_a_text_of_its_own_would_be(planted, tmp_path, token_head):
    """Its row is what the model makes of it among the others, with no token beside it."""
    options = {"head": "p32", "layers": LAYERS, "fit": "adam", "epochs": 20, "lr": 0.02}
    _, folder = saved(planted, tmp_path, token_head, **options)
    model = planted[1].parent / MODEL
    head, items = TrainedHead.from_pretrained(folder), ["cat yes dog", "mat", "no moon"]
    said = predict_tokens(folder, items)
    tokenizer = AutoTokenizer.from_pretrained(model)
    for text, tokens in zip(items, said, strict=True):
        inputs = tokenizer(text, return_tensors="pt")
        assert [token.token for token in tokens] == list(
            map(tokenizer.decode, inputs["input_ids"][0][:, None])
        )
        (states,) = states_of(model, [inputs])
        rows = states[1:].transpose(0, 1)
        each = torch.arange(len(rows) + 1)
        z = rows / 2 if token_head == "ema" else rows  # begun at 0, with a share of a half
        z = TextTokens(states=rows, bounds=each) if token_head == "attention" else z
        labels, odds = head.probabilities(z, each)
        assert [token.label for token in tokens] == labels
        for token, expected in zip(tokens, odds, strict=True):
            assert token.probabilities == pytest.approx(expected, abs=1e-4)


def test_words_have_labels_of_their_own(tmp_path):
    options = {"model": PLANTED, "task": TASK, "label": None, "layers": None}
    location = Location(cache=plant_all(tmp_path / "cache"))
    _, folder = saved((None, None), tmp_path, None, location=location, **options)
    with pytest.raises(OptionError, match="this one is for tagging"):
        predict_tokens(folder, [["a", "b"]])


def test_a_monitor_is_judged_at_the_threshold_that_dev_chose(planted, tmp_path):
    (record,) = train(planted, tmp_path, ["mean"], predictions=True)
    _, splits = read_predicted(tmp_path / "runs-predictions" / f"{record.key[:16]}.parquet")
    odds = {split: splits[split].odds[:, 1].astype(float) for split in ("dev", "test")}
    has = {split: splits[split].gold == 1 for split in ("dev", "test")}
    above = odds["test"] > alarm_threshold(has["dev"], odds["dev"])
    assert record.scores["test/alarm-recall"] == above[has["test"]].mean() > 0
    assert record.scores["test/alarm-fpr"] == above[~has["test"]].mean()
    of_alarms, plain = (
        {column.heading for column in score_table(records).columns}
        for records in (scored_by([record], "recall-at-1-fpr"), [record])
    )
    assert {"recall at dev's threshold", "false positives there"} <= of_alarms - plain
    (rescored,) = scored_by([record], "recall-at-1-fpr")
    shown = mean_score([rescored], "test_score", "mean")
    scorer = RecallAtFPR(Gold(ids=splits["test"].gold, offsets=np.arange(81), names=("a", "b")))
    resampled = Bootstrap(samples=2_000).draws(Groups(80))
    samples = [
        scorer.resampler(splits["test"].odds)(np.bincount(drawn, minlength=80)[None])[0]
        for block in resampled
        for drawn in block
    ]
    ends = np.quantile(samples, [0.025, 0.975])
    assert shown.half == pytest.approx((ends[1] - ends[0]) / 2)
    assert (shown.over, shown.drawn.n) == ("sentences", 80)


@pytest.mark.parametrize("resident", [True, False])
def test_texts_without_any_token_are_scored(tmp_path, resident):
    texts = write(tmp_path / "texts", (("train", 40),))
    model, cache = tiny.build("bert", tmp_path / MODEL), tmp_path / "cache"
    kept = {"keep": ("tokens",), "layers": "3", "only": "regex:yes"}
    entries_of(model, texts, cache, ("train",), **kept, **OWN)
    features = open_features(MODEL, str(texts), "label", where(cache), token_head="attention")
    view = features.view("train")
    none = view.take(np.arange(0, 40, 2))  # they say "no"
    layout = TextLayout(none)
    source = Source(none, [3], device=torch.device("cpu"), resident=resident, layout=layout)
    (block,) = source.blocks()
    assert len(block.targets) == 20 and block.z.shape == (1, 0, view.array.dim)
    rows = block.of(source.fitted("none"), (3,))
    spec = OverTokens(head=HEADS["mean"](), token_head=TOKEN_HEADS["attention"]())
    assert not spec.build((3,), view.array.dim, torch.Generator())(rows).any()


def test_a_start_has_the_same_token_head(planted, tmp_path):
    _, folder = saved(planted, tmp_path, "attention", **STEPS | {"epochs": 1})
    start = {"init_from": str(folder), "decoder": STEPS["decoder"]}
    with pytest.raises(OptionError, match=r"token head attention:order=.* this run has max"):
        train(planted, tmp_path, ["max"], **start)
    (more,) = train(planted, tmp_path, ["attention"], **start, shots=0)
    assert more.init


def test_a_conversation_is_given_as_messages(tmp_path):
    model = tiny.build("llama", tmp_path / MODEL)
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = TRIMMED
    tokenizer.save_pretrained(model)
    talks = [
        ([{"role": "user", "content": word}, {"role": "assistant", "content": "yes"}], label)
        for word, label in (("cat", "a"), ("dog", "b")) * 10
    ]
    folder = tmp_path / "talks"
    folder.mkdir()
    for split in ("train", "dev"):
        lines = [json.dumps({"messages": talk, "label": label}) for talk, label in talks]
        (folder / f"{split}.jsonl").write_text("\n".join(lines), "utf-8")
    kept = {"keep": ("tokens",), "layers": "3", "only": "user"}
    cache, of = tmp_path / "cache", {"kind": "sentence", "label": "label"}
    entries_of(model, folder, cache, ("train", "dev"), **of, **kept)
    location = Location(cache=cache, kind="sentence")
    _, head = saved((folder, cache), tmp_path, "mean", location=location)
    given = [talk for talk, _ in talks[:4]]
    assert predict(head, given) == predict(head, list(map(json.dumps, given)))
    with pytest.raises(DataError, match=r"expected a conversation, .* found the text 'cat'"):
        predict(head, ["cat"])
    tokenizer.chat_template = TRIMMED + "!"
    tokenizer.save_pretrained(model)
    with pytest.raises(BackboneError, match="has changed since the head was made"):
        predict(head, given)
