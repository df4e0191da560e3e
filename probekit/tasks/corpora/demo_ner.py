"""``demo-ner``: the entity corpus that was written for probekit and ships inside it."""

from dataclasses import replace
from pathlib import Path

from probekit.tasks.corpora.published import find_file
from probekit.tasks.formats.word_columns import read_tagged
from probekit.tasks.sentences import Sentences
from probekit.tasks.task import Task

FOLDER = Path(__file__).parent / "demo"
FILES = {"train": ("train.conll",), "dev": ("dev.conll",)}


def _read(split: str, data: Path | None) -> Sentences:
    """Read ``word<TAB>tag`` rows, of ``data`` or of the package."""
    found = read_tagged(find_file("demo-ner", split, data or FOLDER, FILES[split]), ("ner",))
    # Where the package is installed says nothing about the text.
    inside = f"{FILES[split][0]} in the package"
    return found if data is not None else replace(found, origin=inside)


def demo_ner() -> Task:
    """Return the task ``demo-ner``."""
    return Task(name="demo-ner", metrics={"ner": "span-f1"}, splits=tuple(FILES), corpus=_read)
