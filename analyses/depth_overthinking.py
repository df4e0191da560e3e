"""Overthinking on a decoder (P-32, section 5.1): is there a best depth before the last, on GLUE?

Head ``last`` at every depth of SmolLM2-135M on RTE and SST-2, raw and standardised, with 128 shots
(50 epochs) and with all of train in the cache (5 epochs), 5 seeds; p32 and attention-fusion over
all layers with the same options. Nothing is chosen on dev but the depth, and the depth is chosen on
one half of it and judged on the other, both ways round: dev is scored once, after the last step.
Finished runs are skipped. Their predictions lie beside the records and are not tracked.

    probekit extract smollm2.gguf glue/rte --data DATA --split train,dev
    probekit extract smollm2.gguf glue/sst2 --data DATA --split train,dev --limit 10000
    python analyses/depth_overthinking.py MODEL --workers 2
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from shared import RESULTS, arguments, interval_text, markdown, runner, verdict, write

from probekit import Location, Record, TrainSpec, open_features, plot_depth, product, save_figure
from probekit.base.numbers.seeding import numpy_generator
from probekit.results.comparison import best_depths
from probekit.results.comparison.bootstrap import Resampled, bootstrap
from probekit.results.predictions import read_predicted
from probekit.results.summaries.interval import Interval, interval
from probekit.results.tables import depth_table, footnotes
from probekit.train.sweeps.specs import depths

NAME = "depth_overthinking"
TASKS = ("glue/rte", "glue/sst2")
NORMALIZE = ("none", "standardize")
FUSIONS = ("p32", "attention-fusion")
SEEDS = range(5)

INTRODUCTION = """\
Accuracy on dev (277 pairs of RTE, 872 sentences of SST-2) of the last checkpoint. "Peak" is the
depth with the best mean accuracy over seeds on one seeded half of dev, scored on the other half,
both ways round; so choosing it does not favour it. Differences are in points, with the 95 %
interval over seeds, which share dev, and the 95 % bootstrap interval over dev sentences. A claim
holds where both leave out zero."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A difference of accuracies in points: over seeds, and over sentences."""

    seeds: Interval
    sentences: Resampled

    @property
    def verdict(self) -> str:
        """What both intervals say of the claim that there is a gain."""
        found = {verdict(one.low, one.high) for one in (self.seeds, self.sentences)}
        return found.pop() if len(found) == 1 else "open"

    def cells(self) -> list[str]:
        """Return both intervals and the verdict."""
        low, high = self.sentences.low * 100, self.sentences.high * 100
        return [interval_text(self.seeds, sign=True), f"{low:+.1f} to {high:+.1f}", self.verdict]


def main() -> None:
    """Train what is missing, then write the verdicts, the tables and the figures."""
    args = arguments(__doc__)
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    parts, lines = [], []
    for task in TASKS:
        splits = open_features(args.model, task, None, Location(cache=args.cache))
        everything: list[Record] = []
        for size, options in sizes(len(splits.drawable)).items():
            base = TrainSpec(model=args.model, task=task, head="last", evals=1, **options)
            choices = {"normalize": NORMALIZE, "seed": SEEDS}
            last = run(product(base, {"depth": depths(splits.manifest.n_blocks), **choices}))
            fused = run(product(base, {"head": FUSIONS, **choices}))
            everything += last
            for normalize in NORMALIZE:
                own = [r for r in last if r.normalize == normalize]
                others = [r for r in fused if r.normalize == normalize]
                lines += [[task, size, normalize, *line] for line in judge(own, others)]
            best = best_depths(last)
            parts.append(f"## {task}, {size}\n\n{depth_table(last, style='markdown', best=best)}")
            parts.append(footnotes(last, "markdown", best))
        save_figure(plot_depth(everything), RESULTS / f"{NAME}_{task.rpartition('/')[2]}.png")
    header = ["task", "train", "normalize", "claim", "depths", "seeds", "sentences", "verdict"]
    claims = f"{tally(lines)}\n\n{markdown(header, lines, words=4)}"
    verdicts = f"## Does it overthink, and does fusion repair it?\n\n{claims}"
    title = f"# Overthinking, {last[0].model}, head `last` by depth"
    write(NAME, [title, INTRODUCTION, verdicts, *parts])


def sizes(n_train: int) -> Mapping[str, Mapping[str, Any]]:
    """Return how much of train is drawn: a few sentences, and all that the cache holds."""
    return {"128 shots": {"shots": 128, "epochs": 50}, f"{n_train:,} of train": {"epochs": 5}}


def judge(last: Sequence[Record], fused: Sequence[Record]) -> list[list[str]]:
    """Return a line for every claim: what it is, both intervals, and the verdict."""
    by_depth = hits_of(last, "depth")
    full = max(by_depth)
    halves = halves_of(by_depth[full].shape[1])
    chosen = [max(by_depth, key=lambda n: by_depth[n][:, half].mean()) for half in halves]
    peak = np.empty_like(by_depth[full])
    for half, depth in zip(reversed(halves), chosen, strict=True):
        peak[:, half] = by_depth[depth][:, half]
    depths_text = " and ".join(map(str, sorted(set(chosen))))
    found = gain(peak, by_depth[full]).cells()
    lines = [["peak > last", f"{depths_text}, {full}", *found]]
    for head, hits in hits_of(fused, "head").items():
        lines.append([f"{head} > last", f"all, {full}", *gain(hits, by_depth[full]).cells()])
        lines.append([f"{head} > peak", f"all, {depths_text}", *gain(hits, peak).cells()])
    return lines


def tally(lines: Sequence[Sequence[str]]) -> str:
    """Return in how many settings each claim holds, and in how many the opposite does."""
    verdicts: dict[str, list[str]] = {}
    for line in lines:
        verdicts.setdefault(line[3], []).append(line[-1])
    counts = [
        f"`{claim}` holds in {found.count('holds')} of {len(found)} settings, the opposite in "
        f"{found.count('the opposite holds')}"
        for claim, found in verdicts.items()
    ]
    return "; ".join(counts) + "."


def hits_of(records: Sequence[Record], by: str) -> dict[Any, np.ndarray]:
    """Return which dev sentences were right, (seeds, sentences), by an option of the records."""
    found: dict[Any, list[np.ndarray]] = {}
    for record in sorted(records, key=lambda record: record.seed):
        assert record.predictions is not None, "the sweep writes predictions"
        dev = read_predicted(RESULTS / f"{NAME}-predictions" / Path(record.predictions).name)[1]
        found.setdefault(getattr(record, by), []).append(
            (dev["dev"].predicted == dev["dev"].gold).astype(float)
        )
    return {value: np.stack(hits) for value, hits in found.items()}


def halves_of(n_sentences: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two halves of the sentences, the same for every run."""
    order = numpy_generator(0, "halves of dev").permutation(n_sentences)
    return order[: n_sentences // 2], order[n_sentences // 2 :]


def gain(one: np.ndarray, two: np.ndarray) -> Gain:
    """Return the accuracy of the first minus that of the second; both (seeds, sentences)."""
    per_seed, per_sentence = (one - two).mean(axis=1), (one - two).mean(axis=0)
    resampled = bootstrap(one.shape[1], lambda counts: counts @ per_sentence / counts.sum(axis=1))
    return Gain(seeds=interval(per_seed.tolist()).scaled(100), sentences=resampled)


if __name__ == "__main__":
    main()
