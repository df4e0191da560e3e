"""``--group``: what is cut keeps sentences together that have something in common."""

import json

import pytest

from tests.cli.console import done, refused

KIND = ("--kind", "sentence")
TRAIN = ("--label", "label", "--head", "last")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Prompts with two texts each, in train and dev; one of them has a prompt of its own."""
    folder = tmp_path_factory.mktemp("prompts") / "prompts"
    folder.mkdir()
    for split, count in (("train", 24), ("dev", 12)):
        rows = [
            {"text": f"{split} text {n}", "label": "ab"[n // 2 % 2], "prompt": f"{split}{n // 2}"}
            | {"half": f"{split[0]}{n % 2}", "one": split, "torn": f"x{n % 3}"}
            | ({"only": n} if split == "train" else {})
            for n in range(count)
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.fixture(scope="module")
def filled(data, bert, tmp_path_factory):
    root = tmp_path_factory.mktemp("cache")
    done("extract", bert, data, "--cache", root, *KIND, *TRAIN[:2], "--compute-dtype", "float32")
    return root


@pytest.fixture
def train(data, bert, filled):
    return ("train", bert, data, "--cache", filled, *TRAIN, "--json")


def test_the_record_says_what_was_kept_together(train):
    (plain,) = done(*train, "--select", "cv:3").rows
    (grouped,) = done(*train, "--select", "cv:3", "--group", "prompt").rows
    assert (plain["select"], grouped["select"]) == ("cv:3", "cv:3 by prompt")
    assert plain["key"] != grouped["key"]
    assert plain["labels_fingerprint"] == grouped["labels_fingerprint"]
    (held,) = done(*train, "--hold-out", "0.25", "--group", "prompt").rows
    assert (held["protocol"], held["select"]) == ("full, hold-out 0.25 by prompt", "held-out")
    assert held["seen"]["examples"] == 18  # of 12 prompts of two texts, three are kept out
    (uncut,) = done(*train, "--select", "dev", "--group", "prompt").rows
    assert uncut["select"] == "dev by prompt" and uncut["seen"]["groups"] == 12
    (fewer,) = done(*train, "--group", "half").rows
    assert fewer["select"] == "cv:5 by half" and fewer["diagnosis"]["folds"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--select", "cv:3", "--group", "promt"), "Did you mean 'prompt'"),
        (("--select", "cv:3", "--group", "one"), "(--group one) or more, and there is 1 among"),
        (("--select", "hold-out:0.5", "--group", "one"), "needs 2 groups"),
        (("--select", "cv:3", "--group", "half"), "are 2 among the drawn sentences: give --sel"),
        (("--hold-out", "0.2", "--group", "one"), "leaves one side empty"),
        (("--l2", "1", "--group", "prompt"), "--l2 fixes the only choice: leave --l2 out"),
    ],
)
def test_what_cannot_be_kept_together_is_refused(train, options, message):
    assert message in refused(*train, *options)


def test_groups_their_sizes_and_what_splits_share_are_said(bert, tmp_path):
    phrase = "one of the best"
    train = [*(f"{phrase} films {n}" for n in range(6)), phrase, "best"]
    train += [f"word {n}" for n in range(8)]
    for split, texts in {"train": train, "dev": [f"not {phrase}", "else"]}.items():
        rows = [{"text": text, "label": "ab"[n % 2]} for n, text in enumerate(texts)]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    cache = ("--cache", tmp_path / "cache")
    done("extract", bert, tmp_path, *cache, *KIND, *TRAIN[:2])
    words = ("train", bert, tmp_path, *cache, *TRAIN, "--select", "cv:3", "--group", "phrases")
    outcome = done(*words, "--json")
    assert (
        "16 train sentences are in 10 groups (phrases); the largest has 7, and 43.8 % "
        "share one." in outcome.err
    )
    shared = f"train and dev have 1 of 2 groups (phrases) in common, such as {phrase}."
    assert shared in outcome.err
    (row,) = outcome.rows
    sizes = {name: row["seen"][name] for name in ("groups", "largest_group", "in_groups")}
    assert sizes == {"groups": 10, "largest_group": 7, "in_groups": 7}


CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

German JJ I-NP I-MISC
calls NNS I-NP O
"""


@pytest.fixture
def conll(bert, tmp_path):
    """CoNLL-2003 of four documents with two sentences each, extracted from files without marks."""
    root = tmp_path / "conll"
    root.mkdir()
    for folder, mark in (("data", "-DOCSTART- -X- O O\n\n"), ("plain", "")):
        (root / folder).mkdir()
        for name in ("eng.train", "eng.testa", "eng.testb"):
            text = "\n".join(CONLL.replace("EU", f"EU{n}") for n in range(4))
            (root / folder / name).write_text(text.replace("-DOCSTART- -X- O O\n\n", mark))
    extract(bert, root, "plain")
    return root


def extract(bert, root, data):
    options = ("--data", root / data, "--cache", root / "cache", "--compute-dtype", "float32")
    return done("extract", bert, "conll", *options)


def compared(bert, root, name, *options):
    """Train two heads from the cache, and return what their comparisons say."""
    out = root / f"{name}.jsonl"
    train = ("sweep", bert, "conll", "--cache", root / "cache", "--out", out, "--predictions")
    done(*train, "--head", "last,mean", "--label", "pos", "--l2", "1", *options)
    pair = done("compare", f"{out}#head=last", f"{out}#head=mean").out
    return pair, done("table", out, "--verdicts").out


def test_documents_of_conll_from_extraction_to_the_tables(bert, conll, here):
    pair, table = compared(bert, conll, "before")
    assert "10,000 samples of 8 sentences)" in pair and "p over 8 sentences (paired boot" in table
    pair, _ = compared(bert, conll, "given", "--data", conll / "data")
    assert "10,000 samples of 4 documents, so few that intervals are rough)" in pair
    said = extract(bert, conll, "data").err
    assert said.count("complete already") == 3  # the model does not run again
    shown = done("cache", "info", bert, "conll", "dev", "--cache", conll / "cache").out
    (line,) = (line for line in shown.splitlines() if "chunk, ner, pos" in line)
    assert "document" not in line
    pair, table = compared(bert, conll, "after")  # without --data
    assert "interval over 4 documents, so few that intervals are rough (jackknife, " in pair
    assert "p over 4 documents, so few that intervals are rough (the larger p of" in table
    depth = ("depth", bert, "conll", "--cache", conll / "cache", "--label", "pos", "--l2", "1")
    done(*depth, "--predictions", "--out", here / "depth.jsonl")
    assert "paired over 4 documents" in done("table", here / "depth.jsonl", "--of", "depth").out
    exits = done("exit", here / "depth.jsonl").out
    assert "8 sentences, one seed" in exits and "intervals over 4 documents, so few" in exits
