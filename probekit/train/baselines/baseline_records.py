"""Baselines as records, kept in the same file as those of heads.

Without features: the most frequent answer, and the most frequent one per word. With them: the
length of the online code.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from probekit.base.fingerprint import digest
from probekit.base.kinds import KINDS
from probekit.base.selection import HELD_OUT
from probekit.features import FeatureView, Splits
from probekit.metrics import COMPRESSION, METRICS
from probekit.results import Record, recorded
from probekit.results.claims import Claims, owners, wait_for_change
from probekit.train.baselines.code_length import online_code
from probekit.train.option_groups import Steps
from probekit.train.scoring import gold_of
from probekit.train.sweeps.resolve import Run
from probekit.train.sweeps.run_groups import data_key, grouped, stream_key
from probekit.train.sweeps.run_options import Sample
from probekit.train.sweeps.run_views import sample, scored_views, train_view
from probekit.train.sweeps.run_words import described
from probekit.version import __version__

CODE_SCORES = ("bits per label", COMPRESSION)

Guess = Callable[[FeatureView], np.ndarray]
"""From a view to what the task's metric consumes: a class, value or loss per row."""


def majority(train: FeatureView) -> Guess:
    """Guess the same for every row.

    That is the most frequent class of train (the first by name among equals), the mean value for a
    regression, and for language modelling the frequencies of the vocabulary in train, with one
    added to each.

    Args:
        train: the rows that a probe would be trained on.
    """
    targets = KINDS[train.kind].targets
    if targets == "numbers":
        mean = float(train.targets.mean())
        return lambda view: np.full(len(view), mean)
    if targets == "vocabulary":
        counts = np.bincount(train.targets, minlength=train.n_outputs) + 1.0
        losses = -np.log(counts / counts.sum())
        return lambda view: losses[view.targets]
    common = int(np.bincount(train.targets, minlength=len(train.labels)).argmax())
    return lambda view: np.full(len(view), common, np.int64)


def memorised(train: FeatureView) -> Guess:
    """Guess for every word the class that it had most often in train, as it is written.

    A word that train does not have gets the most frequent class of train (which is what makes the
    majority's span F1 zero and this one's not).

    Args:
        train: words and their classes.
    """
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for word, target in zip(train.words, train.targets.tolist(), strict=True):
        counts[word][target] += 1
    common = int(np.bincount(train.targets, minlength=len(train.labels)).argmax())
    # of the counts {2: 3, 1: 3, 0: 1}: class 1, the smallest of equals
    best = {word: min(n, key=lambda target: (-n[target], target)) for word, n in counts.items()}
    return lambda view: np.array([best.get(word, common) for word in view.words], np.int64)


GUESSES: Mapping[str, Callable[[FeatureView], Guess]] = {
    "majority": majority,
    "memorised": memorised,
}


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


def guess_records(runs: Sequence[Run], splits: Splits, ledger: Ledger) -> list[Record]:
    """Return the records of the baselines without features, one per drawn sample.

    Memorising needs labels of words.
    """
    words = KINDS[splits.kind].per == "word"
    names = [name for name in GUESSES if name == "majority" or words]
    asked: dict[str, tuple[str, Run]] = {}
    for run in runs:
        for name in names:
            # what decides the rows of a baseline without features
            drawn = [*run.spec.of(Sample).to_json().values(), run.spec.pooling]
            cut = run.spec.drop_duplicates or (run.spec.hold_out and run.spec.group)
            drawn += [run.options.groups] if cut else []
            key = digest([name, drawn, run.options.labels_fingerprint, run.options.entries])
            asked.setdefault(key, (name, run))
    return ledger.settle(
        list(asked),
        lambda missing: [_guess(*asked[key], splits, key) for key in asked if key in missing],
    )


def _guess(name: str, run: Run, splits: Splits, key: str) -> Record:
    guess = GUESSES[name](_train_view(run, splits))
    metric = METRICS[splits.metric]
    views = scored_views(run.spec, splits)
    scores = {
        name: metric(gold_of(view, metric)).judge(guess(view)) for name, view in views.items()
    }
    return _record(
        run,
        splits,
        key,
        {split: of_split[metric.name] for split, of_split in scores.items()},
        head=name,
        decoder="none",
        fitter="none",
        options={},
        spec={},
        freeze=False,
        layers=(),
        rates={},
        normalize="none",
        optimizer="none",
        scores={f"{split}/{name}": s for split, by in scores.items() for name, s in by.items()},
        **dict.fromkeys(_NOT_TRAINED),
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
    for group in grouped(runs, lambda run: (data_key(run), stream_key(run))).values():
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
