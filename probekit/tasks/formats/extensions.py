"""The format of the user's own file, by its name: ".csv" for "Train.CSV.gz"."""

from pathlib import Path

GZIP = ".gz"
RUNNING = ".txt"
"""The format of running text; where words are labelled, of columns."""
SAVED = "saved"
"""The format of a folder that ``Dataset.save_to_disk`` of the ``datasets`` library wrote."""

_SAME = {
    ".ndjson": ".jsonl",
    ".tab": ".tsv",
    ".bio": ".conll",
    ".iob": ".conll",
    ".iob2": ".conll",
}
"""Other suffixes of a format."""


def format_of(path: Path) -> str:
    """Return the format that a path's suffix says, in lower case ("" where it has none)."""
    if is_saved(path):
        return SAVED
    suffix = Path(stem_of(path, packed=True)).suffix.lower()
    return _SAME.get(suffix, suffix)


def stem_of(path: Path, *, packed: bool = False) -> str:
    """Return a file's name without its suffix; with ``packed``, without ``.gz`` alone."""
    name = path.name[: -len(GZIP)] if path.suffix.lower() == GZIP else path.name
    return name if packed else Path(name).stem


def is_saved(path: Path) -> bool:
    """Say whether a folder holds one split as ``Dataset.save_to_disk`` writes it."""
    return (path / "state.json").is_file() and (path / "dataset_info.json").is_file()
