"""What goes with a pushed entry: the card of its data set, and its files without the text."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from probekit.base.kinds import KINDS
from probekit.base.markup import card_table, card_text, is_place, written_card
from probekit.base.notices import human_bytes
from probekit.base.numbers import bounds_of
from probekit.base.registry import argument, choose
from probekit.errors import DataError, EntryError, OptionError
from probekit.results.summaries.wording import layers_text
from probekit.store.backends.contract import REMEDY
from probekit.store.files import checksum
from probekit.store.manifest import Manifest
from probekit.store.tables import (
    EXAMPLE_SCHEMA,
    OPTIONAL_SCHEMA,
    ExampleTable,
    read_table,
    table_bytes,
)
from probekit.tasks import TASKS, Example, Split, Task, TextOptions, get_task

_LICENCE = """\
Hidden states are made from a text by a model. probekit does not know the licence of either: \
whoever publishes this repository must check that both allow it, and fill in `license` above. \
{text}"""
_WITH_TEXT = "The words of the text lie in `examples.parquet`, and its labels in `labels/`."
REVEALED = "Hidden states still reveal much of their text; those of layer 0 nearly all of it."
_WITHOUT_TEXT = (
    f"Words and labels were left out of {{which}}: supply your own copy of the text. {REVEALED}"
)
ENTRIES = (
    "Entries of a `probekit` cache: the hidden states of a frozen model, for every row and layer, "
    "to train heads and probes on without running the model."
)
LAYERS = "Layer i is `hidden_states[i]` of transformers: layer 0 is the embeddings."


@dataclass(frozen=True)
class CardEntry:
    """An entry of a repository, as its card shows it.

    Attributes:
        folder: its folder there.
        manifest: what it is.
        text: whether its text is there.
    """

    folder: str
    manifest: Manifest
    text: bool

    @property
    def row(self) -> list[str]:
        """Return its line of the table."""
        manifest = self.manifest
        arrays = (
            f"{spec.name} {spec.rows:,} x {len(spec.layers)} x {spec.dim}"
            for spec in manifest.arrays
        )
        return [
            manifest.task,
            f"{manifest.split}{'' if manifest.limit is None else f' (first {manifest.limit:,})'}",
            f"{manifest.counts['examples']:,}",
            ", ".join(arrays),
            layers_text(sorted({layer for spec in manifest.arrays for layer in spec.layers})),
            manifest.dtype,
            human_bytes(sum(spec.nbytes for spec in manifest.arrays)),
            "yes" if self.text else "no",
            manifest.key[:8],
        ]


HEADINGS = (
    *("task", "split", "examples", "arrays (rows x layers x dim)", "layers", "dtype", "size"),
    *("text", "key"),
)


def write_card(url: str, entries: Sequence[CardEntry], before: str | None = None) -> str:
    """Return the card of a repository.

    Args:
        url: of the repository, as `pull` takes it.
        entries: all that it holds.
        before: the card that it has; what its owner wrote in it stays.
    """
    from huggingface_hub import DatasetCardData

    models = dict.fromkeys(str(model_of(entry.manifest)["name"]) for entry in entries)
    data = DatasetCardData(
        license="unknown",
        pretty_name=f"Hidden states of {', '.join(models)}",
        tags=["probekit", "hidden-states", "probing"],
        viewer=False,  # its rows are states, not a table
    )
    return written_card("\n".join(_section(url, entries)), before, data.to_yaml())


def _section(url: str, entries: Sequence[CardEntry]) -> list[str]:
    first = entries[0].manifest
    model, task = model_of(first), " ".join(first.task.split())
    names = entries[0].folder.split("/")[0], task
    words = shlex.join(map(argument, names))  # for a shell, of a stranger's
    array = first.arrays[0]
    some = ",".join(map(str, sorted({array.layers[len(array.layers) // 2], array.layers[-1]})))
    left_out = [e.manifest.split for e in entries if not e.text]
    text = "" if len(left_out) == len(entries) else _WITH_TEXT
    if left_out:
        which = card_text(", ".join(sorted(set(left_out))))
        text = f"{text} {_WITHOUT_TEXT.format(which=which)}".strip()
    data = " --data PATH" if left_out else ""
    return [
        f"# Hidden states of {card_text(str(model['name']))}",
        "",
        ENTRIES,
        "",
        card_table(["", ""], [[k, v] for k, v in about(first).items()]),
        "",
        card_table(HEADINGS, [entry.row for entry in entries]),
        "",
        "## Load it",
        "",
        "```sh",
        f"probekit cache pull {url}{data}",
        f"probekit cache pull {url} --split {shlex.quote(first.split)} --layers {some}{data}   # "
        "downloads only these",
        f"probekit train {words}",
        "```",
        "",
        f"{LAYERS} Chunks are checked against their checksums when they are pulled.",
        "",
        "## Licence",
        "",
        _LICENCE.format(text=text),
    ]


def about(manifest: Manifest) -> dict[str, str]:
    """Return what all entries of a repository share, as a rule: those of the first."""
    model = model_of(manifest)
    origin = manifest.origin if manifest.origin.startswith("hub:") else ""
    kind = f" ({manifest.kind})" if manifest.kind in KINDS else ""
    last = "after the final norm" if manifest.final_norm else "as the last block left it"
    return {
        "model": f"{model['name']}" + (f", revision {model['revision']}" * bool(model["revision"])),
        "weights": str(manifest.request["model"].get("weights", "unknown")),
        "text": f"{manifest.task}{kind}" + (f", {origin}" if origin else ""),
        "computed in": manifest.compute_dtype,
        "last layer": last,
    }


def model_of(manifest: Manifest) -> Mapping[str, object]:
    """Return name and revision of a model; a name that is a path on a disk is told by its end."""
    info = manifest.model_info
    name = str(info.get("name", manifest.model))
    return {"name": manifest.model if is_place(name) else name, "revision": info.get("revision")}


_TEXT_COLUMNS = ("id", "words", "text", "text_pair", "subwords")
"""Columns that are the text, or say it: subwords are numbers in a vocabulary that anybody has."""

UNKNOWN = -1
"""What stands for a subword that was not pushed."""

_WITHHELD_NAME = re.compile(r"withheld-([0-9a-f]{32})\.parquet")


def withheld_sum(name: str) -> str | None:
    """Return the checksum in the name of a table without its text; None for any other file."""
    match = _WITHHELD_NAME.fullmatch(name)
    return None if match is None else match[1]


def withhold(table: pa.Table, manifest: Manifest) -> tuple[str, bytes]:
    """Return an example table without its text as a file: its name and its bytes.

    Raises:
        OptionError: the labels are the text, as in language modelling.
    """
    if choose("kind", manifest.kind, KINDS).targets == "vocabulary":
        raise OptionError(
            f"{manifest.task} {manifest.split}: the labels of language modelling are the text, so "
            "this entry cannot be pushed with --no-text."
        )
    left = table_bytes(table.drop_columns([n for n in _TEXT_COLUMNS if n in table.column_names]))
    return f"withheld-{checksum(left)}.parquet", left


@dataclass(frozen=True, kw_only=True)
class TextSource(TextOptions):
    """Where whoever pulls has the text, and how it is read.

    Attributes:
        data: folder with the task's published files, or path of the user's own data; None reads a
            task of probekit's from where it is published.
        label: for the user's own data, the label column.
    """

    data: Path | None = None
    label: str | None = None

    def read(self, manifest: Manifest) -> tuple[Split, Task]:
        """Return the split whose text an entry is of, and its task.

        Raises:
            OptionError: the text is the user's own, and ``data`` does not say where it lies.
            DataError: it is another text.
        """
        name, split = manifest.task, manifest.split
        if name.partition("/")[0] in TASKS:
            task, data = get_task(name, TextOptions(**self.given), self.label), self.data
        elif self.data is None:
            raise OptionError(
                f"{name} {split} was pushed without its text, so say where you have it: --data "
                "PATH."
            )
        else:
            options = self.or_as({"kind": manifest.kind, **(manifest.read or {})})
            task, data = get_task(str(self.data), options, self.label), None
        fresh = task.read(split, data).first(manifest.limit)
        return check_text(fresh, manifest), task


def check_text(split: Split, manifest: Manifest) -> Split:
    """Return a split, if an entry is of its text.

    Raises:
        DataError: it is of another one.
    """
    expected, fingerprint = manifest.request["text"], split.text_fingerprint()
    if fingerprint != expected:
        count, held = manifest.counts["examples"], len(split.examples)
        differs = f"{held:,} examples, not {count:,}" if held != count else "as many, other ones"
        raise DataError(
            f"{split.origin}, split {split.name!r}, is not the text of {manifest.task} "
            f"{manifest.split}: expected fingerprint {expected[:8]}, found {fingerprint[:8]} "
            f"({differs}). Give the same files, read in the same way: ids and words count, labels "
            "do not."
        )
    return split


def restore(file: Path, split: Split, rows: Mapping[str, int]) -> ExampleTable:
    """Read an example table, and put the text of a split back.

    Args:
        file: a table as `withhold` leaves it, from anybody.
        split: of the entry's text (`check_text`).
        rows: how many the entry's arrays have.

    Raises:
        EntryError: it is damaged, or does not tell of these examples.
    """
    if checksum(file.read_bytes()) != withheld_sum(file.name):
        raise EntryError(f"{file} has changed since it was written. {REMEDY}")
    needed, optional = (
        pa.schema([item for item in schema if item.name not in _TEXT_COLUMNS])
        for schema in (EXAMPLE_SCHEMA, OPTIONAL_SCHEMA)
    )
    table, examples = read_table(file, needed, optional), split.examples
    if len(table) != len(examples):
        raise EntryError(f"{file} does not describe the {len(examples):,} examples of its text.")
    counts = [len(example.words) for example in examples]
    if any(counts) and table["n_rows"].to_pylist() != counts:
        raise EntryError(f"{file} does not match the words of its text.")
    columns = {name: table[name].combine_chunks() for name in table.column_names} | {
        "id": [example.id for example in examples],
        "words": [list(example.words) for example in examples],
        "subwords": _unknown_subwords(table),
        **_texts(examples),
    }
    restored = ExampleTable.from_columns(columns)
    restored.check(rows, str(file))
    return restored


def _texts(examples: Sequence[Example]) -> dict[str, list[str | None]]:
    columns = {
        "text": [example.text for example in examples],
        "text_pair": [example.text_pair for example in examples],
    }
    return {
        name: texts for name, texts in columns.items() if any(text is not None for text in texts)
    }


def _unknown_subwords(table: pa.Table) -> pa.Array:
    """Return a list of `UNKNOWN` for every example, as long as its list of words of subwords."""
    owners = table["word_map"].combine_chunks()
    lengths = owners.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    ids = np.full(int(lengths.sum()), UNKNOWN, np.int32)
    return pa.ListArray.from_arrays(pa.array(bounds_of(lengths).astype(np.int32)), pa.array(ids))
