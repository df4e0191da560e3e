"""Baselines as records in the file of the heads, and the online code of labels.

Without features: the most frequent answer, and the most frequent one per word. With them: the
length of the online code.

Voita & Titov (2020), section 3.2. The train labels are sent in growing blocks (``SHARES``). The
first one is sent with a uniform code, and each later one with the code of a probe that was trained
on all blocks before it:

    L = t_1 log2 C - sum_i log2 p(y of block i + 1 | x, probe of blocks 1..i)

Blocks are joined until they hold two classes, since a probe needs something to tell apart. A solved
probe has no score for a class that it has not seen; such a label is sent by Laplace's rule, as if
each of the C classes had been seen once more than it was.

A probe that needs few examples, or none of its capacity, sends them cheaply. Compression is the
length of the uniform code divided by L.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from probekit.base.fingerprint import digest, digest_file
from probekit.base.kinds import KINDS
from probekit.base.numbers import numpy_generator
from probekit.base.selection import HELD_OUT, Selection
from probekit.features import FeatureView, Splits
from probekit.metrics import COMPRESSION, METRICS
from probekit.probe.decoders import IGNORED
from probekit.results import Record, recorded
from probekit.results.claims import Claims, owners, wait_for_change
from probekit.train.baselines.guesses import GUESSES, Guesser
from probekit.train.fit import fit_group
from probekit.train.member import MemberSpec
from probekit.train.option_groups import Steps
from probekit.train.scoring import gold_of
from probekit.train.stream import StreamSpec
from probekit.train.sweeps.outputs import Outputs, described, write_predictions
from probekit.train.sweeps.resolve import Run
from probekit.train.sweeps.run_options import Sample
from probekit.train.sweeps.run_views import sample, scored_views, train_view
from probekit.train.sweeps.specs import grouped
from probekit.version import __version__

SHARES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Ends of the blocks, as shares of the examples."""

_NEXT = "next block"


@dataclass(frozen=True, kw_only=True)
class CodeLength:
    """The cost of sending a train set's labels.

    Attributes:
        bits: length L of the online code.
        uniform_bits: length of the uniform code, rows times log2 C.
        n_rows: labels that were sent.
        diverged: whether the training of a probe did, so that some labels may cost without end.
    """

    bits: float
    uniform_bits: float
    n_rows: int
    diverged: bool = False

    @property
    def compression(self) -> float:
        """How much shorter the online code is than the uniform one; 1 is no use at all."""
        return self.uniform_bits / self.bits if self.bits else 1.0  # a single class costs nothing

    @property
    def bits_per_row(self) -> float:
        """Bits per label."""
        return self.bits / self.n_rows


def online_code(
    members: Sequence[MemberSpec],
    train: FeatureView,
    dev: FeatureView,
    *,
    n_classes: int,
    seed: int,
    steps: Steps,
    device: str = "cpu",
    memory: int | None = None,
) -> list[CodeLength]:
    """Return the code length of each member.

    Args:
        members: the probes; they share every block.
        train: the examples whose labels are sent, in an order that the seed decides.
        dev: its loss chooses each probe's checkpoint or strength of L2, as its length is what
            counts: a strength that tells classes apart best may be far too sure of them.
        n_classes: C of the uniform code: the labels that train has.
        seed: decides order, initialisation and dropout.
        steps: those of each probe over the blocks that it may see; a solver takes none.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        memory: bytes that rows may take.
    """
    filled = np.flatnonzero(train.lengths)  # a sentence may have lost all its words
    order = filled[numpy_generator(seed, "online code").permutation(len(filled))]
    # small blocks cannot choose a strength
    by_dev = [replace(probe, select=probe.select and Selection("dev")) for probe in members]
    # 3,000 examples end blocks at 3, 6, 12, ..., 3,000; if the first 6 are of one class, at 12, ...
    ends = [end for end in block_ends(len(order)) if _classes(train.take(order[:end])) > 1]
    ends = ends or [len(order)]
    first = len(train.take(order[: ends[0]]))
    nats = np.full(len(members), first * math.log(n_classes))
    diverged = np.zeros(len(members), bool)
    for start, stop in itertools.pairwise(ends):
        sent, following = train.take(order[:start]), train.take(order[start:stop])
        stream = StreamSpec(train=sent, seed=seed, steps=steps, members=tuple(by_dev))
        cost, failed = _send(following, stream, dev, n_classes, device=device, memory=memory)
        nats += cost
        diverged |= failed
    uniform = len(train) * math.log2(n_classes)
    return [
        CodeLength(bits=bits, uniform_bits=uniform, n_rows=len(train), diverged=failed)
        for bits, failed in zip((nats / math.log(2)).tolist(), diverged.tolist(), strict=True)
    ]


