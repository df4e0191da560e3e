"""The library call behind ``probekit extract``."""

import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from probekit.backbone.remembered import inspect_and_remember
from probekit.errors import MissingFileError, OptionError
from probekit.extraction.options import ExtractOptions
from probekit.extraction.session import Session
from probekit.hardware import pick_device
from probekit.store.entry import Entry
from probekit.store.layout import model_slug
from probekit.tasks import Split, Task, TextOptions, get_task, is_own

logger = logging.getLogger(__name__)


def extract(
    model: str,
    task: str,
    *,
    data: str | Path | None = None,
    splits: Sequence[str] | None = None,
    options: ExtractOptions | None = None,
    device: str = "auto",
    compile: bool = False,
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
        compile: hand the model's blocks to ``torch.compile`` first.
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
    session, texts = open_session(
        model,
        task,
        data=data,
        splits=splits,
        options=options,
        device=device,
        compile=compile,
        cache=cache,
        overwrite=overwrite,
        restart=restart,
        name=name,
        revision=revision,
        kind=kind,
        text=text,
        label=label,
        separator=separator,
        encoding=encoding,
        sentences=sentences,
        skip_unlabelled=skip_unlabelled,
        progress=progress,
    )
    return [session.extract(split) for split in texts]


def open_session(
    model: str,
    task: str,
    *,
    data: str | Path | None = None,
    splits: Sequence[str] | None = None,
    options: ExtractOptions | None = None,
    device: str = "auto",
    compile: bool = False,
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
) -> tuple[Session, list[Split]]:
    """Read a task's text and the model's facts; nothing is computed yet.

    Args:
        model: see `extract`, as for the rest.
        task: name of a task, or path of the user's own data.
        data: folder with the task's published files.
        splits: splits to extract.
        options: what to store, and how.
        device: where the model runs.
        compile: hand the model's blocks to ``torch.compile`` first.
        cache: root of the feature cache.
        overwrite: compute complete entries again.
        restart: throw away what an unfinished extraction with other options has finished.
        name: what to call the model in the cache.
        revision: Hub branch, tag or commit of the model.
        kind: kind of the user's own data.
        text: its text column.
        label: its label column.
        separator: what divides the columns of its tables.
        encoding: the encoding of its text files.
        sentences: the column of sentence ids in its tables of words.
        skip_unlabelled: leave out its texts without a label.
        progress: show progress on stderr.

    Returns:
        the session and the splits, in their order.

    Raises:
        ProbekitError: anything that the user can mend; see ``probekit.errors``.
    """
    options = options or ExtractOptions()
    own = TextOptions(
        kind=kind,
        text=text,
        separator=separator,
        encoding=encoding,
        sentences=sentences,
        skip_unlabelled=skip_unlabelled,
    )
    family = get_task(task, label=label, **own.given)
    if data is not None and is_own(family):
        raise OptionError(f"{task} is the data already; leave --data {data} out.")
    inspection = inspect_and_remember(model, revision=revision, random_init=options.random_init)
    texts = [
        split.first(options.limit)
        for split in _read(family, splits, None if data is None else Path(data))
    ]
    named = {
        "--data": data,
        "--split": splits and ",".join(splits),
        "--revision": revision,
        "--label": label,
        "--device": None if device == "auto" else device,
        "--name": name,
        "--cache": None if Path(cache) == Path("cache") else cache,
    }
    session = Session(
        inspection=inspection,
        task=family,
        options=options,
        device=pick_device(device),
        compile=compile,
        cache=Path(cache),
        name=None if name is None else model_slug(name),
        overwrite=overwrite,
        restart=restart,
        remedy=_rerun(
            (model, task, *own.typed), named, replace(options, dtype="bfloat16"), compile=compile
        ),
        progress=progress,
    )
    return session, texts


def _rerun(
    names: Sequence[str],
    named: Mapping[str, object],
    options: ExtractOptions,
    *,
    compile: bool,
) -> str:
    """Return the command line of the same extraction of MODEL, TASK and its text options."""
    words = [str(word) for item in named.items() if item[1] for word in item]
    words += ["--compile"] if compile else []
    return shlex.join(["probekit", "extract", *names, *words, *options.words()])


def _read(task: Task, splits: Sequence[str] | None, data: Path | None) -> list[Split]:
    """Read the splits that were named, or every one that there is."""
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
