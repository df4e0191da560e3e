"""Tasks: text sets with label columns, read from published files, the Hub or the user's files."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from probekit.base.kinds import KINDS
from probekit.base.plugins import Registry
from probekit.base.registry import PathName, choose, typed_name
from probekit.errors import MissingFileError, OptionError, UnknownNameError
from probekit.tasks.corpora.entities import conll, demo_ner, wikiann, wnut17
from probekit.tasks.corpora.glue import GLUE, glue
from probekit.tasks.corpora.sae_probes import other_tags, sae_probes, tags
from probekit.tasks.corpora.sentence_sets import SENTEVAL, TRUTH, blimp, blimp_sets, senteval, truth
from probekit.tasks.corpora.slots import matis, slots
from probekit.tasks.corpora.ud import treebanks, ud
from probekit.tasks.corpora.wikitext import wikitext2
from probekit.tasks.formats.text_lines import format_of
from probekit.tasks.given_examples import GivenExamples, examples_task
from probekit.tasks.hub_repository import hub_name, hub_task
from probekit.tasks.sentences import Example, Split
from probekit.tasks.spans import source_columns, with_derived
from probekit.tasks.task import Choice, Family, Task, TextOptions, slugify
from probekit.tasks.user_files import FORMATS, HASH, UserFiles, own_name, own_task

__all__ = [
    "HASH",
    "TASKS",
    "Example",
    "Family",
    "Split",
    "Task",
    "TextOptions",
    "examples_task",
    "folder_name",
    "get_task",
    "is_called",
    "is_own",
    "register_task",
    "variants_of",
]


_OWN: Mapping[str, Family] = {
    "conll": Family(build=conll, summary="CoNLL-2003 English news"),
    "wikiann": Family(
        build=wikiann, variant="LANG", example="de", summary="WikiAnn, Wikipedia in many languages"
    ),
    "wnut17": Family(build=wnut17, summary="WNUT-17, emerging entities in noisy text"),
    "ud": Family(
        build=ud,
        variant="TREEBANK",
        example="en_ewt",
        listed=treebanks,
        summary="Universal Dependencies treebanks",
    ),
    "atis": Family(build=partial(slots, "atis"), summary="ATIS, requests for flights"),
    "snips": Family(build=partial(slots, "snips"), summary="SNIPS, requests to a voice assistant"),
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
    "sae-probes": Family(
        build=sae_probes,
        variant="TAG",
        example="5_hist_fig_ismale",
        listed=tags,
        summary="sae-probes, 113 binary tasks of single texts",
    ),
    "sae-probes-ood": Family(
        build=partial(sae_probes, other=True),
        variant="TAG",
        example="5_hist_fig_ismale",
        listed=other_tags,
        summary="eight tasks of sae-probes, tested on texts from another source",
    ),
    "senteval": Family(
        build=senteval,
        variant="TASK",
        example="tree_depth",
        variants=SENTEVAL,
        summary="SentEval's ten probing tasks of sentences",
    ),
    "blimp": Family(
        build=blimp,
        variant="SET",
        example="wh_island",
        listed=blimp_sets,
        summary="BLiMP, 67 sets of sentences that are acceptable or not",
    ),
    "truth": Family(
        build=truth,
        variant="SET",
        example="cities",
        variants=tuple(TRUTH),
        summary="true and false statements, tested on their negations",
    ),
    "wikitext2": Family(build=wikitext2, summary="WikiText-2, articles of the English Wikipedia"),
    "demo-ner": Family(build=demo_ner, summary="the corpus shipped with probekit"),
}

TASKS = Registry("task", _OWN, admit="probekit.testing.other_checks:admit_task")


def register_task(
    name: str, task: Family | Callable[[], Task], *, version: str | None = None
) -> None:
    """Add a task of your own, for this process and its workers.

    Args:
        name: as users type it.
        task: a function that makes the `Task` of this name, or a `Family` of them.
        version: what tells it from an earlier one; None is its source.

    Raises:
        PluginError: the name is taken, or the task breaks its contract.
    """
    made_by = task.build if isinstance(task, Family) else task
    TASKS.register(name, task, version=version, made_by=made_by)


_NEAR = 0.75
"""How alike what may well be a path and a task's name must be to be taken for a mistyped task."""