def _send(
    following: FeatureView,
    stream: StreamSpec,
    dev: FeatureView,
    n_classes: int,
    *,
    device: str,
    memory: int | None,
) -> tuple[Float64[np.ndarray, " members"], Bool[np.ndarray, " members"]]:
    """Return the nats of a block's labels by each probe of a stream, and whether it diverged."""
    scored, beside = following, 0.0
    if stream.solved:
        scored, beside = _without_new(following, stream.train, n_classes)
    (fitted,) = fit_group(
        [stream], dev, {_NEXT: scored}, metric=METRICS["perplexity"], device=device, memory=memory
    )
    losses = np.array([result.scores[f"{_NEXT}/loss"] for result in fitted])
    return losses * len(following) + beside, np.array([result.diverged for result in fitted])


def _without_new(
    following: FeatureView, sent: FeatureView, n_classes: int
) -> tuple[FeatureView, float]:
    """Return a block without the labels of classes that were not sent before, and their cost.

    Args:
        following: the block.
        sent: all before it.
        n_classes: C.

    Returns:
        The block, its new labels not to be scored, and the nats by Laplace's rule that say of each
        label whether its class is new, and of a new one which it is.
    """
    # C = 4, sent A A B, next B C A: by Laplace's rule each of the 2 unsent classes has one of 3 + 4
    # parts, so C costs log 7, and that B and A are not new costs -log(1 - 2/7) each.
    new = ~np.isin(following.targets, sent.targets)
    total = len(sent) + n_classes
    n_unsent = n_classes - _classes(sent)
    old = np.count_nonzero(~new) * math.log1p(-n_unsent / total)
    targets = np.where(new, IGNORED, following.targets)
    return replace(following, targets=targets), np.count_nonzero(new) * math.log(total) - old


def _classes(view: FeatureView) -> int:
    return len(np.unique(view.targets))


def block_ends(n_examples: int) -> list[int]:
    """Return where each block ends, in examples: each at least one, none twice."""
    return sorted({max(1, round(share * n_examples)) for share in SHARES})


CODE_SCORES = ("bits per label", COMPRESSION)


_NOT_TRAINED = (
    "init", "depth", "select", "l2", "epochs", "evals", "lr", "rate_from", "batch_size",
)  # fmt: skip
"""What the record of a run says that a baseline without features has not."""


class Ledger:
    """The records of one file, by key."""

    def __init__(self, out: Path) -> None:
        """Read what is there."""
        self._out = out
        self._known = recorded(out)

    def settle(
        self, keys: Sequence[str], make: Callable[[Collection[str]], Iterable[Record]]
    ) -> list[Record]:
        """Return the records of keys; what is missing is made, and by one process alone.

        Args:
            keys: of all records.
            make: makes the records of some of them.
        """
        # Between the first reading and the claim another process may record a key and let go of it:
        # what is there by then is not made again.
        while missing := [key for key in keys if key not in self._known]:
            with Claims(self._out) as claims:
                free = claims.take(missing)
                self._known = recorded(self._out)
                for record in make(free - self._known.keys()):
                    if claims.record(record):
                        self._known[record.key] = record
            if not free:
                wait_for_change(self._out, owners(self._out, missing))
                self._known = recorded(self._out)
        return [self._known[key] for key in keys]


