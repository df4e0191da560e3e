"""True and false statements (Marks & Tegmark 2024, arXiv 2310.06824), read on their negations."""

from collections.abc import Mapping
from pathlib import Path

from probekit.base.registry import choose
from probekit.errors import DataError, reason_of
from probekit.tasks.corpora.published import Published
from probekit.tasks.sentences import Sentences, plain_text
from probekit.tasks.task import Task

_NEGATED = {
    "cities": "neg_cities",
    "sp_en_trans": "neg_sp_en_trans",
    "larger_than": "smaller_than",
}
TRUTH: Mapping[str, str] = _NEGATED | {other: name for name, other in _NEGATED.items()}
"""Each set, and the set of its negations, which is its test split."""


def truth(name: str) -> Task:
    """Return the task ``truth/<name>`` ("truth/cities"): its test is the negation of train."""
    negated = choose("set of statements", name, TRUTH)
    corpus = Published(
        task=f"truth/{name}",
        files={"train": (f"{name}.csv",), "test": (f"{negated}.csv",)},
        parse=_parse,
        obtain="https://github.com/saprmarks/geometry-of-truth, its folder datasets",
    )
    return corpus.labelled({"label": "accuracy"}, kind="sentence")


def _parse(path: Path) -> Sentences:
    import pandas

    try:
        table = pandas.read_csv(path, dtype=str, keep_default_na=False)
        rows = zip(table["statement"].tolist(), table["label"].tolist(), strict=True)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path}: not a table of statements ({reason_of(error)}).") from error
    names = {"0": "false", "1": "true"}
    sentences = []
    for number, (text, label) in enumerate(rows, start=2):
        if label not in names:
            raise DataError(f"{path}, row {number}: expected the label 0 or 1, not {label!r}.")
        sentences.append(plain_text((text,), {"label": names[label]}, number))
    return Sentences.of_file(path, sentences)
