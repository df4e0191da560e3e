"""What a file of records holds: its columns, one value per example; those of Arrow's files."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from probekit.base.fingerprint import parse_json
from probekit.base.notices import warn_once
from probekit.errors import DataError, MissingFileError, reason_of
from probekit.tasks.label_names import MARKS, NUMBERS, by_name, class_text, trim
from probekit.tasks.sentences import Sentence, Sentences, origin_of

logger = logging.getLogger(__name__)

_INNER = ("dtype", "sequence", "list")
"""What a data set's card calls the kind of a feature, or of what its lists hold."""
_CLASS_NUMBER = re.compile(r"-?[0-9]{1,9}(\.0)?")


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The examples of a file by column.

    Attributes:
        where: the file (or the Hub repository), for messages.
        origin: the same as the manifest names it.
        lines: the line or row of each example.
        values: column to one value per example (None where it is missing).
        unit: what ``lines`` counts.
    """

    where: str
    origin: str
    lines: Sequence[int]
    values: Mapping[str, Sequence[Any]]
    unit: Literal["line", "row", "example"] = "line"

    def __post_init__(self) -> None:
        names = trim_names(self.where, self.values)
        object.__setattr__(self, "values", dict(zip(names, self.values.values(), strict=True)))

    @classmethod
    def of_file(
        cls, path: Path, values: Mapping[str, Sequence[Any]], lines: Sequence[int] | None = None
    ) -> Self:
        """Return the columns of one file; without ``lines`` its rows are counted."""
        where, origin = str(path), origin_of(path)
        if lines is not None:
            return cls(where=where, origin=origin, lines=lines, values=values)
        rows = range(1, len(next(iter(values.values()), ())) + 1)
        return cls(where=where, origin=origin, lines=rows, values=values, unit="row")

    def sentences(self, found: Iterable[Sentence]) -> Sentences:
        """Return what a reader made of the examples."""
        return Sentences(
            sentences=tuple(found), where=self.where, origin=self.origin, unit=self.unit
        )

    def id_of(self, number: int) -> str | None:
        """Return the id that the file gives an example, if any."""
        value = self.values["id"][number] if "id" in self.values else None
        return str(value) or None if isinstance(value, str | int) else None

    def groups_of(self, number: int) -> Mapping[str, str]:
        """Return the plain values of an example by column, read when they are asked for."""
        return _Cells(self.values, number)

    def place(self, number: int) -> str:
        """Name the file and the line of an example, for messages."""
        return f"{self.where}, {self.unit} {self.lines[number]}"


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
        return (name for name in self._values if self._has(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _has(self, name: str) -> bool:
        return isinstance(self._values[name][self._number], str | int | float)


def trim_names(where: str, names: Iterable[str]) -> list[str]:
    """Return the names of columns without blanks around them.

    Args:
        where: the file, and the line where there is one, for the message.
        names: as the file gives them.

    Raises:
        DataError: two columns have one name.
    """
    found = [trim(name) for name in names]
    twice = next((name for name in found if name and found.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{where}: two columns are called {twice!r}; rename one.")
    return found


def load_saved(path: Path) -> Fields:
    """Read what ``Dataset.save_to_disk`` of the ``datasets`` library wrote.

    Raises:
        DataError: the folder is damaged.
    """
    import datasets

    from probekit.base.parquet import check_count

    try:
        dataset = datasets.load_from_disk(path)
        check_count(len(dataset), dataset.data.nbytes)
        return dataset_fields(dataset, str(path), origin_of(path))
    except (OSError, ValueError, KeyError) as error:  # pyarrow's own errors are among them
        raise DataError(f"{path}: not a readable saved data set ({error}).") from error


def dataset_fields(dataset: Any, where: str, origin: str) -> Fields:
    """Return the rows of a ``datasets.Dataset``; numbers of a ClassLabel become their names.

    Args:
        dataset: one split.
        where: the source, for messages.
        origin: the same as the manifest names it.
    """
    plain = dataset.with_format(None)
    values = {}
    for name, feature in plain.features.items():
        if type(_inner(feature)).__name__ not in ("Value", "ClassLabel"):
            continue  # images and sounds, which are decoded when they are read
        labels, rows = class_names(feature), plain[name][:]
        values[name] = rows if labels is None else by_name(rows, labels)
    lines = range(1, len(plain) + 1)
    return Fields(where=where, origin=origin, lines=lines, values=values, unit="row")


def class_names(feature: Any) -> Sequence[str] | None:
    """Return the names of a ClassLabel, or of a list of them; None for another feature."""
    return getattr(_inner(feature), "names", None)


def _inner(feature: Any) -> Any:
    """Return what a list holds, or the feature itself."""
    return getattr(feature, "feature", feature)


def load_parquet(path: Path) -> Fields:
    """Read a ``.parquet`` file; numbers of a ``datasets`` ClassLabel become their names.

    Raises:
        MissingFileError: there is no such file.
        DataError: it is no Parquet file, or says that it holds far more than its size allows.
    """
    import pyarrow as pa

    from probekit.base.parquet import read_parquet

    if not path.is_file():
        raise MissingFileError(f"{path}: no such file.")
    try:
        table = read_parquet(path)
        values = {name: table.column(name).to_pylist() for name in table.column_names}
        written = _written_names(table.schema.metadata or {})
    except (pa.ArrowException, ValueError, TypeError, AttributeError, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}).") from error
    for name, labels in written.items():
        if name in values:
            values[name] = by_name(values[name], labels)
    return Fields.of_file(path, values)


def with_card_names(fields: Fields, card: Path) -> Fields:
    """Return records whose numbers have the names that the card of their data set gives to classes.

    Args:
        fields: the records.
        card: the file, ``README.md``, with ``dataset_info`` in front; it need not be there.

    Raises:
        DataError: a number is that of no class.
    """
    named = {}
    for name, classes in _card_names(card).items():
        if name in fields.values:
            try:
                rows = _as_numbers(fields.values[name], classes)
            except ValueError as error:
                raise DataError(
                    f"{fields.where}: of the classes that {card} names for column {name!r}, "
                    f"{error}. Write the names in the column, or other names in the card."
                ) from error
            _check_classes(fields, name, rows, classes, card)
            named[name] = by_name(rows, classes)
    return replace(fields, values={**fields.values, **named})


def _as_numbers(rows: Sequence[Any], classes: Sequence[str]) -> list[Any]:
    """Return a column whose class numbers are numbers, though written as text or as floats.

    Raises:
        ValueError: it is text that may be the number of one class and the name of another.
    """

    def number(item: Any) -> Any:
        text = class_text(item)
        if not isinstance(text, str) or not _CLASS_NUMBER.fullmatch(trim(text)):
            return item
        found = int(float(text))
        if not isinstance(item, str) or trim(text) not in classes:
            return found
        if 0 <= found < len(classes) and classes[found] != trim(text):
            raise ValueError(f"{trim(text)} is the name of a class and the number of another")
        return item

    return [[*map(number, row)] if isinstance(row, list) else number(row) for row in rows]


def _check_classes(
    fields: Fields, name: str, rows: Sequence[Any], classes: Sequence[str], card: Path
) -> None:
    for number, row in enumerate(rows):
        for value in row if isinstance(row, list) else [row]:
            if type(value) is int and value not in NUMBERS and not 0 <= value < len(classes):
                raise DataError(
                    f"{fields.place(number)}: {value} in column {name!r} is no class of {card}, "
                    f"which names 0 to {len(classes) - 1}. Add the names of the others there."
                )


def _card_names(card: Path) -> dict[str, list[str]]:
    """Return the names of classes by column; none where the file says nothing of them."""
    if not card.is_file():
        return {}
    import yaml  # type: ignore[import-untyped]
    from huggingface_hub import metadata_load

    found: dict[str, list[str]] = {}
    try:
        front = card.read_text("utf-8").partition("\n---")[0]
        tokens = yaml.scan(front) if front.startswith("---") else ()
        if any(isinstance(token, yaml.AliasToken) for token in tokens):
            raise ValueError("it repeats parts by a name, which may come to any size")
        info = (metadata_load(card) or {}).get("dataset_info", [])
        configs = info if isinstance(info, list) else [info]
        usual = [one for one in configs if one.get("config_name") == "default"]
        for config in usual or configs:
            for feature in config["features"]:
                names = _feature_names(feature)
                if names and found.setdefault(feature["name"], names) != names:
                    raise ValueError(f"its configurations differ in {feature['name']!r}")
    except Exception as error:  # whatever a hand-written file makes of its reader
        warn_once(logger, f"{card}: what it says of classes cannot be read ({reason_of(error)}).")
        return {}
    return found


def _feature_names(feature: Mapping[str, Any]) -> list[str]:
    """Return the names of the classes of a feature in a card; none where it has no classes."""
    inner = next((feature[one] for one in _INNER if one in feature), None)
    if not isinstance(inner, dict) or "class_label" not in inner:
        return []
    names = inner["class_label"]["names"]  # 0: O, 1: B-PER, ... or a list
    if not isinstance(names, list):
        numbers = sorted(names, key=int)
        if list(map(int, numbers)) != list(range(len(numbers))):
            raise ValueError(
                f"{feature['name']!r} numbers its classes {', '.join(map(str, numbers))}"
            )
        names = [names[number] for number in numbers]
    for name in names:
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise ValueError(
                f"the class {name!r} of {feature['name']!r} is no text: put it in quotes"
            )
    found = [trim(str(name)) for name in names]
    if len(set(found)) < len(found):
        raise ValueError(f"two classes of {feature['name']!r} have one name")
    if marks := [name for name in found if name.lower() in MARKS - {"_"}]:
        raise ValueError(f"the class {marks[0]!r} of {feature['name']!r} reads as no label")
    return found


def _written_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return the label names that ``datasets`` wrote into the file, by column.

    Raises:
        ValueError, TypeError, AttributeError: it wrote something else.
    """
    info = parse_json(metadata.get(b"huggingface", b"{}")).get("info", {})
    found = {}
    for name, feature in info.get("features", {}).items():
        inner = feature.get("feature", feature) if isinstance(feature, dict) else feature[0]
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and "names" in inner:
            found[name] = inner["names"]
    return found
