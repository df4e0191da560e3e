"""A simulation of extraction by many processes: units, workers, failures and bandwidth.

Each worker computes its share of the units, one after another, and writes each while it computes
the next. All of them share one bandwidth, evenly. Between two events (a worker starts, fails or
has finished) nothing changes, so time goes on from event to event, whatever the number of tokens.
A worker that fails loses the unit that it was at, and begins again after a while.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What extracts.

    Attributes:
        workers: processes with a model each, on one GPU, several, or a core.
        speed: tokens per second of one of them.
        bandwidth: bytes per second that all of them together can write.
        start: seconds from the start of a worker to its first token.
        wait: seconds until a worker that failed is started again.
        between_failures: mean seconds from one failure to the next, of all workers together.
    """

    workers: int
    speed: float
    bandwidth: float = math.inf
    start: float = 0.0
    wait: float = 0.0
    between_failures: float = math.inf


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is extracted.

    Attributes:
        tokens: of the text.
        unit_tokens: of a unit; the last one may have fewer.
        token_bytes: bytes that are written for each of them.
    """

    tokens: float
    unit_tokens: float
    token_bytes: float

    def shares(self, workers: int) -> Float64[np.ndarray, " workers"]:
        """Return the tokens of each worker's units, which are dealt out one by one."""
        units = math.ceil(self.tokens / self.unit_tokens)
        counts = np.full(workers, units // workers, np.float64)
        counts[: units % workers] += 1
        tokens = counts * self.unit_tokens
        tokens[(units - 1) % workers] -= units * self.unit_tokens - self.tokens
        return tokens


@dataclass(frozen=True)
class Outcome:
    """How an extraction went.

    Attributes:
        seconds: until the last unit was written.
        failures: of workers that were not done.
        repeated: tokens that were computed and lost.
    """

    seconds: float
    failures: int
    repeated: float


Failure = tuple[float, int]
"""When a worker fails, in seconds, and which one."""

_NEVER: Failure = (math.inf, 0)
_LEAST = 1e-9
"""Share of a unit that is none: what is left of it by rounding."""


def simulate(cluster: Cluster, work: Work, failures: Iterable[Failure] = ()) -> Outcome:
    """Run an extraction from event to event.

    Args:
        cluster: what extracts.
        work: what is extracted.
        failures: those to come, in their order; of a worker that is done they do nothing.
    """
    left = work.shares(cluster.workers)
    done = np.zeros_like(left)
    begins = np.full(cluster.workers, cluster.start)
    now, hits, repeated, rate = 0.0, 0, 0.0, cluster.speed
    coming = iter(failures)
    failure = next(coming, _NEVER)
    while left.any():
        working = (left > 0) & (begins <= now)
        if working.any():
            rate = min(cluster.speed, cluster.bandwidth / work.token_bytes / working.sum())
        ends = now + left[working].min(initial=math.inf) / rate
        starts = begins[(left > 0) & ~working].min(initial=math.inf)
        then = min(ends, starts, failure[0])
        step = np.where(working, np.minimum(left, rate * (then - now)), 0.0)
        done, left, now = done + step, left - step, then
        left[left < _LEAST * work.unit_tokens] = 0.0
        if then == failure[0]:
            worker = failure[1]
            if left[worker] > 0:
                lost = done[worker] % work.unit_tokens
                hits, repeated = hits + 1, repeated + lost
                done[worker], left[worker] = done[worker] - lost, left[worker] + lost
                begins[worker] = now + cluster.wait + cluster.start
            failure = next(coming, _NEVER)
    # while the first units are computed nothing is written, and the other way round with the last
    unit = min(work.unit_tokens, work.tokens / cluster.workers)
    written = unit * work.token_bytes * cluster.workers / cluster.bandwidth
    return Outcome(now + min(unit / cluster.speed, written), hits, repeated)


def at_random(cluster: Cluster, seed: int) -> Iterator[Failure]:
    """Yield failures of any worker at any time, as many on the average as the cluster says."""
    rng, now = np.random.default_rng(seed), 0.0
    while math.isfinite(cluster.between_failures):
        now += rng.exponential(cluster.between_failures)
        yield now, int(rng.integers(cluster.workers))


def simulate_often(cluster: Cluster, work: Work, seeds: Sequence[int]) -> Outcome:
    """Return the median of each number over simulations with failures at random."""
    found = [simulate(cluster, work, at_random(cluster, seed)) for seed in seeds]
    return Outcome(
        statistics.median(one.seconds for one in found),
        round(statistics.median(one.failures for one in found)),
        statistics.median(one.repeated for one in found),
    )


def undisturbed(cluster: Cluster) -> Cluster:
    """Return the same cluster without failures."""
    return replace(cluster, between_failures=math.inf)
