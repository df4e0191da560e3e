"""The lines of a text file, and what the name of one says: format, split and shard.

Published files are UTF-8. Those of the user are UTF-8, or what is recognised.

The format of "Train.CSV.gz" is ".csv". A split has a file, or shards as the Hub names them.
"""

import codecs
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from probekit.base.fingerprint import parse_json
from probekit.base.kinds import ALIASES, SPLITS
from probekit.base.notices import human_list, warn_once
from probekit.base.packed_files import unpack_gzip
from probekit.errors import DataError, MissingFileError
from probekit.tasks.formats.file_parts import File

logger = logging.getLogger(__name__)

GZIP = ".gz"
RUNNING = ".txt"
"""The format of running text; where words are labelled, of columns."""
SAVED = "saved"
"""The format of a folder that ``Dataset.save_to_disk`` of the ``datasets`` library wrote."""

_SAME = {".ndjson": ".jsonl", ".tab": ".tsv", ".bio": ".conll", ".iob": ".conll", ".iob2": ".conll"}
"""Other suffixes of a format."""

_SHOWN = 5
"""How many files that are left out are named."""

# "train-00000-of-00002" is number 0 of 2 of "train", "part_3" is number 3 of "part" (of how many is
# not said), "0001" is number 1 of a split that its folder names; "train" is no shard.
_SHARD = re.compile(
    r"((?P<name>.+?)[-_.])?(?P<number>\d+)(-of-(?P<total>\d+)(-[0-9a-f]{16})?)?", re.ASCII
)


def format_of(path: File) -> str:
    """Return the format that a path's suffix says, in lower case ("" where it has none)."""
    return SAVED if _is_saved(path) else named_format(path)


def named_format(path: File) -> str:
    """Return the format that a suffix says, as `format_of`, without a look at the disk."""
    suffix = Path(stem_of(path, packed=True)).suffix.lower()
    return _SAME.get(suffix, suffix)


def stem_of(path: File, *, packed: bool = False) -> str:
    """Return a file's name without its suffix; with ``packed``, without ``.gz`` alone."""
    name = path.name[: -len(GZIP)] if path.suffix.lower() == GZIP else path.name
    return name if packed else Path(name).stem


def _is_saved(path: File) -> bool:
    """Say whether a folder holds one split as ``Dataset.save_to_disk`` writes it."""
    return (path / "state.json").is_file() and (path / "dataset_info.json").is_file()


def split_files(path: Path, formats: Collection[str]) -> dict[str, tuple[Path, ...]]:
    """Return split to its files, in the order train, dev, test and of the shards' numbers.

    A file alone is the split that its name says, else train. A folder has a file per split, or
    shards ("train-00000-of-00002.parquet"), or a folder of that name per split, itself or in its
    sub-folder "data"; a split without any has the one whose name ends so ("reviews_dev.csv"). Or it
    is what ``save_to_disk`` wrote.

    Args:
        path: a file or folder.
        formats: those that are read; others in a folder are left out.

    Raises:
        MissingFileError: nothing lies at ``path``.
        DataError: the folder has no file that is named after a split, two files of different
            kinds for one split, or only some of its shards.
    """
    if _is_saved(path):
        try:
            state = dict(parse_json((path / "state.json").read_bytes()))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(
                f"{path}: not a readable saved data set (state.json: {error})."
            ) from error
        return {split_of(str(state.get("_split"))) or split_of(path.name) or "train": (path,)}
    if path.is_file():
        return {split_of(_without_shard(path)) or "train": (path,)}
    if not path.is_dir():
        raise MissingFileError(f"{path}: no such file or folder.")
    splits = _of_folder(path, formats)
    if not splits and (path / "data").is_dir():
        splits = _of_folder(path / "data", formats)
    if not splits:
        raise _without_splits(path, formats)
    return {split: splits[split] for split in SPLITS if split in splits}


def split_of(name: str) -> str | None:
    """Return the split that a name says: "dev", "en_ewt-ud-dev", "Validation"."""
    return ALIASES.get(name.rpartition("-ud-")[2].lower())


def _split_at_end(name: str) -> str | None:
    """Return the split that a name ends with: "reviews_dev", "data-test"."""
    return None if name.startswith(".") else ALIASES.get(re.split(r"[-_. ]", name)[-1].lower())


def describe_files(
    path: Path, splits: Mapping[str, Sequence[Path]], formats: Collection[str]
) -> str:
    """Return in words what was taken for a split by the end of its name, and what was left out.

    Args:
        path: a file or folder.
        splits: what `split_files` returns of it.
        formats: those that are read.
    """
    read = {file: split for split, files in splits.items() for file in files}
    folders = {path, *(file.parent for file in read)} if path not in read else ()
    texts = {format_of(file) for file in read} <= {RUNNING}
    said = [
        f"{file.name} is {split}"
        for file, split in read.items()
        if split not in (split_of(_without_shard(file)), _split_at_end(file.parent.name))
        and folders
    ]
    left = [
        file.name
        for folder in sorted(folders)
        for file in sorted(folder.iterdir())
        if file.is_file() and file not in read
        if format_of(file) in formats or _split_at_end(_without_shard(file))
        if texts or format_of(file) != RUNNING  # treebanks have their running text beside them
    ]
    if left:
        said.append(
            f"left out: {human_list(left, _SHOWN)} (the files of a split are named train, dev or "
            "test, or end like that, as in my_dev.csv)"
        )
    return f"{path}: {'; '.join(said)}" if said else ""


