"""The lines of a text file, split at line ends alone, or an error with its line.

Published files are UTF-8. Those of the user have the encoding that he says, else UTF-8, else what
is recognised.
"""

import codecs
import gzip
import io
import logging
import zlib
from pathlib import Path

from probekit.base.notices import warn_once
from probekit.errors import DataError, MissingFileError, OptionError
from probekit.tasks.formats.file_names import GZIP

logger = logging.getLogger(__name__)

_GROWTH, _FREE_BYTES = 128, 2**26
"""Most bytes of an unpacked file: so many for each that it has packed, and so many more."""

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
_MOST_ACCENTED = 0.3
"""Of all letters; where there are more, the text is rather of another alphabet."""
_MOST_UTF_8 = 0.05
"""Of all that is not ASCII: a pair of signs may look like a letter in UTF-8 by chance."""
_SIGNS = frozenset("€‚ƒ„…†‡ˆ‰‹‘’“”•–—˜™›¡¢£¥§©«®°±²³´·º»¼½¾¿×÷\xa0\xad")  # noqa: RUF001


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

    Without an encoding, UTF-16 and UTF-32 are known by their byte order mark. What is not UTF-8 in
    any place and reads as a Western language in cp1252 is taken for that. Both are said.

    Raises:
        MissingFileError: there is no such file.
        DataError: it is a folder, or not of that encoding; the message gives the line.
        OptionError: ``encoding`` names none.
    """
    raw = read_bytes(path)
    return decode_lines(raw, str(path), _encoding(path, raw, encoding))


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
        with gzip.open(io.BytesIO(raw)) as packed:
            most = _GROWTH * len(raw) + _FREE_BYTES
            found = packed.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a readable gzip file ({error}).") from error
    if len(found) > most:
        raise DataError(f"{path}: unpacked it is more than {most:,} bytes, nearly all the same.")
    return found


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


def _encoding(path: Path, raw: bytes, wanted: str | None) -> str:
    if wanted is not None:
        return known_encoding(wanted)
    found = next((name for mark, name in _MARKS.items() if raw.startswith(mark)), None)
    if found is None and _is_western(raw):
        found = WESTERN
    if found is not None:
        warn_once(logger, f"{path}: read as {found}, not UTF-8; if it is neither, give --encoding.")
    elif raw.count(0) > len(raw) / 4:  # letters of UTF-16 are half zeros
        raise DataError(
            f"{path}: a quarter of the bytes are zeros; if this is UTF-16, give --encoding "
            "utf-16-le (or utf-16-be)."
        )
    return found or UTF_8


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


def _is_western(raw: bytes) -> bool:
    """Say whether bytes that are not UTF-8 read as a Western language in cp1252.

    A file with some UTF-8 in it is a broken one: it would come out as two signs per letter.
    """
    try:
        raw.decode()
    except UnicodeDecodeError:
        text = raw.decode(WESTERN, errors="replace")
    else:
        return False
    high = [character for character in text if ord(character) > 127]
    n_utf_8 = sum(ord(character) > 127 for character in raw.decode(errors="ignore"))
    if n_utf_8 > _MOST_UTF_8 * len(high):
        return False
    accented = [character for character in high if character.isalpha()]
    letters = sum(character.isalpha() for character in text)
    plausible = "ÿ" not in accented and {*high} - {*accented} <= _SIGNS
    return plausible and len(accented) <= _MOST_ACCENTED * letters
