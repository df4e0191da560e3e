"""Labels as people write them, from a file to a score: schemes, and words without any."""

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import FLOAT32
from tests.cli.console import done, refused

SENTENCES = 12


def write_corpus(folder, rows):
    """The same sentences in train, dev and test; every third has no label at all."""
    folder.mkdir()
    blind = "".join(f"{row.split()[0]} _\n" for row in rows)
    labelled = "".join(f"{row}\n" for row in rows)
    text = "\n".join(blind if n % 3 == 2 else labelled for n in range(SENTENCES))
    for split in ("train", "dev", "test"):
        (folder / f"{split}.conll").write_text(text)
    return folder


@pytest.mark.parametrize(
    "options",
    [
        ("--head", "mean"),
        ("--head", "last,dwatt", "--decoder", "crf", "--epochs", "2"),
        ("--head", "last", "--control", "1", "--hold-out", "0.5"),
    ],
)
def test_words_without_a_label_are_neither_fitted_on_nor_scored(bert, here, options):
    rows = ("Maria S-PER", "left -100", "New B-LOC", "York E-LOC", "at O", "ten _")
    data = write_corpus(here / "mine", rows)
    said = done("extract", bert, data, *FLOAT32).err
    assert said.count("tags of column '1' are IOBES; they are converted to BIO") == 1
    assert "train.conll: 40 words have no label in column '1' (-100, _)" in said
    for row in done("sweep", bert, data, *options, "--predictions", "--json").rows:
        assert row["metric"] == ("accuracy" if "--control" in options else "span-f1")
        found = pq.read_table(row["predictions"]).to_pylist()
        for one in (one for one in found if one["split"] == "dev"):
            place = int(one["id"].removeprefix("dev-"))
            gold = [] if place % 3 == 2 else ["B-PER", "B-LOC", "I-LOC", "O"]
            assert "--control" in options or one["gold"] == gold
            assert len(one["predicted"]) == len(gold)
            assert "" not in one["predicted"]


def test_chunks_without_a_type_are_scored_by_span_f1(bert, here):
    data = write_corpus(here / "phrases", ("The O", "black B", "cat I", "sleeps O"))
    done("extract", bert, data, *FLOAT32)
    (row,) = done("train", bert, data, "--head", "last", "--shots", "4", "--json").rows
    assert (row["metric"], row["seen"]["examples"]) == ("span-f1", 4)
    assert "test/f1/_" in row["scores"]


def test_pairs_without_a_label_are_refused_until_they_are_left_out(bert, here):
    rows = [f"a man runs {n}\the moves\t{['yes', 'no', '-'][n % 3]}\n" for n in range(12)]
    (here / "nli.tsv").write_text("premise\thypothesis\tgold_label\n" + "".join(rows))
    extract = ("extract", bert, "nli.tsv", "--kind", "pair", *FLOAT32)
    message = refused(*extract)
    assert message.startswith("nli.tsv, line 4: no label in column 'gold_label' (- means no label;")
    assert "the first of 4 such rows" in message
    assert message.endswith("or give --skip unlabelled to leave such rows out.")
    done(*extract, "--skip", "unlabelled")
    train = ("train", bert, "nli.tsv", "--hold-out", "0.5", "--head", "last")
    (row,) = done(*train, "--json").rows
    assert row["seen"]["of_examples"] == 8
    assert row["confusion"]["columns"] == ["no", "yes"]
