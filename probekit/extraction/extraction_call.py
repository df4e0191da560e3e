"""The library call behind ``probekit extract``."""

import logging
from collections.abc import Sequence
from pathlib import Path

from probekit.backbone.remembered import inspect_and_remember
from probekit.base.machine.buffers import ReusedMemory
from probekit.base.machine.hardware import pick_device
from probekit.errors import MissingFileError, OptionError
from probekit.extraction.extract_target import ExtractTarget
from probekit.extraction.request import Request
from probekit.extraction.request_options import ExtractOptions
from probekit.extraction.session import Session
from probekit.store.entry import Entries
from probekit.tasks import Split, TextOptions, get_task, is_own

logger = logging.getLogger(__name__)


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
) -> Entries:
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
    target = ExtractTarget(
        model=model, task=task, own=own, data=None if data is None else Path(data),
        splits=None if splits is None else tuple(splits), revision=revision, label=label,
        device=device, name=name, cache=Path(cache), overwrite=overwrite, restart=restart,
    )  # fmt: skip
    session, texts = open_session(target, options, progress=progress)
    return Entries(session.extract(split) for split in texts)


def open_session(
    target: ExtractTarget, options: ExtractOptions | None = None, *, progress: bool = False
) -> tuple[Session, list[Split]]:
    """Read a task's text and the model's facts; nothing is computed yet.

    Errors are those of `extract`.

    Returns:
        the session and the splits, in their order.
    """
    options = options or ExtractOptions()
    task = get_task(target.task, target.own, target.label)
    if target.data is not None and is_own(task):
        raise OptionError(f"{target.task} is the data already; leave --data {target.data} out.")
    inspection = inspect_and_remember(
        target.model, revision=target.revision, random_init=options.random_init
    )
    if target.splits is not None and not target.splits:
        raise OptionError(f"--split names no split of {task.name}: {', '.join(task.splits)}.")
    texts: list[Split] = []
    missing: list[MissingFileError] = []
    for name in task.splits if target.splits is None else target.splits:
        try:
            texts.append(task.read(name, target.data).first(options.limit))
        except MissingFileError as error:
            if target.splits is not None:
                raise
            missing.append(error)
    if not texts:
        raise missing[0]
    for reason in missing:
        logger.info("left out: %s", reason)
    request = Request(inspection=inspection, task=task, options=options)
    device = pick_device(target.device)
    reused = ReusedMemory(pinned=device.startswith("cuda"))
    session = Session(
        target=target, request=request, device=device, reused=reused, progress=progress
    )
    return session, texts
