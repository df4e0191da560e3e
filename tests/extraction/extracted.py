"""Extract the small corpus, break that off, and read all rows of an entry."""

import torch

from probekit.extraction import ExtractOptions, extract
from probekit.store.builder import EntryBuilder


def run(model, corpus, cache, split="train", *, overwrite=False, **options):
    wanted = ExtractOptions(**{"compute_dtype": "float32", "dtype": "float32", **options})
    (entry,) = extract(
        str(model), str(corpus), kind="tagging", label="2", splits=[split], cache=cache,
        options=wanted, device="cpu", overwrite=overwrite,
    )  # fmt: skip
    return entry


def interrupted_at(last):
    """Return a `write_unit` that writes the units before ``last``, and then no more."""
    write = EntryBuilder.write_unit

    def write_unit(builder, unit, *args, **kwargs):
        if unit == last:
            raise KeyboardInterrupt
        write(builder, unit, *args, **kwargs)

    return write_unit


def all_rows(entry, array="words"):
    return entry.arrays[array].read(torch.from_numpy(entry.examples.rows)).float()
