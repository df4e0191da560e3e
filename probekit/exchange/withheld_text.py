"""Entries without their text: what is left out of a table, and put back by whoever has the text."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from probekit.base.kinds import KINDS
from probekit.base.numbers.ragged import bounds_of
from probekit.base.registry import choose
from probekit.errors import DataError, EntryError, OptionError
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

_TEXT = ("id", "words", "text", "text_pair", "subwords")
"""Columns that are the text, or say it: subwords are numbers in a vocabulary that anybody has."""

UNKNOWN = -1
"""What stands for a subword that was not pushed."""

_NAME = re.compile(r"withheld-([0-9a-f]{32})\.parquet")


def withheld_sum(name: str) -> str | None:
    """Return the checksum in the name of a table without its text; None for any other file."""
    match = _NAME.fullmatch(name)
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
    left = table_bytes(table.drop_columns([n for n in _TEXT if n in table.column_names]))
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
        raise EntryError(f"{file} is not as it was written. {REMEDY}")
    needed, optional = (
        pa.schema([item for item in schema if item.name not in _TEXT])
        for schema in (EXAMPLE_SCHEMA, OPTIONAL_SCHEMA)
    )
    table, examples = read_table(file, needed, optional), split.examples
    if len(table) != len(examples):
        raise EntryError(f"{file} does not tell of the {len(examples):,} examples of its text.")
    counts = [len(example.words) for example in examples]
    if any(counts) and table["n_rows"].to_pylist() != counts:
        raise EntryError(f"{file} tells of other words than its text has.")
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
