"""States that do not fit: every one is refused, with what was expected, and nothing is written."""

import dataclasses
import os
import pickle

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from probekit.errors import DataError, MissingFileError, OptionError, ProbekitError, StateRangeError
from probekit.extraction.imports import import_states
from tests.extraction.imports.exporting import (
    FOUR,
    PLAIN,
    elmo_file,
    sentences,
    vllm_folder,
    words_of,
)


def flat(found, **more):
    return {
        "hidden_states": np.concatenate([states.numpy() for _, states in found]),
        "token_ids": np.concatenate([ids.numpy() for ids, _ in found]),
        "lengths": np.array([len(ids) for ids, _ in found]),
        **more,
    }


def npz(path, found, **more):
    np.savez(path, **flat(found, **more))
    return path


def changed(found, number, place, token):
    ids = found[number][0].clone()
    ids[place] = token
    return [*found[:number], (ids, found[number][1]), *found[number + 1 :]]


def test_the_first_token_that_is_another_one_is_shown(refuses, found, tmp_path):
    other = changed(found, 2, 3, 7)
    expected = int(found[2][0][3])
    said = refuses(DataError, "does not have the tokens", npz(tmp_path / "x.npz", other))
    assert "sequence 2 does not have the tokens of example train-2: at position 3" in said
    assert f"gives {expected} (" in said and "the file has 7 (" in said
    said = refuses(DataError, "none of 4 sequences", vllm_folder(tmp_path / "v", other))
    assert "of example train-2. The nearest, " in said and f"gives {expected} (" in said
    said = refuses(DataError, "not one of", npz(tmp_path / "y.npz", changed(found, 0, 1, 10**6)))
    assert "1000000 (not one of" in said


@pytest.mark.parametrize(("side", "where"), [("right", "behind"), ("left", "in front of")])
def test_padded_sequences_are_named_for_what_they_are(refuses, found, tmp_path, side, where):
    def padded(values, fill):
        rest = torch.full((3, *values.shape[1:]), fill, dtype=values.dtype)
        return torch.cat([values, rest] if side == "right" else [rest, values])

    all_ = [(padded(ids, 1), padded(states, 0)) for ids, states in found]
    count = len(found[0][0])
    message = rf"is padded: it has the {count} tokens of example train-0 and 3 times 1 .*{where}"
    refuses(DataError, message, npz(tmp_path / "x.npz", all_))
    refuses(DataError, message, vllm_folder(tmp_path / "v", all_))


def test_sequences_that_are_missing_or_too_many(refuses, imported, found, tmp_path):
    refuses(DataError, r"3 sequences, and train has 4 examples", npz(tmp_path / "a.npz", found[:3]))
    twice = [*found, found[0]]
    refuses(DataError, r"5 sequences, and train has 4 examples", npz(tmp_path / "b.npz", twice))
    refuses(DataError, "none of 3 sequences has", vllm_folder(tmp_path / "v", found[1:]))
    entry = imported(npz(tmp_path / "c.npz", twice), dataclasses.replace(PLAIN, limit=2))
    assert entry.manifest.part == "the first 2 examples"
    # of requests that were made twice one is taken; those of other texts are left alone
    other = (torch.tensor([5, 6, 7]), torch.zeros(3, 4, 32))
    entry = imported(vllm_folder(tmp_path / "w", [*found, found[0], other]))
    assert entry.manifest.counts["examples"] == 4


