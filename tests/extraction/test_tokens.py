"""Tokens of texts at chosen layers against transformers alone, and those that --only keeps."""

import itertools
import json
import re

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from probekit.errors import BackboneError, DataError, OptionError
from probekit.extraction.maintenance import describe
from probekit.extraction.maintenance.entry_copy import EntryCopy
from probekit.extraction.maintenance.row_errors import verify_rows
from probekit.features import open_features
from probekit.features.made_rows import pooled_texts, token_rows
from probekit.probe.token_heads import TOKEN_HEADS
from tests import tiny
from tests.data.test_chat import TRIMMED
from tests.extraction import extracted
from tests.extraction.extracted import key_of
from tests.extraction.passages import write_pairs, write_texts
from tests.extraction.test_texts import states_of

TEXTS = {"kind": "sentence", "text": "text", "label": "label"}
KEPT = {"keep": ("tokens",), "layers": "1,3"}


def run(model, data, cache, **options):
    return extracted.run(model, data, cache, **{**TEXTS, **KEPT, **options})


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    folders = {name: tiny.build(name, root / name, max_positions=320) for name in ("bert", "llama")}
    tokenizer = AutoTokenizer.from_pretrained(folders["llama"])
    tokenizer.chat_template = TRIMMED
    tokenizer.save_pretrained(folders["llama"])
    return folders


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("texts"), count=20)


def rows_of(entry):
    """Return the rows of each text, (tokens, layers, dim)."""
    rows = token_rows(entry.examples)
    edges = rows.bounds.tolist()
    read = entry.arrays["tokens"].read(rows.values).float()
    return [read[a:b] for a, b in itertools.pairwise(edges)]


