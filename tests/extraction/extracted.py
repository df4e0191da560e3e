"""Extract the small corpus, and read all rows of an entry."""

import torch

from probekit.extraction import ExtractOptions, extract


def run(model, corpus, cache, split="train", *, overwrite=False, **options):
    wanted = ExtractOptions(**{"compute_dtype": "float32", "dtype": "float32", **options})
    (entry,) = extract(
        str(model), str(corpus), kind="tagging", label="2", splits=[split], cache=cache,
        options=wanted, device="cpu", overwrite=overwrite,
    )  # fmt: skip
    return entry


def all_rows(entry, array="words"):
    return entry.arrays[array].read(torch.from_numpy(entry.examples.rows)).float()
