"""Extract the small corpus, break that off, and read all rows of an entry."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from probekit.extraction import ExtractOptions, ExtractTarget, extract, open_session
from probekit.store.builder import EntryBuilder
from probekit.tasks import TextOptions

PLAIN = ExtractOptions(compute_dtype="float32", dtype="float32")


def plain(**options):
    """Options of which the dtypes are float32, unless they are given."""
    return ExtractOptions(**{"compute_dtype": "float32", "dtype": "float32", **options})


def entries_of(model, corpus, cache, splits=("train",), **more):
    """Extract splits of a folder of data, by options of `ExtractOptions` and of `extract`."""
    options = {name: more.pop(name) for name in [*more] if name in vars(PLAIN)}
    how = {"kind": "tagging", "label": "2", "device": "cpu"} | more
    return extract(
        str(model), str(corpus), splits=splits, cache=cache, options=plain(**options), **how
    )


def run(model, corpus, cache, split="train", **more):
    (entry,) = entries_of(model, corpus, cache, [split], **more)
    return entry


def key_of(model, corpus, kind="tagging", text=None, label="2", **options):
    """The key that the train split's entry has, which nothing is computed for."""
    own = TextOptions(kind=kind, text=text)
    target = ExtractTarget(
        model=str(model), task=str(corpus), own=own, label=label, splits=("train",), device="cpu"
    )
    session, (split,) = open_session(target, plain(**options))
    return session.address(split).key


@contextmanager
def interrupted_after(count, method="write_unit"):
    """Interrupt what the block does when it has written so many units."""
    calls, write = [], getattr(EntryBuilder, method)

    def counted(*given, **options):
        if len(calls) == count:
            raise KeyboardInterrupt
        calls.append(1)
        return write(*given, **options)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(EntryBuilder, method, counted)
        yield


def reference_rows(model, tokenizer, entry):
    """Every word's row, by transformers alone: one sentence at a time."""
    rows, layers = [], entry.arrays["words"].layers
    for i in range(len(entry.examples)):
        words = list(entry.examples.words(i))
        encoded = tokenizer(words, is_split_into_words=True)
        with torch.no_grad():
            ids = torch.tensor([encoded["input_ids"]])
            states = model(input_ids=ids, output_hidden_states=True).hidden_states
        owners = np.array([-1 if word is None else word for word in encoded.word_ids()])
        for word in range(len(words)):
            at = np.flatnonzero(owners == word)
            of_word = torch.stack([states[k][0, at] for k in layers])
            if not len(at):
                of_word = torch.zeros(len(layers), 1, of_word.shape[2])
            picked = {"first": of_word[:, 0], "mean": of_word.mean(1), "last": of_word[:, -1]}
            rows.append(picked[entry.manifest.pooling])
    return torch.stack(rows)


def all_rows(entry, array="words"):
    return entry.arrays[array].read(torch.from_numpy(entry.examples.rows)).float()
