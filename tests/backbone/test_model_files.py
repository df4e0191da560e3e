"""Tokenizers of every kind keep pre-split words apart; code of a model's own runs where it may."""

import json
from dataclasses import replace
from functools import partial

import pytest
import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast

from probekit import Location, TrainedHead, TrainSpec, fit, predict, sweep
from probekit.backbone import inspect_backbone, load_backbone, remembered
from probekit.backbone.checkpoint import Checkpoint
from probekit.backbone.model_files import keep_words_apart, read_tokenizer
from probekit.errors import BackboneError, OptionError
from probekit.extraction import extract
from probekit.extraction.maintenance import verify_rows
from probekit.extraction.request_options import ExtractOptions
from tests import tiny
from tests.extraction.corpus import write_corpus
from tests.hub_server import HubServer

WORDS = ["EU", "rejects", "3-1", "Don't", "U.S."]


def _checkpoint(folder):
    return Checkpoint(name="a model", kind="folder", folder=folder, weights=())


def load_tokenizer(checkpoint):
    tokenizer = read_tokenizer(checkpoint)
    keep_words_apart(tokenizer, checkpoint.name)
    return tokenizer


def _byte_level_parts():
    state = tiny.tokenizer_of("gpt2").backend_tokenizer
    return models.BPE(*tiny._byte_level(400, ["<|endoftext|>"])), state


def _saved(folder, pre_tokenizer, normalizer=None, model=None):
    inner = Tokenizer(model or _byte_level_parts()[0])
    inner.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        inner.normalizer = normalizer
    PreTrainedTokenizerFast(tokenizer_object=inner).save_pretrained(folder)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return folder


def _byte_level(**options):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, **options)


LAYOUTS = {
    "llama-3": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(" ?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|\\s+"), "isolated"),
         _byte_level(use_regex=False)]
    ),
    "smollm": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), _byte_level()]
    ),
    "plain": _byte_level,
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_byte_level_words_are_tokenised_as_in_running_text(layout, tmp_path):
    """The option add_prefix_space would also put spaces inside words (before a digit or a dot)."""
    inner = Tokenizer(_byte_level_parts()[0])
    inner.pre_tokenizer = LAYOUTS[layout]()
    expected = inner.encode(" " + " ".join(WORDS), add_special_tokens=False).tokens
    tokenizer = load_tokenizer(_checkpoint(_saved(tmp_path, LAYOUTS[layout]())))
    found = tokenizer(WORDS, is_split_into_words=True, add_special_tokens=False)
    assert found.tokens() == expected


@pytest.mark.parametrize("kind", ["roberta", "gpt2"])
def test_the_result_is_that_of_the_option_where_the_option_works(kind, tiny_folder):
    found = load_tokenizer(_checkpoint(tiny_folder(kind)))
    expected = AutoTokenizer.from_pretrained(tiny_folder(kind), add_prefix_space=True)
    for words in (WORDS, *(text.split() for text in tiny.SENTENCES)):
        one, other = (each(words, is_split_into_words=True) for each in (found, expected))
        assert one["input_ids"] == other["input_ids"]
        assert one.word_ids() == other.word_ids()


def test_a_tokenizer_that_glues_words_whatever_is_done(tmp_path):
    """Words without any space marker: this one deletes the spaces, then merges over the gap."""
    pieces = [*sorted({letter for text in tiny.SENTENCES for letter in text}), "<unk>", "bc"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    model = models.BPE(vocabulary, [("b", "c")], unk_token="<unk>")
    never = pre_tokenizers.Split(Regex("x^"), "isolated")
    folder = _saved(tmp_path, never, normalizers.Replace(" ", ""), model)
    with pytest.raises(BackboneError, match="glues pre-split words together"):
        load_tokenizer(_checkpoint(folder))


@pytest.fixture
def padding_id(tiny_folder):
    """Return a function that gives the padding id of a model with a tokenizer and a vocabulary."""
    inspection = inspect_backbone(str(tiny_folder("bert")))

    def found(tokenizer, vocab_size):
        info = replace(inspection.info, vocab_size=vocab_size)
        return replace(inspection, info=info, tokenizer=tokenizer).pad_id

    return found


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_padding_id(kind, padding_id):
    tokenizer = tiny.tokenizer_of(kind)
    assert padding_id(tokenizer, 400) == (0 if kind == "bert" else tokenizer.eos_token_id)


def test_padding_id_stays_inside_the_embeddings(padding_id):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=_byte_level_parts()[1])
    assert padding_id(tokenizer, 400) == 0
    tokenizer.add_special_tokens({"pad_token": "<new>"})
    assert padding_id(tokenizer, tokenizer.pad_token_id) == 0


