"""Models that are saved, headed, masked or shaped otherwise than most: rows, or one line."""

import pytest
import torch
import transformers
from transformers import CONFIG_MAPPING, MODEL_FOR_QUESTION_ANSWERING_MAPPING

from probekit.backbone import inspect_backbone, load_backbone
from probekit.backbone.architecture import backbone_classes
from probekit.errors import BackboneError, OptionError
from tests.extraction.extracted import all_rows, reference_rows, run
from tests.random_models import save_random

GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
XLM = {"emb_dim": 32, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 64}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_heads": 4}


def check_rows(folder, corpus, tmp_path, **options):
    entry = run(folder, corpus, tmp_path / "cache", limit=8, **options)
    inspection = inspect_backbone(str(folder))
    auto, _ = backbone_classes(inspection.config)
    model = auto.from_pretrained(folder, dtype=torch.float32).eval()
    model.config.use_cache = False
    expected = reference_rows(model, inspection.tokenizer, entry)
    torch.testing.assert_close(all_rows(entry), expected, rtol=1e-3, atol=1e-4)
    return entry


@pytest.mark.parametrize(
    ("family", "head", "options"),
    [
        ("xlm", "XLMWithLMHeadModel", XLM),
        ("flaubert", "FlaubertForQuestionAnswering", XLM),
        ("megatron-bert", "MegatronBertForPreTraining", {}),
        ("electra", "ElectraForPreTraining", {"embedding_size": 16}),
        ("bert", "BertForNextSentencePrediction", {}),
    ],
)
def test_a_checkpoint_with_any_head_of_its_family(family, head, options, corpus, tmp_path):
    made = getattr(transformers, head)
    folder = save_random(family, tmp_path / "model", model_class=made, **options)
    check_rows(folder, corpus, tmp_path)


def test_a_pooler_that_stays_is_no_final_norm(corpus, tmp_path):
    folder = save_random("layoutlm", tmp_path / "model")
    entry = check_rows(folder, corpus, tmp_path)
    assert not entry.manifest.final_norm


@pytest.mark.parametrize("family", ["umt5", "mt5"])
def test_the_encoder_of_an_encoder_decoder_that_was_saved_alone(family, corpus, tmp_path):
    made = getattr(transformers, f"{family.upper()}EncoderModel")
    folder = save_random(family, tmp_path / "model", model_class=made, tokenizer="t5", **T5)
    entry = check_rows(folder, corpus, tmp_path)
    assert not entry.manifest.causal and entry.manifest.final_norm


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("mistral", GROUPED | {"is_causal": False}),
        ("gemma3_text", GROUPED | {"use_bidirectional_attention": True}),
    ],
)
def test_a_decoder_that_reads_both_ways(family, options, corpus, tmp_path):
    folder = save_random(family, tmp_path / "model", tokenizer="llama", **options)
    entry = check_rows(folder, corpus, tmp_path)
    assert not entry.manifest.causal and entry.manifest.pooling == "first"
    texts = tmp_path / "train.txt"
    texts.write_text("the river near the bank\n\nthe report said so\n")
    with pytest.raises(BackboneError, match="no masked-language-model head"):
        run(folder, texts, tmp_path / "cache", kind="language-modelling", label=None)


def test_the_same_decoder_as_it_is_is_causal(corpus, tmp_path):
    folder = save_random("mistral", tmp_path / "model", tokenizer="llama", **GROUPED)
    entry = check_rows(folder, corpus, tmp_path)
    assert entry.manifest.causal and entry.manifest.pooling == "last"


@pytest.fixture
def narrow(tmp_path, monkeypatch):
    """A GPT-NeoX whose last layer is projected to another width."""
    model = transformers.GPTNeoXModel
    build = model.__init__

    def with_projection(self, config):
        build(self, config)
        self.final_layer_norm = torch.nn.Linear(32, config.narrow)

    monkeypatch.setattr(model, "__init__", with_projection)
    return save_random("gpt_neox", tmp_path / "model", tokenizer="gpt2", narrow=24)


def test_a_last_layer_of_another_width(narrow, corpus, tmp_path):
    line = r"layer 3 is 24 wide, the others are 32 wide, .*: --layers 0,1,2\."
    with pytest.raises(OptionError, match=line):
        run(narrow, corpus, tmp_path / "cache")
    with pytest.raises(OptionError, match=r"--keep tokens: it belongs to layer 3, .* 24 wide"):
        run(narrow, corpus, tmp_path / "cache", layers="0,1,2", keep=("words", "tokens"))
    entry = check_rows(narrow, corpus, tmp_path, layers="0,1,2")
    assert set(entry.arrays) == {"words"}
    backbone = load_backbone(inspect_backbone(str(narrow)), compute_dtype="float32")
    assert len(backbone.layers(torch.tensor([[5, 6]]), torch.tensor([2]))) == 3  # of one width


