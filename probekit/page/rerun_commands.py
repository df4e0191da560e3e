"""Commands that make records again, and the entries that they ask for."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probekit.base.fingerprint import digest
from probekit.base.kinds import EXAMPLES_IN_MEMORY, keep_and_points
from probekit.base.notices import human_bytes
from probekit.base.registry import argument, flag
from probekit.base.selection import SOLVED
from probekit.errors import ProbekitError
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped, head_order, is_baseline
from probekit.results.summaries.wording import layers_text, model_text
from probekit.store.entry import Entry, EntryFolder, list_entries
from probekit.store.manifest import Manifest
from probekit.tasks import TASKS, TextOptions
from probekit.tasks.formats.text_lines import split_of, stem_of

_SAVED, _DATA = "SAVED-HEAD", "DATA"
"""Stand for the folders of a saved head and of published files, whose paths are not recorded."""

_OF_EACH = ("head", "seed", "depth")
"""Options of which the runs of one command may have several values."""


def rerun_commands(
    records: Sequence[Record],
    sources: Mapping[str, str],
    cache: Path = Path("cache"),
) -> list[str]:
    """Return commands that make records again: one for those that differ in head, depth and seed.

    A rate that was searched is written as what was found, so that nothing is searched again; a
    baseline is made by ``train --baselines`` and has no command of its own. What a notebook or
    script registered is not known to a command: a comment says so.

    Args:
        records: any.
        sources: where a model, or a text of the user's own, comes from, by its name; one that is
            not there goes by its name.
        cache: the cache root.
    """
    shown = [record for record in records if not record.trial and record.left_out is None]
    made = [r for r in shown if not _of_script(r) and not is_baseline(r)]
    stated = [(record, record.stated()) for record in made]
    by_head: dict[tuple[tuple[str, ...], str], list[Record]] = {}
    for record, options in stated:
        if options is not None:
            words = _words(record, options, sources)
            by_head.setdefault((words, options["head"]), []).append(record)
    heads_of: dict[tuple[Any, ...], list[str]] = {}
    for (words, head), runs in by_head.items():
        seeds = tuple(sorted({record.seed for record in runs}))
        depths = tuple(sorted({record.depth for record in runs if record.depth is not None}))
        heads_of.setdefault((words, seeds, depths), []).append(head)
    lines = []
    for ((protocol, *words), seeds, depths), heads in heads_of.items():
        of_heads = ["--head", ",".join(sorted(heads, key=_head_rank)), *_seeds(seeds)]
        command = ["probekit", *words, *of_heads, *_every(depths), *_root(cache)]
        lines.append(protocol + shlex.join(command))
    lines += [
        f"# {kind} {getattr(record, _FIELDS.get(kind, kind), '')} is {origin['path']}: register it "
        "in Python, and run probekit.sweep there"
        for record in shown
        for kind, origin in _of_script(record).items()
    ]
    if unsaid := sum(options is None for _, options in stated):
        lines.append(
            f"# {unsaid} runs are of an earlier version, which did not record every option"
        )
    return list(dict.fromkeys(lines))


_FIELDS = {"normalization": "normalize"}
"""Of a record, by the kind of a plug-in that they name, where they are called otherwise."""


def _of_script(record: Record) -> dict[str, Mapping[str, str]]:
    """Return the plug-ins of a record that no package offers, by kind."""
    return {kind: said for kind, said in record.plugins.items() if "package" not in said}


def _own_kind(manifest: Manifest) -> str | None:
    """Return the kind of an entry of the user's own data; None of a task that probekit knows."""
    if manifest.task.partition("/")[0] in TASKS:
        return None
    return (manifest.read or {}).get("kind", manifest.kind)


_OF_MODEL = ("random_init", "part", "quantize")
"""Options of extraction that make another model of the one that is named."""


