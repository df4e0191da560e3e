"""What was asked: models, text, entries with their verification, and versions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from probekit.base.notices import human_bytes
from probekit.errors import ProbekitError
from probekit.page.rerun_commands import extract_command, model_source, own_kind, text_source
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped
from probekit.results.summaries.wording import layers_text, model_text
from probekit.store.checksums import verify_checksums, verify_files
from probekit.store.entry import Entry, EntryFolder, list_entries
from probekit.store.manifest import Manifest

_COUNTED = ("examples", "words", "tokens", "truncated_words")
_NOT_FOUND = "not in the cache that was looked at"

EntryFact = Mapping[str, str | bool | None]
"""What is known of an entry: texts by `ENTRY_COLUMNS`, and ``whole``: whether it stood the checks.

That is None of one that was not found.
"""

ENTRY_COLUMNS = ("model", "task", "split", "key", "holds", "stored", "created", "verified")
"""What the page shows of an entry.

Its key is the digits that ``probekit cache ls`` prints, ``holds`` counts and size, ``stored`` how
numbers are stored and were computed, ``verified`` what was checked, and what came of that. What is
not known is ``-``.
"""


@dataclass(frozen=True)
class Found:
    """The entries of some records, and where their models come from.

    Attributes:
        entries: one by one.
        sources: source of each model, by its name.
        facts: what models and texts are, by name.
        commands: those that extract the entries.
        kinds: kind of the user's own data, by entry.
    """

    entries: Sequence[EntryFact]
    sources: dict[str, str]
    facts: dict[str, str]
    commands: Sequence[str]
    kinds: dict[str, str]


def find_asked(records: Sequence[Record], cache: Path, *, verify: bool, progress: bool) -> Found:
    """Look for the entries of records in a cache, and say what is known of them.

    Args:
        records: any.
        cache: the cache root.
        verify: compare all checksums; otherwise that files are there, and their sizes, is checked.
        progress: show progress on stderr.
    """
    first = {record.entry: record for record in reversed(records)}
    every = list_entries(cache)
    folders = {key: list(_folders(every, key)) for key in first}
    made = [(key, folder.manifest) for key in folders for folder in folders[key] if folder.manifest]
    manifests = {first[key].model: manifest for key, manifest in made}
    by_path = {folder.path: folder for of_key in folders.values() for folder in of_key}
    entries = [_fact(folder, verify=verify, progress=progress) for folder in by_path.values()]
    entries += [_missing(first[key]) for key, of_key in folders.items() if not of_key]
    texts = {manifest.task: text_source(manifest) for _, manifest in made}
    kinds = {key: own_kind(manifest) for key, manifest in made}
    models = {}
    for record in first.values():
        blocks = record.seen.get("blocks")
        read = f"layers read: {layers_text(record.layers)}"
        models[record.model] = f"{blocks} blocks" if blocks else read
    models |= {model: _model_text(manifest) for model, manifest in manifests.items()}
    sources = {model: model_source(manifest) for model, manifest in manifests.items()}
    commands = [extract_command(manifest, cache, first[key].task) for key, manifest in made]
    return Found(
        entries=entries,
        sources=sources | {task: path for task, path in texts.items() if path is not None},
        facts=_facts(records, models),
        commands=list(dict.fromkeys(commands)),
        kinds={key: kind for key, kind in kinds.items() if kind},
    )


def _folders(folders: Sequence[EntryFolder], key: str) -> Iterator[EntryFolder]:
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


def _fact(folder: EntryFolder, *, verify: bool, progress: bool) -> EntryFact:
    manifest = folder.manifest
    try:
        verified, whole = _verified(folder.path, verify=verify, progress=progress)
    except ProbekitError as error:
        verified, whole = str(error), False
    shown = {"model": folder.model, "task": folder.task, "split": folder.split, "key": folder.key8}
    known = {"holds": "-", "stored": "-", "created": "-"}
    if manifest is not None:
        stored = f"{manifest.dtype}, {manifest.backend}; computed in {manifest.compute_dtype}"
        held = {name: manifest.counts.get(name, 0) for name in _COUNTED}
        counts = [f"{count:,} {name.replace('_', ' ')}" for name, count in held.items() if count]
        limit = "" if manifest.limit is None else f" (limit {manifest.limit:,})"
        holds = ", ".join([*counts, human_bytes(folder.nbytes)]) + limit
        known = {"holds": holds, "stored": stored, "created": manifest.created[:10]}
    return shown | known | {"verified": verified, "whole": whole}


def _verified(path: Path, *, verify: bool, progress: bool) -> tuple[str, bool]:
    """Check an entry; return what was checked and found, and whether it stood that.

    Raises:
        EntryError: it is unfinished, or a file is missing, short or unreadable.
    """
    entry = Entry.open(path)
    if not verify:
        said = f"sizes of files; checksums were not compared: probekit cache verify {path}"
        return f"whole ({said})", True
    wrong = [*verify_files(path), *map(str, verify_checksums(path, progress=progress))]
    if wrong:
        return f"damaged: {wrong[0]}" + f" and {len(wrong) - 1} more" * (len(wrong) > 1), False
    chunks = sum(spec.n_chunks for spec in entry.manifest.arrays)
    files = len(entry.manifest.files)
    return f"all {chunks:,} chunks and {files:,} files match their checksums", True


def _missing(record: Record) -> EntryFact:
    seen = record.seen
    counts = [f"{seen[name]:,} {what}" for name, what in
              (("of_examples", "examples"), ("of_rows", "rows")) if name in seen]  # fmt: skip
    stored = ", ".join(str(seen[name]) for name in ("dtype", "format") if name in seen)
    shown = {"model": model_text(record.model), "task": record.task, "split": "-"}
    known = {"key": record.entry[:8], "holds": ", ".join(counts) or "-", "stored": stored or "-"}
    return shown | known | {"created": "-", "verified": _NOT_FOUND, "whole": None}


def _model_text(manifest: Manifest) -> str:
    info = manifest.model_info
    revision = info.get("revision")
    reads = "left to right" if manifest.causal else "both ways"
    parts = [
        f"{manifest.n_blocks} blocks of width {manifest.dim}, reads {reads}",
        f"from {model_source(manifest)}" + (f" at {revision}" if revision else ""),
    ]
    return "; ".join(parts)


def _facts(records: Sequence[Record], models: dict[str, str]) -> dict[str, str]:
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
