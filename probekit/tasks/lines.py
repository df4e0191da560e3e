"""The lines of a text file: UTF-8, split at line ends alone, or an error with its line."""

from pathlib import Path

from probekit.errors import DataError, MissingFileError


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
    if path.is_dir():
        raise DataError(f"{path} is a folder; give a file.")
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file.")
    return decode_lines(path.read_bytes(), str(path))


def decode_lines(raw: bytes, where: str) -> list[str]:
    """Return the lines of UTF-8 bytes as ``read_lines`` does.

    Args:
        raw: the bytes.
        where: what they are, for the message.

    Raises:
        DataError: they are not UTF-8; the message gives the line.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{where}, line {line}: not UTF-8 ({error.reason}, byte 0x{raw[error.start]:02x}); "
            "convert it to UTF-8."
        ) from error
    lines = text.split("\n" if "\n" in text else "\r")
    if lines[-1] == "":
        lines.pop()
    return [line.rstrip("\r").lstrip("\ufeff") for line in lines]