def pieces_alone(folder):
    """A model whose only tokenizer file is a SentencePiece model, of 120 pieces."""
    trainer = pytest.importorskip("sentencepiece", reason="the extra sentencepiece is missing")
    tiny.build("t5", folder)
    (folder / "tokenizer.json").unlink()
    with (folder / "spiece.model").open("wb") as file:
        trainer.SentencePieceTrainer.train(
            sentence_iterator=iter(tiny.SENTENCES), model_writer=file, vocab_size=120,
            pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
        )  # fmt: skip
    return folder, trainer.SentencePieceProcessor(model_file=str(folder / "spiece.model"))


def test_a_sentencepiece_model_is_converted_and_the_conversion_is_the_identity(tmp_path):
    folder, pieces = pieces_alone(tmp_path / "model")
    inspection = inspect_backbone(str(folder), part="encoder")
    text = "Peter visited the river Jordan in 1996"
    assert inspection.text_tokenizer(text)["input_ids"] == [*pieces.encode(text), 1]
    digest = inspection.info.identity.text_tokenizer
    inspection.text_tokenizer.save_pretrained(folder)  # as a tokenizer.json
    (folder / "spiece.model").unlink()
    again = inspect_backbone(str(folder), part="encoder")
    assert again.info.identity.text_tokenizer == digest


def test_a_sentencepiece_model_without_the_package_says_what_to_install(tmp_path, monkeypatch):
    folder = tiny.build("t5", tmp_path / "model")
    (folder / "tokenizer.json").unlink()
    (folder / "spiece.model").write_bytes(b"\n\x0e\n\x05<pad>\x15\x00\x00\x00\x00\x18\x03")
    monkeypatch.setattr("probekit.backbone.model_files.is_sentencepiece_available", lambda: False)
    with pytest.raises(BackboneError, match=r"model spiece\.model, .*\[sentencepiece\]"):
        inspect_backbone(str(folder), part="encoder")


CODE = """
from pathlib import Path

from transformers import BertConfig, BertModel

from .halved import halve

Path(RAN).write_text("ran")


class MineConfig(BertConfig):
    model_type = "mine"


class MineModel(BertModel):
    config_class = MineConfig

    def __init__(self, config, add_pooling_layer=False):
        super().__init__(config, add_pooling_layer=False)
        halve(self.embeddings.LayerNorm)
"""
HALVED = """
def halve(norm):
    norm.register_forward_hook(lambda module, given, output: output / 2)
"""


@pytest.fixture(scope="session")
def modules(tmp_path_factory):
    """Where transformers copies code to: one place, as its package is imported once."""
    return str(tmp_path_factory.mktemp("modules"))


