"""BLiMP: 67 sets of 1,000 pairs of sentences, one of which is acceptable (Warstadt et al. 2020).

It has no splits. Here the first 600 pairs of a set are train, the next 200 dev, the others test.
"""

import json
from pathlib import Path

from probekit.errors import DataError, MissingFileError
from probekit.tasks.corpora.published import SplitsTogether
from probekit.tasks.formats.text_lines import read_lines
from probekit.tasks.sentences import Sentences, plain_text
from probekit.tasks.task import Task

PAIRS = {"train": range(600), "dev": range(600, 800), "test": range(800, 1000)}
"""The pairs of each split, in the order of the file."""

OBTAIN = "https://github.com/alexwarstadt/blimp, its folder data"


def blimp(name: str) -> Task:
    """Return the task ``blimp/<name>`` ("blimp/wh_island"); both sentences share a ``pair``."""
    corpus = SplitsTogether(
        task=f"blimp/{name}",
        files=dict.fromkeys(PAIRS, (f"{name}.jsonl",)),
        parse=_parse,
        obtain=OBTAIN,
    )
    return corpus.labelled({"acceptable": "accuracy"}, kind="sentence")


def blimp_sets(data: Path | None) -> list[str]:
    """Return the names of the sets of a folder.

    Raises:
        MissingFileError: there is none.
    """
    names = [] if data is None else sorted(path.stem for path in data.glob("*.jsonl"))
    if not names:
        raise MissingFileError(f"no sets of BLiMP (*.jsonl). Give --data DIR: {OBTAIN}.")
    return names


def _parse(path: Path, split: str) -> Sentences:
    sentences = []
    for number, line in enumerate(read_lines(path), start=1):
        if number - 1 not in PAIRS[split]:
            continue
        try:
            pair = json.loads(line)
            texts = {"yes": str(pair["sentence_good"]), "no": str(pair["sentence_bad"])}
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}, line {number}: not a pair of BLiMP ({error!r}).") from None
        for label, text in texts.items():
            labels, groups = {"acceptable": label}, {"pair": f"{number}"}
            id = f"{number}-{label}"
            sentences.append(plain_text((text,), labels, number, id, groups=groups))
    return Sentences.of_file(path, sentences)
