"""Repositories of texts on the local Hub."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from tests.tasks.own_files import write_parquet


def write_config(
    repo: Path,
    config: str,
    splits: Mapping[str, Mapping[str, Sequence[object]]],
    names: Sequence[str] = (),
) -> Path:
    """Write one configuration of texts and labels, as a folder with one Parquet file per split.

    ``names`` makes a ClassLabel of the column "label"; without them numbers are float32.
    """
    (repo / config).mkdir(parents=True)
    for split, columns in splits.items():
        features: dict[str, object] = {
            name: {"dtype": "string", "_type": "Value"} for name in columns
        }
        features["label"] = {"names": list(names), "_type": "ClassLabel"}
        numbers = pa.int64() if names else pa.float32()
        arrays = {
            name: pa.array(values, numbers if name == "label" else None)
            for name, values in columns.items()
        }
        path = repo / config / f"{split}-00000-of-00001.parquet"
        write_parquet(path, arrays, features if names else None)
    return repo


def write_card(repo: Path, configs: Mapping[str, Sequence[str]]) -> None:
    """Write the card that says which files belong to which split of which configuration."""
    lines = ["---", "configs:"]
    for config, splits in configs.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        for split in splits:
            lines += [f"  - split: {split}", f"    path: {config}/{split}-*"]
    (repo / "README.md").write_text("\n".join([*lines, "---", ""]))


REVIEWS: Mapping[str, Sequence[object]] = {
    "review": ["a fine film", "a dull film"],
    "label": [1, 0],
}
CLASSES = ("bad", "good")


def reviews(folder: Path) -> Path:
    """Write two configurations of the same reviews."""
    for config in ("short", "long"):
        splits = dict.fromkeys(("train", "validation", "extra"), REVIEWS)
        write_config(folder, config, splits, CLASSES)
    write_card(folder, dict.fromkeys(("short", "long"), tuple(splits)))
    return folder
