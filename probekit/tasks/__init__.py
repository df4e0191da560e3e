"""Tasks: text sets with label columns, read from published files, the Hub or the user's files."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from probekit.errors import MissingFileError, OptionError, UnknownNameError
from probekit.registry import choose
from probekit.tasks.conll import conll
from probekit.tasks.demo import demo_ner
from probekit.tasks.glue import GLUE, glue
from probekit.tasks.kinds import Kind
from probekit.tasks.matis import matis
from probekit.tasks.slots import atis, snips
from probekit.tasks.types import Example, Split, Task, slugify
from probekit.tasks.ud import ud
from probekit.tasks.user import SUFFIXES, UserFiles, user_slug, user_task
from probekit.tasks.wikiann import wikiann
from probekit.tasks.wikitext import wikitext2
from probekit.tasks.wnut17 import wnut17

__all__ = [
    "TASKS",
    "Example",
    "Family",
    "Kind",
    "Split",
    "Task",
    "get_task",
    "is_own",
    "slug_of",
]


@dataclass(frozen=True, kw_only=True)
class Family:
    """A task, or a family of tasks that differ in what follows the slash.

    Attributes:
        build: makes the task; a family's takes what follows the slash.
        summary: what the text is, in a few words.
        variant: what follows the slash ("LANG"); empty for a single task.
        example: a variant that exists.
        variants: all of them, where the family is closed; empty where any name may follow.
    """

    build: Callable[..., Task]
    summary: str
    variant: str = ""
    example: str = ""
    variants: tuple[str, ...] = ()

    def sample(self) -> Task:
        """Return the task, or the example of the family."""
        return self.build(self.example) if self.variant else self.build()

    def tasks(self) -> tuple[Task, ...]:
        """Return all tasks of a closed family; else the sample alone."""
        return tuple(map(self.build, self.variants)) or (self.sample(),)


TASKS: Mapping[str, Family] = {
    "conll": Family(build=conll, summary="CoNLL-2003 English news"),
    "wikiann": Family(
        build=wikiann, variant="LANG", example="de", summary="WikiAnn, Wikipedia in many languages"
    ),
    "wnut17": Family(build=wnut17, summary="WNUT-17, emerging entities in noisy text"),
    "ud": Family(
        build=ud, variant="TREEBANK", example="en_ewt", summary="Universal Dependencies treebanks"
    ),
    "atis": Family(build=atis, summary="ATIS, requests for flights"),
    "snips": Family(build=snips, summary="SNIPS, requests to a voice assistant"),
    "matis": Family(
        build=matis, variant="LANG", example="de", summary="MultiATIS++, ATIS in nine languages"
    ),
    "glue": Family(
        build=glue,
        variant="TASK",
        example="rte",
        variants=tuple(GLUE),
        summary="GLUE, one or two sentences",
    ),
    "wikitext2": Family(build=wikitext2, summary="WikiText-2, articles of the English Wikipedia"),
    "demo-ner": Family(build=demo_ner, summary="the corpus shipped with probekit"),
}


_NEAR = 0.75
"""How alike what may well be a path and a task's name must be to be taken for a mistyped task."""

KINDS: Mapping[str, Kind] = {kind: kind for kind in get_args(Kind)}


def get_task(
    name: str,
    *,
    kind: str | None = None,
    text: str | None = None,
    label: str | None = None,
    skip_unlabelled: bool = False,
) -> Task:
    """Return the task called ``name``, or the one that lies at the path ``name``.

    Args:
        name: a name of ``TASKS`` ("conll", "wikiann/de"), or the path of the user's own file or
            folder. A name wins over a path; "./conll" is a path.
        kind: what the user's own data labels; "tagging" if None.
        text: the column with the words or the text of the user's own data, by name or index; two
            for a pair ("A,B").
        label: the label column; of a task with several it becomes the first one.
        skip_unlabelled: leave out the texts without a label of the user's own data.

    Raises:
        UnknownNameError: no task, or no label column, has that name.
        MissingFileError: a path that does not exist; also where only the slash, or an option of
            the user's own data, says that it is meant as a path.
        OptionError: options that do not fit the task, or leave its columns open.
        DataError: the user's files do not hold what their format promises.
    """
    kind = None if kind is None else choose("kind", kind, KINDS)
    head, _, variant = name.partition("/")
    if head in TASKS:
        task = _named(name, head, variant, text, label)
        return task if kind is None else _of_kind(task, kind)
    if not Path(name).expanduser().exists():
        _refuse_missing(name, head, own=(kind, text, label) != (None, None, None))
    return user_task(
        name, kind=kind or "tagging", text=text, label=label, skip_unlabelled=skip_unlabelled
    )


def is_own(task: Task) -> bool:
    """Say whether a task is the user's own files."""
    return isinstance(task.source, UserFiles)


def slug_of(name: str) -> str:
    """Return the folder name of the task that the user calls ``name``, without reading it."""
    own = name.partition("/")[0] not in TASKS and Path(name).expanduser().exists()
    return user_slug(Path(name)) if own else slugify(name)


def _named(name: str, head: str, variant: str, text: str | None, label: str | None) -> Task:
    if text is not None:
        raise OptionError(f"--text is for your own files; {name} has its words in a known place.")
    family = TASKS[head]
    if family.variant and not variant:
        raise OptionError(
            f"{name}: expected {head}/{family.variant}, as in {head}/{family.example}."
        )
    if not family.variant and "/" in name:
        raise OptionError(f"{name}: the task {head} has no variants; type {head}.")
    if not variant.replace("_", "").replace("-", "").isalnum() and family.variant:
        raise OptionError(f"{name}: {variant!r} is no {family.variant.lower()} name.")
    task = family.build(variant) if family.variant else family.build()
    return task if label is None else _label_first(task, label)


def _label_first(task: Task, label: str) -> Task:
    choose(f"label column of {task.name}", label, dict.fromkeys(task.columns))
    others = tuple(column for column in task.columns if column != label)
    return replace(task, columns=(label, *others))


def _of_kind(task: Task, kind: str) -> Task:
    """Return ``task`` if ``kind`` is that of its label column."""
    column = task.columns[0]
    if kind != task.kind_of(column):
        others = [name for name, of in task.kinds.items() if of == kind]
        hint = f"--label {others[0]} is of kind {kind}" if others else "leave --kind out"
        raise OptionError(
            f"--kind {kind}: {task.name} labels {column!r}, of kind {task.kind_of(column)}; {hint}."
        )
    return task


def _refuse_missing(name: str, head: str, *, own: bool) -> None:
    """Say whether ``name`` was meant as a path that is missing, or as a task that is unknown.

    Args:
        name: no task, and no path.
        head: what stands before its first slash.
        own: whether an option of the user's own data came with it.
    """
    if name.startswith((".", "/", "~")) or Path(name).suffix.lower() in SUFFIXES:
        raise MissingFileError(
            f"{name}: no such file or folder. Check the path; `probekit tasks` lists the tasks."
        )
    if own or "/" in name:
        near = difflib.get_close_matches(head, TASKS, n=1, cutoff=_NEAR)
        hint = f" Did you mean the task {near[0]!r}?" if near else ""
        raise MissingFileError(
            f"{name}: no such file or folder, and no task of that name.{hint} Check the path; "
            "`probekit tasks` lists the tasks."
        )
    try:
        choose("task", head, TASKS)
    except UnknownNameError as error:
        raise UnknownNameError(f"{error} Or give the path of your own file or folder.") from None
