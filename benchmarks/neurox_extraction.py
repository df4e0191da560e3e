"""Claim 5: extraction against NeuroX 1.0.9, which reads one sentence at a time in float32.

mpnet-base on the first 300 sentences of CoNLL-2003 dev. NeuroX writes HDF5, probekit an entry with
every layer of every word and the last layer of every subword. Loading the model is left out on
both sides, and what NeuroX prints is thrown away. The rate of matrix products in extraction's dtype
is measured in the same rounds. NeuroX pins old packages and runs without them:

    pip install --no-deps NeuroX==1.0.9
    python benchmarks/neurox_extraction.py --models MODELS --data DATA
"""

import argparse
import contextlib
import os
from pathlib import Path

from machine import matrix_product
from measure import Claim, alternate, at_least, report, timed
from sessions import conll_session, needed_operations
from subjects import MPNET, model_path, parser, require, work_folder

SENTENCES = 300
AIM = 8.0


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    with work_folder(args) as folder:
        report([measure(args, folder)], args)


def measure(args: argparse.Namespace, folder: Path) -> Claim:
    """Return the claim."""
    require(__file__, ["NeuroX"])
    from neurox.data.extraction import transformers_extractor as neurox

    path = model_path(args, MPNET)
    session, split = conll_session(args, MPNET, "dev", limit=SENTENCES, cache=folder)
    corpus = folder / "corpus.txt"
    lines = [" ".join(example.words) for example in split.examples]
    corpus.write_text("\n".join(lines) + "\n", encoding="utf-8")
    loaded = neurox.get_model_and_tokenizer(path, device=args.device)
    neurox.get_model_and_tokenizer = lambda *names, **options: loaded

    def theirs() -> None:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            neurox.extract_representations(
                path,
                str(corpus),
                str(folder / "neurox.hdf5"),
                device=args.device,
                output_type="hdf5",
            )

    product, operations = matrix_product(args.device)
    sides = {
        "NeuroX": timed(theirs),
        "probekit": timed(lambda: session.extract(split)),
        "product": timed(product),
    }
    timings = alternate(sides, args.rounds)
    needed = needed_operations(session.backbone, session.plan(split))
    return at_least(
        5,
        f"extraction of {SENTENCES} sentences against NeuroX 1.0.9, {MPNET}",
        timings.ratio("NeuroX", "probekit"),
        AIM,
        details=f"{timings.median('probekit'):.1f} s against {timings.median('NeuroX'):.1f} s; "
        "with nothing but arithmetic, at the rate of matrix products, probekit would have "
        f"{timings.ratio('NeuroX', 'product', operations / needed)} x",
    )


if __name__ == "__main__":
    main()
