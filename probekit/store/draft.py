"""What an entry is to hold besides rows, kept while several processes write these.

It is known before any unit is. Whoever finds the last unit written seals the entry with it, and
needs neither the model nor the text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from probekit.errors import EntryNotFoundError
from probekit.store.files import write_whole
from probekit.store.layout import BACKBONE, BUILDING, DRAFT, EXAMPLES, MANIFEST
from probekit.store.manifest import Manifest, manifest_in
from probekit.store.tables import EXAMPLE_SCHEMA, OPTIONAL_SCHEMA, read_table, table_bytes


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
        """Write it into the folder of an entry under construction, the manifest last."""
        folder = partial / BUILDING / DRAFT
        (folder / BACKBONE).mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            write_whole(folder / BACKBONE / name, data)
        write_whole(folder / EXAMPLES, table_bytes(self.examples))
        write_whole(folder / MANIFEST, self.manifest.to_json().encode())

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
    """Say whether the folder of an entry under construction holds a draft."""
    return (partial / BUILDING / DRAFT / MANIFEST).is_file()