def get_task(
    name: PathName,
    own: TextOptions | None = None,
    label: str | None = None,
    group: str | None = None,
) -> Task:
    """Return the task called ``name``, the one that lies at that path, or a Hub data set.

    Args:
        name: a name of ``TASKS`` ("conll", "wikiann/de"), the path of the user's own file or
            folder (a file is the split that its name says, "dev.conll", else train), or with any
            option, a data set of the Hub ("org/name", "org/name/config", either with "@revision").
            A name wins over a path; "./conll" is a path.
        own: how the user's own data is read.
        label: the label column; of a task with several it becomes the first one.
        group: of the user's own data, a column that holds no labels but groups.

    Raises:
        UnknownNameError: no task, or no label column, has that name.
        MissingFileError: a path that does not exist; also where only the slash, or an option of
            the user's own data, says that it is meant as a path.
        OptionError: options that do not fit the task, or leave its columns open.
        DataError: the user's files do not hold what their format promises.
        HubError: a data set of the Hub cannot be loaded.
    """
    name, given = typed_name(name), {} if own is None else own.given
    choice = Choice(label=label, group=group, **given)
    if choice.kind is not None:
        choose("kind", choice.kind, KINDS)
    head, _, variant = name.partition("/")
    if head in TASKS:
        family = TASKS[head]
        if family.variant and not variant:
            raise OptionError(
                f"{name}: expected {head}/{family.variant}, as in {head}/{family.example}."
            )
        if not family.variant and "/" in name:
            raise OptionError(f"{name}: the task {head} has no variants; type {head}.")
        if family.variant and not variant.replace("_", "").replace("-", "").isalnum():
            raise OptionError(f"{name}: {variant!r} is not a valid {family.variant.lower()} name.")
        return _chosen(family.build(variant) if family.variant else family.build(), choice)
    if (path := Path(name).expanduser()).exists():
        return own_task(name, own_name(path), UserFiles.at(path, choice), by_text=True)
    described = label is not None or bool(given)
    if described and hub_name(name) and format_of(Path(name)) not in FORMATS:
        return hub_task(name, choice)
    _refuse_missing(name, head, described=described)


def variants_of(name: str, data: Path | None = None) -> list[str]:
    """Return the tasks of a family ("ud"), as they are typed.

    Args:
        name: the family.
        data: the folder with its published files; None asks the Hub, where it is not known.

    Raises:
        UnknownNameError: there is no such family.
        OptionError: it is a single task, or a family of which no list is known.
        MissingFileError: the folder has none of it.
        HubError: the Hub cannot be asked.
    """
    family = choose("task", name, TASKS)
    if family.listed is None and not family.variants:
        expected = f"expected {name}/{family.variant}, as in {name}/{family.example}"
        raise OptionError(f"{name}: {expected if family.variant else 'a task without variants'}.")
    names = family.variants if family.listed is None else family.listed(data)
    return [f"{name}/{variant}" for variant in names]


def is_own(task: Task) -> bool:
    """Say whether a task is the user's own files, or examples in memory."""
    return isinstance(task.corpus, UserFiles | GivenExamples)


def folder_name(name: str) -> str:
    """Return what the cache calls the task that the user calls ``name``, without reading it.

    The folder of the user's own data has a hash of its text besides, see ``is_called``.
    """
    is_path = name.partition("/")[0] not in TASKS and Path(name).expanduser().exists()
    return own_name(Path(name)) if is_path else slugify(name)


def is_called(slug: str, name: str) -> bool:
    """Say whether the task of a folder ``slug`` is one that the user calls ``name``."""
    known = folder_name(name)
    with_hash = name.partition("/")[0] not in TASKS and slug.startswith(known)
    return slug == known or (with_hash and HASH.fullmatch(slug.removeprefix(known)) is not None)


def _chosen(task: Task, choice: Choice) -> Task:
    """Return a named task with the chosen label column first, which must be of a given kind."""
    choice.refuse(choice.given.keys() - {"kind"}, f"{task.name}, which has a fixed format")
    if choice.label is not None:
        label = source_columns(choice.label)[0]
        choose(f"label column of {task.name}", label, task.kinds)
        first = {label: task.metrics[label]}
        task = replace(task, metrics={**first, **task.metrics})
    column, kind = task.columns[0], choice.kind
    if kind is not None and kind != task.kinds[column]:
        others = [name for name, of in task.kinds.items() if of == kind]
        hint = f"--label {others[0]} is of kind {kind}" if others else "leave --kind out"
        raise OptionError(
            f"--kind {kind}: the label column {column!r} of {task.name} is of kind "
            f"{task.kinds[column]}; {hint}."
        )
    return with_derived(task, choice.label)


def _refuse_missing(name: str, head: str, *, described: bool) -> NoReturn:
    """Say whether ``name`` was meant as a path that is missing, or as a task that is unknown.

    Args:
        name: no task, and no path.
        head: what stands before its first slash.
        described: whether an option of the user's own data came with it.
    """
    if name.startswith((".", "/", "~")) or format_of(Path(name)) in FORMATS:
        raise MissingFileError(
            f"{name}: no such file or folder. Check the path; `probekit tasks` lists the tasks."
        )
    if described or "/" in name:
        near = difflib.get_close_matches(head, TASKS, n=1, cutoff=_NEAR)
        hint = f" Did you mean the task {near[0]!r}?" if near else ""
        if not near and hub_name(name):
            hint = " To read a data set of the Hub, give --kind."
        raise MissingFileError(
            f"{name}: no such file or folder, and no task of that name.{hint} Check the path; "
            "`probekit tasks` lists the tasks."
        )
    try:
        choose("task", head, TASKS)
    except UnknownNameError as error:
        raise UnknownNameError(f"{error} Or give the path of your own file or folder.") from None
    raise AssertionError(f"{head} is a task")