def extract_command(manifest: Manifest, cache: Path, task: str) -> str:
    """Return the command that makes an entry, and those of the other splits, again.

    Args:
        manifest: of the entry.
        cache: the cache root.
        task: what its task was called in a run.
    """
    asked, kind = manifest.request, _own_kind(manifest)
    if manifest.origin == EXAMPLES_IN_MEMORY:
        return f"# {task}: examples in memory, probekit.extract(..., examples=...)"
    read = TextOptions(kind=kind).or_as(manifest.read or {})
    task = argument(task)
    words = [argument(_model_source(manifest)), _text_source(manifest) or task, *read.typed]
    if (said := manifest.imported) is not None:
        words[2:2] = [f"{manifest.split}=STATES"]
        numbers = ["--layer-ids", ",".join(map(str, said["layer_ids"]))]
        return shlex.join(["probekit", "cache", "import", *words, *numbers, *_root(cache)])
    if kind is None and manifest.task != "demo-ner" and not manifest.origin.startswith("hub:"):
        words += ["--data", _DATA]
    keep, points = keep_and_points(asked["keep"])
    words += ["--keep", keep]
    usual = {
        "format": "zarr",
        "dtype": "auto",
        "compute_dtype": "auto",
        "pooling": "last" if manifest.causal else "first",
        "overlong": "stride",
        "max_length": None,
    }
    converted = asked.get("through")
    made = {**asked, "dtype": converted[0]} if converted else asked
    given = {name: made[name] for name, value in usual.items() if made.get(name, value) != value}
    if asked["layers"] != list(range(manifest.n_blocks + 1)):
        given["layers"] = ",".join(map(str, asked["layers"]))
    elif "tokens" in asked and manifest.only is None and points is None:
        given["layers"] = "0:"  # without --layers, tokens are of the last layer alone
    given |= {"points": points, "only": manifest.only, "limit": manifest.limit}
    given |= {"revision": manifest.model_info.get("revision")}
    given |= {name: asked["model"].get(name) for name in _OF_MODEL}
    for name, value in given.items():
        words += [] if value is None else [flag(name), str(value)]
    command = shlex.join(["probekit", "extract", *words, *_root(cache)])
    if converted:
        again = ["convert", words[0], task, "--dtype", asked["dtype"], *_root(cache)]
        return f"{command} && {shlex.join(['probekit', 'cache', *again])}"
    return command


def _model_source(manifest: Manifest) -> str:
    """Return what the model of an entry was called when it was extracted: an id, or a path."""
    return str(manifest.model_info.get("name", manifest.model))


def _text_source(manifest: Manifest) -> str | None:
    """Return the path of the user's own data, as seen from here; None if it is not there."""
    name, _, folder = manifest.origin.rpartition(" in ")
    path = Path(folder)
    if _own_kind(manifest) is None or not name or not path.is_dir():
        return None
    if split_of(stem_of(Path(name))) is None and (path / name).is_file():
        path /= name
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _root(cache: Path) -> list[str]:
    """Return the option of a cache, where it is not the default."""
    return [] if cache == Path("cache") else ["--cache", str(cache)]


def _words(
    record: Record, options: Mapping[str, Any], sources: Mapping[str, str]
) -> tuple[str, ...]:
    """Return what all runs of a command share, as typed, behind what writes its protocol's file."""
    made = ""
    words = ["sweep" if record.depth is None else "depth"]
    words += [argument(sources.get(name, name)) for name in (record.model, record.task)]
    shared = {name: value for name, value in options.items() if name not in _OF_EACH}
    if record.init not in (None, SOLVED):
        frozen = "frozen-fusion:" if record.freeze else "fusion:"
        shared["start"] = _SAVED if record.init.endswith("with decoder") else frozen + _SAVED
    if protocol := shared.pop("protocol", None):
        shared["protocol"] = f"protocol-{digest(protocol)[:8]}.toml"
        lines = [f"{name} = {json.dumps(value)}" for name, value in protocol.items()]
        printed = shlex.join(["printf", r"%s\n", *lines])
        made = f"{printed} > {shared['protocol']} && "
    if record.ablated:
        shared["ablate"] = record.ablated
    for name, value in shared.items():
        words += [flag(name)] if value is True else [flag(name), str(value)]
    if record.predictions is not None and record.depth is None:  # which `depth` keeps anyway
        words.append("--predictions")
    return (made, *words)


def _head_rank(head: str) -> tuple[int, str]:
    name, order = head.partition(":")[0], head_order()
    return (order.index(name) if name in order else len(order), head)


def _seeds(seeds: Sequence[int]) -> list[str]:
    """Return how many seeds, or which; nothing of the seed 0 alone."""
    if list(seeds) == [0]:
        return []
    counted = list(seeds) == list(range(len(seeds)))
    return ["--seeds", str(len(seeds)) if counted else ",".join(map(str, seeds))]


def _every(depths: Sequence[int]) -> list[str]:
    """Return the distance of depths, of which the last may lie closer: 0, 5, 10, 12 is every 5."""
    apart = depths[1] - depths[0] if len(depths) > 1 else 1
    return ["--every", str(apart)] if apart > 1 else []


_COUNTED = ("examples", "words", "tokens", "truncated_words")

EntryFact = Mapping[str, str]
"""What is known of an entry, by `ENTRY_COLUMNS`."""

ENTRY_COLUMNS = ("model", "task", "split", "key", "holds", "stored", "created", "state")
"""What the page shows of an entry.

Its key is the digits that ``probekit cache ls`` prints, ``holds`` counts and size, ``stored`` how
numbers are stored and were computed, ``state`` whether it is there and complete. What is not known
is ``-``.
"""


@dataclass(frozen=True)
class Origins:
    """The entries of some records, and where their models come from.

    Attributes:
        entries: one by one.
        sources: source of each model, by its name.
        facts: what models and texts are, by name.
        commands: those that extract the entries.
    """

    entries: Sequence[EntryFact]
    sources: dict[str, str]
    facts: dict[str, str]
    commands: Sequence[str]


