"""Run a suite: extract each of its tasks, and train a probe at every layer."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from probekit.backbone import inspect_backbone
from probekit.base.layers import parse_layers
from probekit.base.notices import human_time
from probekit.base.registry import PathName, choose, typed_name
from probekit.errors import OptionError
from probekit.extraction import ExtractOptions, extract
from probekit.features import Location
from probekit.results import Record, Records
from probekit.tasks.suites import SUITES, SuiteTask
from probekit.train.sweeps.protocols import get_protocol
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec

logger = logging.getLogger(__name__)


def run_suite(
    name: str,
    model: PathName,
    *,
    out: PathName,
    data: PathName | None = None,
    tasks: Sequence[str] | None = None,
    layers: str = "all",
    head: str = "last",
    protocol: str | None = None,
    options: Mapping[str, Any] | None = None,
    cache: PathName = "cache",
    device: str = "auto",
    workers: int = 1,
    progress: bool = False,
) -> Records:
    """Extract every task of a suite and train a head at each layer; what is there is not repeated.

    Args:
        name: of ``SUITES``.
        model: the backbone, as in `extract`.
        out: records of all tasks.
        data: folder of the suite's files.
        tasks: only these, as the suite names them, or what follows the slash; None is all.
        layers: the layers that are stored and read, one by one.
        head: trained at each of them.
        protocol: preset of training options.
        options: options of ``TrainSpec`` that override those of the suite and the protocol.
        cache: root of the feature cache.
        device: what extracts and trains.
        workers: processes.
        progress: show progress on stderr.

    Returns:
        The records, of each layer as its depth.

    Raises:
        UnknownNameError: there is no such suite or protocol.
        OptionError: the suite has no such task, or the protocol several seeds.
        ProbekitError: as `extract` and `sweep`.
    """
    suite = choose("suite", name, SUITES)
    chosen = _chosen(suite.tasks(None if data is None else Path(data)), tasks)
    called, preset = typed_name(model), get_protocol(protocol)
    if preset.seeds > 1:
        raise OptionError(
            f"--protocol {protocol} averages over {preset.seeds} seeds, and a suite runs one: use "
            "`probekit sweep` for each task."
        )
    settings = {"pooling": suite.pooling} | dict(suite.options)
    settings |= dict(preset.options) | dict(options or {})
    info = inspect_backbone(called).info
    bounded = suite.max_length is not None and suite.max_length < info.identity.max_length
    stored = ExtractOptions(
        layers=layers,
        keep=None if settings["pooling"] is None else (settings["pooling"],),
        max_length=suite.max_length if bounded else None,
    )
    records, origins = list[Record](), dict[str, Path]()
    start = time.monotonic()
    for count, task in enumerate(chosen, start=1):
        extract(
            model, task.name, data=task.data, options=stored, cache=cache, device=device,
            workers=workers, progress=progress,
        )  # fmt: skip
        base = TrainSpec(model=called, task=task.name, label=task.label, head=head, **settings)
        plan = [replace(base, depth=n) for n in parse_layers(layers, info.n_blocks)]
        done = sweep(
            plan, out=out, location=Location(cache=cache, data=task.data), device=device,
            workers=workers, predictions="new", progress=progress,
        )  # fmt: skip
        records += done
        origins |= done.origins
        seconds = (time.monotonic() - start) / count * (len(chosen) - count)
        logger.info(
            "suite %s: %d of %d tasks done (%s); about %s left",
            name, count, len(chosen), task.text, human_time(seconds),
        )  # fmt: skip
    return Records(records, origins)


def _chosen(every: Sequence[SuiteTask], names: Sequence[str] | None) -> list[SuiteTask]:
    """Return the tasks of some names, in the order of the suite.

    Raises:
        OptionError: one has another name.
    """
    if names is None:
        return list(every)
    known = {name for task in every for name in _called(task)}
    if unknown := [name for name in names if name not in known]:
        raise OptionError(
            f"--tasks {unknown[0]}: the suite has no such task. It has "
            f"{', '.join(task.text for task in every[:5])}{', ...' if len(every) > 5 else ''}."
        )
    return [task for task in every if _called(task) & set(names)]


def _called(task: SuiteTask) -> set[str]:
    """Return the names by which a task can be chosen."""
    return {task.name, task.text, task.name.partition("/")[2]}
