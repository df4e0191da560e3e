"""Baselines as records, kept in the same file as those of heads."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from probekit.base.fingerprint import digest
from probekit.base.selection import HELD_OUT
from probekit.features import FeatureView, Splits
from probekit.metrics import COMPRESSION, METRICS
from probekit.results import Record, recorded
from probekit.results.claims import Claims, owners, wait_for_change
from probekit.train.baselines.code_length import CodeLength, online_code
from probekit.train.baselines.guesses import Guess, majority, memorised
from probekit.train.scoring import gold_of
from probekit.train.sweeps.resolve import Run, sample, scored_views, text_array, train_view
from probekit.train.sweeps.run_groups import data_key, stream_key
from probekit.train.sweeps.worker import described
from probekit.version import __version__

CODE_SCORES = ("bits per label", COMPRESSION)

GUESSES: Mapping[str, Callable[[FeatureView], Guess]] = {
    "majority": majority,
    "memorised": memorised,
}


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
    names = [name for name in GUESSES if name == "majority" or splits.kind == "tagging"]
    asked: dict[str, tuple[str, Run]] = {}
    for run in runs:
        for name in names:
            key = digest([name, _drawn(run), run.options.labels_fingerprint, run.options.entries])
            asked.setdefault(key, (name, run))
    return ledger.settle(
        list(asked),
        lambda missing: [_guess(*asked[key], splits, key) for key in asked if key in missing],
    )


def _drawn(run: Run) -> list[Any]:
    spec = run.spec
    return [spec.shots, spec.fraction, spec.hold_out, spec.seed, spec.pooling]


def _guess(name: str, run: Run, splits: Splits, key: str) -> Record:
    guess = GUESSES[name](_train_view(run, splits))
    metric = METRICS[splits.metric]
    scores = {
        split: metric(gold_of(view, metric)).judge(guess(view))
        for split, view in scored_views(run.spec, splits).items()
    }
    return _record(
        run,
        splits,
        key,
        {split: found[metric.name] for split, found in scores.items()},
        head=name,
        decoder="none",
        options={},
        init=None,
        freeze=False,
        layers=(),
        depth=None,
        fitter="none",
        select=None,
        l2=None,
        epochs=None,
        evals=None,
        lr=None,
        rates={},
        rate_from=None,
        batch_size=None,
        normalize="none",
        optimizer="none",
        scores={f"{split}/{one}": v for split, found in scores.items() for one, v in found.items()},
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
    keys = [digest(["online code by loss and Laplace", run.options.key]) for run in runs]
    together: dict[Any, list[int]] = {}
    for place, run in enumerate(runs):
        together.setdefault((data_key(run), stream_key(run)), []).append(place)

    def make(places: Sequence[int], missing: Collection[str]) -> Iterator[Record]:
        left = [place for place in places if keys[place] in missing]
        if not left:
            return
        first = runs[left[0]]
        views = scored_views(first.spec, splits)
        codes = online_code(
            [runs[place].member for place in left],
            _train_view(first, splits),
            views.get(HELD_OUT, views["dev"]),
            n_classes=len(splits.train_classes),
            seed=first.spec.seed,
            epochs=first.spec.epochs or 0,
            batch_size=first.spec.batch_size or 1,
            evals=first.spec.evals or 1,
            device=device,
            memory=memory,
        )
        for place, code in zip(left, codes, strict=True):
            yield _code(runs[place], splits, keys[place], code)

    found: dict[str, Record] = {}
    for places in together.values():
        own = [keys[place] for place in places]
        found |= zip(own, ledger.settle(own, partial(make, places)), strict=True)
    return [found[key] for key in keys]


def _code(run: Run, splits: Splits, key: str, code: CodeLength) -> Record:
    return _record(
        run,
        splits,
        key,
        {"dev": code.compression},
        metric=COMPRESSION,
        protocol=f"online code, {run.spec.protocol}",
        diverged=code.diverged,
        scores={"bits": code.bits, **dict(zip(CODE_SCORES, _shown(code), strict=True))},
    )


def _shown(code: CodeLength) -> tuple[float, float]:
    return code.bits_per_row, code.compression


def _train_view(run: Run, splits: Splits) -> FeatureView:
    full = train_view(splits, text_array(run.spec, splits))
    return full.take(sample(run.spec, splits))


def _record(
    run: Run, splits: Splits, key: str, by_split: Mapping[str, float], **own: Any
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
        | own
    )
