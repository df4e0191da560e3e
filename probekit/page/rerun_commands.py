"""Commands that make records again, from what they say of themselves."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probekit.base.fingerprint import digest
from probekit.base.kinds import EXAMPLES_IN_MEMORY
from probekit.base.registry import flag
from probekit.base.selection import SOLVED
from probekit.results.record import Record
from probekit.results.summaries.baseline_scores import is_baseline
from probekit.results.summaries.grouping import head_order
from probekit.store.manifest import Manifest
from probekit.tasks import TASKS, TextOptions
from probekit.tasks.formats.file_names import split_of, stem_of

_LISTED = ("shots", "fraction")
"""What one command may have several values of, beside heads, depths and seeds."""

_SAVED, _DATA = "SAVED-HEAD", "DATA"
"""Stand for the folders of a saved head and of published files, whose paths are not recorded."""

_OF_EACH = ("head", "seed", "depth", *_LISTED)
"""Options of which the runs of one command may have several values."""


@dataclass(frozen=True)
class _Run:
    """One record as words of a command: those that must be alike, and those that are listed."""

    command: str
    words: tuple[str, ...]
    head: str
    seed: int
    predictions: bool
    listed: tuple[Any, ...]
    depth: int | None
    protocol: Mapping[str, Any]


def rerun_commands(
    records: Sequence[Record],
    sources: Mapping[str, str],
    cache: Path = Path("cache"),
    kinds: Mapping[str, str] | None = None,
) -> list[str]:
    """Return commands that make records again, those that differ in a list alone as one.

    A rate that was searched is written as what was found, so that nothing is searched again; a
    baseline is made by ``train --baselines`` and has no command of its own. What a notebook or
    script registered is not known to a command: a comment says so.

    Args:
        records: any.
        sources: where a model, or a text of the user's own, comes from, by its name; one that is
            not there goes by its name.
        cache: the cache root.
        kinds: kind of the user's own data, by entry.
    """
    every = [one for one in records if not one.trial and one.left_out is None]
    made = [one for one in every if not _of_script(one)]
    runs, unsaid = [], 0
    for one in made:
        options = None if is_baseline(one) else one.stated()
        if options is not None:
            runs.append(_run(one, options, sources, kinds or {}))
        unsaid += options is None and not is_baseline(one)
    groups: dict[tuple[Any, ...], list[_Run]] = {}
    for run in runs:
        groups.setdefault((run.command, run.words, run.predictions), []).append(run)
    found = [line for own in groups.values() for line in _commands(own, _root(cache))]
    found += [
        f"# {kind} {getattr(one, _FIELDS.get(kind, kind), '')} is {origin['path']}: register it in "
        "Python, and run probekit.sweep there"
        for one in every
        for kind, origin in _of_script(one).items()
    ]
    if unsaid:
        found.append(
            f"# {unsaid} runs are of an earlier version, which did not record every option"
        )
    return list(dict.fromkeys(found))


_FIELDS = {"normalization": "normalize"}
"""Of a record, by the kind of a plug-in that they name, where they are called otherwise."""


def _of_script(record: Record) -> dict[str, Mapping[str, str]]:
    """Return the plug-ins of a record that no package offers, by kind."""
    return {kind: own for kind, own in record.plugins.items() if "package" not in own}


def own_kind(manifest: Manifest) -> str | None:
    """Return the kind of an entry of the user's own data; None of a task that probekit knows."""
    return None if manifest.task.partition("/")[0] in TASKS else manifest.kind


_OF_MODEL = ("random_init", "part", "quantize")
"""Options of extraction that make another model of the one that is named."""


def extract_command(manifest: Manifest, cache: Path, task: str) -> str:
    """Return the command that makes an entry, and those of the other splits, again.

    Args:
        manifest: of the entry.
        cache: the cache root.
        task: what its task was called in a run.
    """
    asked, kind = manifest.request, own_kind(manifest)
    if manifest.origin == EXAMPLES_IN_MEMORY:
        return f"# {task}: examples in memory, probekit.extract(..., examples=...)"
    read = TextOptions(kind=kind).or_as(manifest.read or {})
    words = [model_source(manifest), text_source(manifest) or task, *read.typed]
    if (said := manifest.imported) is not None:
        words[2:2] = [f"{manifest.split}=STATES"]
        numbers = ["--layer-ids", ",".join(map(str, said["layer_ids"]))]
        return shlex.join(["probekit", "cache", "import", *words, *numbers, *_root(cache)])
    if kind is None and manifest.task != "demo-ner" and not manifest.origin.startswith("hub:"):
        words += ["--data", _DATA]
    words += ["--keep", ",".join(asked["keep"])]
    usual = {
        "format": "zarr",
        "dtype": "auto",
        "compute_dtype": "auto",
        "pooling": "last" if manifest.causal else "first",
        "overlong": "stride",
        "max_length": None,
    }
    through = asked.get("through")
    # as it was extracted; it was converted afterwards
    made = {**asked, "dtype": through[0]} if through else asked
    given = {name: made[name] for name, value in usual.items() if made.get(name, value) != value}
    if asked["layers"] != list(range(manifest.n_blocks + 1)):
        given["layers"] = ",".join(map(str, asked["layers"]))
    given |= {"limit": manifest.limit, "revision": manifest.model_info.get("revision")}
    given |= {name: asked["model"].get(name) for name in _OF_MODEL}
    for name, value in given.items():
        words += [] if value is None else [flag(name), str(value)]
    command = shlex.join(["probekit", "extract", *words, *_root(cache)])
    for dtype in [*through[1:], asked["dtype"]] if through else ():
        again = ["probekit", "cache", "convert", words[0], task, "--dtype", dtype, *_root(cache)]
        command += f" && {shlex.join(again)}"
    return command