@pytest.mark.usefixtures("small_units")
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_every_token_of_every_chosen_layer_is_the_models(models, texts, tmp_path, name):
    entry = run(models[name], texts, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(models[name])
    inputs = [tokenizer(text, return_tensors="pt") for text, _ in entry.examples.texts]
    for found, states in zip(rows_of(entry), states_of(models[name], inputs), strict=True):
        torch.testing.assert_close(found, states[[1, 3]].transpose(0, 1), rtol=1e-4, atol=1e-5)
    array = entry.arrays["tokens"]
    assert array.layers == (1, 3) and array.spec.n_row_chunks > 1
    assert entry.manifest.request["tokens"] == "all" and not entry.examples.has("kept")
    assert verify_rows(entry, 30, model=str(models[name])).passed


@pytest.mark.parametrize("length", [320, 24])
def test_fixed_token_heads_make_the_rows_that_are_stored(models, texts, tmp_path, length):
    """The mean and the last token of texts, also of those that overlapping windows read twice."""
    keep = ("mean", "last", "tokens")
    entry = run(models["bert"], texts, tmp_path, keep=keep, max_length=length)
    stored = pooled_rows(entry)
    for name, expected in stored.items():
        made = pooled_texts(entry, TOKEN_HEADS[name]())
        torch.testing.assert_close(made.read(np.arange(20)), expected, rtol=1e-5, atol=1e-6)
        some = made.read(np.array([7, 3, 3]), layers=[3])
        torch.testing.assert_close(some[:, 0], expected[[7, 3, 3], 1], rtol=1e-5, atol=1e-6)


def pooled_rows(entry):
    rows = torch.from_numpy(entry.examples.pooled_start)
    return {name: entry.arrays[name].read(rows).float() for name in ("mean", "last")}


def test_an_epoch_goes_through_blocks_of_tokens(models, texts, tmp_path):
    entry = run(models["bert"], texts, tmp_path)
    view = open_features([entry], token_head="attention").view("train")
    counts = [len(rows) for rows in rows_of(entry)]
    assert len(set(counts)) > 1 and view.lengths.tolist() == [1] * 20
    assert view.stored_lengths.tolist() == counts
    assert view.take(np.array([7, 3])).stored_lengths.tolist() == [counts[7], counts[3]]


def shown(entry, model):
    """Return the kept tokens of each text, as the tokenizer writes them."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    table = entry.examples.table
    kept = table["kept"].to_pylist()
    return [
        tokenizer.convert_ids_to_tokens([i for i, k in zip(ids, of, strict=True) if k])
        for ids, of in zip(table["subwords"].to_pylist(), kept, strict=True)
    ]


@pytest.mark.parametrize("length", [320, 24])
def test_the_last_tokens_are_kept(models, texts, tmp_path, length):
    options = {"max_length": length}
    whole = run(models["bert"], texts, tmp_path, **options)
    some = run(models["bert"], texts, tmp_path, only="last:3", **options)
    assert whole.manifest.key != some.manifest.key
    for every, last in zip(rows_of(whole), rows_of(some), strict=True):
        torch.testing.assert_close(last, every[-3:], rtol=1e-4, atol=1e-6)
    assert "(only last:3)" in describe(some.path)["arrays"]
    assert some.arrays["tokens"].spec.nbytes < whole.arrays["tokens"].spec.nbytes
    assert verify_rows(some, 30, model=str(models["bert"])).passed


@pytest.mark.parametrize(
    ("only", "pattern"),
    [
        ("regex:[aeiou]t", "([aeiou]t)"),
        ("between:the: ", "the(.*?) "),
        ("regex:(?i)THE|cat", "(?i)(the|cat)"),
    ],
)
def test_tokens_are_kept_by_their_characters(models, texts, tmp_path, only, pattern, caplog):
    model = models["bert"]
    entry = run(model, texts, tmp_path, only=only)
    tokenizer = AutoTokenizer.from_pretrained(model)
    none = 0
    for (text, _), found in zip(entry.examples.texts, shown(entry, model), strict=True):
        read = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
        spans = [match.span(1) for match in re.finditer(pattern, text)]
        expected = [
            token
            for token, (start, stop) in zip(read.tokens(), read["offset_mapping"], strict=True)
            if any(start < end and begin < stop for begin, end in spans)
        ]
        assert found == expected
        none += not found
    assert 0 < none < 20 and f"keeps no token of {none} of 20 texts" in caplog.text
    made = pooled_texts(entry, TOKEN_HEADS["mean"]()).read(np.arange(20))
    assert int((made == 0).all((1, 2)).sum()) == none


def test_a_copy_of_some_layers_is_what_an_extraction_of_them_is(models, texts, tmp_path):
    entry = run(models["bert"], texts, tmp_path / "all", keep=("mean", "tokens"), layers="1,2,3")
    part = EntryCopy.of(entry.path, tmp_path / "part", layers="1,3", arrays=("tokens",)).apply()
    assert part.manifest.key == run(models["bert"], texts, tmp_path / "again").manifest.key
    last = EntryCopy.of(entry.path, tmp_path / "last", layers="3", arrays=("tokens",)).apply()
    assert last.manifest.key == key_of(models["bert"], texts, keep=("tokens",), layers="3", **TEXTS)


def test_words_keep_the_last_layer_alone(bert, corpus):
    key = key_of(bert, corpus, keep=("words", "tokens"), layers="1,3")
    assert key == key_of(bert, corpus, keep=("tokens", "words"), layers="1,3")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": "last:0"}, "expected assistant, user, system, tool, last:N"),
        ({"only": "between:a"}, "expected"),
        ({"only": "regex:("}, "not a regular expression"),
        ({"only": "regex:^"}, "it matches empty text, too"),
        ({"only": "last:2", "keep": ("mean",)}, "add --keep tokens"),
        ({"only": "assistant"}, "are not conversations .lists of messages with role and content"),
    ],
)
def test_what_cannot_be_kept_is_told(models, texts, tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        run(models["bert"], texts, tmp_path, **options)
    with pytest.raises(DataError, match="keeps no token of any text"):
        run(models["bert"], texts, tmp_path, only="regex:Q{7}")


def test_pairs_have_no_choice_of_tokens(models, tmp_path):
    with pytest.raises(OptionError, match="are pairs"):
        extracted.run(
            models["bert"], write_pairs(tmp_path / "pairs", count=3), tmp_path, kind="pair",
            text="text,text_pair", label="label", only="last:2", **KEPT,
        )  # fmt: skip


TALKS = [
    [("user", "the cat sat"), ("assistant", "on the mat"), ("user", "mat"), ("assistant", "yes")],
    [("system", "be kind"), ("user", "a dog"), ("assistant", "runs to the tree")],
]


@pytest.fixture
def talks(tmp_path):
    folder = tmp_path / "talks"
    folder.mkdir()
    rows = [
        {"messages": [{"role": r, "content": c} for r, c in TALKS[n % 2]], "label": str(n % 2)}
        for n in range(6)
    ]
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return folder


TALKING = {"kind": "sentence", "label": "label", **KEPT}


@pytest.mark.parametrize("role", ["assistant", "user"])
def test_a_conversation_is_read_by_the_chat_template(models, talks, tmp_path, role):
    model = models["llama"]
    entry = extracted.run(model, talks, tmp_path, only=role, **TALKING)
    tokenizer = AutoTokenizer.from_pretrained(model)
    for turns, ids in zip(TALKS, entry.examples.table["subwords"].to_pylist(), strict=False):
        said = [{"role": r, "content": c} for r, c in turns]
        text = tokenizer.apply_chat_template(said, tokenize=False)
        assert ids == tokenizer(text, add_special_tokens=False)["input_ids"]
    for turns, found in zip(TALKS, shown(entry, model), strict=False):
        said = "".join(c for r, c in turns if r == role).replace(" ", "")
        assert "".join(found).replace("▁", "") == said
    assert verify_rows(entry, 30, model=str(model)).passed


def test_another_template_is_another_entry(models, talks, tmp_path):
    first = extracted.run(models["llama"], talks, tmp_path / "one", **TALKING)
    tokenizer = AutoTokenizer.from_pretrained(models["llama"])
    tokenizer.chat_template = TRIMMED + "!"
    tokenizer.save_pretrained(models["llama"])
    second = extracted.run(models["llama"], talks, tmp_path / "two", **TALKING)
    tokenizer.chat_template = TRIMMED
    tokenizer.save_pretrained(models["llama"])
    assert first.manifest.key != second.manifest.key
    with pytest.raises(BackboneError, match="its chat template has changed since"):
        verify_rows(second, 5, model=str(models["llama"]))
    with pytest.raises(DataError, match="language modelling reads plain text"):
        modelling = {"kind": "language-modelling", "text": "messages", "label": None}
        extracted.run(models["llama"], talks, tmp_path / "four", **modelling)
    with pytest.raises(BackboneError, match="no chat template"):
        extracted.run(models["bert"], talks, tmp_path / "three", **TALKING)
