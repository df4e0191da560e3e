"""States as other programs export them: plain transformers, and files in the forms of others."""

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer

from probekit.backbone.forward import quiet_transformers
from probekit.backbone.model_files import keep_words_apart
from probekit.extraction import ImportOptions
from tests.extraction.corpus import WORDS


def words_of(i, longest=11):
    return [WORDS[(i + 3 * j) % len(WORDS)] for j in range(1 + (i * 7) % longest)]


def sentences(count=12):
    """Sentences of words with their tags, of which each word has one tag throughout."""
    tags = ["B-LOC", "O"]
    return [
        (words, [tags[word not in ("Paris", "Lake")] for word in words])
        for words in (words_of(i) for i in range(count))
    ]


def texts(count=12):
    return [(" ".join(words_of(i)), "long" if (i * 7) % 11 > 4 else "short") for i in range(count)]


def pairs(count=12):
    return [
        ((" ".join(words_of(i)), " ".join(words_of(i + 5))), "yes" if i % 2 else "no")
        for i in range(count)
    ]


FOUR = [words for words, _ in sentences(4)]
PLAIN = ImportOptions(layer_ids="0:4", dtype="float32")
"""How states of four layers are imported."""


class Exporter:
    """A model as transformers has it, which reads one input at a time, alone."""

    def __init__(self, folder, dtype=torch.float32):
        with quiet_transformers():
            self.model = AutoModel.from_pretrained(folder, dtype=dtype).eval()
            self.text_tokenizer = AutoTokenizer.from_pretrained(folder)
            self.tokenizer = AutoTokenizer.from_pretrained(folder)
        keep_words_apart(self.tokenizer, str(folder))

    def encode(self, item, **options):
        """Return the encoding of words, a text, or two texts."""
        if isinstance(item, list):
            return self.tokenizer(item, is_split_into_words=True, return_tensors="pt", **options)
        given = item if isinstance(item, tuple) else (item,)
        return self.text_tokenizer(*given, return_tensors="pt", **options)

    def states(self, encoded):
        """Return the hidden states, (rows, layers, dim)."""
        takes = ("input_ids", "token_type_ids")
        given = {name: encoded[name] for name in takes if name in encoded}
        with torch.no_grad():
            found = self.model(**given, output_hidden_states=True).hidden_states
        return torch.stack(found)[:, 0].transpose(0, 1).contiguous()

    def tokens(self, item, **options):
        """Return token ids and states."""
        encoded = self.encode(item, **options)
        return encoded["input_ids"][0], self.states(encoded)

    def of_words(self, words, pooling="first"):
        """Return a row for each word, (words, layers, dim)."""
        encoded = self.encode(words)
        owners = np.array([-1 if one is None else one for one in encoded.word_ids(0)])
        states, rows = self.states(encoded), []
        for word in range(len(words)):
            own = states[np.flatnonzero(owners == word)]
            if not len(own):  # the tokenizer deletes the word
                own = torch.zeros(1, *states.shape[1:])
            rows.append(own.mean(0) if pooling == "mean" else own[0 if pooling == "first" else -1])
        return torch.stack(rows)


def vllm_folder(folder, found, names="cmpl-{hash:08x}-0.safetensors"):
    """Write what vLLM's ExampleHiddenStatesConnector leaves: a file for each request.

    ``hidden_states`` (tokens, layers, hidden size) and ``token_ids``, and beside each file the
    empty ``.lock`` that its clients wait for. Names are of requests, and say nothing of the order.
    """
    folder.mkdir(parents=True)
    for number, (ids, states) in enumerate(found):
        name = names.format(hash=(number * 2654435761) % 2**32, number=number)
        tensors = {"hidden_states": states.contiguous(), "token_ids": ids.contiguous()}
        save_file(tensors, folder / name)
        (folder / f"{name}.lock").touch()
    return folder
