"""Extract the small corpus, break that off, and read all rows of an entry."""

import threading

import torch

from probekit.extraction import ExtractOptions, ExtractTarget, extract, open_session
from probekit.store.builder import EntryBuilder
from probekit.tasks import TextOptions


def run(
    model, corpus, cache, split="train", *, label="2", overwrite=False, restart=False, **options
):
    wanted = ExtractOptions(**{"compute_dtype": "float32", "dtype": "float32", **options})
    (entry,) = extract(
        str(model), str(corpus), kind="tagging", label=label, splits=[split], cache=cache,
        options=wanted, device="cpu", overwrite=overwrite, restart=restart,
    )  # fmt: skip
    return entry


def key_of(model, corpus, kind="tagging", text=None, label="2", **options):
    """The key that the train split's entry has, which nothing is computed for."""
    wanted = ExtractOptions(**{"compute_dtype": "float32", "dtype": "float32", **options})
    own = TextOptions(kind=kind, text=text)
    target = ExtractTarget(
        model=str(model), task=str(corpus), own=own, label=label, splits=("train",), device="cpu"
    )
    session, (split,) = open_session(target, wanted)
    return session.address(split).key


def interrupted_after(count, method="write_unit"):
    """Return a `write_unit`, or `copy_unit`, that writes so many units, and then no more."""
    write = getattr(EntryBuilder, method)

    def write_unit(builder, *args, **kwargs):
        if len(builder.marks) == count:
            raise KeyboardInterrupt
        write(builder, *args, **kwargs)

    return write_unit


def finishing_at_once(monkeypatch):
    """Let two shards wait for each other before they join; return a list with an item per seal."""
    sealed, together = [], threading.Barrier(2)
    complete, join = EntryBuilder.complete, EntryBuilder.join

    def counted(*given):
        sealed.append(1)
        return complete(*given)

    def at_once(builder):
        together.wait()
        return join(builder)

    monkeypatch.setattr(EntryBuilder, "complete", counted)
    monkeypatch.setattr(EntryBuilder, "join", at_once)
    return sealed


def all_rows(entry, array="words"):
    return entry.arrays[array].read(torch.from_numpy(entry.examples.rows)).float()
