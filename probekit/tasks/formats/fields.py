"""What a file of examples holds: its columns, whatever its format; those of Arrow's formats."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from probekit.errors import DataError, MissingFileError
from probekit.tasks.conversations import conversation_text
from probekit.tasks.formats.file_parts import File, FilePart
from probekit.tasks.schemes import by_name, names_of, trim, written_names
from probekit.tasks.sentences import Sentence, Sentences, origin_of

Row = tuple[int, Sequence[str]]
"""A line, counted from 1, and its cells; none where it divides sentences."""


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The columns of a file, or of what came in place of one.

    Attributes:
        where: the file (or the Hub repository), for messages.
        origin: the same as the manifest names it.
        lines: the line or row of each value of a column.
        values: column to its values (None where one is missing): one per example, or one per word
            where there are ``starts``.
        unit: what ``lines`` counts.
        starts: of a file with a word per line, the places in a column at which a sentence begins.
        documents: of such a file, the lines in which a document begins.
        label: the column of labels, where the format says which it is.
    """

    where: str
    origin: str
    lines: Sequence[int]
    values: Mapping[str, Sequence[Any]]
    unit: Literal["line", "row", "example"] = "line"
    starts: Sequence[int] = ()
    documents: Sequence[int] = ()
    label: str | None = None

    def __post_init__(self) -> None:
        names = trim_names(self.where, self.values)
        columns = map(_as_texts, self.values.values())
        object.__setattr__(self, "values", dict(zip(names, columns, strict=True)))

    @classmethod
    def of_file(
        cls, path: File, values: Mapping[str, Sequence[Any]], lines: Sequence[int] | None = None
    ) -> Self:
        """Return the columns of one file; without ``lines`` its rows are counted."""
        where, origin = str(path), origin_of(path)
        if lines is not None:
            return cls(where=where, origin=origin, lines=lines, values=values)
        rows = range(1, len(next(iter(values.values()), ())) + 1)
        return cls(where=where, origin=origin, lines=rows, values=values, unit="row")

    @classmethod
    def of_rows(cls, path: File, names: Sequence[str], rows: Sequence[Row], **marks: Any) -> Self:
        """Return the columns of a file of rows, of which those without cells divide sentences.

        Args:
            path: the file.
            names: of its columns.
            rows: its rows.
            marks: ``documents`` and ``label``, where there are any.
        """
        filled = [row for row in rows if row[1]]
        divided = [n for n, row in enumerate(rows) if not row[1]]
        starts = {n - before for before, n in enumerate(divided)} | {0}
        return cls(
            where=str(path),
            origin=origin_of(path),
            lines=[line for line, _ in filled],
            values={name: [cells[n] for _, cells in filled] for n, name in enumerate(names)},
            starts=sorted(starts - {len(filled)}),
            **marks,
        )

    def sentences(self, examples: Iterable[Sentence]) -> Sentences:
        """Return what a reader made of the examples."""
        return Sentences(
            sentences=tuple(examples), where=self.where, origin=self.origin, unit=self.unit
        )

    def take(self, rows: Sequence[int]) -> Self:
        """Return some rows of columns of texts."""
        values = {name: [cells[row] for row in rows] for name, cells in self.values.items()}
        return replace(self, lines=[self.lines[row] for row in rows], values=values)

    def id_of(self, number: int) -> str | None:
        """Return the id that the file gives an example, if any."""
        value = self.values["id"][number] if "id" in self.values else None
        return str(value) or None if isinstance(value, str | int) else None

    def groups_of(self, number: int) -> Mapping[str, str]:
        """Return the plain values of an example by column, read when they are asked for."""
        return _Cells(self.values, number)

    def fault(self, number: int, text: str) -> DataError:
        """Return the error of a fault in an example, which names its file and line."""
        return DataError(f"{self.where}, {self.unit} {self.lines[number]}: {text}")


def _as_texts(column: Sequence[Any]) -> Sequence[Any]:
    """Return a column of conversations as one of texts; any other as it is."""
    first = next((value for value in column if value), None)
    if conversation_text(first) is None:
        return column
    return [conversation_text(value) or value for value in column]


class _Cells(Mapping[str, str]):
    """One row of columns, of which those have an item that hold a plain value there."""

    def __init__(self, values: Mapping[str, Sequence[Any]], number: int) -> None:
        self._values, self._number = values, number

    def __getitem__(self, name: str) -> str:
        value = self._values[name][self._number]
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # whole numbers become floats where a column has gaps
        if not isinstance(value, str | int | float) or value != value:
            raise KeyError(name)
        return trim(str(value))

    def __iter__(self) -> Iterator[str]:
        plain = (str, int, float)
        return (
            name for name, column in self._values.items() if isinstance(column[self._number], plain)
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


def trim_names(where: str, names: Iterable[str]) -> list[str]:
    """Return the names of columns without blanks around them.

    Args:
        where: the file, and the line where there is one, for the message.
        names: as the file gives them.

    Raises:
        DataError: two columns have one name.
    """
    trimmed = [trim(name) for name in names]
    twice = next((name for name in trimmed if name and trimmed.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{where}: two columns are called {twice!r}; rename one.")
    return trimmed


def load_saved(path: File) -> Fields:
    """Read what ``Dataset.save_to_disk`` of the ``datasets`` library wrote.

    Raises:
        DataError: the folder is damaged.
    """
    import datasets

    from probekit.base.packed_files import check_count

    try:
        dataset = datasets.load_from_disk(path.path if isinstance(path, FilePart) else path)
        check_count(len(dataset), dataset.data.nbytes)
        if isinstance(path, FilePart):
            dataset = dataset.select(range(path.start, path.stop))
        return dataset_fields(dataset, str(path), origin_of(path))
    except (OSError, ValueError, KeyError) as error:  # pyarrow's own errors are among them
        raise DataError(f"{path}: not a readable saved data set ({error}).") from error


def dataset_fields(dataset: Any, where: str, origin: str) -> Fields:
    """Return the rows of a ``datasets.Dataset``; numbers of a ClassLabel become their names.

    Images and sounds, which are decoded when they are read, are left out.

    Args:
        dataset: one split.
        where: the source, for messages.
        origin: the same as the manifest names it.
    """
    plain = dataset.with_format(None)
    values = {}
    for name, feature in plain.features.items():
        if type(getattr(feature, "feature", feature)).__name__ in ("Value", "ClassLabel"):
            values[name] = by_name(plain[name][:], names_of(feature))
    lines = range(1, len(plain) + 1)
    return Fields(where=where, origin=origin, lines=lines, values=values, unit="row")


def load_parquet(path: File) -> Fields:
    """Read a ``.parquet`` file; numbers of a ``datasets`` ClassLabel become their names.

    Raises:
        MissingFileError: there is no such file.
        DataError: it is no Parquet file, or says that it holds far more than its size allows.
    """
    import pyarrow as pa

    from probekit.base.packed_files import read_parquet

    if not path.is_file():
        raise MissingFileError(f"{path}: no such file.")
    try:
        if isinstance(path, FilePart):
            table = read_parquet(path.path, rows=range(path.start, path.stop))
        else:
            table = read_parquet(path)
        classes = written_names(table.schema.metadata or {})
        values = {
            name: by_name(table.column(name).to_pylist(), classes.get(name))
            for name in table.column_names
        }
    except (
        pa.ArrowException,
        ValueError,
        TypeError,
        AttributeError,
        LookupError,
        OSError,
    ) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}).") from error
    return Fields.of_file(path, values)
