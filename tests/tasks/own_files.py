"""Write and read the user's own files in tests."""

import json
from pathlib import Path

from probekit.tasks import Split, Task, TextOptions
from probekit.tasks import get_task as task_called

CONLLU = "1\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n\n"


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def get_task(name: str, *, label: str | None = None, **options: str | bool | None) -> Task:
    """The task, with the options of the command line by name."""
    return task_called(name, TextOptions(**options), label)  # type: ignore[arg-type]


def task_of(path: Path, text: str | None = None, label: str | None = None) -> Task:
    return get_task(str(path), kind="tagging", text=text, label=label)


def train(path: Path, text: str | None = None, label: str | None = None) -> Split:
    return task_of(path, text, label).read("train")


def words(split: Split) -> list[tuple[str, ...]]:
    return [example.words for example in split.examples]


def json_lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)
