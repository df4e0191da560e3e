"""Claim 22: forward passes with weights packed once against weights as torch has them.

On a CPU extraction packs the weights of linear layers for oneDNN's matrix products when it loads a
model (`probekit.backbone.placement`). torch packs a weight in bfloat16 anew in every call, and
gives float32 to another library (MKL on x86), which serves some processors worse. Forward passes
on extraction's own batches of the first sentences of CoNLL-2003 dev, in every dtype that the
processor has products for, loading left out.

    python benchmarks/packing.py --models MODELS --data DATA
"""

import argparse
from dataclasses import replace

import torch
from measure import Claim, alternate, report, timed
from sessions import all_batches, conll_session, run_forward
from subjects import MINILM, MPNET, parser, work_folder

from probekit.backbone import load_backbone
from probekit.backbone.loading import load_model
from probekit.base.machine import native_bfloat16

NUMBER = 22
SENTENCES = 500


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    dtypes = [torch.bfloat16, torch.float32] if native_bfloat16() else [torch.float32]
    report([measure(args, model, dtype) for model in (MPNET, MINILM) for dtype in dtypes], args)


def measure(args: argparse.Namespace, model: str, dtype: torch.dtype) -> Claim:
    """Return the claim of one model in one dtype."""
    with work_folder(args) as folder:
        session, split = conll_session(args, model, "dev", limit=SENTENCES, cache=folder)
        inspection = session.backbone.inspection
        batches = all_batches(session.backbone, session.plan(split))
    name = str(dtype).removeprefix("torch.")
    packed = load_backbone(inspection, compute_dtype=name)
    plain = replace(packed, model=load_model(inspection, dtype))
    timings = alternate(
        {
            "packed": timed(lambda: run_forward(packed, batches)),
            "plain": timed(lambda: run_forward(plain, batches)),
        },
        args.rounds,
    )
    ratio = timings.ratio("plain", "packed")
    return Claim(
        number=NUMBER,
        title=f"forward passes with packed weights against plain ones, {model}, {name}",
        aim="> 1 x",
        found=f"{ratio} x",
        reached=ratio.median > 1,
        details=f"{SENTENCES} sentences: {timings.median('packed'):.2f} s against "
        f"{timings.median('plain'):.2f} s",
    )


if __name__ == "__main__":
    main()
