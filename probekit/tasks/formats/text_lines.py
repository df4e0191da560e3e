"""The lines of a text file: UTF-8, split at line ends alone, or an error with its line."""

import gzip
import zlib
from pathlib import Path

from probekit.errors import DataError, MissingFileError
from probekit.tasks.formats.extensions import GZIP

UTF_8 = "utf-8-sig"
"""With a byte order mark or without."""


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


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, unpacked if it is a ``.gz`` file.

    Raises:
        MissingFileError: there is no such file.
        DataError: it is a folder, or is not packed as its name says.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder; give a file.")
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file.")
    raw = path.read_bytes()
    if path.suffix.lower() != GZIP:
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a readable gzip file ({error}).") from error


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
        raise DataError(
            f"{where}, line {line}: not {name} ({error.reason}, byte 0x{raw[error.start]:02x}); "
            f"{remedy}."
        ) from error
    lines = text.split("\n" if "\n" in text else "\r")
    if lines[-1] == "":
        lines.pop()
    return [line.rstrip("\r").lstrip("\ufeff") for line in lines]
