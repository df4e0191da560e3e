"""Extraction by several processes that one call starts: each is a shard of every entry."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from probekit.base.notices import ProgressBar
from probekit.engines import Engine, RemoteEngine, Report, engine_of, made_ready, run_local
from probekit.errors import OptionError
from probekit.extraction.extract_target import ExtractTarget
from probekit.extraction.maintenance.merging import merge_shards
from probekit.extraction.opening import open_session
from probekit.extraction.request_options import ExtractOptions
from probekit.extraction.session import Session
from probekit.extraction.shards import Shard
from probekit.store.layout import MANIFEST
from probekit.store.marks import unfinished_units
from probekit.tasks import Split


@dataclass(frozen=True)
class ShardJob:
    """What one worker does; picklable, so that any engine can run it.

    Attributes:
        target: model and task, and which shard this is.
        options: what is asked for.
    """

    target: ExtractTarget
    options: ExtractOptions

    def __call__(self, report: Report) -> Generator[Path, None, None]:
        """Extract the shard of every split, and yield the entries that this completes."""
        session, splits = open_session(self.target, self.options, heard=report)
        for split in splits:
            if (entry := session.extract(split)) is not None:
                yield entry.path


@dataclass(frozen=True)
class MergeJob:
    """Completes entries of which shards have written all, if the last one could not.

    Attributes:
        cache: root of the cache.
        entries: the final folders.
    """

    cache: Path
    entries: tuple[Path, ...]

    def __call__(self, report: Report) -> Generator[Path, None, None]:
        """Merge what is begun, and yield the entries that this completes.

        Raises:
            EntryError: units are missing.
        """
        for folder in self.entries:
            if not (folder / MANIFEST).is_file():
                yield from (entry.path for entry in merge_shards(self.cache, [folder]))


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
        EngineError: a worker died.
        ProbekitError: of a worker, as `extract` raises them.
    """
    target = session.target
    found = engine_of(engine)
    if found is run_local and target.workers == 1:
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
    folders = tuple(session.place(split).folder for split in left)
    start = made_ready(found, target.cache, MergeJob(target.cache, folders))
    names = tuple(split.name for split in left)
    options = session.request.options
    jobs = [
        ShardJob(replace(target, shard=shard, splits=names, device=device), options)
        for shard, device in _places(target, here=not isinstance(found, RemoteEngine))
    ]
    total, begun = _tokens(session, left)
    with (
        ProgressBar(
            total=total,
            initial=begun,
            desc=", ".join(names),
            unit="tok",
            unit_scale=True,
            shown=session.progress.shown,
        ) as bar,
        closing(start(jobs, workers=target.workers, report=bar.report)) as results,
    ):
        for _ in results:
            pass


def _places(target: ExtractTarget, *, here: bool) -> list[tuple[Shard, str]]:
    """Return the shards and where the model of each runs: on GPUs in turn, where there are some.

    Args:
        target: what is extracted.
        here: whether they run on this machine; elsewhere each finds its own GPU.
    """
    shards = [Shard(index + 1, target.workers) for index in range(target.workers)]
    gpus = torch.cuda.device_count() if here and target.device in ("auto", "cuda") else 0
    return [
        (shard, f"cuda:{(shard.index - 1) % gpus}" if gpus else target.device) for shard in shards
    ]


def _tokens(session: Session, splits: Sequence[Split]) -> tuple[int, int]:
    """Return the subwords of some splits, and how many an earlier run has done."""
    total = begun = 0
    for split in splits:
        plan = session.plan(split)
        done = unfinished_units(session.place(split).folder)
        total += plan.tokens
        begun += sum(plan.unit_tokens(unit) for unit in plan.units if unit.index in done)
    return total, begun