def test_two_runs_in_one_folder(refuses, found, tmp_path):
    again = (found[2][0], torch.randn_like(found[2][1]))
    message = "have the same tokens and other states: they are of two runs"
    refuses(DataError, message, vllm_folder(tmp_path / "w", [*found, again]))


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"layer_ids": None}, OptionError, r"4 layers and does not say which.*0:4 if they are all"),
        ({"layer_ids": "0,1,2"}, OptionError, r"0,1,2 are said of .* which has 4 layers"),
        ({"layer_ids": "0,1,2,9"}, OptionError, "layer 9 does not exist"),
        ({"layer_ids": "0,1,2,2"}, OptionError, "names a layer twice"),
        ({"layer_ids": "x"}, OptionError, "cannot read 'x'"),
        ({"layers": "0,7"}, OptionError, "layer 7 does not exist"),
        ({"last_layer": "raw"}, OptionError, "has no norm after its last block"),
        ({"last_layer": "odd"}, OptionError, "none of: normed, raw"),
        ({"special_tokens": "stripped"}, OptionError, "have the special tokens of .* Leave"),
        ({"special_tokens": "some"}, OptionError, "none of: present, absent, stripped"),
        ({"n_blocks": 3}, OptionError, "known by its name alone, and .* is there"),
        ({"n_blocks": 0}, OptionError, "--n-blocks 0"),
        ({"keep": ("output-head",)}, OptionError, "names no array"),
        ({"keep": ("predicted",)}, OptionError, "--keep predicted: the text of mine"),
        ({"dtype": "float8"}, OptionError, "--dtype 'float8' is none of"),
        ({"limit": 0}, OptionError, "--limit must be a positive number"),
        ({"layers_first": True}, DataError, r"the lengths add up to \d+.*rows come first"),
    ],
)
def test_options_that_make_no_sense(refuses, found, tmp_path, more, error, message):
    refuses(error, message, npz(tmp_path / "x.npz", found), more)


def test_layers_that_the_file_says_are_believed_and_not_contradicted(
    refuses, imported, found, tmp_path
):
    path = npz(tmp_path / "x.npz", found, layer_ids=[3, 1, 0, 2])
    entry = imported(path, dataclasses.replace(PLAIN, layer_ids=None))
    rows = entry.arrays["tokens"].read(torch.arange(3))
    assert torch.equal(rows[:, 0], found[0][1][:3, 0])  # layer 3 is the file's first one
    said = "says that its layers are 3,1,0,2"
    with pytest.raises(OptionError, match=said):
        imported(path, dataclasses.replace(PLAIN, layer_ids="0:4"))


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (np.zeros((78, 4, 31), np.float32), r"31 wide, and those of .* 32"),
        (np.zeros((78, 4, 32), np.int64), "expected hidden states in float16"),
        (np.zeros((78, 4, 32), np.complex64), "expected hidden states in float16"),
        (np.zeros((78, 4, 32), "V2"), "NumPy has no bfloat16"),
        (np.zeros((78, 4, 32, 1), np.float32), r"expected \(rows, layers, dim\)"),
        (np.zeros((4, 78, 32), np.float32), "If layers come first.*--layers-first"),
        (np.array([np.zeros((3, 4, 32)), None], object), "Python objects"),
    ],
)
def test_arrays_of_another_form(refuses, found, tmp_path, states, message):
    assert sum(len(ids) for ids, _ in found) == 78
    refuses(DataError, message, npz(tmp_path / "x.npz", found, hidden_states=states))


