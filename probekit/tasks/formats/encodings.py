"""The encoding of the user's own text files: what he says, else UTF-8, else what is recognised."""

import codecs
import logging
from pathlib import Path

from probekit.base.notices import warn_once
from probekit.errors import DataError, OptionError
from probekit.tasks.formats.text_lines import UTF_8, decode_lines, read_bytes
from probekit.tasks.own.text_options import TextOptions

logger = logging.getLogger(__name__)

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


def own_lines(path: Path, options: TextOptions) -> list[str]:
    """Return the lines of the user's own text file, ``.gz`` or not, as ``read_lines`` does.

    UTF-16 and UTF-32 are known by their byte order mark. What is not UTF-8 in any place and reads
    as a Western language in cp1252 is taken for that. Both are said.

    Raises:
        MissingFileError: there is no such file.
        DataError: it is a folder, or not of that encoding; the message gives the line.
        OptionError: ``--encoding`` names none.
    """
    raw = read_bytes(path)
    return decode_lines(raw, str(path), _encoding(path, raw, options.encoding))


def _encoding(path: Path, raw: bytes, wanted: str | None) -> str:
    if wanted is not None:
        return known_encoding(wanted)
    found = next((name for mark, name in _MARKS.items() if raw.startswith(mark)), None)
    if found is None and _is_western(raw):
        found = WESTERN
    if found is None:
        _check_zeros(path, raw)
        return UTF_8
    warn_once(logger, "%s: read as %s, not UTF-8; if it is neither, give --encoding.", path, found)
    return found


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
        return False
    except UnicodeDecodeError:
        pass
    try:
        text = raw.decode(WESTERN)
    except UnicodeDecodeError:
        return False
    high = [character for character in text if ord(character) > 127]
    if len([one for one in raw.decode(errors="ignore") if ord(one) > 127]) > _MOST_UTF_8 * len(
        high
    ):
        return False
    accented = [character for character in high if character.isalpha()]
    letters = sum(character.isalpha() for character in text)
    plausible = "ÿ" not in accented and {*high} - {*accented} <= _SIGNS
    return plausible and len(accented) <= _MOST_ACCENTED * letters


def _check_zeros(path: Path, raw: bytes) -> None:
    """Refuse UTF-16 without its mark, whose letters are half zeros."""
    if raw.count(0) > len(raw) / 4:
        raise DataError(
            f"{path}: a quarter of the bytes are zeros; if this is UTF-16, give --encoding "
            "utf-16-le (or utf-16-be)."
        )
