"""What an entry is to hold besides rows, kept while several processes write these.

It is known before any unit is. Whoever finds the last unit written seals the entry with it, and
needs neither the model nor the text.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from probekit.base.fingerprint import canonical_json, digest_stream, with_checksum
from probekit.errors import EntryNotFoundError
from probekit.store.files import walk_files, write_whole
from probekit.store.json_types import read_object
from probekit.store.layout import BACKBONE, BUILDING, DRAFT, EXAMPLES, MANIFEST
from probekit.store.manifest import Manifest, manifest_in
from probekit.store.tables import EXAMPLE_SCHEMA, OPTIONAL_SCHEMA, read_table, table_bytes

logger = logging.getLogger(__name__)

_SUMS = "sums.json"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """An entry but for its rows.

    Attributes:
        manifest: what it is; its statistics, and how rows were computed, are still to come.
        examples: the example table.
        files: contents of ``backbone/`` by file name.
    """

    manifest: Manifest
    examples: pa.Table
    files: Mapping[str, bytes]

    def sealed(self, statistics: Mapping[str, Any], **extra: Any) -> Manifest:
        """Return the manifest of the entry as it is now that its units are written.

        Args:
            statistics: of all rows.
            extra: what is to be added to the manifest's ``extra``.
        """
        created = datetime.now(UTC).isoformat(timespec="seconds")
        extra = {**self.manifest.extra, **extra}
        return replace(self.manifest, statistics=statistics, extra=extra, created=created)

    def write(self, partial: Path) -> None:
        """Write it into the folder of an entry under construction, its checksums last."""
        folder = partial / BUILDING / DRAFT
        (folder / BACKBONE).mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            write_whole(folder / BACKBONE / name, data)
        write_whole(folder / EXAMPLES, table_bytes(self.examples))
        write_whole(folder / MANIFEST, self.manifest.to_json().encode())
        write_whole(folder / _SUMS, canonical_json(with_checksum(_sums(folder))).encode())

    @classmethod
    def read(cls, partial: Path) -> "Draft":
        """Read it from the folder of an entry under construction.

        Raises:
            EntryNotFoundError: none is there.
            EntryError: it is damaged.
        """
        folder = partial / BUILDING / DRAFT
        if not is_drafted(partial):
            raise EntryNotFoundError(
                f"{partial} says nothing of the entry but its rows: no `extract --shard` has begun "
                "it. Run the command that did again: it resumes."
            )
        return cls(
            manifest=manifest_in(folder),
            examples=read_table(folder / EXAMPLES, EXAMPLE_SCHEMA, OPTIONAL_SCHEMA),
            files={file.name: file.read_bytes() for file in (folder / BACKBONE).iterdir()},
        )


def is_drafted(partial: Path) -> bool:
    """Say whether the folder of an entry under construction holds a draft, as it was written."""
    folder = partial / BUILDING / DRAFT
    if (sums := read_object(folder / _SUMS)) is None:
        return False
    whole = sums == with_checksum(_sums(folder))
    if not whole:
        logger.warning("%s is damaged: not as it was written", folder)
    return whole


def _sums(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file of a draft, by its path."""
    names = (str(name) for name in walk_files(folder) if not name.parent.name.startswith("."))
    return {n: digest_stream([(folder / n).read_bytes()]) for n in names if n != _SUMS}
