"""Models that are not there, cannot be had, or cannot serve: one line each, and nothing left."""

import json
import re
import shutil
import time

import pytest
import torch
from transformers import AutoModel

from tests import tiny
from tests.cli.console import done, refused, run, the_error
from tests.hub_clients import dead_endpoint, redirect
from tests.hub_server import HubServer

NAME = "models/org/tiny"


@pytest.fixture
def served(bert, here, monkeypatch):
    """Serve the tiny BERT as org/tiny, with faults."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)

    def serve(**options):
        server = HubServer({NAME: bert}, **options)
        server.__enter__()
        stack.append(server)
        server.redirect(monkeypatch, here / "home")
        return server

    stack = []
    yield serve
    for server in stack:
        server.__exit__(None, None, None)


def nothing_cached(here):
    return not (here / "cache").exists()


def test_the_model_of_the_documents_before_the_demo(corpus, here, monkeypatch):
    monkeypatch.setattr("probekit.backbone.hub.list_files", None)
    message = refused("extract", "demo/minilm-l6", corpus)
    assert "no such folder here. `probekit demo` makes it" in message and nothing_cached(here)


@pytest.mark.parametrize("model", ["./no/model", "/no/model", "no.gguf", "~/nobody/model", "a/b/c"])
def test_a_path_that_does_not_exist_is_refused_at_once(model, corpus, here, monkeypatch):
    monkeypatch.setattr("probekit.backbone.hub.list_files", None)  # asking the Hub would fail
    message = refused("extract", model, corpus)
    assert message == (
        f"model {model!r}: no such file or folder. Check the path, or give a Hub id such as "
        "'roberta-large'."
    )
    assert nothing_cached(here)


@pytest.mark.parametrize(
    ("model", "options", "faults", "message"),
    [
        (
            "org/other",
            (),
            {},
            r"Hub repository 'org/other' does not exist, or is private.*Check the name, or run "
            r"`hf auth login`; a local folder or .gguf file works too\.",
        ),
        (
            "org/tiny",
            ("--revision", "v9"),
            {},
            r"Hub repository 'org/tiny' has no revision 'v9'. Leave out --revision for the "
            r"default branch\.",
        ),
        (
            "org/tiny",
            (),
            {"faults": {NAME: "gated-401"}},
            r"Hub repository 'org/tiny' is gated: accept its terms at .*/org/tiny and log in "
            r"with `hf auth login`\.",
        ),
        (
            "org/tiny",
            (),
            {"drops": {f"{NAME}/model.safetensors": 1000}},
            r"model.safetensors of Hub repository 'org/tiny' could not be downloaded: .*peer "
            r"closed connection.*\. Run the same command again: it goes on where it stopped\. .*",
        ),
        (
            "org/tiny",
            (),
            {"faults": {NAME: "error-500"}},
            r"the Hub answers HTTP 500 for 'org/tiny', and 'org/tiny' is not in the Hub cache\. "
            r"Without the network, give a local model folder or a .gguf file, or .*",
        ),
    ],
    ids=["unknown", "revision", "gated", "dropped", "ill"],
)
def test_the_hub_refuses(served, corpus, here, model, options, faults, message):
    served(**faults)
    found = refused("extract", model, corpus, *options)
    assert re.fullmatch(message, found), found
    assert not list(here.glob("cache/**/*.partial"))


def test_the_hub_cannot_be_reached(corpus, here, monkeypatch):
    redirect(monkeypatch, dead_endpoint(), here / "home")
    message = refused("extract", "roberta-large", corpus)
    assert message.startswith("the Hub cannot be reached (")
    for option in ("a local model folder", "a .gguf file", "HF_HUB_OFFLINE=1"):
        assert option in message
    assert nothing_cached(here)


def test_an_encoder_decoder(corpus, here):
    model = tiny.build("t5", here / "t5")
    message = refused("extract", model, corpus)
    assert message.startswith(f"model '{model}' is an encoder-decoder (t5)")
    assert nothing_cached(here)


def test_no_fast_tokenizer(bert, corpus, here):
    model = shutil.copytree(bert, here / "slow")
    (model / "tokenizer.json").unlink()
    settings = json.loads((model / "tokenizer_config.json").read_text())
    settings["tokenizer_class"] = "BertJapaneseTokenizer"
    (model / "tokenizer_config.json").write_text(json.dumps(settings))
    (model / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    message = refused("extract", model, corpus)
    assert message == (
        f"model '{model}': BertJapaneseTokenizer has no fast version, which the alignment of words "
        "and subwords needs. Choose a model with a tokenizer.json."
    )
    assert nothing_cached(here)


def test_no_tokenizer_no_weights_no_model(bert, corpus, here):
    bare = here / "bare"
    bare.mkdir()
    message = refused("extract", bare, corpus)
    assert message.startswith(f"model '{bare}': the folder holds no config.json. Save a model")
    (bare / "tiny.gguf").touch()
    assert refused("extract", bare, corpus).endswith(f"or name the file itself: {bare}/tiny.gguf.")
    (bare / "tiny.gguf").unlink()
    shutil.copy(bert / "config.json", bare)
    message = refused("extract", bare, corpus)
    assert "no weights. Expected model.safetensors" in message
    shutil.copy(bert / "model.safetensors", bare)
    message = refused("extract", bare, corpus)
    assert "no tokenizer files" in message
    assert nothing_cached(here)


@pytest.fixture
def wide(bert, here):
    """A model whose layer 0 exceeds float16."""
    model = AutoModel.from_pretrained(bert)
    with torch.no_grad():
        model.embeddings.LayerNorm.weight.mul_(1e5)
    folder = shutil.copytree(bert, here / "wide")
    model.save_pretrained(folder)
    return folder


def test_states_that_overflow_float16(wide, corpus, here):
    options = ("--cache", "c", "--compute-dtype", "float32")
    outcome = run("extract", wide, corpus, *options, "--dtype", "float16")
    assert outcome.code == 1
    estimate, again, line = outcome.err.splitlines()
    assert estimate.startswith("train: 40 examples; writing ")
    assert again.startswith("states of examples train-0 to train-39 do not fit float16: going ")
    message = the_error(line)
    assert re.match(r"layer 0 of examples train-0 to train-39 reaches \|x\| = [\d,]+;", message)
    command = message.partition(" Rerun: probekit ")[2].split()
    assert not list(here.glob("c/**/*.partial"))
    rows = done(*command, "--json").rows
    assert [row["dtype"] for row in rows] == ["bfloat16", "bfloat16"]


def test_auto_avoids_the_overflow_and_says_so(wide, corpus):
    options = ("--split", "dev", "--compute-dtype", "float32")
    outcome = done("extract", wide, corpus, *options)
    assert outcome.err.splitlines()[1:3] == [
        "states of examples dev-0 to dev-9 do not fit float16: going over them once "
        "more, to see their range",
        "states exceed float16's range (65,504): storing bfloat16 instead",
    ]


def test_states_computed_in_bfloat16_show_their_range_at_once(wide, corpus):
    outcome = done("extract", wide, corpus, "--split", "dev", "--compute-dtype", "bfloat16")
    assert (
        outcome.err.splitlines()[1]
        == "states exceed float16's range (65,504): storing bfloat16 instead"
    )
