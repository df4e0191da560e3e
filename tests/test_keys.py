"""The keys of 42 records and of 12 cache entries, as they are.

A record's key says which runs are finished, an entry's which features are there. A key that changes
makes every finished record train again and every entry be extracted again, on every disk. So a
change of any value in ``RECORDS`` or ``ENTRIES`` is a decision, which is made together with
``FORMAT_VERSION`` of the cache, the ``numerics`` of a fitter, or a default that is meant to be
another, and which the changelog says. No change of the code's structure makes it.

Every key is that of a real run: extracted, trained, and read from the records file. None depends
on the machine, its folders, its device or the time: weights of models and of the saved head are
counted out, not drawn, and those that are drawn enter by their seed. Of the installed libraries
two things enter. The tokenizer's digest hashes the form in which ``tokenizers`` writes it, which
``test_the_tokenizer_is_written_as_it_was`` tells apart. And a model's weights are named, and its
options compared with their defaults, as ``transformers`` has them.
"""

import json
import struct
from dataclasses import fields

import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import AutoConfig, AutoModel

from probekit import (
    ExtractOptions,
    Location,
    TrainSpec,
    extract,
    load_records,
    run_baselines,
    sweep,
)
from probekit.train.option_groups import ALWAYS_WRITTEN
from tests.saved_heads import unsealed

