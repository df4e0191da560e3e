"""HDF5 files in the form of ELMo's: a data set per sentence, (layers, words, dim), "0", "1", ...

AllenNLP's ``elmo`` command writes them (Peters et al. 2018), and the structural probes read them
(Hewitt and Manning 2019). ``sentence_to_index``, where it is there, is JSON: the number of each
sentence by its words with spaces between.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.fingerprint import digest_file
from probekit.errors import DataError, MissingFileError, reason_of
from probekit.extraction.imports.sequences import Sequences, StatesShape
from probekit.extraction.imports.stored_tensors import StoredTensor, of_numpy

SUFFIXES = (".hdf5", ".h5")
_TEXTS = "sentence_to_index"


@dataclass(frozen=True, kw_only=True, eq=False)
class SentenceFile(Sequences):
    """The sentences of one file, a row for each word.

    Attributes:
        path: the file.
        texts: the words of each sentence with spaces between; none if the file has no index.
        file: the open file.
    """

    path: Path
    texts: Sequence[str | None] = field(repr=False)
    file: h5py.File = field(repr=False)

    def name(self, sequence: int) -> str:
        """Return its data set."""
        return f"{self.where}: data set {sequence}"

    def text(self, sequence: int) -> str | None:
        """Return its words, where the file has an index."""
        return self.texts[sequence]

    def token_ids(self, sequence: int) -> Int64[np.ndarray, " rows"]:
        """Raise: such a file has no tokens."""
        raise AssertionError("a row is a word")

    def word_ids(self, sequence: int, n_words: int) -> Int64[np.ndarray, " rows"]:
        """Raise: a row is a word."""
        raise AssertionError("a row is a word")

    def read(self, sequence: int) -> Float[Tensor, "rows layers dim"]:
        """Read its states."""
        try:
            found = _tensor(self.file, sequence, self.where).whole()
        except OSError as error:
            raise DataError(
                f"{self.name(sequence)} cannot be read ({reason_of(error)}). The file is damaged."
            ) from error
        found = found[None] if found.ndim == 2 else found
        return found.transpose(0, 1).to(self.shape.dtype)

    def digest(self, used: Sequence[int]) -> str:
        """Hash the file."""
        return digest_file(self.path)


def sentence_file(path: Path) -> SentenceFile:
    """Open such a file.

    Raises:
        MissingFileError: it is not there.
        DataError: it is none, a sentence is missing, or data lies outside of the file.
    """
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file. Check the path.")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DataError(
            f"{path} cannot be read as HDF5 ({reason_of(error)}). It is damaged or incomplete."
        ) from error
    where, count = str(path), _count(file, str(path))
    lengths, shape = [], None
    for number in range(count):
        tensor = _tensor(file, number, where)
        rows, found = StatesShape.of(tensor, layers_first=True)
        if shape is not None and found != shape:
            raise DataError(
                f"{tensor.where}: {found.layers} layers x {found.dim} in {found.dtype}, and the "
                f"first sentence has {shape.layers} x {shape.dim} in {shape.dtype}."
            )
        shape = found
        lengths.append(rows)
    assert shape is not None
    return SentenceFile(
        where=where,
        lengths=np.array(lengths, np.int64),
        shape=shape,
        form="words",
        path=path,
        texts=_texts(file, where, count),
        file=file,
    )


def _count(file: h5py.File, where: str) -> int:
    """Return the number of sentences.

    Raises:
        DataError: there is none, one is missing, or there is something else.
    """
    numbers = {name for name in file if name != _TEXTS}
    expected = {str(number) for number in range(len(numbers))}
    if not numbers:
        raise DataError(f"{where}: no data set; expected one per sentence, named 0, 1, ...")
    if odd := sorted(name for name in numbers if not name.isdecimal() or str(int(name)) != name):
        raise DataError(
            f"{where}: the data set {odd[0]!r} is no number; expected one per sentence, named 0 to "
            f"{len(numbers) - 1}."
        )
    if missing := sorted(map(int, expected - numbers)):
        raise DataError(
            f"{where}: the data set {missing[0]} is missing ({len(numbers)} sentences are there, "
            f"up to {max(map(int, numbers))})."
        )
    return len(numbers)


def _tensor(file: h5py.File, number: int, where: str) -> StoredTensor:
    """Return a sentence's data set; nothing that lies in another file is ever read."""
    name = str(number)
    found: Any = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
        raise DataError(
            f"{where}: {name!r} is a link, a group, or data of another file; expected a data set "
            "of this one."
        )
    if found.size and found.id.get_space_status() != h5py.h5d.SPACE_STATUS_ALLOCATED:
        raise DataError(
            f"{where}: data set {name} was never written, or in part; who wrote the file was "
            "stopped. Write it again."
        )
    return StoredTensor(
        where=f"{where}: data set {name}",
        shape=found.shape,
        dtype=of_numpy(np.empty(0, found.dtype), f"{where}: data set {name}").dtype,
        read=lambda places: of_numpy(found[places], where).whole(),
    )


def _texts(file: h5py.File, where: str, count: int) -> list[str | None]:
    """Return the text of each sentence; None for all where there is no index.

    Of sentences with the same words the index has one; the others have None.
    """
    texts: list[str | None] = [None] * count
    if _TEXTS not in file:
        return texts
    try:
        index = json.loads(np.asarray(file[_TEXTS]).reshape(-1)[0])
        numbered = {str(text): int(number) for text, number in index.items()}
    except (ValueError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise DataError(
            f"{where}: {_TEXTS} is not the number of each sentence by its text, in JSON "
            f"({reason_of(error)})."
        ) from error
    for text, number in numbered.items():
        if not 0 <= number < count:
            raise DataError(f"{where}: {_TEXTS} has the number {number}, and {count} are there.")
        texts[number] = text
    return texts
