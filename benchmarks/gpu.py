"""Claims 35, 36 and 42 to 45: what a GPU reaches, in under seven minutes.

Each figure is reported as soon as it is there. What would begin after ``--seconds`` is left out.

- 35, 36: extraction of every layer to disk, with the shape of roberta-large and that of an 8B
  decoder with as many blocks as fit (random weights): subwords and bytes a second, and what it
  takes beyond the forward pass alone on its own batches. The size of the batches is the one at
  which the forward pass is fastest. Where the disk is slower than 3.5 GB/s, its own rate is the
  aim: the same bytes, written by one ``dd``-like loop and synced.
- 42: the same extraction against forward hooks on every block, which copy each state to the host
  and write nothing, and against the loop by hand with ``output_hidden_states``, in the same dtype.
- 43: a solved depth curve of 33 layers and eight strengths on the device against scikit-learn on
  the processor, which fits some of the layers; made-up rows of two classes.
- 44: an epoch of every head that reads words, from memory.
- 45: a step of LoRA on SST-2 against that of a Trainer with peft.

    python benchmarks/gpu.py --models MODELS --data DATA --device cuda
    python benchmarks/gpu.py --models MODELS --data DATA --small      # the same on a processor
"""

import argparse
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import depth_sklearn
import finetuning
import torch
from extraction import BATCH, Setting
from measure import Claim, Ratio, alternate, report, timed
from sessions import all_batches, conll_session, run_forward
from subjects import DECODER, LARGE, MINILM, model_path, parser, work_folder
from torch.nn import ModuleList

from probekit import Location, TrainSpec, product, sweep
from probekit.extraction.opening import Session
from probekit.probe.heads import HEADS
from probekit.tasks import Split

SIZES = (4096, 16_384, 65_536)
"""Padded subwords of a batch that are tried."""

OVERHEAD, RATE = 0.10, 3.5e9
BLOCK = 2**24


@dataclass(frozen=True)
class Extent:
    """How much is run.

    Attributes:
        encoder: the model of claims 35, 42, 44 and 45.
        decoder: the model of claim 36; None leaves it out.
        sentences: of CoNLL-2003 by model.
        rows: of claim 43, with their layers and width.
        theirs: layers that scikit-learn fits.
        texts: of SST-2.
    """

    encoder: str
    decoder: str | None
    sentences: Mapping[str, int]
    rows: tuple[int, int, int]
    theirs: int
    texts: int


FULL = Extent(LARGE, DECODER, {LARGE: 6000, DECODER: 1500}, (4000, 33, 1024), 2, 1000)
SMALL = Extent(MINILM, None, {MINILM: 60}, (300, 3, 32), 1, 64)


def main() -> None:
    """Measure and report, part by part."""
    options = parser(__doc__)
    options.add_argument("--small", action="store_true", help="little of everything")
    options.add_argument("--seconds", type=float, default=360, help="when no part begins any more")
    options.set_defaults(rounds=3)
    args = options.parse_args()
    extent = SMALL if args.small else FULL
    start, failed = time.perf_counter(), []
    with work_folder(args) as folder:
        for part in PARTS:
            if time.perf_counter() - start > args.seconds:
                print(f"left out, as {args.seconds:g} seconds are over: {part.__doc__}")
                continue
            try:
                for claim in part(args, extent, folder):
                    report([claim], args)
            except Exception:  # the others can still be measured
                traceback.print_exc()
                failed.append(part.__name__)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def encoder(args: argparse.Namespace, extent: Extent, folder: Path) -> Iterator[Claim]:
    """Extraction of an encoder, also against hooks and the loop by hand."""
    run = Extraction.of(args, extent, extent.encoder, folder / "encoder")
    plain = {"hooks": timed(run.hooked), "loop": timed(run.by_hand)}
    timings = alternate({**run.sides, **plain}, args.rounds)
    yield run.claim(35, timings.median, timings.ratio("extraction", "forward"))
    yield Claim(
        number=42,
        title=f"extraction to disk against hooks, {extent.encoder}",
        aim=">= 1 x",
        found=f"{timings.ratio('hooks', 'extraction')} x the speed of hooks that write nothing, "
        f"{timings.ratio('loop', 'extraction')} x that of the loop by hand",
        reached=timings.ratio("hooks", "extraction").median >= 1,
        details=f"batches of {BATCH} sentences on the other sides, tokenised before",
    )