RECORDS = {
    "defaults": "fa4dd4feafb7d8c101aa2d7da46c81f7735e4b37b66cc6be2c65699e9a08f0ec",
    "layers and strength": "7663b24fe3e69c8d5428e91d5a2684d09db2e5a2b29d7458c659342c2728b87a",
    "options of descent": "f91d868c1832936023cae84e71f106fe79e1168e1e12ee10cd41682faa3dcf3d",
    "adam without decay": "5e9d04ead3a2df2beb3770636d062937cddd37f958209845a370dac25d72a5ee",
    "crf over a depth": "97a5337ea4be9e57d0324a8476ab95145d6e911f561211d3126ba7b3f45527d0",
    "shots": "54775a25ca0a62d0e46eb047a554f4fb29bed206249143e67b51f11e58143e65",
    "fraction and hold-out": "6eb762957e67a2fa40bca210cf722f20510b26f5a7665d6b4f10792043570f2d",
    "control of another column": "a43f957e9cc46c3851f064745ed01990224e22f75ffc20952d5e7dfc97ee2ffd",
    "fitted on dev": "229fb411dd8c388005b8ee420ae3e4696bdc2fa495fc6c07e2605d5d06901944",
    "texts as published": "4c823569a926ddab23010a8814a7c42be49789802a1c52598a822526097a5648",
    "texts by first token": "25cc67d3236d24222f3354009b91c87c04c08034a5d8a6bdb327aa71786cefd3",
    "regression": "ca056b771ad575e1896c38a804cd36581d8782633e11961d8da0d6d39adbdf2e",
    "language modelling": "07aa6b6fec27692d94960271ca037798ba7281c408a8ff4f1ffdff60f389a688",
    "frozen fusion": "9fc82a1a1748840d16f5835458e34856a40a8dd1e006ee4bdf4cffdd33af4961",
    "continued": "a102147ef7f7d3948718575e36ab9354fd469ffcb55e7baaadacd4e6cac9346b",
    "zero-shot": "3fd5188154d2677e33c4b5be76d4971b77a7d66ac08c415439a9a2af3a47e684",
    "average of chosen layers": "3a2845eec57e941898204f3ba2be257c05f4953edeaced4b20e2a0c43c4121a6",
    "folds of groups": "642252847c25a5bcf6aac12934952d0578a2ec2bfbc0be7339e70cea1426e4dc",
    "attention over depth": "5a9f2f54c44820b15c848b2becd4e7e7f814f2e18af2bbfbab04e95ef826bdfe",
    "over depths": "f3e51472b639fef2540c29425a11f52ab4f55718875b0bda7d82069bf1a6bf55",
    "by head of attention": "f0d64cd7a4e14ae250733b2a3f351505db2b8d71f1e03c5bd87955e930611877",
    "warm steps": "87c8d16e0dbd4b3e957ed92275190aa3219a32c8918da4c6ea0b960714db0f95",
    "no duplicates": "f76483c998d8bb821e55b82b8fffd6cdb607e18eee832c6a75a1838049839cab",
    "hidden decoder": "dee13237f3f09d11112d6518840b5431185ecfed7853c788b0e6d790a2db9afc",
    "texts as rows": "e94933bd4ed19bd98e610bbce19b407baeaaa5ed4d4235072114a0ac4bf90845",
    "texts of tokens": "45aba7c0e5f37428ac6990ded4419d465c04866c9f701b9a79fc62ceef78258c",
    "pairs by steps": "0a5cce6204c0bac3a4d6958f979b60fb29eb35c806b4c0cf105daae35e228316",
    "words of another layer": "01edff7f995dc86010e3de5b614642ecaa325a92f37a8348f24cc28a0a90040c",
    "of a decoder": "2cb6e51a170b3a5e454b7499c5b86eba68130c56291693505713c3cab193a740",
    "frozen": "c07665c624e3d611cdbf94bb10c5e18b43aec93e0bd6a792c3b9fb30347f31ca",
    "full": "4451ddb3cf1404ba1c05b27816ebc08991dd4d2a6f949394ff7b2b563a8f3507",
    "bitfit": "87e0a9e4ee6157aea07da1b2c9b3730603268e5cc7c820a3f1529a7122976f80",
    "lora": "56cc4ae6230e4fe34a5d963430f7744b58b4358e0579a5ae58e7723df08b0c42",
    "adapter": "9ad18347230914a7b1da3c67d1390ce9caf52a599421046d4808b0626e317742",
    "prompt": "a63dd3feea9a60eda64e70a7cb2c6854817eb577e3031c80ec48512292f671df",
    "prefix": "28e944abebe5afdde22b17e03e19b34a619dea1b9010b4771368e0fc80805405",
    "diff-prune": "6313bbdeb8b8527ad167ec228b57c5da28b7f0550e80230b4feea5212c72ddc7",
    "from what is solved": "4ab4a1a0d69bbf3814e504a53192ac845c3e50baec4bd8d2c1800ff38d1cc90a",
    "online code": "cc208b7e74524452a5f1108d0ab403e7653e7b295717c3e4cead72b17d43114a",
    "majority": "8e088a29acf6ddc60c3fd3fd75deafb29092ca588dad775a33e2a414854e9ea6",
    "memorised": "3d9ec18cee038c97ff9f3cffdf70780a343b26d4f7216f516400fcae986cdfc2",
    "trial of a search": "ec7346af0d26443176adb1e45e668aeb0cb193ecb2e50642ec9484024a14a5e2",
}
"""Key of every record by what it is, in the order of ``RUNS``, then those that are no plain run."""

ENTRIES = {
    "encoder": "84b892eb0a2b63916be7b5bc43bf2ed7d6533eb03fa8b4ab7825da42dcfffe48",
    "decoder": "50b51ca34e4442cc93e3fda2a0c900ce7080ea08cacb98c028d32ae7a1e02744",
    "words": "ffb151433e6dced2b42c8ddf4d2efcd344150d5991eb63deb8d8d81acf99055f",
    "texts": "cf6ed13e0bb96b9a84e9fc0d3cd19ebfc635e85bac2a70aa9f2118760447c249",
    "language modelling": "cd57df74a54949db7d28c25f601d8a51f6e81e62b918f5da349fc5578ea7a559",
    "random weights": "36e86c68df0bf68213cda61c61655d46c471616b77f0ac8f8a0a5cf29f9be47d",
    "regression": "b608732288981f0313ee05b9a8b269a159af4aa3510ba09dc31c7e4162dc1fde",
    "int8": "40b636e04f4797903755ed350e634dad0ba06b8a5cf68266f842758bce7fc395",
    "whole layers": "ca3bcb4f7263fc8d14bbd6a02855b7396ab8ea4c9b7d9f4565b16fc1bddaba04",
    "last token": "3f1b1f14894f4f1f31ed5eaca282959a28134f010d6af41372e0debcb72f62d5",
    "first subword": "096c12364f30e1d0cfc12ea93a1a6aba7c15731576b8590c569caf95fbbc2bd4",
    "int8 in one file": "eaa2b6c378e096d55a7b0743e95df8b39e85182cd535ac8ac71e036513e8e3a7",
}
"""Key of the train split's entry by what it is: see ``EXTRACTIONS``."""

