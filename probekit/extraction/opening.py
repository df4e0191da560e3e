"""Open a session: read a task's text and the facts of a model, before anything is computed."""

import logging
from collections.abc import Callable
from typing import Any

from probekit.backbone import Inspection, choose_device, inspect_backbone
from probekit.backbone.remembered import inspect_and_remember
from probekit.base.machine.buffers import ReusedMemory
from probekit.errors import MissingFileError, OptionError
from probekit.extraction.extract_target import ExtractTarget
from probekit.extraction.request import Request
from probekit.extraction.request_options import ExtractOptions
from probekit.extraction.session import Session
from probekit.extraction.write import Progress
from probekit.tasks import Split, Task, examples_task, get_task, is_own
from probekit.tasks.text_options import Choice

logger = logging.getLogger(__name__)


def open_session(
    target: ExtractTarget,
    options: ExtractOptions | None = None,
    *,
    progress: bool = False,
    heard: Callable[[int], object] = lambda count: None,
) -> tuple[Session, list[Split]]:
    """Read a task's text and the model's facts; nothing is computed yet.

    Errors are those of `extract`.

    Args:
        target: model and task, and where entries go.
        options: what is asked for.
        progress: show progress on stderr.
        heard: called with the number of subwords that were just read.

    Returns:
        the session and the splits, in their order.
    """
    options = options or ExtractOptions()
    task = read_task(target)
    inspection = inspect_target(target, options)
    texts = read_texts(target, task, options.limit)
    request = Request(inspection=inspection, task=task, options=options)
    device = choose_device(inspection, target.device)
    reused = ReusedMemory(pinned=device.startswith("cuda"))
    told = Progress(progress, heard)
    session = Session(target=target, request=request, device=device, reused=reused, progress=told)
    return session, texts


def read_task(target: ExtractTarget) -> Task:
    """Return the task that is meant.

    Raises:
        OptionError: a folder of published files for data of the user's own.
    """
    if target.examples is None:
        task = get_task(target.task, target.own, target.label)
    else:
        choice = Choice(label=target.label, **target.own.given)
        task = examples_task(target.examples, target.task, choice)
    if target.data is not None and is_own(task):
        raise OptionError(f"{target.task} is the data already; leave --data {target.data} out.")
    return task


def inspect_target(target: ExtractTarget, options: ExtractOptions) -> Inspection:
    """Learn the model's facts, and whether it can go by its name.

    Raises:
        OptionError: a revision of a model in memory, or a name that is another model's.
    """
    how: dict[str, Any] = {
        "random_init": options.random_init,
        "part": options.part,
        "quantize": options.quantize,
        "trust_remote_code": target.trust_remote_code,
    }
    if target.given is None:
        return inspect_and_remember(target.model, revision=target.revision, **how)
    if target.revision is not None:
        raise OptionError(
            f"--revision {target.revision} is of a repository of the Hub, and the model is given "
            "in memory. Leave it out."
        )
    inspection = inspect_backbone(target.given, **how)
    target.check_name(inspection.info.identity.to_json())
    return inspection


def read_texts(target: ExtractTarget, task: Task, limit: int | None) -> list[Split]:
    """Read the splits that are asked for; of all, those that are there.

    Raises:
        OptionError: none is asked for.
        MissingFileError: one is not there, or none is.
    """
    if target.splits is not None and not target.splits:
        raise OptionError(f"--split names no split of {task.name}: {', '.join(task.splits)}.")
    texts: list[Split] = []
    missing: list[MissingFileError] = []
    for name in task.splits if target.splits is None else target.splits:
        try:
            texts.append(task.read(name, target.data).first(limit))
        except MissingFileError as error:
            if target.splits is not None:
                raise
            missing.append(error)
    if not texts:
        raise missing[0]
    for reason in missing:
        logger.info("left out: %s", reason)
    return texts
