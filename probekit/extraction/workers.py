"""Extraction by several processes that one call starts: each is a shard of every entry."""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from probekit.base.notices import ProgressBar
from probekit.engines import Engine, Report, engine_of, runs_here
from probekit.errors import OptionError
from probekit.extraction.extract_target import ExtractTarget
from probekit.extraction.opening import open_session
from probekit.extraction.request_options import ExtractOptions
from probekit.extraction.session import Session
from probekit.extraction.shards import Shard
from probekit.store.marks import unfinished_units
from probekit.tasks import Split


@dataclass(frozen=True)
class ShardJob:
    """What one worker does; picklable, so that any engine can run it.

    Attributes:
        target: model and task, and which shard this is.
        options: what is asked for.
        tokens: subwords of its shard of each split that the bar does not count yet.
    """

    target: ExtractTarget
    options: ExtractOptions
    tokens: Mapping[str, int] = field(default_factory=dict)

    def __call__(self, report: Report) -> Generator[Path, None, None]:
        """Extract the shard of every split, and yield the entries that this completes."""
        heard = 0

        def hear(count: int) -> None:
            nonlocal heard
            heard += count
            report(count)

        session, splits = open_session(self.target, self.options, heard=hear)
        for split in splits:
            heard = 0
            entry = session.extract(split)
            # where it is run again, what the run before has done
            report(self.tokens.get(split.name, heard) - heard)
            if entry is not None:
                yield entry.path


def run_workers(session: Session, splits: Sequence[Split], *, engine: str | Engine) -> None:
    """Extract every split that is not complete, with as many processes as the target says.

    One local process is this one, which has nothing to start.

    Args:
        session: model, task and options; the model is not loaded here.
        splits: of the task.
        engine: what runs them, or its name in ``ENGINES``.

    Raises:
        UnknownNameError: there is no such engine.
        OptionError: it cannot be used here, or cannot do this.
        EngineError: a worker died, or a cluster cannot be used.
        ProbekitError: of a worker, as `extract` raises them.
    """
    target = session.target
    found = engine_of(engine)
    if runs_here(found) and target.workers == 1:
        return
    if target.shard is not None:
        raise OptionError(
            f"--shard {target.shard} with another --engine: each of its workers is a shard "
            "already. Leave one of them out."
        )
    target.check_shared("another --engine")
    left = [split for split in splits if session.finished(session.place(split)) is None]
    if not left:
        return
    names = tuple(split.name for split in left)
    shards = [Shard(index + 1, target.workers) for index in range(target.workers)]
    devices = _devices(target) if runs_here(found) else [target.device] * target.workers
    total, todo = _tokens(session, left, shards)
    jobs = [
        ShardJob(
            replace(target, shard=shard, splits=names, device=device),
            session.request.options,
            todo[shard],
        )
        for shard, device in zip(shards, devices, strict=True)
    ]
    with (
        ProgressBar(
            total=total,
            initial=total - sum(sum(tokens.values()) for tokens in todo.values()),
            desc=", ".join(names),
            unit="tok",
            unit_scale=True,
            shown=session.progress.shown,
        ) as bar,
        closing(found(jobs, workers=target.workers, report=bar.report)) as results,
    ):
        for _ in results:
            pass


def _devices(target: ExtractTarget) -> list[str]:
    """Return where the model of each worker runs: on GPUs in turn, where there are some."""
    gpus = torch.cuda.device_count() if target.device in ("auto", "cuda") else 0
    workers = range(target.workers)
    return [f"cuda:{index % gpus}" if gpus else target.device for index in workers]


def _tokens(
    session: Session, splits: Sequence[Split], shards: Sequence[Shard]
) -> tuple[int, dict[Shard, Counter[str]]]:
    """Return the subwords of some splits, and by shard and split those that are not read yet."""
    total = 0
    todo = {shard: Counter[str]() for shard in shards}
    for split in splits:
        plan, place = session.plan(split), session.place(split)
        total += plan.tokens
        done = unfinished_units(place.folder)
        for shard in shards:
            units = (unit for unit in shard.units_of(plan, place.key) if unit.index not in done)
            todo[shard][split.name] = sum(map(plan.unit_tokens, units))
    return total, todo
