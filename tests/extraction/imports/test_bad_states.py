"""States that do not fit: every one is refused, with what was expected, and nothing is written."""

import dataclasses
import json
import os
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer

from probekit.errors import (
    DataError,
    MissingFileError,
    OptionError,
    ProbekitError,
    StateRangeError,
    UnknownNameError,
)
from probekit.extraction.imports import import_states
from tests.extraction.imports.exporting import FOUR, PLAIN, sentences, vllm_folder, words_of


def arrays(found):
    """Return sequences as `import_states` takes them from memory."""
    return {"states": [states for _, states in found], "token_ids": [ids for ids, _ in found]}


def changed(found, number, place, token):
    ids = found[number][0].clone()
    ids[place] = token
    return [*found[:number], (ids, found[number][1]), *found[number + 1 :]]


def test_the_first_token_that_is_another_one_is_shown(refuses, found, tmp_path):
    other = changed(found, 2, 3, 7)
    expected = int(found[2][0][3])
    said = refuses(DataError, "does not have the tokens", **arrays(other))
    assert "states[2] does not have the tokens of example train-2: at position 3" in said
    assert f"gives {expected} (" in said and "the file has 7 (" in said
    said = refuses(DataError, "none of 4 sequences", vllm_folder(tmp_path / "v", other))
    assert "of example train-2. The nearest, " in said and f"gives {expected} (" in said
    said = refuses(DataError, "not one of", **arrays(changed(found, 0, 1, 10**6)))
    assert "1000000 (not one of" in said


@pytest.mark.parametrize(("side", "where"), [("right", "behind"), ("left", "in front of")])
def test_padded_sequences_are_named_for_what_they_are(refuses, found, tmp_path, side, where):
    def padded(values, fill):
        rest = torch.full((3, *values.shape[1:]), fill, dtype=values.dtype)
        return torch.cat([values, rest] if side == "right" else [rest, values])

    all_ = [(padded(ids, 1), padded(states, 0)) for ids, states in found]
    count = len(found[0][0])
    message = rf"is padded: it has the {count} tokens of example train-0 and 3 times 1 .*{where}"
    refuses(DataError, message, **arrays(all_))
    refuses(DataError, message, vllm_folder(tmp_path / "v", all_))


