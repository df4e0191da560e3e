"""Repositories of texts on the local Hub."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hub_server import HubServer


def serve(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, repos: dict[str, Path], **faults: str
) -> HubServer:
    server = HubServer(repos, {name.replace("__", "/"): fault for name, fault in faults.items()})
    server.redirect(monkeypatch, tmp_path / "home")
    return server


def write_config(
    repo: Path,
    config: str,
    splits: Mapping[str, Mapping[str, Sequence[object]]],
    names: Sequence[str] = (),
) -> Path:
    """Write one configuration of texts and labels, as a folder with one Parquet file per split.

    ``names`` makes a ClassLabel of the column "label"; without them numbers are float32.
    """
    folder = repo / config
    folder.mkdir(parents=True)
    for split, columns in splits.items():
        arrays = {
            name: pa.array(values, pa.int64() if names else pa.float32())
            if name == "label"
            else pa.array(values)
            for name, values in columns.items()
        }
        table = pa.table(arrays)
        if names:
            features: dict[str, object] = {
                name: {"dtype": "string", "_type": "Value"} for name in columns if name != "label"
            }
            features["label"] = {"names": list(names), "_type": "ClassLabel"}
            info = {"info": {"features": features}}
            table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
        pq.write_table(table, folder / f"{split}-00000-of-00001.parquet")
    return repo


def write_card(repo: Path, configs: Mapping[str, Sequence[str]]) -> None:
    """Write the card that says which files belong to which split of which configuration."""
    lines = ["---", "configs:"]
    for config, splits in configs.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        for split in splits:
            lines += [f"  - split: {split}", f"    path: {config}/{split}-*"]
    (repo / "README.md").write_text("\n".join([*lines, "---", ""]))
