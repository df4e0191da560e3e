"""``probekit structure`` on a small treebank."""

import re

import numpy as np
import pytest

from tests.cli.console import done, refused
from tests.measures.test_structural import draw


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("treebank"), np.random.default_rng(4)
    words = ("cat", "mat", "dog", "tree", "house", "river", "moon", ".")
    for split, count in (("train", 24), ("dev", 12), ("test", 12)):
        lines = []
        for n in range(count):
            heads = draw(rng, 6) if n else [2, 1, 0, 3, 3, 3]  # the first one has a circle
            for place, head in enumerate(heads, start=1):
                word = words[int(rng.integers(8))]
                tag = "PUNCT" if word == "." else "NOUN"
                lines.append(f"{place}\t{word}\t_\t{tag}\t_\t_\t{head}\tdep\t_\t_")
            lines.append("")
        (folder / f"en_x-ud-{split}.conllu").write_text("\n".join([*lines, ""]), "utf-8")
    return folder


def test_the_command_reads_a_treebank(bert, here, treebank):
    done("extract", bert, "ud/en_x", "--data", treebank)
    words = ("structure", bert, "ud/en_x", "--layers", "0,2", "--rank", "4", "--epochs", "3")
    (found,) = done(*words, "--json").rows
    assert [layer["layer"] for layer in found["layers"]] == [0, 2]
    assert (found["left_out"], found["split"], found["over"]) == (3, "test", "11 sentences")
    for layer in found["layers"]:
        for name in ("uuas", "root"):
            assert 0 <= layer[name]["low"] <= layer[name]["value"] <= layer[name]["high"] <= 1
    shown = done(*words).out
    assert shown.startswith("layer, test") and "left out: 3 sentences without" in shown
    assert f"neighbours has UUAS {100 * found['chain']:.1f}" in shown
    assert "cut off by --epochs" in shown
    assert done(*words).out == shown
    message = refused(*words[:-1], "0")
    assert message == "--rank and --epochs must be 1 or more; found 4 and 0."


def test_punctuation_is_told_apart_word_by_word(bert, here, treebank):
    """A head that is missing moves no part of speech; own files have parts of speech too."""
    words = ("structure", bert, "--layers", "2", "--epochs", "1", "--json")
    text = (treebank / "en_x-ud-train.conllu").read_text("utf-8").splitlines()
    for name, first in (("whole", text[0]), ("gap", re.sub(r"\t2\tdep", r"\t_\tdep", text[0]))):
        (here / name).mkdir()
        for split in ("train", "dev", "test"):
            shown = "\n".join([first, *text[1:], ""])
            (here / name / f"en_x-ud-{split}.conllu").write_text(shown, "utf-8")
            (here / f"own-{name}").mkdir(exist_ok=True)
            (here / f"own-{name}" / f"{split}.conllu").write_text(shown, "utf-8")
    chains = []
    for name in ("whole", "gap"):
        cache = ("--cache", f"cache-{name}")
        done("extract", bert, "ud/en_x", "--data", name, *cache)
        (found,) = done(*words[:2], "ud/en_x", *words[2:], *cache).rows
        chains.append(found["chain"])
        assert found["punctuation"] is False
    assert chains[0] == chains[1]
    done("extract", bert, "own-whole", "--kind", "tagging")
    (own,) = done(*words[:2], "own-whole", *words[2:]).rows
    assert (own["chain"], own["punctuation"]) == (chains[0], False)


def test_a_task_without_heads_is_refused(bert, here):
    message = refused("structure", bert, "demo-ner")
    assert "unknown label column of demo-ner 'head'" in message