@pytest.fixture
def folder(tmp_path, monkeypatch, modules):
    """A BERT with half the embeddings, by code of its own that leaves a trace where it runs."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", modules)
    monkeypatch.syspath_prepend(modules)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    made = tiny.build("bert", tmp_path / "mine")
    config = json.loads((made / "config.json").read_text("utf-8"))
    auto_map = {"AutoConfig": "mine.MineConfig", "AutoModel": "mine.MineModel"}
    config |= {"model_type": "mine", "architectures": ["MineModel"], "auto_map": auto_map}
    (made / "config.json").write_text(json.dumps(config), "utf-8")
    trace = json.dumps(str(tmp_path / "trace"))
    (made / "mine.py").write_text(CODE.replace("RAN", trace, 1), "utf-8")
    (made / "halved.py").write_text(HALVED, "utf-8")
    return made


def test_it_does_not_run_unless_that_is_typed(folder, tmp_path):
    line = r"runs its own code.*Read it \(.*mine: halved\.py, mine\.py\).*trust-remote"
    with pytest.raises(BackboneError, match=line):
        inspect_backbone(str(folder))
    assert remembered.identity_at(str(folder)) is None
    assert not (tmp_path / "trace").exists()


def test_its_states_are_those_of_the_code(folder, tmp_path):
    inspection = inspect_backbone(str(folder), trust_remote_code=True)
    assert (tmp_path / "trace").exists()
    info = inspection.info
    assert (info.identity.architecture, info.n_blocks, info.causal) == ("MineModel", 3, False)
    backbone = load_backbone(inspection, compute_dtype="float32")
    ids = torch.tensor([[2, 30, 31, 32, 3]])
    found = backbone.layers(ids, torch.tensor([5]))
    plain = json.loads((folder / "config.json").read_text("utf-8")) | {"model_type": "bert"}
    model = BertModel.from_pretrained(folder, config=BertConfig(**plain)).eval()
    with torch.no_grad():
        first = model.embeddings(ids) / 2
        expected = model.encoder(first, output_hidden_states=True, return_dict=True)
    torch.testing.assert_close(found[0], first)
    last = expected["last_hidden_state"]
    torch.testing.assert_close(found[-1], last, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("file", ["mine.py", "halved.py"])
def test_the_identity_is_of_all_the_code(file, folder):
    def identity():
        return inspect_backbone(str(folder), trust_remote_code=True).info.identity

    one = identity()
    path = folder / file
    path.write_text(path.read_text("utf-8") + "\n# other code\n", "utf-8")
    two = identity()
    assert one.code != two.code and one.to_json()["code"] == one.code
    (difference,) = one.differences(two)
    assert difference.startswith(f"code {one.code[:12]}")


def test_a_model_without_code_is_not_trusted(tiny_folder):
    with pytest.raises(OptionError, match=r"--trust-remote-code: model .* has no code of its own"):
        inspect_backbone(str(tiny_folder("bert")), trust_remote_code=True)


@pytest.mark.parametrize(
    ("auto_map", "line"),
    [
        ({"AutoConfig": "mine.MineConfig"}, "has no AutoModel"),
        (
            {"AutoConfig": "org/code--mine.MineConfig", "AutoModel": "org/code--mine.MineModel"},
            r"in another repository \(org/code\)",
        ),
    ],
)
def test_code_that_cannot_serve(auto_map, line, folder):
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8")) | {"auto_map": auto_map}
    path.write_text(json.dumps(config), "utf-8")
    with pytest.raises(BackboneError, match=line):
        inspect_backbone(str(folder), trust_remote_code=True)


SENTENCES = [["Maria", "left", "Paris"]]


def test_an_entry_a_head_and_a_method_run_it_where_it_is_trusted(folder, tmp_path):
    corpus, cache = str(write_corpus(tmp_path / "corpus", sentences=8)), tmp_path / "cache"
    asked = {"task": corpus, "label": "2", "cache": cache, "device": "cpu"}
    asked["options"] = ExtractOptions()
    untrusted = partial(pytest.raises, BackboneError, match="give --trust-remote-code")
    entry = extract(str(folder), trust_remote_code=True, **asked)[0]
    assert entry.manifest.request["model"]["code"]
    assert verify_rows(entry, 10, trust_remote_code=True).passed
    with untrusted():
        verify_rows(entry, 10)
    with untrusted():
        extract(str(folder), **asked)

    spec = TrainSpec(model=str(folder), task=corpus, label="2", head="last", epochs=1)
    how = {"location": Location(cache=cache), "device": "cpu"}
    tuned, run = replace(spec, method="full"), str(tmp_path / "run")
    fit(spec, save=tmp_path / "head", **how)
    with untrusted():
        fit(tuned, save=run, **how)
    assert fit(tuned, save=run, trust_remote_code=True, **how).backbone_share == 1
    for saved in (TrainedHead.from_pretrained(tmp_path / "head"), run):
        with untrusted():
            predict(saved, SENTENCES, device="cpu")
        assert len(predict(saved, SENTENCES, device="cpu", trust_remote_code=True)[0]) == 3
    with untrusted():
        extract(run, **asked)
    assert extract(run, trust_remote_code=True, **asked)[0].manifest.model == "mine-full"
    # the whole model has the code beside it
    whole = inspect_backbone(f"{run}/backbone", trust_remote_code=True)
    assert whole.info.identity.architecture == "MineModel"
    with pytest.raises(OptionError, match="no run of this plan runs a model"):
        sweep([spec], out=tmp_path / "r.jsonl", trust_remote_code=True, location=how["location"])


def test_code_of_a_repository_is_fetched_where_it_is_trusted(folder, tmp_path, monkeypatch):
    with HubServer({"models/org/mine": folder}) as hub:
        hub.redirect(monkeypatch, tmp_path / "hub")
        with pytest.raises(BackboneError, match=r"Read it \(the \.py files of its repository\)"):
            inspect_backbone("org/mine")
        assert not any(".py" in request for request in hub.requests)
        found = inspect_backbone("org/mine", trust_remote_code=True)
    local = inspect_backbone(str(folder), trust_remote_code=True)
    assert found.info.identity == local.info.identity
