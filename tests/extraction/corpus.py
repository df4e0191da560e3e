"""A small CoNLL-style corpus on disk, with the awkward words in it."""

from pathlib import Path

WORDS = (
    *("the", "report", "said", "Maria", "left", "Paris", "for", "the"),
    *("river", "bank", "near", "Lake", "Geneva", "on", "Monday"),
)


def write_corpus(folder: Path, *, sentences: int = 40, longest: int = 14) -> Path:
    """Write train.conll and dev.conll: word, part of speech and entity tag per line."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", sentences), ("dev", max(sentences // 4, 1))):
        lines = []
        for i in range(count):
            length = 1 + (i * 7) % longest
            for j in range(length):
                word = WORDS[(i + 3 * j) % len(WORDS)]
                if (i, j) == (3, 1):
                    word = "\u200b"  # deleted by the WordPiece tokenizer
                lines.append(f"{word}\tN{j % 3}\t{'B-LOC' if word in ('Paris', 'Lake') else 'O'}")
            lines.append("")
        (folder / f"{split}.conll").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
