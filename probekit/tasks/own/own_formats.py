"""Which formats the user's own data may have, by kind, and the reader of each."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from probekit.base.kinds import KindName
from probekit.errors import DataError
from probekit.tasks.formats.extensions import RUNNING, SAVED, format_of
from probekit.tasks.formats.fields import Fields
from probekit.tasks.formats.text_fields import RECORDS, TABLES
from probekit.tasks.own.column_choice import Choice
from probekit.tasks.own.labelled import read_texts, read_txt, texts_of
from probekit.tasks.own.tagged import read_columns, read_conll, read_conllu, read_table
from probekit.tasks.own.user_fields import read_records, sentences_of
from probekit.tasks.sentences import Sentences

Reader = Callable[[Path, Choice], Sentences]

_TEXTS = (*RECORDS, *TABLES)
READERS: Mapping[KindName, Mapping[str, Reader]] = {
    "tagging": {
        ".conll": read_conll,
        ".conllu": read_conllu,
        **dict.fromkeys(RECORDS, read_records),
        ".csv": read_table,
        ".tsv": read_table,
        RUNNING: read_columns,
    },
    "sentence": dict.fromkeys(_TEXTS, partial(read_texts, kind="sentence")),
    "pair": dict.fromkeys(_TEXTS, partial(read_texts, kind="pair")),
    "regression": dict.fromkeys(_TEXTS, partial(read_texts, kind="regression")),
    "language-modelling": {
        **dict.fromkeys(_TEXTS, partial(read_texts, kind="language-modelling")),
        RUNNING: read_txt,
    },
}
FORMATS = frozenset(form for readers in READERS.values() for form in readers)
_DIVIDED = {"tagging": (*TABLES, ".conll"), "language-modelling": (".csv", ".tsv")}
"""Formats whose columns ``--separator`` may divide, where they are not all tables."""
_PACKED = (".parquet", SAVED)
"""Formats that say themselves how their text is encoded."""


def read_own(paths: Sequence[Path], choice: Choice, kind: KindName) -> Sentences:
    """Return the sentences of one split: of a file, or of all its shards.

    Raises:
        DataError: the kind is not read from such a file, or it does not hold what its format
            promises.
        OptionError: the choice of columns is left open, or an option has nothing to say there.
    """
    return Sentences.joined([_read(path, choice, kind) for path in paths])


def read_fields(fields: Fields, choice: Choice, kind: KindName) -> Sentences:
    """Return the sentences of records that are read already; errors as for ``read_own``."""
    if kind == "tagging":
        return sentences_of(fields, choice)
    return texts_of(fields, choice, kind)


def _read(path: Path, choice: Choice, kind: KindName) -> Sentences:
    form = format_of(path)
    if form not in READERS[kind]:
        raise unknown_format(path, kind)
    fitting = {
        "separator": form in _DIVIDED.get(kind, TABLES),
        "encoding": form not in _PACKED,
        "sentences": form in _DIVIDED["tagging"] and kind == "tagging",
    }
    choice.refuse([name for name, fits in fitting.items() if not fits], f"{path}, of kind {kind}")
    return READERS[kind][form](path, choice)


def unknown_format(path: Path, kind: KindName) -> DataError:
    """Say which formats a kind is read from, and which kind is read from this one."""
    form = format_of(path)
    others = [other for other, readers in READERS.items() if form in readers]
    hint = f" For {form} use --kind {others[0]}." if others else ""
    listed = ", ".join(one for one in READERS[kind] if one != SAVED)
    found = path.suffix or path.name
    return DataError(f"{path}: unknown format {found!r}; expected {listed} for kind {kind}.{hint}")
