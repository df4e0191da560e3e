"""What a file gives a saved head to label: running text, or a table that ``extract`` reads too."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from probekit.base.kinds import KINDS
from probekit.errors import DataError
from probekit.tasks import TextOptions
from probekit.tasks.assemble import check_text
from probekit.tasks.formats.file_names import RUNNING, format_of
from probekit.tasks.formats.text_lines import decode_lines, known_encoding, read_bytes
from probekit.tasks.formats.word_columns import DOCUMENT_START
from probekit.tasks.own.user_files import FORMATS, read_own
from probekit.tasks.schemes import is_tag
from probekit.tasks.sentences import Sentence
from probekit.tasks.text_options import Choice
from probekit.train.saved.head import TrainedHead
from probekit.train.saved.items import Item, read_items

_CELLS = re.compile(r"[,;|\t]")
COLUMNS = {"text", "separator", "sentences"}
"""Options that say that a file has columns."""


def file_items(path: Path, head: TrainedHead, options: TextOptions) -> list[Item]:
    """Return what a file holds, as ``predict`` takes it.

    What ``extract`` reads as a table is read so here, and its labels are left out. A ``.txt`` file
    is running text, unless an option says that it has columns; any other file is running text.

    Args:
        path: the file.
        head: what labels it.
        options: how the user's own data is read.

    Raises:
        MissingFileError: there is no such file.
        DataError: it holds no text of the kind that the head reads.
        OptionError: it is not clear which column holds the text.
    """
    if format_of(path) in FORMATS - {RUNNING} or COLUMNS & options.given.keys():
        return _table_items(path, head, options)
    return line_items(read_bytes(path), str(path), head, options)


def line_items(raw: bytes, where: str, head: TrainedHead, options: TextOptions) -> list[Item]:
    """Return a text per line, as ``predict`` takes it.

    Args:
        raw: the text, encoded.
        where: what it is, for messages.
        head: what labels it.
        options: how it is encoded; UTF-8 if they do not say.

    Raises:
        DataError: it is not of that encoding, is no text of the kind that the head reads, or looks
            like a table of words and labels.
        OptionError: an option is for columns.
    """
    options.refuse(COLUMNS, f"{where}, which has a text per line")
    encoding = options.encoding
    lines = decode_lines(raw, where, encoding and known_encoding(encoding))
    _check_running(lines, where, head.text_kind, head.config["labels"])
    return read_items(lines, head.text_kind)


def _table_items(path: Path, head: TrainedHead, options: TextOptions) -> list[Item]:
    kind = KINDS[head.text_kind].name
    asked = {**vars(options), "kind": kind}
    found = read_own([path], Choice(texts_alone=True, label=head.config["label"], **asked))
    if not found.sentences:
        raise DataError(f"{path}: there is no text to label.")
    for sentence in found.sentences:
        check_text(found, sentence, kind)
    return [_item(sentence) for sentence in found.sentences]


def _item(sentence: Sentence) -> Item:
    if sentence.text is None:
        return list(sentence.words)
    return sentence.text if sentence.text_pair is None else (sentence.text, sentence.text_pair)


def _check_running(lines: Sequence[str], where: str, kind: str, labels: Collection[str]) -> None:
    """Refuse lines that hold their labels already, or JSON: each would be taken for a text."""
    filled = [line for line in lines if line.strip() and not line.startswith(("#", DOCUMENT_START))]
    if filled and all(line.startswith("{") and line.rstrip().endswith("}") for line in filled):
        raise DataError(f"{where}: JSON objects, and running text is expected; name it .jsonl.")
    if len(filled) > 1 and _ends_in_labels(filled, kind, labels):
        remedy = (
            ".conll file, or --text 0 with this one" if kind == "tagging" else ".csv or .tsv file"
        )
        raise DataError(
            f"{where}: every line ends in a label, so that this is a table, and running text is "
            f"expected. To have it read as `probekit extract` reads it, give a {remedy}."
        )


def _ends_in_labels(lines: Sequence[str], kind: str, labels: Collection[str]) -> bool:
    """Say whether the last cell of each line, but perhaps a header, is a label.

    Words are as many in each line, beside a label of letters; a full stop may be a label as well.
    """
    body = lines[1:] if len(lines) > 2 else lines
    rows = [line.split() if kind == "tagging" else _CELLS.split(line) for line in body]
    named = {row[-1].strip(' "') for row in rows}
    if kind == "tagging" and not any(map(str.isalpha, "".join(named))):
        return False
    known = all(name in labels or (kind == "tagging" and is_tag(name)) for name in named)
    return known and len(rows[0]) > 1 and len({len(row) for row in rows}) == 1
