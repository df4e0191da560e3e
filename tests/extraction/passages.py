"""Small files of labelled texts and pairs on disk, short and long ones."""

import json
from pathlib import Path

from tests.tiny import SENTENCES

LENGTHS = (3, 40, 1, 12, 4, 7, 25, 60, 2, 15)


def passages(count: int) -> list[str]:
    """Return texts of 1 to 60 words."""
    words = " ".join(SENTENCES).split()
    return [
        " ".join(words[(3 * i + j) % len(words)] for j in range(LENGTHS[i % len(LENGTHS)]))
        for i in range(count)
    ]


def write_texts(folder: Path, *, count: int = 30) -> Path:
    """Write train.jsonl: a text and a label per line."""
    return _write(folder, [{"text": text} for text in passages(count)])


def write_pairs(folder: Path, *, count: int = 20) -> Path:
    """Write train.jsonl: two texts and a label per line."""
    texts = passages(2 * count)
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return _write(folder, [{"text": one, "text_pair": two} for one, two in pairs])


def _write(folder: Path, rows: list[dict]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row | {"label": f"L{i % 3}"}) for i, row in enumerate(rows)]
    (folder / "train.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
