"""The lines of a text file, split at line ends alone, or an error with its line.

Published files are UTF-8. Those of the user have the encoding that he says, else UTF-8, else what
is recognised.
"""

import codecs
import logging
from pathlib import Path

from probekit.base.notices import warn_once
from probekit.base.packed_files import unpack_gzip
from probekit.errors import DataError, MissingFileError, OptionError
from probekit.tasks.formats.file_names import GZIP

logger = logging.getLogger(__name__)

UTF_8 = "utf-8-sig"
"""With a byte order mark or without."""

WESTERN = "cp1252"
"""What Windows writes in Western Europe and America."""

# Those of UTF-32 begin with those of UTF-16.
_MARKS = {
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


def own_lines(path: Path, encoding: str | None) -> list[str]:
    """Return the lines of the user's own text file, ``.gz`` or not, as ``read_lines`` does.

    Without an encoding, UTF-16 and UTF-32 are known by their byte order mark, and what is not UTF-8
    is taken for cp1252 where charset-normalizer finds that it reads as text. Both are said.

    Raises:
        MissingFileError: there is no such file.
        DataError: it is a folder, or not of that encoding; the message gives the line, and the
            encoding that charset-normalizer finds most probable.
        OptionError: ``encoding`` names none.
    """
    raw = read_bytes(path)
    if encoding is not None:
        return decode_lines(raw, str(path), known_encoding(encoding))
    recognised = _recognise(raw)
    if recognised is not None:
        warn_once(
            logger, f"{path}: read as {recognised}, not UTF-8; if it is neither, give --encoding."
        )
    elif raw.count(0) > len(raw) / 4:  # letters of UTF-16 are half zeros
        raise DataError(
            f"{path}: a quarter of the bytes are zeros; if this is UTF-16, give --encoding "
            "utf-16-le (or utf-16-be)."
        )
    return decode_lines(raw, str(path), recognised or UTF_8)


def read_bytes(path: Path) -> bytes:
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


def decode_lines(raw: bytes, where: str, encoding: str | None = None) -> list[str]:
    """Return the lines of encoded text as ``read_lines`` does.

    Args:
        raw: the bytes.
        where: what they are, for the message.
        encoding: a name that Python knows; None is UTF-8, which the user cannot choose.

    Raises:
        DataError: they are not of that encoding; the message gives the line.
    """
    try:
        text = raw.decode(encoding or UTF_8)
    except UnicodeDecodeError as error:
        line = raw[: error.start].decode(encoding or UTF_8, "ignore").count("\n") + 1
        name = "UTF-8" if encoding in (None, UTF_8) else encoding
        remedy = "convert it to UTF-8" if encoding is None else "say what it is with --encoding"
        likely = _most_probable(raw) if encoding == UTF_8 else None
        hint = f" (it may be {likely})" if likely else ""
        raise DataError(
            f"{where}, line {line}: not {name} ({error.reason}, byte 0x{raw[error.start]:02x}); "
            f"{remedy}{hint}."
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
            f"{path}, line {number}: expected {width} columns divided by TABs, found {len(cells)}."
        )
    return cells


def known_encoding(wanted: str) -> str:
    """Return the encoding that a name means; UTF-8 comes with or without its mark.

    Raises:
        OptionError: it names none.
    """
    try:
        codec = codecs.lookup(wanted)
        "".encode(wanted)
    except (LookupError, ValueError) as error:
        raise OptionError(
            f"--encoding {wanted}: no such encoding; write utf-8, cp1252, utf-16 or another that "
            "Python knows."
        ) from error
    return UTF_8 if codec.name == "utf-8" else codec.name


def _recognise(raw: bytes) -> str | None:
    """Return the encoding of text that is not UTF-8; None where it is, or none is sure.

    A file with some UTF-8 in it is a broken one: it would come out as two signs per letter.
    """
    marked = next((name for mark, name in _MARKS.items() if raw.startswith(mark)), None)
    if marked is not None:
        return marked
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
