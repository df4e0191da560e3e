"""The library call behind ``probekit extract``."""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from probekit.backbone.placement import DeviceMap
from probekit.base.notices import ProgressBar
from probekit.base.registry import PathName
from probekit.engines import Engine, Report, engine_of, runs_here
from probekit.errors import OptionError
from probekit.extraction.extract_target import ExtractTarget, Shard
from probekit.extraction.opening import Session, open_session
from probekit.extraction.request_options import ExtractOptions
from probekit.features.duplicates import say_duplicates
from probekit.store.entry import Entries
from probekit.store.unfinished import unfinished_units
from probekit.tasks import Split, TextOptions
from probekit.tasks.split_parts import SplitParts

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


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


def run_workers(
    session: Session, splits: Sequence[Split | SplitParts], *, engine: str | Engine
) -> None:
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
    run_jobs = engine_of(engine)
    if runs_here(run_jobs) and target.workers == 1:
        return
    if target.shard is not None:
        raise OptionError(
            f"--shard {target.shard} with another --engine: each of its workers is a shard "
            "already. Leave one of them out."
        )
    target.check_shared("another --engine")
    left = [split for split in splits if not session.is_finished(split)]
    if not left:
        return
    session.say_taken()
    names = tuple(split.name for split in left)
    shards = [Shard(index + 1, target.workers) for index in range(target.workers)]
    devices = _devices(target) if runs_here(run_jobs) else [target.device] * target.workers
    total, todo = _tokens(session, [split for split in left if isinstance(split, Split)], shards)
    large = [split for split in left if isinstance(split, SplitParts)]
    expected = sum(session.plan(next(split.read())).tokens * split.parts.count for split in large)
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
            total=total + expected,
            initial=total - sum(sum(tokens.values()) for tokens in todo.values()),
            desc=", ".join(names),
            unit="tok",
            unit_scale=True,
            shown=session.progress.shown,
        ) as bar,
        closing(run_jobs(jobs, workers=target.workers, report=bar.report)) as results,
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
        plan, address = session.plan(split), session.address(split)
        total += plan.tokens
        done = unfinished_units(address.folder)
        for shard in shards:
            units = (unit for unit in shard.units_of(plan, address.key) if unit.index not in done)
            todo[shard][split.name] = sum(map(plan.unit_tokens, units))
    return total, todo


def extract(
    model: "PathName | PreTrainedModel",
    task: PathName | None = None,
    *,
    tokenizer: "PreTrainedTokenizerFast | None" = None,
    examples: Any = None,
    data: PathName | None = None,
    splits: Sequence[str] | None = None,
    options: ExtractOptions | None = None,
    device: str = "auto",
    device_map: DeviceMap | None = None,
    cache: PathName = "cache",
    overwrite: bool = False,
    restart: bool = False,
    shard: str | None = None,
    workers: int = 1,
    engine: str | Engine = "local",
    name: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    kind: str | None = None,
    text: str | None = None,
    label: str | None = None,
    separator: str | None = None,
    sentences: str | None = None,
    skip_unlabelled: bool = False,
    skip_blank: bool = False,
    progress: bool = False,
) -> Entries:
    """Run a frozen model over a task's text once and cache every layer.

    A split whose entry is complete is not computed again; one that was interrupted is resumed.

    Args:
        model: Hub id, local folder or .gguf file; or a transformers model in memory, with
            ``tokenizer`` and ``name``, which stays as it is.
        task: name of a task, or path of the user's own data (a ``Path`` is never taken for a name);
            what ``examples`` are called.
        tokenizer: of a model in memory, a fast one.
        examples: texts in memory, by split or of train: a list of (words, tags), of texts, of
            (text, label) or of ((first, second), label), a ``datasets.Dataset``, or a pandas frame.
        data: folder with the task's published files; ``None`` reads from the Hub.
        splits: splits to extract; ``None`` is every split that there is.
        options: what to store, and how.
        device: ``auto`` is where a model in memory lies; else CUDA where there is some, or the CPU.
        device_map: in place of ``device``, for a model that does not fit on one: ``auto``,
            ``balanced``, ``balanced_low_0`` or ``sequential`` lays its blocks out over the GPUs,
            then the host's memory; or a device by the name of each part.
        cache: root of the feature cache.
        overwrite: compute complete entries again and replace them.
        restart: throw away what an unfinished extraction with other options has finished.
        shard: ``2/4``: extract the second of four shares of each entry; other processes, at any
            time and on any machine that sees the cache, the others.
        workers: processes that share the work.
        engine: what runs them, or its name in ``probekit.engines.ENGINES``.
        name: what to call the model in the cache, and as MODEL from then on; a model in memory
            needs one.
        revision: Hub branch, tag or commit of the model.
        trust_remote_code: run code that lies with the model; it may do anything on this machine.
        kind: for the user's own data, its kind.
        text: for the user's own data, name or index of the text column.
        label: for the user's own data, name or index of the label column.
        separator: for the user's own tables, what divides the columns.
        sentences: for the user's own tables of words, the column of sentence ids.
        skip_unlabelled: for the user's own data, leave out texts without a label.
        skip_blank: for the user's own data, leave out rows without text.
        progress: show progress on stderr.

    Returns:
        one entry per split, in the order of the splits; without those that other shards have not
        done theirs of.

    Raises:
        ProbekitError: anything that the user can mend; see ``probekit.errors``.
    """
    text_options = TextOptions(
        kind=kind, text=text, separator=separator, sentences=sentences,
        skip_unlabelled=skip_unlabelled, skip_blank=skip_blank,
    )  # fmt: skip
    target = ExtractTarget.of(
        model, task, tokenizer=tokenizer, examples=examples, own=text_options, data=data,
        splits=splits, revision=revision, label=label, device=device, device_map=device_map,
        name=name, cache=cache, overwrite=overwrite, restart=restart,
        shard=Shard.asked(shard, workers), workers=workers, trust_remote_code=trust_remote_code,
    )  # fmt: skip
    session, texts = open_session(target, options, progress=progress)
    return extract_splits(session, texts, engine=engine)


def extract_splits(
    session: Session, splits: Sequence[Split | SplitParts], *, engine: str | Engine = "local"
) -> Entries:
    """Extract splits, in this process or in others; errors are those of `extract`."""
    run_workers(session, splits, engine=engine)
    extracted = (session.extract(split) for split in splits)
    entries = Entries(entry for entry in extracted if entry is not None)
    say_duplicates(entries, session.target.cache)
    return entries
