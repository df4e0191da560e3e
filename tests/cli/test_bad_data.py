"""Text and labels that are missing or wrong: one line that names file and line, and what to do."""

import re

import pytest

from probekit.engines.ray_cluster import ray_engine
from tests.cli.conftest import FLOAT32
from tests.cli.console import done, refused

PAIR = '{"tokens": ["a", "b"], "ner": ["O", "O"], "pos": ["N", "V"]}\n'


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("conl", r"unknown task 'conl'. Did you mean 'conll'\? Choose from: atis, .*"),
        ("./none.conll", r"./none.conll: no such file or folder. Check the path; .*"),
        ("none.jsonl", r"none.jsonl: no such file or folder. Check the path; .*"),
        ("wikiann", r"wikiann: expected wikiann/LANG, as in wikiann/de\."),
        ("conll/de", r"conll/de: the task conll has no variants; type conll\."),
    ],
)
def test_unknown_task(bert, here, task, message):
    assert re.fullmatch(message, refused("extract", bert, task))
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.jsonl",
            '{"tokens": ["a"], "ner": ["O"]}\n{"tokens": ["a", "b"], "ner": ["O"]}\n',
            r"a.jsonl, line 2: 2 words but 1 labels in column 'ner'; expected one label per word\.",
        ),
        (
            "a.conll",
            "a O\nb O\n\nc\n",
            r"a.conll, line 4: expected 2 columns divided by blanks, as in the lines before, .*",
        ),
        (
            "a.conll",
            "a O\nb S-X\nc B-X\n",
            r"a.conll, line 2: 'S-X' in column '1' is no BIO tag; expected .*convert other .*",
        ),
        ("a.conll", "", r"a.conll: split 'train' of a.conll is empty: no sentence in it\."),
        ("a.xml", "<a/>", r"a.xml: unknown format '.xml'; expected .conll, .*"),
        (
            "a.jsonl",
            PAIR,
            r"a.jsonl has several label columns: ner, pos. Choose one with --label\.",
        ),
    ],
)
def test_files_that_break_their_promise(bert, here, name, content, message):
    (here / name).write_text(content)
    found = refused("extract", bert, name)
    assert re.fullmatch(message, found), found
    assert [path.name for path in here.iterdir()] == [name]


def test_a_folder_of_published_files_without_them(bert, corpus, here):
    message = refused("extract", bert, "conll", "--data", corpus)
    assert re.fullmatch(r"no file for split 'train' of conll in .*; tried: eng.train, .*", message)
    message = refused("extract", bert, "conll", "--data", "none")
    assert message == "none: no such folder; --data names the folder with the files of conll."
    assert list(here.iterdir()) == []