def decoder(args: argparse.Namespace, extent: Extent, folder: Path) -> Iterator[Claim]:
    """Extraction of a decoder."""
    if extent.decoder is None:
        return
    run = Extraction.of(args, extent, extent.decoder, folder / "decoder")
    timings = alternate(run.sides, args.rounds)
    yield run.claim(36, timings.median, timings.ratio("extraction", "forward"))
    shutil.rmtree(run.session.target.cache, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class Extraction(Setting):
    """One model over the first sentences of CoNLL-2003's train.

    Attributes:
        name: of the model.
        size: padded subwords of each batch.
    """

    name: str
    size: int

    @classmethod
    def of(cls, args: argparse.Namespace, extent: Extent, name: str, cache: Path) -> "Extraction":
        """Choose the size of batches at which the forward pass is fastest."""

        def opened(size: int) -> tuple[Session, Split]:
            limit = extent.sentences[name]
            return conll_session(args, name, "train", cache=cache, limit=limit, batch_tokens=size)

        backbone, seconds = opened(SIZES[0])[0].backbone, {}  # one model at a time
        for size in SIZES:
            session, split = opened(size)
            batches = all_batches(backbone, session.plan(split))
            sides = {"forward": timed(partial(run_forward, backbone, batches))}
            seconds[size] = alternate(sides, 1).median("forward")
        dtype = backbone.compute_dtype
        del backbone, batches, sides
        best = min(seconds, key=lambda size: seconds[size])
        session, split = opened(best)
        path = model_path(args, name)
        return cls(session, split, path, loop_dtype=dtype, name=name, size=best)

    @property
    def sides(self) -> dict[str, Callable[[], float]]:
        """Extraction, the forward pass alone, and as many bytes written one after the other."""
        nbytes = self.plan.nbytes
        block = memoryview(bytearray(os.urandom(2**16)) * (BLOCK // 2**16))
        path = self.session.target.cache.with_name("plain.bin")

        def write() -> None:
            with path.open("wb", buffering=0) as file:
                for start in range(0, nbytes, BLOCK):
                    file.write(block[: nbytes - start])
                os.fsync(file.fileno())

        return {"extraction": self.extract, "forward": timed(self.forward), "disk": timed(write)}

    @torch.no_grad()
    def hooked(self) -> None:
        """Run the plain model with a hook on each block, which copies its states to the host."""
        kept: list[torch.Tensor] = []

        def keep(module: torch.nn.Module, given: object, out: object) -> None:
            state = out[0] if isinstance(out, tuple) else out
            kept.append(state.to("cpu"))  # type: ignore[union-attr]

        model = self._plain()
        blocks = next(module for module in model.modules() if isinstance(module, ModuleList))
        hooks = [block.register_forward_hook(keep) for block in blocks]
        for batch in self.loop_made:
            kept.clear()
            model(**batch)
        for hook in hooks:
            hook.remove()

    @torch.no_grad()
    def by_hand(self) -> None:
        """Run the plain model with ``output_hidden_states``, and copy them to the host."""
        model = self._plain()
        for batch in self.loop_made:
            states = model(**batch, output_hidden_states=True).hidden_states
            torch.stack(states).to("cpu")

    def _plain(self) -> torch.nn.Module:
        return self.loop_parts[1].to(self.session.device)

    def claim(self, number: int, median: Callable[[str], float], beyond: Ratio) -> Claim:
        """Return what was found."""
        plan = self.plan
        rate, disk = (plan.nbytes / median(side) for side in ("extraction", "disk"))
        overhead = beyond.median - 1
        return Claim(
            number=number,
            title=f"extraction on an accelerator, {self.name}",
            aim=f"overhead <= {OVERHEAD:.0%}; >= {RATE / 1e9:g} GB/s, or the disk's own rate",
            found=f"{plan.tokens / median('extraction'):,.0f} subwords/s, {rate / 1e9:.2f} GB/s, "
            f"overhead {overhead:.1%}",
            reached=overhead <= OVERHEAD and rate >= min(RATE, disk),
            details=f"{self.session.backbone.info.n_blocks} blocks, {plan.tokens:,} subwords in "
            f"batches of {self.size:,}; forward pass alone "
            f"{plan.tokens / median('forward'):,.0f} subwords/s; the disk {disk / 1e9:.2f} GB/s",
        )


def depth_curve(args: argparse.Namespace, extent: Extent, folder: Path) -> Iterator[Claim]:
    """A solved depth curve against scikit-learn on the processor."""
    n_rows, n_layers, width = extent.rows
    generator = torch.Generator().manual_seed(0)
    layers = [torch.randn(n_rows, width, generator=generator) for _ in range(n_layers)]
    noise = torch.randn(n_rows, generator=generator)
    y = (sum(layer[:, 0] for layer in layers) / n_layers**0.5 + noise > 0).long()
    there, classes = [layer.to(args.device) for layer in layers], y.to(args.device)
    fitted = layers[: extent.theirs]
    tolerance, _ = depth_sklearn.equal_tolerance(fitted, y)
    sides = {
        "theirs": timed(lambda: [depth_sklearn.theirs(x, y, tolerance) for x in fitted]),
        "ours": timed(lambda: [depth_sklearn.ours(x, classes) for x in there]),
    }
    timings = alternate(sides, args.rounds)
    ratio = timings.ratio("theirs", "ours", n_layers / extent.theirs)
    yield Claim(
        number=43,
        title=f"a depth curve of {n_layers} layers x {len(depth_sklearn.STRENGTHS)} strengths on "
        "the device against scikit-learn on the processor",
        aim="none",
        found=f"{ratio} x",
        reached=None,
        details=f"{n_rows:,} rows of {width}; {timings.median('ours'):.1f} s, and "
        f"{timings.median('theirs'):.1f} s for {extent.theirs} of the layers at a tolerance of "
        f"{tolerance:g}",
    )


def epochs(args: argparse.Namespace, extent: Extent, folder: Path) -> Iterator[Claim]:
    """An epoch of every head that reads words."""
    cache = folder / "heads"
    session, split = conll_session(
        args, extent.encoder, "train", cache=cache, limit=extent.sentences[extent.encoder]
    )
    session.extract(split)
    heads = [name for name, head in HEADS.items() if head.reads == "rows"]
    base = TrainSpec(
        model=model_path(args, extent.encoder), task="conll", head="last", fit="adam", epochs=1,
        evals=1, hold_out=0.1,
    )  # fmt: skip
    found = {head: float("inf") for head in heads}
    for turn in range(args.rounds):
        records = sweep(
            product(base, {"head": heads}), out=folder / f"heads-{turn}.jsonl",
            location=Location(cache=cache), device=args.device,
        )  # fmt: skip
        for record in records:
            found[record.head] = min(found[record.head], record.train_seconds)
    yield Claim(
        number=44,
        title=f"an epoch of every head, {extent.encoder}",
        aim="none",
        found=", ".join(f"{head} {seconds:.2f} s" for head, seconds in found.items()),
        reached=None,
        details=f"{len(split.examples):,} sentences, nine tenths of them train; the least of "
        f"{args.rounds} rounds; heads that read the same layers share batches",
    )


def lora(args: argparse.Namespace, extent: Extent, folder: Path) -> Iterator[Claim]:
    """A step of LoRA against that of a Trainer."""
    model = model_path(args, extent.encoder)
    yield from finetuning.steps_of_lora(args, model, extent.texts, folder / "lora")


PARTS = (encoder, decoder, depth_curve, epochs, lora)
"""In the order in which they run."""


if __name__ == "__main__":
    main()