def _without_splits(path: Path, formats: Collection[str]) -> DataError:
    """Say what a folder should hold, and what in it comes near."""
    listed = ", ".join(form for form in formats if form.startswith("."))
    inside = sorted(path.iterdir())
    files = [file for file in inside if file.is_file()]
    others = [file.name for file in files if _split_at_end(_without_shard(file))]
    below = [file for file in inside if file.is_dir() and _of_folder(file, formats)]
    hint = f" {others[0]} has another format, or needs another --kind." if others else ""
    hint = f" Did you mean {below[0]}?" if below else hint
    return DataError(
        f"{path}: no file is named after a split; expected {', '.join(ALIASES)} with one of "
        f"{listed} (or shards, such as train-00000-of-00002.parquet).{hint}"
    )


def _of_folder(folder: Path, formats: Collection[str]) -> dict[str, tuple[Path, ...]]:
    splits: dict[str, list[Path]] = {}
    ending: dict[str, list[Path]] = {}
    for file in sorted(folder.iterdir()):
        name = _without_shard(file)
        if (split := split_of(name)) and (
            format_of(file) in formats or _readable_files(file, formats)
        ):
            splits.setdefault(split, []).append(file)
        elif (split := _split_at_end(name)) and file.is_file() and format_of(file) in formats:
            ending.setdefault(split, []).append(file)
    every = {format_of(file) for files in (*splits.values(), *ending.values()) for file in files}
    for split, files in ending.items():
        prose = every != {RUNNING} == set(map(format_of, files))  # beside data
        if split not in splits and not prose and len(set(map(_without_shard, files))) == 1:
            splits[split] = files
    return {split: _files(folder, split, files, formats) for split, files in splits.items()}


def _files(
    folder: Path, split: str, files: Sequence[Path], formats: Collection[str]
) -> tuple[Path, ...]:
    """Return the files of one split in order; refuse two that are no shards of one whole."""
    # Treebanks have their running text beside the annotated files, under the same names.
    chosen = [file for file in files if format_of(file) != RUNNING] or list(files)
    if len(chosen) == 1 and chosen[0].is_dir() and not _is_saved(chosen[0]):
        return _files(chosen[0], split, _readable_files(chosen[0], formats), ())
    wholes = {(_without_shard(file), format_of(file)) for file in chosen}
    shards = [match for file in chosen if (match := _SHARD.fullmatch(stem_of(file)))]
    if len(wholes) > 1 or len(shards) < len(chosen) > 1:
        raise DataError(f"{folder}: {chosen[0].name} and {chosen[1].name} are both {split!r}.")
    if shards:
        _check_complete(folder, chosen, shards)
    numbers = {file: int(shard["number"]) for file, shard in zip(chosen, shards, strict=False)}
    return tuple(sorted(chosen, key=lambda file: numbers.get(file, 0)))


def _check_complete(folder: Path, files: Sequence[Path], shards: Sequence[re.Match[str]]) -> None:
    """Refuse shards of which one is missing, or there twice; without a total, they count on."""
    # train-00000-of-00002 and -00001-of-00002   complete: 0 and 1 are expected
    # train-00001-of-00002 alone                 number 0 is missing
    # train_1, train_2, train_3                  complete: no total, and counted from 1
    # train_3, train_4                           number 1 is missing
    total = max(int(shard["total"] or 0) for shard in shards)
    numbers = sorted(int(shard["number"]) for shard in shards)
    first = 0 if total else min(numbers[0], 1)
    expected = list(range(first, first + (total or len(numbers))))
    if numbers != expected and (total or len(files) > 1):
        lacking = sorted(set(expected) - set(numbers))
        which = f"number {lacking[0]} is missing" if lacking else "one number occurs twice"
        raise DataError(
            f"{folder}: {files[0].name} is one of {len(expected)} shards, but {which}; every "
            "shard is needed once."
        )


def _readable_files(path: Path, formats: Collection[str]) -> list[Path]:
    """Return the files of a folder that are read."""
    files = sorted(path.iterdir()) if path.is_dir() else ()
    return [file for file in files if format_of(file) in formats]


def _without_shard(path: Path) -> str:
    """Return a file's name without suffix and shard number: "train" of "train-00000-of-00002"."""
    stem = path.name if path.is_dir() else stem_of(path)
    shard = _SHARD.fullmatch(stem)
    return shard["name"] or "" if shard else stem


UTF_8 = "utf-8-sig"
"""With a byte order mark or without."""

WESTERN = "cp1252"
"""What Windows writes in Western Europe and America."""

# Those of UTF-32 begin with those of UTF-16.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_MOST_UTF_8 = 0.05
"""Share of the bytes beyond ASCII: a pair of signs may look like a letter in UTF-8 by chance."""