TOKENIZER = "e9bce581a15d540c9870c5795fedb9ba4e976ba9ae7fd70c841b9ef00d1fc8f9"
"""Digest of the tokenizer of all models, as the installed ``tokenizers`` writes it."""

WORDS = (
    *("the", "report", "said", "Maria", "left", "Paris", "for", "the"),
    *("river", "bank", "near", "Lake", "Geneva", "on", "Monday"),
)
SPECIALS = {
    "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}  # fmt: skip
CONFIGS = {
    "encoder": {
        "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 8,
        "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
        "vocab_size": 24, "max_position_embeddings": 32,
    },
    "decoder": {
        "model_type": "gpt2", "architectures": ["GPT2Model"], "n_embd": 8, "n_layer": 2,
        "n_head": 2, "n_inner": 12, "vocab_size": 24, "n_positions": 32,
    },
}  # fmt: skip

EXTRACTIONS = {
    "encoder": ("encoder", "words", {}),
    "decoder": ("decoder", "prose", {"every": 2, "tie": "input"}),
    "words": (
        "encoder",
        "words",
        {
            "format": "hdf5", "dtype": "float16", "compute_dtype": "float32", "layers": "1:3",
            "keep": ("words",), "pooling": "mean", "overlong": "truncate", "max_length": 20,
        },
    ),
    "texts": ("encoder", "texts", {"keep": ("cls", "mean", "tokens"), "dtype": "float32"}),
    "language modelling": (
        "encoder", "prose", {"passes": 2, "mask_seed": 5, "tie": "input", "dtype": "bfloat16"}
    ),
    "random weights": ("encoder", "words", {"random_init": 3}),
    "regression": ("encoder", "scores", {}),
    "int8": ("encoder", "words", {"dtype": "int8"}),
    "whole layers": ("encoder", "words", {"layers": "0", "keep": ("words",), "format": "hdf5"}),
    "last token": ("decoder", "texts", {"keep": ("last",)}),
    "first subword": ("encoder", "words", {"pooling": "first", "max_length": 16}),
    "int8 in one file": ("encoder", "texts", {"dtype": "int8", "format": "hdf5"}),
}  # fmt: skip
"""Model, data and options of every extraction."""

READ_AS = {
    "words": {}, "texts": {"kind": "sentence"},
    "scores": {"kind": "regression", "text": "text,other"}, "prose": {"kind": "language-modelling"},
}  # fmt: skip
LABELS = {"words": "2", "texts": "label", "scores": "score", "prose": None}

SAVED = {"head": "attention-fusion", "decoder": "linear:dropout=0"}
"""The head that some runs start from."""

RUNS = {
    "defaults": ("encoder", {"head": "last"}),
    "layers and strength": (
        "words", {"head": "mean", "layers": "1,2", "l2": 0.5, "normalize": "standardize"}
    ),
    "options of descent": (
        "encoder",
        {
            "head": "dwatt:d_pos=8:bottleneck=0.25", "decoder": "linear:dropout=0.3", "lr": 2e-3,
            "rates": (("mixing", 0.05),), "epochs": 2, "batch_size": 4, "evals": 3,
            "weight_decay": 0.1, "schedule": "constant",
        },
    ),
    "adam without decay": (
        "encoder",
        {
            "head": "extra-layers:n=1", "decoder": "mlp:hidden=8", "optimizer": "adam", "epochs": 1,
            "normalize": "layernorm",
        },
    ),
    "crf over a depth": (
        "encoder",
        {"head": "p32", "decoder": "crf:hidden=6", "depth": 1, "fit": "adam", "epochs": 1},
    ),
    "shots": ("encoder", {"head": "mean", "shots": 6, "seed": 7, "select": "cv:2"}),
    "fraction and hold-out": ("encoder", {"head": "mean", "fraction": 0.5, "hold_out": 0.25}),
    "control of another column": (
        "encoder", {"head": "scalar-mix", "label": "1", "fit": "lbfgs", "control": 1}
    ),
    "fitted on dev": ("encoder", {"head": "last", "fit_on": "dev", "hold_out": 0.25}),
    "texts as published": (
        "texts", {"head": "last", "as_published": True, "rate_from": "published", "epochs": 1}
    ),
    "texts by first token": ("texts", {"head": "concat", "pooling": "cls", "epochs": 1}),
    "regression": ("regression", {"head": "mean"}),
    "language modelling": (
        "language modelling", {"head": "last", "decoder": "vocabulary:trained=true", "epochs": 1}
    ),
    "frozen fusion": ("encoder", {**SAVED, "fusion_from": "saved", "freeze_fusion": True}),
    "continued": ("encoder", {**SAVED, "init_from": "saved", "epochs": 1, "lr": 1e-3}),
    "zero-shot": ("encoder", {**SAVED, "init_from": "saved", "shots": 0}),
    "average of chosen layers": ("encoder", {"head": "mean", "layers": "0,2", "select": "dev"}),
    "folds of groups": ("regression", {"head": "last", "select": "cv:3", "group": "other"}),
    "attention over depth": ("encoder", {"head": "attention-fusion", "depth": 1, "fit": "lbfgs"}),
    "over depths": ("encoder", {"head": "depth-lstm", "epochs": 1}),
    "by head of attention": ("encoder", {"head": "laya", "epochs": 1, "batch_size": 6}),
    "warm steps": ("encoder", {"head": "concat", "epochs": 1, "warmup": 0.5, "evals": 2}),
    "no duplicates": ("encoder", {"head": "last", "drop_duplicates": True, "hold_out": 0.25}),
    "hidden decoder": ("encoder", {"head": "mean", "decoder": "mlp:hidden=4", "epochs": 1}),
    "texts as rows": ("texts", {"head": "mean", "pooling": "mean", "normalize": "standardize"}),
    "texts of tokens": ("texts", {"head": "p32", "pooling": "mean", "fit": "adam", "epochs": 1}),
    "pairs by steps": ("regression", {"head": "dwatt", "epochs": 1, "seed": 3}),
    "words of another layer": ("words", {"head": "last", "depth": 1, "l2": 1e-3}),
    "of a decoder": ("decoder", {"head": "last", "epochs": 1}),
    **{
        f"{method.partition(':')[0]}": (
            "encoder", {"head": "last", "method": method, "epochs": 1, "batch_tokens": 128}
        )
        for method in (
            *("frozen", "full", "bitfit", "lora:rank=2", "adapter:size=4", "prompt:length=2"),
            *("prefix:length=2", "diff-prune"),
        )
    },
    "from what is solved": (
        "encoder",
        {"head": "mean", "method": "bitfit", "start": "solved", "epochs": 1, "shots": 8},
    ),
}  # fmt: skip
"""Entry and options of every run; ``saved`` stands for the folder of the saved head."""


def counted(shapes):
    """A safetensors file whose values are counted: the same bytes on every machine."""
    header, parts, start = {}, [], 0
    for place, name in enumerate(sorted(shapes)):
        size = int(np.prod(shapes[name], dtype=np.int64))
        values = ((np.arange(size, dtype=np.int64) * 37 + place * 11) % 101 - 50) / 256
        parts.append(values.astype("<f4").tobytes())
        stop = start + len(parts[-1])
        header[name] = {"dtype": "F32", "shape": list(shapes[name]), "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def write_model(folder, config):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    model = AutoModel.from_config(AutoConfig.from_pretrained(folder))
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    (folder / "model.safetensors").write_bytes(counted(shapes))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()), "utf-8")
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 32, **SPECIALS}
    (folder / "tokenizer_config.json").write_text(json.dumps(about), "utf-8")