def guess_records(
    runs: Sequence[Run],
    splits: Splits,
    ledger: Ledger,
    guesses: Mapping[str, Guesser] = GUESSES,
    predictions: Path | None = None,
    *,
    of_heads: bool = False,
) -> list[Record]:
    """Return the records of baselines without features, one per drawn sample.

    Memorising needs labels of words; all labels are given to sets.

    Args:
        runs: the heads that they are held against.
        splits: the features.
        ledger: the records that are there.
        guesses: the baselines by name.
        predictions: folder for their predictions; None writes none.
        of_heads: they depend on the head, so that each has its own.
    """
    kind = KINDS[splits.kind]
    unfit = {"memorised": not kind.of_words, "all labels": kind.targets != "sets"}
    names = [name for name in guesses if not unfit.get(name)]
    asked: dict[str, tuple[str, Run]] = {}
    for run in runs:
        for name in names:
            # what decides the rows of a baseline without features
            drawn = [*run.spec.of(Sample).to_json().values(), run.spec.pooling]
            cut = run.spec.drop_duplicates or (run.spec.hold_out and run.spec.group)
            drawn += [run.options.groups] if cut else []
            drawn += [run.spec.positives] if run.spec.positives else []
            drawn += [run.options.key] if of_heads else []
            key = digest([name, drawn, run.options.labels_fingerprint, run.options.entries])
            asked.setdefault(key, (name, run))
    return ledger.settle(
        list(asked),
        lambda missing: [
            _guess(name, guesses[name], run, splits, key, predictions, of_heads=of_heads)
            for key, (name, run) in asked.items()
            if key in missing
        ],
    )


def _guess(
    name: str,
    build: Guesser,
    run: Run,
    splits: Splits,
    key: str,
    predictions: Path | None,
    *,
    of_heads: bool,
) -> Record:
    guess = build(_train_view(run, splits))
    metric = METRICS[splits.metric]
    views = scored_views(run.spec, splits)
    guessed = {split: guess(view) for split, view in views.items()}
    scores = {
        split: metric(gold_of(view, metric)).score(guessed[split]) for split, view in views.items()
    }
    kept: dict[str, Any] = {}
    if (file := Outputs(predictions=predictions).predictions_of(key)) is not None:
        write_predictions(
            file,
            guessed,
            views,
            key=key,
            metric=metric.name,
            labels_fingerprint=run.options.labels_fingerprint,
        )
        kept = {"predictions": str(file), "predictions_digest": digest_file(file)}
    return _record(
        run,
        splits,
        key,
        {split: of_split[metric.name] for split, of_split in scores.items()},
        head=name,
        fitter="none",
        options={},
        spec={},
        freeze=False,
        rates={},
        optimizer="none",
        scores={f"{split}/{name}": s for split, by in scores.items() for name, s in by.items()},
        **dict.fromkeys(_NOT_TRAINED),
        **({} if of_heads else {"decoder": "none", "layers": (), "normalize": "none"}),
        **kept,
    )


def code_records(
    runs: Sequence[Run],
    splits: Splits,
    ledger: Ledger,
    *,
    device: str = "cpu",
    memory: int | None = None,
) -> list[Record]:
    """Return the record of each run's online code; its score is the compression."""

    def key_of(run: Run) -> str:
        return digest(["online code by loss and Laplace", run.options.key])

    def make(group: Sequence[Run], missing: Collection[str]) -> Iterator[Record]:
        left = [run for run in group if key_of(run) in missing]
        if not left:
            return
        first = left[0]
        views = scored_views(first.spec, splits)
        codes = online_code(
            [run.member for run in left],
            _train_view(first, splits),
            views.get(HELD_OUT, views["dev"]),
            n_classes=len(splits.train_classes),
            seed=first.spec.seed,
            steps=first.spec.of(Steps),
            device=device,
            memory=memory,
        )
        for run, code in zip(left, codes, strict=True):
            yield _record(
                run,
                splits,
                key_of(run),
                {"dev": code.compression},
                metric=COMPRESSION,
                protocol=f"online code, {run.spec.protocol}",
                diverged=code.diverged,
                scores={
                    "bits": code.bits,
                    "bits per label": code.bits_per_row,
                    COMPRESSION: code.compression,
                },
            )

    records: dict[str, Record] = {}
    for group in grouped(runs, lambda run: (run.data_key, run.stream_key)).values():
        keys = [key_of(run) for run in group]
        records |= zip(keys, ledger.settle(keys, partial(make, group)), strict=True)
    return [records[key_of(run)] for run in runs]


def _train_view(run: Run, splits: Splits) -> FeatureView:
    return train_view(splits, run.spec.pooling).take(sample(run.spec, splits))


def _record(
    run: Run, splits: Splits, key: str, by_split: Mapping[str, float], **changes: Any
) -> Record:
    """Return a record with the options of a run, except for what is the baseline's own."""
    return Record(
        **described(run, splits)
        | {
            "eval_score": by_split["dev"],
            "eval_last": by_split["dev"],
            "best_epoch": 0.0,
            "test_score": by_split.get("test"),
            "n_params": 0,
            "train_seconds": 0.0,
            "version": __version__,
            "key": key,
        }
        | changes
    )
