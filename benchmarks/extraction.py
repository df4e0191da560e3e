"""Claims 1 to 4: extraction to disk against the loop that users write by hand.

These sides, one after the other in every round, on the same sentences (CoNLL-2003 dev):

- the loop: float32, data-set order, batches of 32, ``output_hidden_states=True``, nothing written;
- the loop's forward pass alone, without hidden states, its batches tokenised before;
- extraction: tokenising, every layer of every word and the last layer of every subword, checksums,
  a sealed entry on the disk;
- the forward pass alone on extraction's own batches in its dtype, made before, nothing kept.

The loop may read the first sentences only (``--loop-limit``): it is compared by subwords per
second. Loading the model is left out on every side. The rate of matrix products in
extraction's dtype is measured in the same rounds (1024 x 768 times 768 x 3072); extraction's
arithmetic counts real subwords only, see `sessions.needed_operations`.

    python benchmarks/extraction.py mpnet-base --models MODELS --data DATA
"""

import cProfile
import inspect
import os
import pstats
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import cached_property

import torch
from machine import PRODUCT, matrix_product, product_dtype
from measure import Claim, Timings, alternate, report, timed
from sessions import all_batches, conll_session, needed_operations, run_forward
from subjects import LARGE, MINILM, MPNET, model_path, parser, work_folder
from transformers import AutoModel, AutoTokenizer, BatchEncoding

from probekit.backbone import Inspection
from probekit.data.batches import TokenBatch
from probekit.extraction.compute import compute_unit, tokens_per_second
from probekit.extraction.opening import Session
from probekit.extraction.plan import Plan
from probekit.store.builder import EntryBuilder
from probekit.tasks import Split

BATCH = 32
AIMS = {MPNET: (6.5, 0.95), MINILM: (4.8, 0.90), LARGE: (6.5, 0.95)}
"""Per model: times as fast as the loop, and the share of the forward pass."""

RATE_AIM = 0.62
PARTS: Mapping[str, tuple[Callable, ...]] = {
    "the model, its rows gathered": (compute_unit,),
    "waiting for the disk": (Future.result, Executor.__exit__),
    "the measurement for the forecast": (tokens_per_second,),
    "tokenising": (Inspection.encode,),
    "sealing": (EntryBuilder.complete,),
}
"""What extraction's main thread does, one after the other."""

_CUMULATIVE = 3  # of a line of `pstats.Stats.stats`
PROFILED = 8
SHOWN = 8
"""Batches of the profile, about, and how many kinds of operations it shows."""


@dataclass(frozen=True)
class Setting:
    """One model over one split, ready to run."""

    session: Session
    split: Split
    path: str
    loop_limit: int | None = None
    loop_dtype: torch.dtype = torch.float32

    @cached_property
    def plan(self) -> Plan:
        """The batches and rows of extraction."""
        return self.session.plan(self.split)

    def extract(self) -> float:
        """Write an entry; return the seconds, without those of deleting the one before."""
        shutil.rmtree(self.session.target.cache, ignore_errors=True)
        return timed(lambda: self.session.extract(self.split))()

    @cached_property
    def batches(self) -> list[TokenBatch]:
        """What extraction gives to the model."""
        return all_batches(self.session.backbone, self.plan)

    def forward(self) -> None:
        """Run the model over extraction's batches and keep nothing."""
        run_forward(self.session.backbone, self.batches)

    @cached_property
    def loop_parts(self) -> tuple:
        """The tokenizer and the model of the loop."""
        return (
            AutoTokenizer.from_pretrained(self.path),
            AutoModel.from_pretrained(self.path, dtype=self.loop_dtype).eval(),
        )

    def loop_batches(self) -> Iterator[BatchEncoding]:
        """Tokenise the sentences as users do."""
        words = [list(example.words) for example in self.split.examples[: self.loop_limit]]
        for start in range(0, len(words), BATCH):
            yield self.loop_parts[0](
                words[start : start + BATCH],
                is_split_into_words=True,
                padding=True,
                truncation=True,
                max_length=self.session.request.info.identity.max_length,
                return_tensors="pt",
            ).to(self.session.device)

    @cached_property
    def loop_made(self) -> list[BatchEncoding]:
        """The loop's batches, tokenised once."""
        return list(self.loop_batches())

    def loop(self) -> None:
        """Read the sentences as users do."""
        self._run_loop(self.loop_batches(), states=True)

    def loop_forward(self) -> None:
        """Run the loop's model over its batches, and ask for no hidden states."""
        self._run_loop(self.loop_made, states=False)

    @torch.no_grad()
    def _run_loop(self, batches: Iterable[BatchEncoding], *, states: bool) -> None:
        model = self.loop_parts[1].to(self.session.device)
        for batch in batches:
            output = model(**batch, output_hidden_states=states)
        output.last_hidden_state[0, 0, 0].item()

    @property
    def tokens(self) -> int:
        """Real subwords that extraction reads."""
        return int(self.plan.encoded.window_lengths.sum())

    @property
    def padding(self) -> float:
        """Share of padding in what extraction's model reads."""
        return 1 - self.tokens / sum(batch.input_ids.numel() for batch in self.batches)

    @cached_property
    def loop_tokens(self) -> int:
        """Real subwords that the loop reads."""
        return sum(int(batch["attention_mask"].sum()) for batch in self.loop_made)

    @property
    def loop_share(self) -> float:
        """Seconds of the loop over all subwords, over what it takes for its own."""
        return self.tokens / self.loop_tokens

    @cached_property
    def operations(self) -> float:
        """Arithmetic that the real subwords need."""
        return needed_operations(self.session.backbone, self.plan)


