"""What a saved head is given to label: sentences in words, running texts, or pairs of texts.

It comes as values, as lines of running text, or in a table that ``extract`` reads too.
"""

from collections.abc import Sequence
from pathlib import Path

from probekit.base.kinds import KINDS, Kind
from probekit.errors import DataError, OptionError
from probekit.tasks import Example, TextOptions
from probekit.tasks.assemble import check_text
from probekit.tasks.formats.text_lines import RUNNING, decode_lines, format_of, read_bytes
from probekit.tasks.formats.word_columns import DOCUMENT_START
from probekit.tasks.sentences import Sentence
from probekit.tasks.task import Choice
from probekit.tasks.user_files import FORMATS, read_own
from probekit.train.saved.head import TrainedHead

Item = str | Sequence[str]
COLUMNS = {"text", "separator", "sentences"}
"""Options that say that a file has columns."""


def as_examples(texts: Sequence[Item], kind: str) -> list[Example]:
    """Return texts as examples of the kind that the head was trained on.

    Args:
        texts: as ``predict`` takes them.
        kind: what the head reads: ``tagging`` for texts in words, ``sentence``, ``pair``, or
            ``regression`` where it is not known whether that is one text or two.

    Raises:
        DataError: a text is no pair where one is expected, is a pair or a list of words where a
            running text is, or single texts and pairs are mixed.
    """
    examples = [_example(f"text-{n}", text, KINDS[kind]) for n, text in enumerate(texts, 1)]
    for example in examples:
        if (example.text_pair is None) != (examples[0].text_pair is None):
            raise DataError(
                f"{example.id}: single texts and pairs are mixed; a head labels one or the other, "
                "depending on how it was trained."
            )
    return examples


def _example(name: str, item: Item, kind: Kind) -> Example:
    if kind.per == "word":
        words = [word for word in item.split(" ") if word] if isinstance(item, str) else item
        return Example(id=name, words=tuple(words))
    if isinstance(item, str):
        if 1 not in kind.texts:
            raise DataError(f"{name}: this head labels pairs of texts; found one text, {item!r}.")
        return Example(id=name, text=item)
    if 2 not in kind.texts:
        raise DataError(
            f"{name}: this head labels single texts; found {len(item)} in a list. Give a string."
        )
    if len(item) != 2:
        raise DataError(f"{name}: expected a pair of texts; found {len(item)} texts.")
    return Example(id=name, text=item[0], text_pair=item[1])


def read_items(lines: Sequence[str], kind: str) -> list[Item]:
    """Turn lines of text into what ``predict`` takes; blank lines are left out.

    Args:
        lines: one text per line; the two texts of a pair lie apart by a TAB.
        kind: what the head reads: tagging splits words at single spaces.

    Raises:
        DataError: there is no text at all, a line of a pair has no TAB or several, or a line of a
            single text has one.
    """
    if KINDS[kind].per == "word":
        return list(read_sentences(lines))
    items: list[Item] = []
    for number, line in enumerate(lines, 1):
        texts = line.strip("\r\n").split("\t")
        if line.strip() and len(texts) not in KINDS[kind].texts:
            raise DataError(
                f"line {number}: this head labels "
                f"{'single texts' if KINDS[kind].texts == (1,) else 'pairs of texts'}, and a TAB "
                f"separates the two texts of a pair; found {len(texts)}."
            )
        if line.strip():
            items.append(texts[0] if len(texts) == 1 else tuple(texts))
    if not items:
        raise DataError("there is no text to label; give one per line.")
    return items


def read_sentences(lines: Sequence[str]) -> list[list[str]]:
    """Split lines of text into words at single spaces; blank lines are left out.

    Raises:
        DataError: there is no word at all, or a TAB, which a table of words and labels would take
            for the end of a word.
    """
    tabbed = next((number for number, line in enumerate(lines, 1) if "\t" in line.strip()), None)
    if tabbed is not None:
        raise DataError(
            f"line {tabbed} has a TAB; give one sentence per line, with spaces between words."
        )
    split = ([word for word in line.strip().split(" ") if word] for line in lines)
    if not (sentences := [words for words in split if words]):
        raise DataError("there is no text to label; give one sentence per line.")
    return sentences


def file_items(path: Path, head: TrainedHead, options: TextOptions) -> list[Item]:
    """Return what a file holds, as ``predict`` takes it.

    What ``extract`` reads as a table is read so here, and its labels are left out: as the text
    was read that the head was trained on, or else as the file itself shows. A ``.txt`` file is
    running text, unless an option says that it has columns; any other file is running text.

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
        try:
            return _table_items(path, head, options.or_as(head.saved.read))
        except (DataError, OptionError):
            if not head.saved.read:
                raise
            return _table_items(path, head, options)
    return line_items(read_bytes(path), str(path), head, options)


def line_items(raw: bytes, where: str, head: TrainedHead, options: TextOptions) -> list[Item]:
    """Return a text per line, as ``predict`` takes it.

    Args:
        raw: the text, encoded.
        where: what it is, for messages.
        head: what labels it.
        options: what was typed of it.

    Raises:
        DataError: it is not UTF-8, is no text of the kind that the head reads, or is
            JSON or a CoNLL file.
        OptionError: an option is for columns.
    """
    options.refuse(COLUMNS, f"{where}, which has a text per line")
    lines = decode_lines(raw, where)
    filled = [line for line in lines if line.strip()]
    if filled and all(line.startswith("{") and line.rstrip().endswith("}") for line in filled):
        raise DataError(f"{where} holds JSON objects, but plain text is expected; name it .jsonl.")
    if any(line.startswith(DOCUMENT_START) for line in filled):
        raise DataError(
            f"{where} holds words and their labels in columns, but plain text is expected. Name it "
            ".conll, or give --text 0."
        )
    return read_items(lines, head.text_kind)


def _table_items(path: Path, head: TrainedHead, options: TextOptions) -> list[Item]:
    kind = KINDS[head.text_kind].name
    asked = {**vars(options), "kind": kind}
    read = read_own([path], Choice(texts_alone=True, label=head.saved.label, **asked))
    if not read.sentences:
        raise DataError(f"{path}: there is no text to label.")
    for sentence in read.sentences:
        check_text(read, sentence, kind)
    return [_item(sentence) for sentence in read.sentences]


def _item(sentence: Sentence) -> Item:
    if sentence.text is None:
        return list(sentence.words)
    return sentence.text if sentence.text_pair is None else (sentence.text, sentence.text_pair)