def test_sequences_that_are_missing_or_too_many(refuses, imported, found, tmp_path):
    refuses(DataError, r"3 sequences, but train has 4 examples", **arrays(found[:3]))
    twice = [*found, found[0]]
    refuses(DataError, r"5 sequences, but train has 4 examples", **arrays(twice))
    message = r"none of 3 sequences has.*tokenizer, or those of this example are missing\."
    refuses(DataError, message, vllm_folder(tmp_path / "v", found[1:]))
    again = (found[2][0], torch.randn_like(found[2][1]))
    message = "have the same tokens but different states: they are from two runs"
    refuses(DataError, message, vllm_folder(tmp_path / "x", [*found, again]))
    entry = imported(**arrays(twice), options=dataclasses.replace(PLAIN, limit=2))
    assert entry.manifest.part == "the first 2 examples"
    # of requests that were made twice one is taken; those of other texts are left alone
    other = (torch.tensor([5, 6, 7]), torch.zeros(3, 4, 32))
    nearly = (found[2][0], found[2][1] * 1.0001)
    made = [*found, *[other] * 5, found[1], nearly]  # of which the last is request 10
    entry = imported(vllm_folder(tmp_path / "w", made, "cmpl-{number}-0.safetensors"))
    assert entry.manifest.counts["examples"] == 4
    row = entry.arrays["words"].read([int(entry.examples.starts("words")[2])])
    assert torch.equal(row[0], found[2][1][1]), "request 2 comes before request 10"


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"layer_ids": None}, OptionError, r"has 4 layers\. Give their.*0:4 if these are all"),
        ({"layer_ids": "0,1,2"}, OptionError, r"--layer-ids 0,1,2 does not fit .* 4 layers"),
        ({"layer_ids": "0,1,2,9"}, OptionError, "layer 9 does not exist"),
        ({"layer_ids": "0,1,2,2"}, OptionError, "names a layer twice"),
        ({"layer_ids": "x"}, OptionError, "cannot read 'x'"),
        ({"layers": "0,7"}, OptionError, "layer 7 does not exist"),
        ({"last_layer": "raw"}, OptionError, "has no norm after its last block"),
        (
            {"last_layer": "odd"},
            UnknownNameError,
            "unknown --last-layer .* Choose from: normed, raw",
        ),
        ({"special_tokens": "stripped"}, OptionError, "have the special tokens of .* Leave"),
        ({"special_tokens": "some"}, UnknownNameError, "Choose from: absent, present, stripped"),
        ({"n_blocks": 3}, OptionError, "only the name is known, but .* is here"),
        ({"n_blocks": 0}, OptionError, "n_blocks=0"),
        ({"keep": ("output-head",)}, OptionError, "names no array"),
        ({"keep": ("predicted",)}, OptionError, "--keep predicted: the text of mine"),
        ({"dtype": "float8"}, UnknownNameError, "unknown --dtype 'float8'"),
        ({"limit": 0}, OptionError, "--limit must be a positive number"),
        ({"layers_first": True}, DataError, r"token_ids has the shape .*rows come first"),
    ],
)
def test_options_that_make_no_sense(refuses, found, more, error, message):
    refuses(error, message, **arrays(found), options=more)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (np.zeros((8, 4, 31), np.float32), r"31 wide, but those of .* are 32"),
        (np.zeros((8, 4, 32), np.int64), "expected hidden states in float16"),
        (np.zeros((8, 4, 32), np.complex64), "expected hidden states in float16"),
        (np.zeros((8, 4, 32), "V2"), "NumPy has no bfloat16"),
        (np.zeros((8, 4, 32, 1), np.float32), r"expected \(rows, layers, dim\)"),
        (np.zeros((4, 8, 32), np.float32), "If layers come first.*layers_first=True"),
        (np.array([np.zeros((3, 4, 32)), None], object), "Python objects"),
    ],
)
def test_arrays_of_another_form(refuses, states, message):
    refuses(DataError, message, [states] * 4, token_ids=[np.arange(8)] * 4)


def test_every_order_of_bytes_and_axes_is_read(imported, found, tmp_path):
    expected = imported(**arrays(found)).arrays["words"].read(torch.arange(9))
    forms = {
        "big": [states.numpy().astype(">f4") for _, states in found],
        "wide": [states.double() for _, states in found],
        "turned": [np.asfortranarray(states.numpy()) for _, states in found],
        "generated": (states for _, states in found),
    }
    ids = [ids.numpy().astype(">i2") for ids, _ in found]
    for name, states in forms.items():
        entry = imported(states, token_ids=ids, cache=tmp_path / name)
        assert entry.manifest.compute_dtype == "float32"
        assert torch.equal(entry.arrays["words"].read(torch.arange(9)), expected)
    first = [states.transpose(0, 1) for _, states in found]
    options = dataclasses.replace(PLAIN, layers_first=True)
    entry = imported(first, options, token_ids=ids, cache=tmp_path / "f")
    assert torch.equal(entry.arrays["words"].read(torch.arange(9)), expected)