def test_a_sentence_longer_than_the_limit(bert, corpus, here):
    message = refused("extract", bert, corpus, "--overlong", "error", "--max-length", "12")
    assert re.fullmatch(
        r"example train-\d+ has \d+ subwords with special tokens, more than the limit of 12 "
        r"\(\d+ more are too long\)\. Shorten it, or use --overlong stride or truncate\.",
        message,
    )
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--label", "9"), r"--label 9: .*train.conll has 3 columns; expected -3 to 2\."),
        (("--head", "dwat"), r"unknown head 'dwat'. Did you mean 'dwatt'\? Choose from: .*"),
        (
            ("--decoder", "ml"),
            r"unknown decoder 'ml'. Did you mean 'mlp'\? Choose from: .*linear.*",
        ),
        (
            ("--decoder", "pooler"),
            r"decoder 'pooler' does not fit tagging labels; choose .*linear.*",
        ),
        (("--start", "fusion:none"), r".*none: no saved head here .*"),
        (("--start", "a,random"), r".*a,random: no saved head here .*"),
        (("--protocol", "p33"), r"unknown protocol 'p33'. Did you mean 'p32'\? .*"),
        (("--pooling", "cls"), r"--pooling cls chooses a row for a whole text; .*"),
        (("--control", "-1"), r"--control must be a whole number of at least 0; found -1\."),
        (("--fit-on", "tset"), r"unknown split of .* 'tset'\. Did you mean 'test'\? .*"),
        (("--normalize", "batch"), r"unknown normalization 'batch'. Choose from: final-norm, .*"),
        (("--layers", "4"), r".*layer 4 does not exist; this model has layers 0 .* to 3\."),
        (("--depth", "4"), r"--depth 4: this model has 3 blocks; give 0 to 3\."),
        (
            ("--shots", "41"),
            r"--shots 41: 41 x 1 classes = 41 sentences, but the train split holds 40; the largest "
            r"K here is 40\.",
        ),
        (("--shots", "many"), r"--shots: 'many' is not a whole number\."),
        (("--shots", "0"), r"--shots 0 trains on nothing: give more, or .* --start DIR\."),
        (("--fraction", "2"), r"--fraction must be a number from 0 to 1; found 2\.0\."),
        (("--shots", "2", "--fraction", "0.5"), r".* were both given; choose one\."),
        (("--hold-out", "1"), r"--hold-out must be a number between 0 and 1; found 1\.0\."),
        (("--hold-out", "0.001"), r"--hold-out 0.001 of 40 train .* leaves one side empty\."),
        (("--epochs", "0"), r"--epochs must be a whole number of at least 1; found 0\."),
        (("--lr", "fast"), r"--lr: 'fast' is not a number\."),
        (("--fit", "sgd"), r"unknown fitter 'sgd'\. Choose from: adam, auto, lbfgs, ridge\."),
        (
            ("--fit", "lbfgs", "--head", "dwatt"),
            r"--fit lbfgs: the head dwatt trains maps .*adam.*",
        ),
        (
            ("--fit", "lbfgs", "--head", "last", "--decoder", "mlp"),
            r"--fit lbfgs: the decoder mlp is not convex in its weights; give --fit adam, .*",
        ),
        (("--fit", "ridge", "--head", "last"), r"--fit ridge: the decoder linear predicts no .*"),
        (
            ("--fit", "lbfgs", "--head", "last", "--epochs", "3"),
            r"--fit lbfgs solves for the optimum and takes no --epochs; leave it out, or give .*",
        ),
        (
            ("--fit", "lbfgs", "--head", "last", "--decoder", "linear:dropout=0"),
            r"--fit lbfgs solves for the optimum and takes no --dropout; leave it out, .*",
        ),
        (("--select", "best"), r"--select 'best': choose dev, cv:K .*"),
        (("--select", "cv:1"), r"--select 'cv:1': choose .*; K is 2 or more, F between 0 and 1\."),
        (("--select", "hold-out:1"), r"--select 'hold-out:1': choose .*"),
        (
            ("--select", "cv:41", "--head", "last"),
            r"--select cv:41: no class has 41 examples among those drawn \(the most .* has 8\).*",
        ),
        (
            ("--select", "cv:5", "--head", "dwatt"),
            r"--select cv:5 chooses the strength of a solver; dwatt descends by steps: give .*",
        ),
        (("--l2", "0", "--head", "last"), r"--l2 must be a number above 0; found 0\.0\."),
        (("--l2", "1", "--lr", "1e-3"), r"--l2 is the strength of a solver's penalty, .*"),
        (
            ("--l2", "1", "--select", "dev", "--head", "last"),
            r"--select dev: there is nothing to choose, since --l2 names one strength\.",
        ),
        (("--seeds", "0"), r"--seeds must be at least 1\."),
        (("--head", ","), r"--head names no value\."),
        (("--device", "gpu"), r"--device 'gpu' is unknown. Write .*"),
        (("--entry", "zz"), r"no entry of .* matches --entry zz; there are: dev-.*, train-.*\."),
        (("--data", "none"), r"none: no such file or folder\."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("command", ["train", "sweep"])
def test_training_that_cannot_be_done(bert, corpus, cache, here, command, options, message):
    found = refused(command, bert, corpus, *options)
    assert re.fullmatch(message, found), found
    assert sorted(here.iterdir()) == [cache]


def test_other_engines_depths_and_workers(bert, corpus, cache, here, monkeypatch):
    found = refused("sweep", bert, corpus, "--engine", "cloud")
    assert found == "unknown engine 'cloud'. Choose from: local, ray."
    monkeypatch.setattr(ray_engine, "find_spec", lambda name: None)
    for command in ("extract", "sweep"):
        message = refused(command, bert, corpus, "--engine", "ray")
        assert message.startswith("--engine ray needs the package ray. Run `pip install")
        message = refused(command, bert, corpus, "--engine", "local:gpus_per_worker=1")
        assert message.startswith("unknown engine 'local:gpus_per_worker=1'.")
        message = refused(command, bert, corpus, "--engine", "ray:gpus=1")
        assert message.startswith("engine 'ray' has no option 'gpus=1'. Write ray:OPTION=VALUE")
    message = refused("sweep", bert, corpus, "--workers", "0")
    assert message == "--workers must be at least 1; found 0."
    message = refused("depth", bert, corpus, "--every", "0")
    assert message == "--every must be at least 1; found 0."
    assert sorted(here.iterdir()) == [cache]


@pytest.mark.parametrize("command", ["train", "sweep", "depth"])
def test_training_before_extraction_says_what_to_type(bert, corpus, here, command):
    message = refused(command, "roberta-large", "conll")
    assert message == (
        "no entry of roberta-large conll in cache. Type: probekit extract roberta-large conll"
    )
    message = refused(command, bert, corpus, "--cache", "my cache")
    assert message.endswith(f"Type: probekit extract {bert} {corpus} --cache 'my cache'")
    message = refused(command, "no/entry")
    assert message.startswith("'no/entry' is not the path of a cache entry. Give MODEL and TASK,")
    assert list(here.iterdir()) == []


def test_no_dev_split(bert, corpus, here):
    done("extract", bert, corpus, *FLOAT32, "--split", "train")
    common = ("train", bert, corpus, "--head", "last", "--epochs", "1")
    assert refused(*common).endswith(
        "the dev split is not in the cache. Extract it (--split dev), or keep a part of train for "
        "it: --hold-out 0.1."
    )
    (row,) = done(*common, "--hold-out", "0.25", "--json").rows
    assert row["protocol"] == "full, hold-out 0.25"


def test_one_file_has_no_dev_split_to_extract(bert, corpus, here):
    file = corpus / "train.conll"
    done("extract", bert, file, *FLOAT32)
    message = refused("train", bert, file, "--head", "last")
    assert message.endswith("has no dev split: keep a part of train for it, --hold-out 0.1.")


def test_a_label_in_dev_that_train_does_not_have_is_counted(bert, here):
    data = here / "mine"
    data.mkdir()
    (data / "train.conll").write_text("Maria B-PER\nleft O\n\nthe O\nriver O\n")
    (data / "dev.conll").write_text("Paris B-LOC\nleft O\n\nMaria B-PER\nLake B-LOC\n")
    done("extract", bert, data, *FLOAT32)
    outcome = done("train", bert, data, "--head", "last", "--epochs", "1", "--json")
    warning = outcome.err.splitlines()[0]
    assert re.fullmatch(
        r"mine-[0-9a-f]{8} dev, labels '1'.*: rows with a label that train does not have: "
        r"2 \(B-LOC\); each counts as an error\.",
        warning,
    )
    assert len(outcome.rows) == 1
