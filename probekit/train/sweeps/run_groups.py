"""Divide the runs of a sweep into groups that share reads, fit memory and keep workers busy."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from probekit.probe.fitters import solves
from probekit.train.option_groups import Steps
from probekit.train.sweeps.resolve import Run
from probekit.train.sweeps.run_options import Data, Sample

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_MOST_MEMBERS = 32
_COPIES = 5
"""Copies of a head's values: the values, gradients, two moments, the best checkpoint."""

_PER_WORKER = 2
"""Groups per worker, so that one that ends early finds more work."""

_OVERHEAD = 200_000
"""What the calls of a step cost, in values."""

_LINEAR_OVERHEAD = 20_000
"""The same for a linear probe, which steps with others (one with so many values that it does not
is dear by its values): 0.2 ms per probe and step of ``benchmarks/depth_sklearn.py``, all of its
time counted, where a step of its own took 1.2 ms, in fewer steps and with dropout."""

_SOLVED, _MIXTURE = 60, 150
"""What a solver's passes cost for a value that it reads and a part of the rows: in the demo 2 to
9 s of a linear decoder, 24 to 56 s of a mixture, where dwatt takes 8 s."""

_OF_TOKENS = 4
"""What a value of a head over subwords costs, in values of a head over words: there are more rows,
and attention between them (of the same size, 912 s against 211 s of dwatt, mean over decoders and
seeds: ``probekit sweep models/mpnet-base conll --head dwatt,extra-layers --decoder linear,crf
--shots 128 --seeds 5``)."""

MOST_COST = 1.5e10
"""Cost of a group, which is what a sweep that is killed loses: two to seven minutes of one core
without bfloat16 instructions (dwatt on MPNet, 1.3e10: 80 to 109 s with a linear decoder and 309 to
348 s with a CRF, in the same runs)."""


def make_groups(runs: Sequence[Run], *, workers: int, memory: int) -> list[list[Run]]:
    """Divide runs into groups; the costliest come first.

    Runs of one group read the same entries and labels. Runs of one stream (same sample, same
    order) stay together as far as possible, since they share every batch.

    Args:
        runs: what is to be trained.
        workers: how many groups run at once.
        memory: bytes that the members of one group may take.
    """
    # A bundle is one fit: the runs of a solver over seeds 0, 1, 2 are one bundle, which costs what
    # one of them does. Of the dwatt and p32 heads over seeds 0, 1, 2 each run is a bundle; the two
    # of a seed are one stream, so the order is dwatt-0, p32-0, dwatt-1, p32-1, ...
    share = MOST_COST
    by_data = grouped(runs, data_key).values()
    bundles = [list(grouped(same, fit_key).values()) for same in by_data]
    if workers > 1:
        total = sum(cost(run) for same in bundles for run, *_ in same)
        share = min(share, total / (workers * _PER_WORKER))
    groups: list[list[list[Run]]] = []
    for same in bundles:
        groups.append([])
        streams = grouped(same, lambda bundle: stream_key(bundle[0])).values()
        for bundle in chain(*streams):
            group, run = groups[-1], bundle[0]
            # a bundle joins if half of it fits: three of cost 0.6 and a share of 1 make groups of
            # two and one
            full = (
                len(group) >= _MOST_MEMBERS
                or sum(member_bytes(first) for first, *_ in group) + member_bytes(run) > memory
                or sum(cost(first) for first, *_ in group) + cost(run) / 2 > share
            )
            if group and full:
                groups.append([])
            groups[-1].append(bundle)
    groups.sort(key=lambda group: -sum(cost(first) for first, *_ in group))
    return [list(chain(*group)) for group in groups]


def fit_key(run: Run) -> Hashable:
    """Return what runs share that are one and the same fit, as its seed decides nothing."""
    return replace(run.spec, seed=0) if run.same_for_all_seeds else id(run)


def data_key(run: Run) -> Hashable:
    """Return what runs must share to be in one group: the data, and what a decoder predicts."""
    spec = run.spec
    solved = solves(spec.fit)  # a solver wants the memory for its own rows
    own_model = id(run) if spec.tunes else None  # which one run alone may train
    live = spec.method, own_model
    return spec.of(Data), spec.hold_out, spec.pooling, run.classes, solved, live


def stream_key(run: Run) -> Hashable:
    """Return what runs must share to take the same batches."""
    spec = run.spec
    drawn = replace(spec.of(Sample), seed=0) if run.same_for_all_seeds else spec.of(Sample)
    return drawn, spec.of(Steps), spec.fit, spec.select


def member_bytes(run: Run) -> int:
    """Return the bytes that a head in training takes."""
    return run.n_params * 4 * _COPIES


def cost(run: Run) -> float:
    """Return the work of a run, in arbitrary units: values used per step, plus overhead."""
    if solves(run.spec.fit):
        select = run.member.select
        parts = 1 if select is None or select.by_split else 1 + max(select.folds, 1)
        return run.n_values * parts * (_SOLVED if run.linear else _MIXTURE)
    head, n_layers = run.member.head, len(run.options.layers)
    overhead = _LINEAR_OVERHEAD if run.linear else _OVERHEAD
    per_token = 1 if head.reads == "rows" else _OF_TOKENS
    values = run.n_params * per_token * (n_layers if head.recurrent else 1)
    return run.steps * (values + n_layers * 20_000 + overhead)


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by what a key says of them, each group in their order."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