def test_files_that_are_damaged_empty_or_not_there(refuses, found, tmp_path):
    refuses(MissingFileError, "no such file or folder", tmp_path / "none.safetensors")
    (tmp_path / "empty").mkdir()
    refuses(MissingFileError, "no file of hidden states there", tmp_path / "empty")
    safe = next(vllm_folder(tmp_path / "v", found).glob("*.safetensors")).read_bytes()
    for name, content in {"a": b"", "cut": safe[:-9]}.items():
        (tmp_path / f"{name}.safetensors").write_bytes(content)
        refuses(DataError, "cannot be read", tmp_path / f"{name}.safetensors")
    for name in ("x.csv", "x.npz", "x.pt"):
        (tmp_path / name).write_bytes(pickle.dumps(Evil()))
        refuses(DataError, "expected a .safetensors file", tmp_path / name)
    assert not (tmp_path / "unpickled").exists()
    others = {"other": torch.zeros(3), "number": torch.tensor(1)}
    save_file(others, tmp_path / "names.safetensors")
    refuses(DataError, "no tensor 'hidden_states'.*number, other", tmp_path / "names.safetensors")
    save_file({"hidden_states": torch.zeros(3, 4, 32)}, tmp_path / "rows.safetensors")
    refuses(DataError, "no tensor 'token_ids', which vLLM", tmp_path / "rows.safetensors")
    half = {"dtype": "F4", "shape": [8], "data_offsets": [0, 4]}  # numbers of four bits each
    for name, message in (
        ("hidden_states", "a dtype that torch does not have"),
        ("x", "no tensor"),
    ):
        header = json.dumps({name: half}).encode()
        content = len(header).to_bytes(8, "little") + header + bytes(4)
        (tmp_path / "half.safetensors").write_bytes(content)
        refuses(DataError, message, tmp_path / "half.safetensors")
    first = {"layers_first": True}
    refuses(OptionError, "vLLM's files have rows first", tmp_path / "v", first)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def test_parts_that_do_not_fit_each_other(refuses, found, tmp_path):
    given = arrays(found)
    for dtype in ("float64", "bool", "S8"):
        ids = [one.numpy().astype(dtype) for one in given["token_ids"]]
        refuses(DataError, "token_ids: expected a list of whole", given["states"], token_ids=ids)
    ids = [given["token_ids"][0][:2], *given["token_ids"][1:]]
    refuses(DataError, r"token_ids has the shape \(2,\)", given["states"], token_ids=ids)
    refuses(DataError, "found both", **given, word_offsets=given["token_ids"])
    refuses(DataError, "sparse or quantized", [torch.eye(3).to_sparse()] * 4)
    odd = [(found[0][0], found[0][1][:, :3]), *found[1:]]
    refuses(DataError, "All sequences of a split must be alike", vllm_folder(tmp_path / "v", odd))
    half = [(found[0][0], found[0][1].half()), *found[1:]]
    refuses(DataError, "All sequences of a split must be alike", vllm_folder(tmp_path / "w", half))


def test_numbers_that_are_not_finite(refuses, imported, found):
    broken = arrays([(ids, states.clone()) for ids, states in found])
    for bad, dtype, message in (
        (float("nan"), "float32", r"layer 3 of examples train-0 to train-3 holds \d NaN"),
        (float("inf"), "float32", r"layer 3 of examples train-0 to train-3 holds \d NaN"),
        (1e6, "float16", r"import_states\(.*dtype='bfloat16'"),
    ):
        broken["states"][2][1, 3, 5] = bad
        refuses(StateRangeError, message, **broken, options={"dtype": dtype})
    entry = imported(**broken, options=dataclasses.replace(PLAIN, dtype="auto"))
    assert entry.manifest.dtype == "bfloat16"


def test_truncated_sequences_are_counted_and_their_words_are_not_valid(
    imported, bert, found, caplog, tmp_path
):
    tokenizer = AutoTokenizer.from_pretrained(bert)
    whole = [tokenizer(words, is_split_into_words=True) for words in FOUR]
    for name, cut in {
        "rule": [
            tokenizer(words, is_split_into_words=True, truncation=True, max_length=8)
            for words in FOUR
        ],
        "end": [{"input_ids": one["input_ids"][:8]} for one in whole],
    }.items():
        ids = [torch.tensor(one["input_ids"]) for one in cut]
        states = [torch.randn(len(one), 4, 32) for one in ids]
        kept = 6 if name == "rule" else 7  # subwords of text, of the longer sentences
        expected = []
        for encoding, words in zip(whole, FOUR, strict=True):
            owners = np.array([-1 if one is None else one for one in encoding.word_ids()])[1:-1]
            read = owners[:kept] if len(owners) > 6 else owners
            full = [(read == word).sum() == (owners == word).sum() for word in range(len(words))]
            expected.append([bool(one) or (word == 0) for word, one in enumerate(full)])
        for form in ("folder", "arrays"):
            place = tmp_path / f"{name}-{form}"
            pairs = list(zip(ids, states, strict=True))
            given = vllm_folder(place / "v", pairs) if form == "folder" else states
            more = {} if form == "folder" else {"token_ids": ids}
            entry = imported(given, cache=place, **more)
            assert entry.examples.table["valid"].to_pylist() == expected
            lost = sum(not one for own in expected for one in own)
            assert entry.manifest.counts["truncated_words"] == lost > 0
            assert f"{lost} of" in caplog.text
            assert not {"last", "cls"} & set(entry.arrays)


