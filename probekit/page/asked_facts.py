"""What was asked: models, text, entries with their verification, and versions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
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


@dataclass(frozen=True, kw_only=True)
class EntryFact:
    """What is known of an entry that records were made from.

    Attributes:
        model: name of the model.
        task: name of the task.
        split: the split; ``-`` where the entry was not found.
        key: the digits of its key that ``probekit cache ls`` prints.
        holds: examples, rows, layers and size.
        stored: how numbers are stored and were computed.
        created: day.
        verified: what was checked of it, and what came of that.
        whole: whether it stood the checks; None where it was not found.
    """

    model: str
    task: str
    split: str
    key: str
    holds: str
    stored: str
    created: str
    verified: str
    whole: bool | None


ENTRY_COLUMNS = [one.name for one in fields(EntryFact)][:-1]
"""What the page shows of an entry."""


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
    own = {key: list(_folders(every, key)) for key in first}
    made = [
        (key, folder.manifest)
        for key, folders in own.items()
        for folder in folders
        if folder.manifest is not None
    ]
    manifests = {first[key].model: manifest for key, manifest in made}
    found = {folder.path: folder for folders in own.values() for folder in folders}
    entries = [_fact(one, verify=verify, progress=progress) for one in found.values()]
    texts = {one.task: path for _, one in made if (path := text_source(one)) is not None}
    models = {record.model: _model_of(record) for record in first.values()}
    models |= {model: _model_text(manifest) for model, manifest in manifests.items()}
    return Found(
        entries=[*entries, *(_missing(first[key]) for key, folders in own.items() if not folders)],
        sources={model: model_source(one) for model, one in manifests.items()} | texts,
        facts=_facts(records, models),
        commands=list(
            dict.fromkeys(extract_command(one, cache, first[key].task) for key, one in made)
        ),
        kinds={key: kind for key, one in made if (kind := own_kind(one))},
    )


def _folders(folders: Sequence[EntryFolder], key: str) -> Iterator[EntryFolder]:
    """Yield the entry of a key, and those of the other splits that the same request made."""
    named = [one for one in folders if one.manifest is not None and one.manifest.key == key]
    for one in named:
        asked = {name: value for name, value in one.asked.items() if name != "text"}
        for other in folders:
            alike = {name: value for name, value in other.asked.items() if name != "text"}
            beside = (other.model, other.task) == (one.model, one.task)
            if other is one or (beside and other.split != one.split and alike == asked):
                yield other


def _fact(folder: EntryFolder, *, verify: bool, progress: bool) -> EntryFact:
    manifest = folder.manifest
    try:
        verified, whole = _verified(folder.path, verify=verify, progress=progress)
    except ProbekitError as error:
        verified, whole = str(error), False
    return EntryFact(
        model=folder.model,
        task=folder.task,
        split=folder.split,
        key=folder.key8,
        holds=_holds(manifest, folder.nbytes) if manifest else "-",
        stored=f"{manifest.dtype}, {manifest.backend}; computed in {manifest.compute_dtype}"
        if manifest
        else "-",
        created=manifest.created[:10] if manifest else "-",
        verified=verified,
        whole=whole,
    )


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


def _holds(manifest: Manifest, nbytes: int) -> str:
    held = {name: manifest.counts.get(name, 0) for name in _COUNTED}
    counts = [f"{count:,} {name.replace('_', ' ')}" for name, count in held.items() if count]
    parts = [*counts, human_bytes(nbytes)]
    limit = manifest.limit
    return ", ".join(parts) + (f" (limit {limit:,})" if limit is not None else "")


def _missing(record: Record) -> EntryFact:
    seen = record.seen
    counts = [f"{seen[name]:,} {what}" for name, what in
              (("of_examples", "examples"), ("of_rows", "rows")) if name in seen]  # fmt: skip
    stored = ", ".join(str(seen[name]) for name in ("dtype", "format") if name in seen)
    return EntryFact(
        model=model_text(record.model), task=record.task, split="-", key=record.entry[:8],
        holds=", ".join(counts) or "-", stored=stored or "-", created="-",
        verified=_NOT_FOUND, whole=None,
    )  # fmt: skip


def _model_text(manifest: Manifest) -> str:
    info = manifest.model_info
    revision = info.get("revision")
    reads = "left to right" if manifest.causal else "both ways"
    parts = [
        f"{manifest.n_blocks} blocks of width {manifest.dim}, reads {reads}",
        f"from {model_source(manifest)}" + (f" at {revision}" if revision else ""),
    ]
    return "; ".join(parts)


def _model_of(record: Record) -> str:
    blocks = record.seen.get("blocks")
    return f"{blocks} blocks" if blocks else f"layers read: {layers_text(record.layers)}"


def _facts(records: Sequence[Record], models: dict[str, str]) -> dict[str, str]:
    """Return what a reader wants to know first, by name."""
    facts = {f"model {model_text(name)}": text for name, text in models.items()}
    for (task, label), group in grouped(records, ["task", "label"]).items():
        seen = max((one.seen.get("of_examples", 0) for one in group), default=0)
        fitted = f", {seen:,} training examples" if seen else ""
        metric = " and ".join(sorted({one.metric for one in group}))
        facts[f"text {task}"] = f"label {label}{fitted}; scored by {metric}"
    seeds = sorted({one.seed for one in records})
    facts["runs"] = f"{len(records):,} records, seeds {layers_text(seeds)}"
    facts["versions"] = _versions(records)
    return facts


def _versions(records: Sequence[Record]) -> str:
    found = [f"probekit {' and '.join(sorted({one.version for one in records}))}"]
    for name in ("torch", "transformers", "python"):
        held = sorted({str(one.environment[name]) for one in records if name in one.environment})
        found += [f"{name} {' and '.join(held)}"] if held else []
    return ", ".join(found)