def tokenizer():
    """A tokenizer of whole words, in the form that the library ``tokenizers`` reads."""
    vocabulary = [*SPECIALS.values(), ".", *dict.fromkeys(WORDS)]
    special = {
        "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
        "special": True,
    }  # fmt: skip
    ends = {
        name: {"id": name, "ids": [vocabulary.index(name)], "tokens": [name]}
        for name in ("[CLS]", "[SEP]")
    }
    first = [_special("[CLS]", 0), _sequence("A", 0), _special("[SEP]", 0)]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": name, **special}
            for number, name in enumerate(SPECIALS.values())
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing", "single": first,
            "pair": [*first, _sequence("B", 1), _special("[SEP]", 1)], "special_tokens": ends,
        },
        "decoder": None,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: number for number, word in enumerate(vocabulary)},
        },
    }  # fmt: skip


def _special(name, kind):
    return {"SpecialToken": {"id": name, "type_id": kind}}


def _sequence(name, kind):
    return {"Sequence": {"id": name, "type_id": kind}}


def sentence(number):
    return [WORDS[(number + 3 * place) % len(WORDS)] for place in range(3 + number * 7 % 9)]


def write_data(root):
    """Write words in three splits, and texts, scored pairs and running text in two."""
    for start, (split, count) in enumerate({"train": 24, "dev": 8, "test": 6}.items()):
        numbers = range(5 * start, 5 * start + count)
        texts = [" ".join(sentence(number)) for number in numbers]
        tagged = (
            "\n".join(
                f"{word}\tN{len(word) % 3}\t{'B-LOC' if word[0].isupper() else 'O'}"
                for word in sentence(number)
            )
            for number in numbers
        )
        _write(root / "words" / f"{split}.conll", "\n\n".join(tagged))
        if split == "test":
            continue
        labelled = [f"{text}\t{'long' if len(text) > 30 else 'short'}" for text in texts]
        _write(root / "texts" / f"{split}.tsv", "\n".join(["text\tlabel", *labelled]))
        scored = [f"{text}\t{text[::-1]}\t{len(text) / 8}" for text in texts]
        _write(root / "scores" / f"{split}.tsv", "\n".join(["text\tother\tscore", *scored]))
        _write(root / "prose" / f"{split}.txt", "\n\n".join(texts))