def test_special_tokens_that_are_missing_are_asked_about(refuses, imported, found, tmp_path):
    bare = [(ids[1:-1], states[1:-1]) for ids, states in found]
    refuses(OptionError, r"--special-tokens stripped .* or absent", **arrays(bare))
    mixed = arrays([*found[:2], *bare[2:]])
    refuses(DataError, "some sequences have the tokenizer's special tokens", **mixed)
    for said in ("stripped", "absent"):
        options = dataclasses.replace(PLAIN, special_tokens=said)
        entry = imported(**arrays(bare), options=options, cache=tmp_path / said)
        folder = vllm_folder(tmp_path / f"v-{said}", bare)
        again = imported(folder, options, cache=tmp_path / f"again-{said}")
        whole = imported(**arrays(found), cache=tmp_path / f"whole-{said}")
        rows = [one.arrays["words"].read(torch.arange(9)) for one in (entry, again, whole)]
        assert torch.equal(rows[0], rows[1]) and torch.equal(rows[0], rows[2])
        assert entry.manifest.imported["special_tokens"] == said
        for full in (arrays(found), {"states": vllm_folder(tmp_path / f"f{said}", found)}):
            with pytest.raises(OptionError, match=f"--special-tokens {said}: the token ids of"):
                imported(**full, options=options, cache=tmp_path / "y")
        with pytest.raises(OptionError, match="--keep cls: there are no rows of special tokens"):
            kept = dataclasses.replace(options, keep=("cls",))
            imported(**arrays(bare), options=kept, cache=tmp_path / "x")


def test_offsets_that_do_not_fit(refuses, found):
    states = [rows for _, rows in found]
    right = [np.arange(len(words) + 1) for words in FOUR]

    def given(number, offsets):
        return {"word_offsets": [*right[:number], np.array(offsets), *right[number + 1 :]]}

    last = len(FOUR[3])
    refuses(DataError, "expected 2 offsets for the 1 words", states, **given(0, [0, 1, 2]))
    refuses(DataError, "must not decrease", states, **given(3, [*range(last, -1, -1)]))
    refuses(DataError, "to at most", states, **given(3, [*range(last), 999]))
    refuses(DataError, "list of whole numbers", states, **given(0, [0.0, 1.0]))
    refuses(
        DataError, "not one word of train has a row", states, word_offsets=[0 * r for r in right]
    )
    refuses(DataError, "4 arrays of states, but 3 word_offsets", states, word_offsets=right[:3])
    refuses(DataError, "4 arrays of states, but 3 token_ids", states, token_ids=right[:3])
    refuses(OptionError, "expected a path, or an array for each example", None)


def test_splits_that_are_not_there(bert, found, tmp_path):
    states = {"train": [rows for _, rows in found]}
    ids = {"train": [one for one, _ in found]}
    examples = {"train": sentences(4), "dev": sentences(4)}
    where = {"examples": examples, "options": PLAIN, "cache": tmp_path}
    with pytest.raises(OptionError, match="no states of the split dev; found: train"):
        import_states(bert, "mine", states, token_ids=ids, splits=["train", "dev"], **where)
    with pytest.raises(ProbekitError, match="split of mine"):
        import_states(bert, "mine", {"../x": states["train"]}, token_ids=ids, **where)
    with pytest.raises(OptionError, match="arrays are of one split, but 2 splits"):
        import_states(bert, "mine", states["train"], token_ids=ids["train"], **where)
    with pytest.raises(OptionError, match="language modelling"):
        import_states(
            bert, "lm", states["train"], examples=[" ".join(words_of(3))] * 4, options=PLAIN,
            kind="language-modelling", cache=tmp_path,
        )  # fmt: skip
