"""Texts that occur twice in the tasks of the analyses: in train and in what is scored, or in train.

Counted are the texts that are extracted (the first ones, where a task is limited) and those of the
whole splits; no model is run, and no entry read.

    python analyses/duplicates.py --data data
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from shared import markdown, write
from subjects import SUBJECTS, Subject

from probekit.features.duplicates import Wording, count_copies, joined, left_of_train
from probekit.features.sentence_groups import LEAST_WORDS, group_sizes, phrase_groups
from probekit.tasks import get_task

NAME = "duplicates"
DEMO = "demo-ner"
TRANSFER = {
    f"wikiann/{language}": Subject(f"wikiann/{language}", SUBJECTS["wikiann/en"].splits, limit=5000)
    for language in ("de", "fr")
}
PHRASES = "glue/sst2"
"""The task whose train split is phrases of one another."""

INTRODUCTION = """\
Percent of the texts of dev and test that are in train too: *exact*, word for word, and
*normalised*, with capitals, compatibility characters, punctuation and blanks left out.
Of pairs both count pairs, and *one text* the pairs that have at least one of their texts in common
with a pair of train. *In dev* are those of test that are in dev. *Left out* is what
`--drop-duplicates` leaves out of train for all scored splits together, in percent of train. Where a
task is limited, *first N* are the texts that the analyses extract of each split."""

WITHIN = """\
Percent of train that occurs there twice or more, as above. *Largest* is the largest group that
`--drop-duplicates` keeps together, in examples."""

OF_PHRASES = f"""\
Groups of `--group phrases` in the train split of SST-2: phrases of {LEAST_WORDS} words or more
belong to every text that holds them. *Together* are the texts that share their group with another,
in percent."""

Found = Mapping[str, Sequence[Wording]]
"""The texts of a task, by split."""


def main() -> None:
    """Read the texts, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"))
    data = parser.parse_args().data
    scored, train, phrases = [], [], []
    for task, about, found in read_all(data):
        scored += scored_lines(task, about, found)
        train.append([task, about, *train_cells(found["train"])])
        if task == PHRASES:
            phrases.append([about, *phrase_cells(found["train"])])
    shares = ["exact", "normalised", "one text"]
    scored_header = ["task", "of each split", "split", "texts", *shares, "in dev", "left out"]
    train_header = ["task", "texts of train", "texts", *shares, "largest"]
    phrase_header = ["texts of train", "texts", "groups", "largest", "together"]
    write(
        NAME,
        [
            "# Texts that occur twice",
            INTRODUCTION,
            markdown(scored_header, scored, words=3),
            f"## In train\n\n{WITHIN}",
            markdown(train_header, train, words=2),
            f"## Phrases\n\n{OF_PHRASES}",
            markdown(phrase_header, phrases),
        ],
    )


def read_all(data: Path) -> Iterator[tuple[str, str, Found]]:
    """Yield every task with the texts that are extracted, then with all where there are more."""
    yield DEMO, "all", read(DEMO, Subject(""), None)
    for task, subject in (SUBJECTS | TRANSFER).items():
        every = read(task, subject, data / subject.folder)
        if subject.limit is not None:
            first = {split: texts[: subject.limit] for split, texts in every.items()}
            yield task, f"first {subject.limit:,}", first
        yield task, "all", every


def read(task: str, subject: Subject, folder: Path | None) -> Found:
    """Return the texts of a task's splits."""
    splits = {name: get_task(task).read(name, folder) for name in subject.splits.split(",")}
    return {
        name: [Wording.of(one.words, one.text, one.text_pair) for one in split.examples]
        for name, split in splits.items()
    }


def scored_lines(task: str, about: str, found: Found) -> list[list[str]]:
    """Return a line of the first table for every scored split."""
    train, others = found["train"], {name: own for name, own in found.items() if name != "train"}
    left_out = percent(len(train) - len(left_of_train(train, others)), len(train))
    lines = []
    for split, own in others.items():
        shares = shares_of(count_copies(own, train))
        in_dev = shares_of(count_copies(own, found["dev"]))[1] if split != "dev" else "-"
        lines.append([task, about, split, f"{len(own):,}", *shares, in_dev, left_out])
    return lines


def train_cells(train: Sequence[Wording]) -> list[str]:
    """Return the numbers of the second table."""
    largest = group_sizes(joined([one.normalised for one in train]))["largest_group"]
    shares = shares_of(count_copies(train, train, again=True))
    return [f"{len(train):,}", *shares, f"{largest:,}"]


def phrase_cells(train: Sequence[Wording]) -> list[str]:
    """Return the numbers of the third table."""
    names = phrase_groups({"train": train})["train"]
    sizes = group_sizes(joined([(name,) for name in names]))
    together = percent(sizes["in_groups"], len(names))
    return [f"{len(names):,}", f"{sizes['groups']:,}", f"{sizes['largest_group']:,}", together]


def shares_of(counts: Mapping[str, int]) -> list[str]:
    """Return the three shares of a count; a dash for what is of pairs alone."""
    names = ("exact", "normalised", "sharing")
    return [percent(counts[one], counts["texts"]) if one in counts else "-" for one in names]


def percent(count: int, total: int) -> str:
    """Return a share in percent."""
    return f"{100 * count / total:.1f}"


if __name__ == "__main__":
    main()