def main() -> None:
    """Measure and report."""
    options = parser(__doc__)
    options.add_argument("model", choices=list(AIMS))
    options.add_argument("--limit", type=int, help="first sentences only")
    options.add_argument("--loop-limit", type=int, help="sentences of these that the loop reads")
    args = options.parse_args()
    with work_folder(args) as folder:
        session, split = conll_session(
            args, args.model, "dev", limit=args.limit, cache=folder / "cache"
        )
        setting = Setting(session, split, model_path(args, args.model), args.loop_limit)
        product, operations = matrix_product(args.device)
        sides = {
            "loop": timed(setting.loop),
            "loop, forward only": timed(setting.loop_forward),
            "extraction": setting.extract,
            "forward": timed(setting.forward),
            "product": timed(product),
        }
        timings = alternate(sides, args.rounds)
        found = claims(args.model, setting, timings, operations)
        if args.model == MPNET:
            found.append(arithmetic_claim(setting, timings, operations))
    report(found, args)


def claims(model: str, setting: Setting, timings: Timings, operations: float) -> list[Claim]:
    """Return the claims of either model.

    Args:
        model: its name.
        setting: what was measured.
        timings: of all sides.
        operations: arithmetic of the side "product".
    """
    tokens, loop_tokens, scale = setting.tokens, setting.loop_tokens, setting.loop_share
    loop_aim, share_aim = AIMS[model]
    loop = timings.ratio("loop", "extraction", scale)
    forward = timings.ratio("loop, forward only", "forward", scale)
    share = timings.ratio("forward", "extraction")
    bound = timings.ratio("loop", "product", scale * operations / setting.operations)
    read = {"loop": loop_tokens, "loop, forward only": loop_tokens}
    speeds = ", ".join(
        f"{name} {read.get(name, tokens) / timings.median(name):,.0f}"
        for name in ("loop", "loop, forward only", "extraction", "forward")
    )
    sentences = f"{len(setting.split.examples):,} sentences"
    if setting.loop_limit is not None:
        sentences += f" ({setting.loop_limit:,} by the loop)"
    return [
        Claim(
            number=2 if model == MINILM else 1,
            title=f"extraction to disk against a loop in float32, {model}",
            aim=f">= {loop_aim} x",
            found=f"{loop} x; forward passes alone {forward} x",
            reached=loop.median >= loop_aim,
            details=f"{sentences}, real subwords per second: {speeds}; with nothing but "
            f"arithmetic, at the rate of matrix products, extraction would have {bound} x",
        ),
        Claim(
            number=3,
            title=f"extraction against its forward pass alone, {model}",
            aim=f">= {share_aim}",
            found=str(share),
            reached=share.median >= share_aim,
            details=f"seconds of one extraction: {parts(setting)}; "
            f"processor seconds: {processor_seconds(setting)}",
        ),
    ]


def parts(setting: Setting) -> str:
    """Return the seconds that the parts of an extraction take, the model's among them."""
    profiler = cProfile.Profile()
    seconds = profiler.runcall(setting.extract)
    found = pstats.Stats(profiler).stats
    spent = {}
    for name, functions in PARTS.items():
        codes = [inspect.unwrap(function).__code__ for function in functions]
        keys = [(code.co_filename, code.co_firstlineno, code.co_name) for code in codes]
        spent[name] = sum(found[key][_CUMULATIVE] for key in keys)
    rest = seconds - sum(spent.values())
    shown = ", ".join(f"{name} {part:.2f}" for name, part in {**spent, "the rest": rest}.items())
    return f"{seconds:.2f}, of them {shown}"


def processor_seconds(setting: Setting) -> str:
    """Return what an extraction and its forward pass take of the processors, in user and system.

    Where all cores are busy, this is what bounds the share of the forward pass.
    """
    found = {}
    for name, work in {"extraction": setting.extract, "forward": setting.forward}.items():
        start = os.times()
        work()
        stop = os.times()
        found[name] = (stop.user - start.user, stop.system - start.system)
    return ", ".join(f"{name} {user:.2f} + {system:.2f}" for name, (user, system) in found.items())


def arithmetic_claim(setting: Setting, timings: Timings, operations: float) -> Claim:
    """Return the claim about arithmetic; `operations` is that of the side "product"."""
    speed = operations / timings.median("product") / 1e9
    dtype = str(product_dtype(setting.session.device)).removeprefix("torch.")
    products = f"products of {' x '.join(map(str, PRODUCT))} in {dtype}: {speed:,.0f} GFLOP/s"
    rate = timings.ratio("product", "extraction", setting.operations / operations)
    return Claim(
        number=4,
        title="arithmetic of extraction against matrix products in its dtype, mpnet-base",
        aim=f">= {RATE_AIM}",
        found=str(rate),
        reached=rate.median >= RATE_AIM,
        details=f"{products}; {profile(setting)}; {setting.padding:.1%} of what the model reads is "
        "padding, which counts for nothing",
    )


def profile(setting: Setting) -> str:
    """Return the shares that kinds of operations have in the forward pass."""
    backbone, layers = setting.session.backbone, setting.plan.layers
    batches = setting.batches[:: max(len(setting.batches) // PROFILED, 1)]
    with torch.profiler.profile() as profiler:
        for batch in batches:
            backbone.layers(batch.input_ids, batch.lengths, layers, batch.token_types)
    seconds = {event.key: event.self_cpu_time_total for event in profiler.key_averages()}
    total = sum(seconds.values())
    largest = sorted(seconds, key=lambda name: -seconds[name])[:SHOWN]
    shares = (f"{name.removeprefix('aten::')} {seconds[name] / total:.0%}" for name in largest)
    return f"profile of the forward pass: {', '.join(shares)}"


if __name__ == "__main__":
    start = time.perf_counter()
    main()
    print(f"{time.perf_counter() - start:.0f} s")