def test_a_model_whose_positions_do_not_see_each_other(corpus, tmp_path, monkeypatch):
    """So MRA, whose attention is zeros without its CUDA kernels."""
    attention = transformers.models.roformer.modeling_roformer.RoFormerSelfAttention
    monkeypatch.setattr(attention, "forward", lambda self, states, *rest, **more: (states * 0,))
    folder = save_random("roformer", tmp_path / "model")
    with pytest.raises(
        BackboneError, match="in RoFormerModel, no token's state depends on another"
    ):
        run(folder, corpus, tmp_path / "cache")


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_head_for_questions_saves_its_model_under_another_prefix(family, tmp_path):
    made = MODEL_FOR_QUESTION_ANSWERING_MAPPING[CONFIG_MAPPING[family]]
    assert made.base_model_prefix == "transformer"
    sizes = {"tokenizer": "llama", "num_key_value_heads": 2}
    folder = save_random(family, tmp_path / "model", model_class=made, **sizes)
    found = load_backbone(inspect_backbone(str(folder)), compute_dtype="float32")
    ids = torch.arange(9, 17)[None]
    with torch.no_grad():
        whole = made.from_pretrained(folder).eval().transformer
        wanted = whole(ids, output_hidden_states=True).hidden_states
    for one, other in zip(found.layers(ids, torch.tensor([8])), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


BART = {
    **dict.fromkeys(("hidden_size", "num_attention_heads", "num_hidden_layers")),
    **{"d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48},
    **{"encoder_layers": 2, "is_decoder": True},
}
GEMMA_3N = GROUPED | {
    **{"num_kv_shared_layers": 0, "hidden_size_per_layer_input": 8, "laurel_rank": 8},
    **{"activation_sparsity_pattern": [0.0] * 3, "vocab_size_per_layer_input": 400},
}


@pytest.mark.parametrize(
    ("family", "head", "options", "line"),
    [
        ("bart", "BartForCausalLM", BART, r"is only part of an encoder-decoder \(bart\)"),
        ("pegasus", "PegasusForCausalLM", BART, r"is only part of an encoder-decoder \(pegasus\)"),
        (  # which keeps four streams of states
            "gemma3n_text",
            "AutoModel",
            GEMMA_3N | {"tokenizer": "llama"},
            r"states of the shapes \(4, 1, 8, 32\) for 8 subwords; expected \(1, 8, w",
        ),
        (
            "bros",
            "AutoModel",
            {},
            r"BrosModel cannot run on 1 x 8 subwords \(ValueError: You have to specify bbox\)\.",
        ),
        # whose states begin after the first block
        ("mamba", "AutoModel", {}, "the hidden states of MambaModel start with"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(family, head, options, line, corpus, tmp_path):
    made = None if head == "AutoModel" else getattr(transformers, head)
    folder = save_random(family, tmp_path / "model", model_class=made, **options)
    with pytest.raises(BackboneError, match=line):
        run(folder, corpus, tmp_path / "cache")


def test_a_family_that_cannot_compute_in_bfloat16(tmp_path, monkeypatch, caplog):
    """XLNet adds positions in float32."""
    sizes = {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}
    folder = save_random(
        "xlnet", tmp_path / "model", max_position_embeddings=None, num_hidden_layers=None, **sizes
    )
    inspection = inspect_backbone(str(folder))
    monkeypatch.setattr("probekit.backbone.loading.native_bfloat16", lambda device: True)
    with caplog.at_level("INFO", logger="probekit"):
        backbone = load_backbone(inspection)
    assert backbone.compute_dtype == torch.float32
    assert "does not run in bfloat16: computing in float32." in caplog.text
    with pytest.raises(BackboneError, match=r"expected scalar type.*--compute-dtype float32\."):
        load_backbone(inspection, compute_dtype="bfloat16")


@pytest.mark.parametrize(
    ("dtype", "says"), [("bfloat16", "rerun with --compute-dtype float32"), ("float32", "damaged")]
)
def test_what_to_do_about_states_that_are_not_finite(dtype, says, bert):
    loaded = load_backbone(inspect_backbone(str(bert)), compute_dtype=dtype)
    assert says in loaded.overflow
