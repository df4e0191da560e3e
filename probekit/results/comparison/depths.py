"""The best depth of a curve, chosen on dev, and the depths that noise cannot tell from it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from probekit.errors import ProbekitError
from probekit.metrics import scale_of
from probekit.results.comparison.judging import SAMPLES_EACH
from probekit.results.comparison.pairing import put_beside
from probekit.results.comparison.resampling import Bootstrap, Drawn, drawn_text, estimate
from probekit.results.comparison.runs import RecordedRun
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped, series
from probekit.results.summaries.interval import LEVEL, holm, interval, student_p
from probekit.results.summaries.wording import neighbours, numbers_text

logger = logging.getLogger(__name__)

_SAMPLES = 2000  # of the bootstrap; more where so many depths are compared that Holm asks for it

ByDepth = Mapping[int, Sequence[Record]]


@dataclass(frozen=True, kw_only=True)
class BestDepth:
    """The best depth on dev, and those within noise of it.

    Attributes:
        best: the depth with the best mean dev score; of equal ones the lowest.
        within: depths within noise of it, and itself, ascending.
        among: all depths of the curve, ascending.
        n_seeds: seeds that were paired; 0 where they were not: one seed, or all alike.
        drawn: dev sentences, or groups of them, that were paired; None where the records hold no
            predictions.
    """

    best: int
    within: tuple[int, ...]
    among: tuple[int, ...]
    n_seeds: int = 0
    drawn: Drawn | None = None

    @property
    def runs(self) -> list[list[int]]:
        """The depths within noise, each list of neighbours by itself."""
        return neighbours(self.within, self.among)

    @property
    def text(self) -> str:
        """Best depth and the depths within noise of it, as one line."""
        others = [depth for depth in self.within if depth != self.best]
        depths_text = numbers_text(self.within, self.among) if others else "no other"
        near = f"~ within noise of it: {depths_text} ({noise_text([self])})"
        return f"best on dev: layer {self.best}; {near}"


@dataclass(frozen=True)
class _Tested:
    """Significance of each depth's difference to the best one, and what it is over."""

    p: Mapping[int, float] = field(default_factory=dict)
    drawn: Drawn | None = None

    def open(self) -> set[int]:
        """Return the depths whose difference is not significant at 5 %, after Holm (1979)."""
        return {depth for depth, p in holm(self.p).items() if p >= LEVEL}


def noise_text(best: Sequence[BestDepth]) -> str:
    """Return what depths were compared over, in words, such as ``paired over 5 seeds``."""
    seeds = [Drawn(curve.n_seeds, "seeds") for curve in best if curve.n_seeds]
    sentences = [curve.drawn for curve in best if curve.drawn is not None]
    units = " and ".join(drawn_text(each) for each in (seeds, sentences) if each)
    if not units:
        return "exact ties alone"
    ties = any(not curve.n_seeds and curve.drawn is None for curve in best)
    return f"paired over {units}" + ", elsewhere exact ties" * ties


def best_depths(records: Sequence[Record]) -> dict[str, BestDepth]:
    """Return the best depth of every curve of two depths or more, by the curve's name.

    Args:
        records: any that have a depth.
    """
    curves = series(records, given=["depth"])
    return {
        name: best_depth(members)
        for name, members in curves.items()
        if len({record.depth for record in members}) > 1
    }


def best_depth(records: Sequence[Record]) -> BestDepth:
    """Return the best depth on dev, and which depths are within noise of it.

    A depth is outside where all that can be tested is sure of its difference to the best one:
    over seeds (Student's t on paired differences) where there are several and their scores differ,
    and over dev sentences or groups of them (paired bootstrap) where the records hold predictions.
    The significance levels of all depths are corrected together at 5 % (Holm 1979). Where nothing
    can be tested, only depths with exactly the same score are within.

    Args:
        records: of one curve: they differ in depth and seed alone, and all have a depth.
    """
    by_depth = {
        depth: sorted(group, key=lambda record: record.seed)
        for (depth,), group in grouped(records, ["depth"]).items()
    }
    means = {d: interval(r.eval_score for r in group).mean for d, group in by_depth.items()}
    best = scale_of(records[0].metric).best(means)
    seeds, sentences = _over_seeds(by_depth, best), _over_sentences(by_depth, best)
    ties = {depth for depth, mean in means.items() if mean == means[best]}
    return BestDepth(
        best=best,
        within=tuple(sorted(ties | seeds.open() | sentences.open())),
        among=tuple(by_depth),
        n_seeds=0 if seeds.drawn is None else seeds.drawn.n,
        drawn=sentences.drawn,
    )


def _over_seeds(by_depth: ByDepth, best: int) -> _Tested:
    """Test the differences of the seeds that a depth and the best one share."""
    if not any(len({r.eval_score for r in group}) > 1 for group in by_depth.values()):
        return _Tested()  # one seed, or seeds that change nothing
    scores = {d: {r.seed: r.eval_score for r in group} for d, group in by_depth.items()}
    differences = {
        depth: [by_seed[seed] - scores[best][seed] for seed in by_seed if seed in scores[best]]
        for depth, by_seed in scores.items()
        if depth != best
    }
    tested = {depth: values for depth, values in differences.items() if len(values) > 1}
    p = {depth: student_p(values) for depth, values in tested.items()}
    return _Tested(p, Drawn(max(map(len, tested.values())), "seeds") if tested else None)


def _over_sentences(by_depth: ByDepth, best: int) -> _Tested:
    """Test the differences of what the same seeds predicted for the same dev sentences."""
    seeds = [record.seed for record in by_depth[best]]
    runs = {
        depth: RecordedRun.of(f"depth {depth}", group)
        for depth, group in by_depth.items()
        if all(record.predictions is not None for record in group)
        and [record.seed for record in group] == seeds
    }
    others = [depth for depth in runs if depth != best]
    if best not in runs or not others:
        return _Tested()
    try:
        beside = put_beside([runs[depth] for depth in (best, *others)], "dev")
        resamplers = [run.resampler() for run in beside]
        scores = Bootstrap(samples=max(_SAMPLES, SAMPLES_EACH * len(runs))).resample(
            beside[0].groups,
            lambda counts: np.stack([score(counts) for score in resamplers], axis=1),
        )
    except ProbekitError as error:
        logger.warning("depths are not compared over sentences: %s", error)
        return _Tested()
    groups, apart = beside[0].groups, scores[:, 1:].T - scores[:, 0]
    p = {n: estimate(0.0, samples, groups).p for n, samples in zip(others, apart, strict=True)}
    return _Tested(p, groups.drawn)
