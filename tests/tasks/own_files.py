"""Write the user's own files in tests, and show on one line what is read of them."""

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from probekit.tasks import Split, Task, TextOptions
from probekit.tasks import get_task as task_called

CONLLU = "1\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n\n"

Content = str | bytes | list[object] | dict[str, list[object]]
"""Of a file: as it is, the objects of JSON lines, or the columns of a Parquet file."""


def json_lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(path: Path, content: Content) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        return write_parquet(path, content)
    text = json_lines(*content) if isinstance(content, list) else content
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def write_parquet(
    path: Path, columns: Mapping[str, object], features: Mapping[str, object] | None = None
) -> Path:
    """Write columns, and what ``datasets`` would say of their features."""
    table = pa.table(dict(columns))
    if features is not None:
        info = json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({"huggingface": info})
    pq.write_table(table, path)
    return path


def get_task(name: str, *, label: str | None = None, **options: str | bool | None) -> Task:
    """The task, with the options of the command line by name."""
    return task_called(name, TextOptions(**options), label)  # type: ignore[arg-type]


def task_of(path: Path, typed: str = "") -> Task:
    """The task of a path, with options such as ``kind=pair text=a,b``."""
    return get_task(str(path), **dict(word.split("=", 1) for word in shlex.split(typed)))


def read(path: Path, typed: str = "", split: str = "train") -> Split:
    return task_of(path, typed).read(split)


def shown(split: Split) -> str:
    """The label columns, and every example: ``tag: EU/B-ORG calls/O | No/O``.

    Of texts it is ``label: a text = yes | another = no``, of pairs ``a text + another = yes``.
    """
    rows = []
    for number, example in enumerate(split.examples):
        labels = [column[number] for column in split.labels.values()]
        if example.words:
            rows.append(" ".join(map("/".join, zip(example.words, *labels, strict=True))))
        else:
            texts = [text for text in (example.text, example.text_pair) if text is not None]
            rows.append(" = ".join([" + ".join(texts), *(label for (label,) in labels)]))
    return f"{','.join(split.labels)}: {' | '.join(rows)}"


def words(split: Split) -> list[tuple[str, ...]]:
    return [example.words for example in split.examples]


def ids(split: Split) -> list[str]:
    return [example.id for example in split.examples]


def quoted(cells: Iterable[str]) -> str:
    """A row of a CSV file."""
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells) + "\n"