def test_compressed_archives_folders_of_arrays_and_byte_orders_are_read(imported, found, tmp_path):
    expected = imported(npz(tmp_path / "a.npz", found)).arrays["words"].read(torch.arange(9))
    np.savez_compressed(tmp_path / "b.npz", **flat(found))
    big = flat(found)["hidden_states"].astype(">f4")
    wide = flat(found)["hidden_states"].astype(np.float64)
    turned = np.asfortranarray(flat(found)["hidden_states"])
    npz(
        tmp_path / "c.npz",
        found,
        hidden_states=big,
        token_ids=flat(found)["token_ids"].astype(">i2"),
    )
    npz(tmp_path / "d.npz", found, hidden_states=wide)
    npz(tmp_path / "e.npz", found, hidden_states=turned)
    for name in "bcde":
        entry = imported(tmp_path / f"{name}.npz", cache=tmp_path / name)
        assert entry.manifest.compute_dtype == "float32"
        assert torch.equal(entry.arrays["words"].read(torch.arange(9)), expected)
    first = npz(tmp_path / "f.npz", found, hidden_states=np.swapaxes(big, 0, 1))
    options = dataclasses.replace(PLAIN, layers_first=True)
    entry = imported(first, options, cache=tmp_path / "f")
    assert torch.equal(entry.arrays["words"].read(torch.arange(9)), expected)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def test_nothing_is_ever_unpickled(refuses, found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"hidden_states": Evil()}, tmp_path / "evil.pt")
    refuses(DataError, "never loaded", tmp_path / "evil.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Evil()))
    refuses(DataError, "cannot be read", tmp_path / "plain.pt")
    np.save(tmp_path / "evil.npy", np.array([Evil()], object), allow_pickle=True)
    refuses(DataError, "cannot be read", tmp_path / "evil.npy")
    np.savez(tmp_path / "evil.npz", hidden_states=np.array([Evil()], object))
    refuses(DataError, "Python objects", tmp_path / "evil.npz")
    np.savez_compressed(tmp_path / "evil2.npz", hidden_states=np.array([Evil()], object))
    refuses(DataError, "Python objects", tmp_path / "evil2.npz")
    torch.save([1, 2], tmp_path / "list.pt")
    refuses(DataError, "expected tensors by name, found list", tmp_path / "list.pt")
    torch.save({"hidden_states": torch.eye(3).to_sparse()}, tmp_path / "sparse.pt")
    refuses(DataError, "sparse or quantized", tmp_path / "sparse.pt")
    assert not (tmp_path / "unpickled").exists()


def test_files_that_are_damaged_empty_or_not_there(refuses, found, tmp_path):
    refuses(MissingFileError, "no such file or folder", tmp_path / "none.npz")
    (tmp_path / "empty").mkdir()
    refuses(MissingFileError, "no file of hidden states there", tmp_path / "empty")
    whole = npz(tmp_path / "whole.npz", found).read_bytes()
    folder = vllm_folder(tmp_path / "v", found)
    safe = next(folder.glob("*.safetensors")).read_bytes()
    elmo = elmo_file(tmp_path / "whole.h5", [torch.zeros(2, 4, 32)]).read_bytes()
    for name, content in (
        *((f"a{suffix}", b"") for suffix in (".npz", ".npy", ".safetensors", ".pt", ".hdf5")),
        ("cut.npz", whole[: len(whole) // 2]), ("cut.safetensors", safe[:-9]),
        ("cut.hdf5", elmo[: len(elmo) // 2]), ("text.pt", b"not a tensor"),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        refuses(DataError, "cannot be read", tmp_path / name)
    middle = len(whole) // 2
    altered = whole[:middle] + bytes(one ^ 1 for one in whole[middle : middle + 9])
    (tmp_path / "altered.npz").write_bytes(altered + whole[middle + 9 :])
    refuses(DataError, "hidden_states.npy does not match its checksum", tmp_path / "altered.npz")
    (tmp_path / "x.csv").write_text("1,2")
    refuses(DataError, "expected a file of tensors: .safetensors", tmp_path / "x.csv")
    np.savez(tmp_path / "names.npz", other=np.zeros(3))
    refuses(DataError, "no tensor 'hidden_states'.*it holds other", tmp_path / "names.npz")


def test_parts_that_do_not_fit_each_other(refuses, found, tmp_path):
    path = tmp_path / "x.npz"
    refuses(DataError, "the lengths add up to 77", npz(path, found, lengths=[77]))
    refuses(DataError, "the lengths add up to", npz(path, found, lengths=[50, -6]))
    refuses(DataError, "list of whole numbers", npz(path, found, lengths=[78.0]))
    for dtype in ("float64", "bool", "S8"):
        ids = flat(found)["token_ids"].astype(dtype)
        refuses(DataError, "token_ids: expected a list of whole", npz(path, found, token_ids=ids))
    refuses(DataError, r"token_ids has the shape \(3,\)", npz(path, found, token_ids=[1, 2, 3]))
    refuses(DataError, "expected one of token_ids, word_ids", npz(path, found, word_ids=[0] * 78))
    odd = [(found[0][0], found[0][1][:, :3]), *found[1:]]
    refuses(DataError, "All sequences of a split must be alike", vllm_folder(tmp_path / "v", odd))
    half = [(found[0][0], found[0][1].half()), *found[1:]]
    refuses(DataError, "All sequences of a split must be alike", vllm_folder(tmp_path / "w", half))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite(bert, found, tmp_path, bad):
    broken = [states.clone() for _, states in found]
    broken[2][1, 3, 5] = bad
    ids = [one for one, _ in found]
    with pytest.raises(
        StateRangeError, match=r"layer 3 of examples train-0 to train-3 holds \d NaN"
    ):
        import_states(
            bert, "mine", broken, token_ids=ids, examples=sentences(4), options=PLAIN,
            cache=tmp_path,
        )  # fmt: skip
    broken[2][1, 3, 5] = 1e6
    wanted = dataclasses.replace(PLAIN, dtype="float16")
    with pytest.raises(StateRangeError, match=r"import_states\(.*dtype='bfloat16'"):
        import_states(
            bert, "mine", broken, token_ids=ids, examples=sentences(4), options=wanted,
            cache=tmp_path,
        )  # fmt: skip
    auto = dataclasses.replace(PLAIN, dtype="auto")
    (entry,) = import_states(
        bert, "mine", broken, token_ids=ids, examples=sentences(4), options=auto, cache=tmp_path
    )
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
            assert ("last" in entry.arrays) == ("cls" in entry.arrays) == False  # noqa: E712


def test_special_tokens_that_are_missing_are_asked_about(refuses, imported, found, tmp_path):
    bare = [(ids[1:-1], states[1:-1]) for ids, states in found]
    path = npz(tmp_path / "bare.npz", bare)
    refuses(OptionError, r"--special-tokens stripped .* or absent", path)
    mixed = npz(tmp_path / "mixed.npz", [*found[:2], *bare[2:]])
    refuses(DataError, "some sequences have the tokenizer's special tokens", mixed)
    for said in ("stripped", "absent"):
        options = dataclasses.replace(PLAIN, special_tokens=said)
        entry = imported(path, options, cache=tmp_path / said)
        folder = vllm_folder(tmp_path / f"v-{said}", bare)
        again = imported(folder, options, cache=tmp_path / f"again-{said}")
        whole = imported(npz(tmp_path / "w.npz", found), cache=tmp_path / f"whole-{said}")
        rows = [one.arrays["words"].read(torch.arange(9)) for one in (entry, again, whole)]
        assert torch.equal(rows[0], rows[1]) and torch.equal(rows[0], rows[2])
        assert entry.manifest.imported["special_tokens"] == said
        for full in (
            npz(path.with_name("w.npz"), found),
            vllm_folder(tmp_path / f"f{said}", found),
        ):
            with pytest.raises(OptionError, match=f"--special-tokens {said}: the token ids of"):
                imported(full, options, cache=tmp_path / "y")
        with pytest.raises(OptionError, match="--keep cls: there are no rows of special tokens"):
            imported(path, dataclasses.replace(options, keep=("cls",)), cache=tmp_path / "x")


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
    refuses(DataError, "4 arrays of states, and 3 word_offsets", states, word_offsets=right[:3])
    refuses(DataError, "4 arrays of states, and 3 token_ids", states, token_ids=right[:3])
    refuses(OptionError, "found ndarray", np.zeros((4, 3)))
    refuses(OptionError, "expected a path, or a list", None)


def test_splits_that_are_not_there(bert, found, tmp_path):
    states = {"train": [rows for _, rows in found]}
    ids = {"train": [one for one, _ in found]}
    examples = {"train": sentences(4), "dev": sentences(4)}
    where = {"examples": examples, "options": PLAIN, "cache": tmp_path}
    with pytest.raises(OptionError, match="no states of the split dev; found: train"):
        import_states(bert, "mine", states, token_ids=ids, splits=["train", "dev"], **where)
    with pytest.raises(ProbekitError, match="split of mine"):
        import_states(bert, "mine", {"../x": states["train"]}, token_ids=ids, **where)
    with pytest.raises(OptionError, match="arrays of one split, and 2 are imported"):
        import_states(bert, "mine", states["train"], token_ids=ids["train"], **where)
    with pytest.raises(OptionError, match="language modelling"):
        import_states(
            bert, "lm", states["train"], examples=[" ".join(words_of(3))] * 4, options=PLAIN,
            kind="language-modelling", cache=tmp_path,
        )  # fmt: skip
