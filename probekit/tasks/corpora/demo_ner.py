"""``demo-ner``: the entity corpus that was written for probekit and ships inside it."""

from pathlib import Path

from probekit.errors import DataError
from probekit.tasks.corpora.published import find_file, origin_of
from probekit.tasks.formats.word_columns import read_blocks, width_of
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.task import Task

FOLDER = Path(__file__).parent / "demo"
FILES = {"train": ("train.conll",), "dev": ("dev.conll",)}


def parse_demo(path: Path) -> Sentences:
    """Read ``word<TAB>tag`` rows.

    Raises:
        DataError: the rows have another number of columns.
    """
    blocks = read_blocks(path)
    if width_of(blocks) not in (0, 2):
        line = blocks[0].lines[0]
        raise DataError(f"{path}, line {line}: expected 2 columns, found {width_of(blocks)}.")
    sentences = tuple(Sentence(b.column(0), {"ner": b.column(1)}, b.lines) for b in blocks)
    return Sentences(sentences=sentences, where=str(path), origin=origin_of(path))


def _read(split: str, data: Path | None) -> Sentences:
    found = parse_demo(find_file("demo-ner", split, data or FOLDER, FILES[split]))
    if data is not None:
        return found
    # Where the package is installed says nothing about the text.
    origin = f"{FILES[split][0]} in the package"
    return Sentences(sentences=found.sentences, where=found.where, origin=origin)


def demo_ner() -> Task:
    """Return the task ``demo-ner``."""
    return Task(
        name="demo-ner",
        columns=("ner",),
        metrics={"ner": "span-f1"},
        splits=tuple(FILES),
        source=_read,
    )
