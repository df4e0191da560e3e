"""The key of an entry, derived from the rule that ``cache/README.md`` writes down."""

import hashlib
import json
import re
import struct
from pathlib import Path

from transformers import AutoTokenizer

from tests.extraction.extracted import key_of, run

README = Path(__file__).parents[2] / "cache" / "README.md"


def fields_of(heading):
    """The names in the first column of the first table after a line of the README."""
    text = README.read_text("utf-8").partition(heading)[2].partition("\n|---|---|\n")[2]
    cells = [line.split("|")[1] for line in text.partition("\n\n")[0].splitlines()]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def sha256(value):
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def text_fingerprint(sentences):
    state = hashlib.sha256()
    for number, words in enumerate(sentences):
        for part in (f"train-{number}", str(len(words)), *words):
            state.update(struct.pack("<Q", len(part.encode())) + part.encode())
    return state.hexdigest()


def tokenizer_fingerprint(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    backend = {k: v for k, v in state.items() if k not in ("padding", "truncation", "version")}
    roles = {role: str(token) for role, token in tokenizer.special_tokens_map.items()}
    return sha256({"backend": backend, "roles": roles, "split specials": False})


def test_the_key_is_the_one_that_the_readme_describes(bert, tmp_path):
    sentences = [["Maria", "left", "Zürich"], ["the", "river"]]
    lines = "\n\n".join("\n".join(f"{word}\tO" for word in words) for words in sentences)
    (tmp_path / "mine.conll").write_text(lines + "\n", encoding="utf-8")
    options = {"max_length": 20, "layers": "0,2", "dtype": "auto"}
    entry = run(bert, tmp_path / "mine.conll", tmp_path / "cache", label="1", **options)
    weights = hashlib.sha256((Path(bert) / "model.safetensors").read_bytes()).hexdigest()
    tokenizer = tokenizer_fingerprint(bert)
    identity = {
        "architecture": "BertModel",
        "weights": weights,
        "adapter": None,
        "configuration": {
            "model_type": "bert", "hidden_size": 32, "num_hidden_layers": 3,
            "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 400,
            "max_position_embeddings": 64,
        },
        "word_tokenizer": tokenizer,
        "text_tokenizer": tokenizer,
        "token_types": True,
        "max_length": 64,
        "random_init": None,
    }  # fmt: skip
    request = {
        "format_version": 2, "model": identity, "text": text_fingerprint(sentences),
        "format": "zarr", "dtype": "auto", "compute_dtype": "float32", "overlong": "stride",
        "max_length": 20, "keep": ["tokens", "words"], "layers": [0, 2], "pooling": "first",
        "masking": None,
    }  # fmt: skip
    assert entry.manifest.request == request
    assert entry.manifest.key == sha256(request)
    assert entry.path.name == f"train-{sha256(request)[:8]}"
    later = {"tie", "tokens", "chat_template", "through", "imported"}
    assert request.keys() | later == fields_of("The key is the sha256")
    assert identity.keys() | {"part", "code", "quantize", "method", "tuned"} == fields_of(
        "The identity holds"
    )


def test_another_text_is_another_key(bert, tmp_path):
    def key(*sentences):
        lines = (json.dumps({"id": i, "words": words, "tags": ["O"] * 2}) for i, words in sentences)
        (tmp_path / "mine.jsonl").write_text("\n".join(lines), encoding="utf-8")
        return key_of(bert, tmp_path / "mine.jsonl", label="tags")

    first, second = ("1", ["the", "river"]), ("2", ["left", "bank"])
    others = ("1", ["ther", "iver"]), ("11", first[1])
    keys = [key(first, second), key(second, first), *(key(other, second) for other in others)]
    assert len(set(keys)) == 4