def _write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes((text + "\n").encode())


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with the models and the data."""
    folder = tmp_path_factory.mktemp("keys")
    write_data(folder)
    for name, config in CONFIGS.items():
        write_model(folder / name, config)
    return folder


@pytest.fixture(scope="module")
def entries(root):
    """The entry of the train split of every extraction; runs read the others besides."""
    found, trained = {}, {entry for entry, _ in RUNS.values()}
    for name, (model, data, options) in EXTRACTIONS.items():
        split_entries = extract(
            str(root / model), str(root / data), label=LABELS[data], **READ_AS[data],
            splits=None if name in trained else ["train"], device="cpu",
            cache=root / "caches" / name, options=ExtractOptions(**options),
        )  # fmt: skip
        (found[name],) = (one for one in split_entries if one.manifest.split == "train")
    return found


def where(root, entry):
    """The options of a run on an entry that say what is read, and the entry's place."""
    model, data, _ = EXTRACTIONS[entry]
    asked = {"model": str(root / model), "task": str(root / data), "label": LABELS[data]}
    return asked, Location(cache=root / "caches" / entry, **READ_AS[data])


@pytest.fixture(scope="module")
def saved(root, entries):
    """The saved head, its values counted in place of those that this machine trained."""
    asked, location = where(root, "encoder")
    spec = TrainSpec(**asked, **SAVED, epochs=1)
    folder = root / "saved"
    sweep([spec], out=root / "saved.jsonl", location=location, device="cpu", save=folder)
    weights = folder / "model.safetensors"
    shapes = {name: value.shape for name, value in load_file(weights).items()}
    weights.write_bytes(counted(shapes))
    unsealed(folder)
    return str(folder)