_NO_TEXT = b"\xff"
"""A letter of cp1252 that hardly any text has; a file that has it is rather no text."""


def read_lines(path: Path) -> list[str]:
    r"""Return the lines of a UTF-8 file without their ends.

    Lines end with LF or CRLF (or CR CRLF, after two conversions); in a file without any LF, with
    CR. Nothing else ends one: ``str.splitlines`` would also cut at U+2028, U+0085 and form feeds,
    which occur inside words. A missing last line end, and byte order marks before a line (of files
    put together), are taken care of.

    Raises:
        MissingFileError: there is no such file.
        DataError: it is a folder, or the bytes are not UTF-8; the message gives the line.
    """
    return decode_lines(read_bytes(path), str(path))


def own_lines(path: File) -> list[str]:
    """Return the lines of the user's own text file, ``.gz`` or not, as ``read_lines`` does.

    UTF-16 and UTF-32 are known by their byte order mark, and what is not UTF-8 is taken for cp1252
    where charset-normalizer finds that it reads as text. Both are said.

    Raises:
        MissingFileError: there is no such file.
        DataError: it is a folder, or of another encoding; the message gives the line, and the
            encoding that charset-normalizer finds most probable.
    """
    raw = read_bytes(path)
    recognised = _recognise(raw)
    if recognised is not None:
        warn_once(
            logger,
            f"{path}: read as {recognised}, not UTF-8. If that is wrong, convert it with iconv.",
        )
    elif raw.count(0) > len(raw) / 4:  # letters of UTF-16 are half zeros
        raise DataError(
            f"{path}: a quarter of the bytes are zeros; if this is UTF-16, convert it: iconv -f "
            "utf-16le -t utf-8 (or utf-16be)."
        )
    return decode_lines(raw, str(path), recognised or UTF_8)


def read_bytes(path: File) -> bytes:
    """Return the content of a file, unpacked if it is a ``.gz`` file.

    Raises:
        MissingFileError: there is no such file.
        DataError: it is a folder, is not packed as its name says, or unpacks to far more than text
            does.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder; give a file.")
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file.")
    raw = path.read_bytes()
    if path.suffix.lower() != GZIP:
        return raw
    try:
        return unpack_gzip(raw)
    except ValueError as error:
        raise DataError(f"{path}: {error}.") from error


def decode_lines(raw: bytes, where: str, encoding: str = UTF_8) -> list[str]:
    """Return the lines of encoded text as ``read_lines`` does.

    Args:
        raw: the bytes.
        where: what they are, for the message.
        encoding: a name that Python knows.

    Raises:
        DataError: they are not of that encoding; the message gives the line.
    """
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw[: error.start].decode(encoding, "ignore").count("\n") + 1
        likely = _most_probable(raw)
        hint = f" -f {likely} -t utf-8, if it is {likely}" if likely else ""
        raise DataError(
            f"{where}, line {line}: not {'UTF-8' if encoding == UTF_8 else encoding} "
            f"({error.reason}, byte 0x{raw[error.start]:02x}); convert it with iconv{hint}."
        ) from error
    lines = text.split("\n" if "\n" in text else "\r")
    if lines[-1] == "":
        lines.pop()
    return [line.rstrip("\r").lstrip("\ufeff") for line in lines]


def tab_cells(path: Path, number: int, line: str, width: int) -> list[str]:
    """Return the cells of a line of a published table.

    Raises:
        DataError: there are more or fewer than ``width``.
    """
    cells = line.split("\t")
    if len(cells) != width:
        raise DataError(
            f"{path}, line {number}: expected {width} TAB-separated columns, found {len(cells)}."
        )
    return cells


def is_wide(path: Path) -> bool:
    """Say whether a line feed of a text file takes more than one byte, as in UTF-16."""
    with path.open("rb") as file:
        return _wide(file.read(4)) is not None


def _wide(raw: bytes) -> str | None:
    """Return the encoding that a byte order mark says; None where there is none."""
    marks = _BYTE_ORDER_MARKS.items()
    return next((name for mark, name in marks if raw.startswith(mark)), None)


def _recognise(raw: bytes) -> str | None:
    """Return the encoding of text that is not UTF-8; None where it is, or none is sure.

    A file with some UTF-8 in it is a broken one: it would come out as two signs per letter.
    """
    if wide := _wide(raw):
        return wide
    try:
        raw.decode()
    except UnicodeDecodeError:
        pass
    else:
        return None
    n_high = sum(byte > 127 for byte in raw)
    n_utf_8 = sum(character > "\x7f" for character in raw.decode(errors="ignore"))
    if n_utf_8 > _MOST_UTF_8 * n_high or _NO_TEXT in raw:
        return None
    from charset_normalizer import from_bytes

    return WESTERN if from_bytes(raw, cp_isolation=[WESTERN]).best() else None


def _most_probable(raw: bytes) -> str | None:
    """Return the encoding in which text reads as some language; None where it reads as none."""
    from charset_normalizer import from_bytes

    match = from_bytes(raw).best()
    return match.encoding if match and match.coherence else None
