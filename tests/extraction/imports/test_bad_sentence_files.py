"""Files of one data set per sentence that do not fit: refused, and nothing is written."""

import dataclasses

import h5py
import numpy as np
import pytest
import torch

from probekit.errors import DataError, OptionError
from tests.extraction.imports.exporting import FOUR, PLAIN, elmo_file, texts


def test_sentence_files_that_do_not_match_the_corpus(refuses, imported, tmp_path):
    rows = [torch.randn(len(words), 4, 32) for words in FOUR]
    said = [" ".join(words) for words in FOUR]
    short = [rows[0], rows[1][:-1], *rows[2:]]
    refuses(
        DataError,
        r"data set 1: \d rows, and example train-1 has",
        elmo_file(tmp_path / "a.h5", short),
    )
    refuses(DataError, "3 sequences, and train has 4", elmo_file(tmp_path / "b.h5", rows[:3]))
    other = [*said[:3], "another sentence"]
    refuses(
        DataError,
        "no sentence has the words of example train-3",
        elmo_file(tmp_path / "c.h5", rows, other),
    )
    turned = elmo_file(tmp_path / "d.h5", rows[::-1], said[::-1])
    wanted = (
        imported(elmo_file(tmp_path / "e.h5", rows, said)).arrays["words"].read(torch.arange(9))
    )
    found = imported(turned, cache=tmp_path / "turned").arrays["words"].read(torch.arange(9))
    assert torch.equal(found, wanted)
    refuse = {"examples": texts(4), "cache": tmp_path / "texts"}
    with pytest.raises(DataError, match="not split into words"):
        imported(turned, **refuse)
    with pytest.raises(OptionError, match="--special-tokens absent is for token ids"):
        imported(turned, dataclasses.replace(PLAIN, special_tokens="absent"))
    with pytest.raises(OptionError, match="--keep tokens: rows are words"):
        imported(turned, dataclasses.replace(PLAIN, keep=("words", "tokens")))


def test_sentence_files_that_reach_elsewhere_or_lack_a_sentence(refuses, tmp_path):
    rows = [torch.randn(len(words), 4, 32) for words in FOUR]
    secret = elmo_file(tmp_path / "secret.h5", rows)

    def file(name, change):
        path = elmo_file(tmp_path / name, rows)
        with h5py.File(path, "a") as opened:
            change(opened)
        return path

    def external(opened):
        del opened["2"]
        opened["2"] = h5py.ExternalLink(str(secret), "2")

    def group(opened):
        del opened["2"]
        opened.create_group("2")

    def index(opened):
        opened["sentence_to_index"] = [b'{"../../x": "../1"}']

    refuses(DataError, "'2' is a link, a group, or data of another", file("a.h5", external))
    refuses(DataError, "'2' is a link, a group", file("b.h5", group))
    missing = file("c.h5", lambda opened: opened.move("1", "9"))
    refuses(DataError, r"the data set 1 is missing \(4 sentences are there, up to 9\)", missing)
    named = file("d.h5", lambda opened: opened.move("3", "03"))
    refuses(DataError, "the data set '03' is no number", named)
    refuses(DataError, "sentence_to_index is not the number", file("e.h5", index))
    far = file("f.h5", lambda o: o.create_dataset("sentence_to_index", data=[b'{"x": 99}']))
    refuses(DataError, "has the number 99", far)
    narrow = file(
        "g.h5", lambda o: (o.__delitem__("1"), o.create_dataset("1", data=np.zeros((2, 3, 32))))
    )
    refuses(DataError, r"data set 1: 2 layers x 32", narrow)
    empty = file(
        "h.h5", lambda o: (o.__delitem__("1"), o.create_dataset("1", (4, 2, 32), dtype="float32"))
    )
    refuses(DataError, "data set 1 was never written", empty)
    with h5py.File(tmp_path / "none.h5", "w"):
        pass
    refuses(DataError, "no data set; expected one per sentence", tmp_path / "none.h5")