@pytest.fixture(scope="module")
def records(root, saved):
    """The key of every record, as the records file has it."""
    found = {}
    for entry in dict.fromkeys(entry for entry, _ in RUNS.values()):
        asked, location = where(root, entry)
        runs = {name: options for name, (of_entry, options) in RUNS.items() if of_entry == entry}
        plan = []
        for options in runs.values():
            start = {one: saved for one in options if one in ("fusion_from", "init_from")}
            plan.append(TrainSpec(**asked | options | start))
        out = root / "runs.jsonl"
        written = sweep(plan, out=out, location=location, device="cpu")
        assert {record.key for record in written} <= {one.key for one in load_records(out)}
        found |= {name: record.key for name, record in zip(runs, written, strict=True)}
    return found | baselines(root) | {"trial of a search": trial(root)}


def baselines(root):
    """The keys of the baselines that have a record of their own."""
    asked, location = where(root, "encoder")
    out = root / "baselines.jsonl"
    run_baselines([TrainSpec(**asked, head="last")], out=out, location=location, device="cpu")
    written = load_records(out)
    (code,) = (record.key for record in written if record.protocol.startswith("online code"))
    return {
        "online code": code,
        **{one.head: one.key for one in written if one.head in ("majority", "memorised")},
    }


def trial(root):
    """The key of the first trial at the head's own rate."""
    asked, location = where(root, "encoder")
    out = root / "search.jsonl"
    spec = TrainSpec(**asked, head="p32", lr="search", epochs=1, evals=1)
    sweep([spec], out=out, location=location, device="cpu")
    trials = [record for record in load_records(out) if record.trial]
    (key,) = (one.key for one in trials if (one.lr, one.seed) == (1e-2, 1000))
    return key


def test_the_keys_of_records_are_what_they_were(records):
    assert records == RECORDS
    assert len(set(records.values())) == 42


def test_every_option_of_training_is_in_a_record():
    given = {name for _, options in RUNS.values() for name in options}
    # of every run, or written only if set: tests/train/sweeps/test_option_groups.py
    assert given >= ALWAYS_WRITTEN - {"model", "task"}


def test_the_keys_of_entries_are_what_they_were(entries):
    found = {name: entries[name].manifest.key for name in ENTRIES}
    assert found == ENTRIES
    assert {entries[name].path.name for name in ENTRIES} == {
        f"train-{key[:8]}" for key in ENTRIES.values()
    }


def test_every_option_of_extraction_is_in_an_entry():
    given = {name for name in ENTRIES for name in EXTRACTIONS[name][2]}
    no_part = {"limit", "batch_tokens"}  # the texts are; how many are read at once is not
    # in a key only if set: tests/backbone/test_encoder_halves.py, test_quantized.py, and
    # tests/extraction/test_tokens.py and test_points.py
    later = {"part", "quantize", "only", "points"}
    assert {field.name for field in fields(ExtractOptions)} == given | no_part | later


def test_the_tokenizer_is_written_as_it_was(entries):
    """Where this alone fails, ``tokenizers`` writes another form, and all keys follow it."""
    identity = entries["encoder"].manifest.request["model"]
    assert identity["word_tokenizer"] == identity["text_tokenizer"] == TOKENIZER
