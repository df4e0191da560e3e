"""Loading tokenizers of every kind so that pre-split words stay words."""

from dataclasses import replace

import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from probekit.backbone import inspect_backbone
from probekit.backbone.checkpoint import Checkpoint
from probekit.backbone.model_files import keep_words_apart, read_tokenizer
from probekit.errors import BackboneError
from tests import tiny

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