def find_asked(records: Sequence[Record], cache: Path) -> Origins:
    """Look for the entries of records in a cache, and say what is known of them.

    Args:
        records: any.
        cache: the cache root.
    """
    first = {record.entry: record for record in reversed(records)}
    every = list_entries(cache)
    folders = {key: list(_folders_of(every, key)) for key in first}
    made = [(key, folder.manifest) for key in folders for folder in folders[key] if folder.manifest]
    manifests = {first[key].model: manifest for key, manifest in made}
    by_path = {folder.path: folder for of_key in folders.values() for folder in of_key}
    entries = [_entry_fact(folder) for folder in by_path.values()]
    entries += [_missing_fact(first[key]) for key, of_key in folders.items() if not of_key]
    texts = {manifest.task: _text_source(manifest) for _, manifest in made}
    models = {}
    for record in first.values():
        blocks = record.seen.get("blocks")
        read = f"layers read: {layers_text(record.layers)}"
        models[record.model] = f"{blocks} blocks" if blocks else read
    models |= {model: _model_text(manifest) for model, manifest in manifests.items()}
    sources = {model: _model_source(manifest) for model, manifest in manifests.items()}
    commands = [extract_command(manifest, cache, first[key].task) for key, manifest in made]
    return Origins(
        entries=entries,
        sources=sources | {task: path for task, path in texts.items() if path is not None},
        facts=_facts_by_name(records, models),
        commands=list(dict.fromkeys(commands)),
    )


def _folders_of(folders: Sequence[EntryFolder], key: str) -> Iterator[EntryFolder]:
    """Yield the entry of a key, and those of the other splits that the same request made."""
    for entry in folders:
        if entry.manifest is None or entry.manifest.key != key:
            continue
        asked = {name: value for name, value in entry.asked.items() if name != "text"}
        for other in folders:
            alike = {name: value for name, value in other.asked.items() if name != "text"}
            beside = (other.model, other.task) == (entry.model, entry.task)
            if other is entry or (beside and other.split != entry.split and alike == asked):
                yield other


def _entry_fact(folder: EntryFolder) -> EntryFact:
    manifest, state = folder.manifest, "complete"
    try:
        Entry.open(folder.path)
    except ProbekitError as error:
        state = str(error)
    known = {"model": folder.model, "task": folder.task, "split": folder.split, "key": folder.key8}
    if manifest is not None:
        held = {name: manifest.counts.get(name, 0) for name in _COUNTED}
        counts = [f"{count:,} {name.replace('_', ' ')}" for name, count in held.items() if count]
        limit = "" if manifest.limit is None else f" (limit {manifest.limit:,})"
        known |= {
            "holds": ", ".join([*counts, human_bytes(folder.nbytes)]) + limit,
            "stored": f"{manifest.dtype}, {manifest.backend}; computed in {manifest.compute_dtype}",
            "created": manifest.created[:10],
        }
    return dict.fromkeys(ENTRY_COLUMNS, "-") | known | {"state": state}


def _missing_fact(record: Record) -> EntryFact:
    seen = record.seen
    counts = [f"{seen[name]:,} {what}" for name, what in
              (("of_examples", "examples"), ("of_rows", "rows")) if name in seen]  # fmt: skip
    return dict.fromkeys(ENTRY_COLUMNS, "-") | {
        "model": model_text(record.model),
        "task": record.task,
        "key": record.entry[:8],
        "holds": ", ".join(counts) or "-",
        "stored": ", ".join(str(seen[name]) for name in ("dtype", "format") if name in seen) or "-",
        "state": "not in the cache that was looked at",
    }


def _model_text(manifest: Manifest) -> str:
    info = manifest.model_info
    revision = info.get("revision")
    reads = "left to right" if manifest.causal else "both ways"
    parts = [
        f"{manifest.n_blocks} blocks of width {manifest.dim}, reads {reads}",
        f"from {_model_source(manifest)}" + (f" at {revision}" if revision else ""),
    ]
    return "; ".join(parts)


def _facts_by_name(records: Sequence[Record], models: dict[str, str]) -> dict[str, str]:
    """Return what a reader wants to know first, by name."""
    facts = {f"model {model_text(name)}": text for name, text in models.items()}
    for (task, label), group in grouped(records, ["task", "label"]).items():
        seen = max((record.seen.get("of_examples", 0) for record in group), default=0)
        fitted = f", {seen:,} training examples" if seen else ""
        metric = " and ".join(sorted({record.metric for record in group}))
        facts[f"text {task}"] = f"label {label}{fitted}; scored by {metric}"
    seeds = sorted({record.seed for record in records})
    facts["runs"] = f"{len(records):,} records, seeds {layers_text(seeds)}"
    versions = [f"probekit {' and '.join(sorted({record.version for record in records}))}"]
    for name in ("torch", "transformers", "python"):
        held = {str(record.environment[name]) for record in records if name in record.environment}
        versions += [f"{name} {' and '.join(sorted(held))}"] if held else []
    facts["versions"] = ", ".join(versions)
    return facts