def _kind_words(kind: str | None) -> list[str]:
    """Return the option of own data of a kind; that of tagged words is what is taken to be."""
    return [] if kind in (None, "tagging") else ["--kind", str(kind)]


def model_source(manifest: Manifest) -> str:
    """Return what the model of an entry was called when it was extracted: an id, or a path."""
    return str(manifest.model_info.get("name", manifest.model))


def text_source(manifest: Manifest) -> str | None:
    """Return the path of the user's own data, as seen from here; None if it is not there."""
    name, _, folder = manifest.origin.rpartition(" in ")
    path = Path(folder)
    if own_kind(manifest) is None or not name or not path.is_dir():
        return None
    if split_of(stem_of(Path(name))) is None and (path / name).is_file():
        path /= name
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _root(cache: Path) -> list[str]:
    """Return the option of a cache, where it is not the default."""
    return [] if cache == Path("cache") else ["--cache", str(cache)]


def _run(
    record: Record, options: Mapping[str, Any], sources: Mapping[str, str], kinds: Mapping[str, str]
) -> _Run:
    words = [sources.get(name, name) for name in (record.model, record.task)]
    words += [*_kind_words(kinds.get(record.entry)), *_words(record, options)]
    return _Run(
        command="sweep" if record.depth is None else "depth",
        words=tuple(words),
        head=options["head"],
        seed=record.seed,
        predictions=record.predictions is not None and record.depth is None,
        listed=tuple(getattr(record, name) for name in _LISTED),
        depth=record.depth,
        protocol=options.get("protocol", {}),
    )


def _words(record: Record, options: Mapping[str, Any]) -> list[str]:
    """Return what all runs of a command share, as typed."""
    shared = {name: value for name, value in options.items() if name not in _OF_EACH}
    if record.init not in (None, SOLVED):
        frozen = "frozen-fusion:" if record.freeze else "fusion:"
        shared["start"] = _SAVED if record.init.endswith("with decoder") else frozen + _SAVED
    if protocol := shared.pop("protocol", None):
        shared["protocol"] = f"protocol-{digest(protocol)[:8]}.toml"
    if record.ablated:
        shared["ablate"] = record.ablated
    pairs = [(flag(name), value) for name, value in shared.items()]
    return [word for name, one in pairs for word in ((name,) if one is True else (name, str(one)))]


def _commands(runs: Sequence[_Run], root: Sequence[str]) -> list[str]:
    """Return one command per list of seeds; values that do not cross have commands of their own."""
    by_lists: dict[tuple[Any, ...], list[_Run]] = {}
    for run in runs:
        by_lists.setdefault(_crossed(run, runs), []).append(run)
    lines = []
    for own in by_lists.values():
        heads = sorted({run.head for run in own}, key=_head_rank)
        words = ["probekit", own[0].command, *own[0].words, "--head", ",".join(heads)]
        for place, name in enumerate(_LISTED):
            values = sorted({one.listed[place] for one in own if one.listed[place] is not None})
            if values:
                words += [flag(name), ",".join(f"{value:g}" for value in values)]
        words += [*_seeds([run.seed for run in own]), *_every([run.depth for run in own])]
        words += ["--predictions"] if own[0].predictions else []
        line = _protocol_made(own[0]) + shlex.join([*words, *root])
        if line not in lines:
            lines.append(line)
    return lines


def _protocol_made(run: _Run) -> str:
    """Return what writes the file of a run's protocol, before the command that reads it."""
    if not run.protocol:
        return ""
    file = run.words[run.words.index("--protocol") + 1]
    fields = [f"{name} = {json.dumps(value)}" for name, value in run.protocol.items()]
    lines = shlex.join(["printf", r"%s\n", *fields])
    return f"{lines} > {file} && "


def _crossed(run: _Run, among: Sequence[_Run]) -> tuple[Any, ...]:
    """Return the seeds that a run's head has with its amount of train.

    Heads and amounts with the same seeds make one command: 8 and 32 shots with three seeds each,
    while all of train with one seed is another.
    """
    seeds = {one.seed for one in among if (one.head, one.listed) == (run.head, run.listed)}
    amounts = {one.listed for one in among if one.head == run.head}
    unset = tuple(value is None for value in run.listed)  # shots and fraction exclude each other
    return (tuple(sorted(seeds)), unset, tuple(sorted(amounts, key=str)))


def _head_rank(head: str) -> tuple[int, str]:
    name, order = head.partition(":")[0], head_order()
    return (order.index(name) if name in order else len(order), head)


def _seeds(seeds: Sequence[int]) -> list[str]:
    """Return how many seeds, or which."""
    found = sorted(set(seeds))
    if found == [0]:
        return []
    counted = found == list(range(len(found)))
    return ["--seeds", str(len(found)) if counted else ",".join(map(str, found))]


def _every(depths: Sequence[int | None]) -> list[str]:
    """Return the distance of depths, where it is not 1: 0, 5, 10 and 12 are every fifth."""
    found = sorted({depth for depth in depths if depth is not None})
    step = found[1] - found[0] if len(found) > 1 else 1
    return ["--every", str(step)] if step > 1 else []
