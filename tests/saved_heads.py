"""Saved heads and records as tests change them."""

import json
from pathlib import Path
from typing import Any

from probekit.base.fingerprint import with_checksum


def unsealed(folder: Path) -> dict[str, Any]:
    """Write a saved head's config.json without checksums, as earlier versions did; return it."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    for name in ("checksum", "weights"):
        config.pop(name, None)
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return dict(config)


def changed_head(folder: Path, **changes: Any) -> None:
    """Change values of a saved head's config.json, and its checksum with them."""
    config = unsealed(folder) | changes
    (folder / "config.json").write_text(json.dumps(with_checksum(config)), "utf-8")


def unsealed_records(file: Path) -> None:
    """Write records without checksums, of themselves and of their predictions."""
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for record in records:
        for name in ("checksum", "predictions_digest"):
            record.pop(name, None)
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")


def changed_records(file: Path, **changes: Any) -> None:
    """Change values of all records of a file, and their checksums with them."""
    unsealed_records(file)
    records = [json.loads(line) | changes for line in file.read_text("utf-8").splitlines()]
    lines = (json.dumps(with_checksum(record)) + "\n" for record in records)
    file.write_text("".join(lines), "utf-8")
