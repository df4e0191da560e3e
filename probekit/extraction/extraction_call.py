"""The library call behind ``probekit extract``."""

import logging
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from probekit.backbone.remembered import inspect_and_remember
from probekit.base.machine.hardware import pick_device
from probekit.errors import MissingFileError, OptionError
from probekit.extraction.request_options import ExtractOptions
from probekit.extraction.session import Session
from probekit.store.entry import Entry
from probekit.store.layout import model_slug
from probekit.tasks import Split, Task, TextOptions, is_own, open_task

logger = logging.getLogger(__name__)

_UNSAID = {"device": "auto", "cache": Path("cache")}
"""Options that need not be typed when they are this."""


def extract(
    model: str,
    task: str,
    *,
    data: str | Path | None = None,
    splits: Sequence[str] | None = None,
    options: ExtractOptions | None = None,
    device: str = "auto",
    cache: str | Path = "cache",
    overwrite: bool = False,
    restart: bool = False,
    name: str | None = None,
    revision: str | None = None,
    kind: str | None = None,
    text: str | None = None,
    label: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    sentences: str | None = None,
    skip_unlabelled: bool = False,
    progress: bool = False,
) -> list[Entry]:
    """Run a frozen model over a task's text once and cache every layer.

    A split whose entry is complete is not computed again; one that was interrupted is resumed.

    Args:
        model: Hub id, local folder or .gguf file.
        task: name of a task, or path of the user's own data.
        data: folder with the task's published files; ``None`` reads from the Hub.
        splits: splits to extract; ``None`` is every split that there is.
        options: what to store, and how.
        device: ``auto`` is CUDA where there is some, else the CPU.
        cache: root of the feature cache.
        overwrite: compute complete entries again and replace them.
        restart: throw away what an unfinished extraction with other options has finished.
        name: what to call the model in the cache, and as MODEL from then on.
        revision: Hub branch, tag or commit of the model.
        kind: for the user's own data, its kind.
        text: for the user's own data, name or index of the text column.
        label: for the user's own data, name or index of the label column.
        separator: for the user's own tables, what divides the columns.
        encoding: for the user's own text files, their encoding.
        sentences: for the user's own tables of words, the column of sentence ids.
        skip_unlabelled: for the user's own data, leave out texts without a label.
        progress: show progress on stderr.

    Returns:
        one entry per split, in the order of the splits.

    Raises:
        ProbekitError: anything that the user can mend; see ``probekit.errors``.
    """
    own = TextOptions(
        kind=kind, text=text, separator=separator, encoding=encoding, sentences=sentences,
        skip_unlabelled=skip_unlabelled,
    )  # fmt: skip
    session, texts = open_session(
        model,
        task,
        own=own,
        label=label,
        data=data,
        splits=splits,
        options=options,
        device=device,
        cache=cache,
        overwrite=overwrite,
        restart=restart,
        name=name,
        revision=revision,
        progress=progress,
    )
    return [session.extract(split) for split in texts]


def open_session(
    model: str,
    task: str,
    *,
    own: TextOptions | None = None,
    label: str | None = None,
    data: str | Path | None = None,
    splits: Sequence[str] | None = None,
    options: ExtractOptions | None = None,
    device: str = "auto",
    cache: str | Path = "cache",
    overwrite: bool = False,
    restart: bool = False,
    name: str | None = None,
    revision: str | None = None,
    progress: bool = False,
) -> tuple[Session, list[Split]]:
    """Read a task's text and the model's facts; nothing is computed yet.

    Arguments and errors are those of `extract`; ``own`` is how the user's own data is read.

    Returns:
        the session and the splits, in their order.
    """
    options, own = options or ExtractOptions(), own or TextOptions()
    family = open_task(task, own, label)
    if data is not None and is_own(family):
        raise OptionError(f"{task} is the data already; leave --data {data} out.")
    inspection = inspect_and_remember(model, revision=revision, random_init=options.random_init)
    texts = [split.first(options.limit) for split in _read(family, splits, data)]
    remedy = _rerun(
        (model, task, *own.typed), replace(options, dtype="bfloat16"),
        data=data, split=splits and ",".join(splits), revision=revision, label=label,
        device=device, name=name, cache=Path(cache),
    )  # fmt: skip
    session = Session(
        inspection=inspection,
        task=family,
        options=options,
        device=pick_device(device),
        cache=Path(cache),
        name=None if name is None else model_slug(name),
        overwrite=overwrite,
        restart=restart,
        remedy=remedy,
        progress=progress,
    )
    return session, texts


def _rerun(names: Sequence[str], options: ExtractOptions, **named: object) -> str:
    """Return the command line of the same extraction of MODEL, TASK and its text options."""
    said = {name: value for name, value in named.items() if value and value != _UNSAID.get(name)}
    words = [str(word) for name, value in said.items() for word in (f"--{name}", value)]
    return shlex.join(["probekit", "extract", *names, *words, *options.words()])


def _read(task: Task, splits: Sequence[str] | None, data: str | Path | None) -> list[Split]:
    """Read the splits that were named, or every one that there is."""
    data = None if data is None else Path(data)
    if splits is not None:
        if not splits:
            raise OptionError(f"--split names no split of {task.name}: {', '.join(task.splits)}.")
        return [task.read(name, data) for name in splits]
    found: list[Split] = []
    missing: list[MissingFileError] = []
    for name in task.splits:
        try:
            found.append(task.read(name, data))
        except MissingFileError as error:
            missing.append(error)
    if not found:
        raise missing[0]
    for reason in missing:
        logger.info("left out: %s", reason)
    return found
