"""The text model of a model of several modalities: its states are those of the whole for a text."""

import pytest
import torch
import transformers
from transformers import AutoModel

from probekit.backbone import inspect_backbone, load_backbone
from probekit.backbone.final_parts import read_output_head
from probekit.data.batches import PADDED
from probekit.errors import BackboneError
from tests import tiny

TOKENIZER = tiny.build_tokenizer("llama")
TEXT = {
    "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "intermediate_size": 48, "vocab_size": len(TOKENIZER),
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
SIGHT = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 20,
    "image_size": 28, "patch_size": 14,
}  # fmt: skip
MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}}
QWEN = {"depth": 1, "num_heads": 2, "embed_dim": 16, "patch_size": 4}
# family -> (text, sight, class that is saved, class of the backbone)
FAMILIES = {
    "gemma3": ({"sliding_window": 4}, SIGHT, "Gemma3ForConditionalGeneration", "Gemma3TextModel"),
    "qwen3_vl": (
        MROPE,
        QWEN
        | {
            "hidden_size": 16, "out_hidden_size": 32, "intermediate_size": 20,
            "deepstack_visual_indexes": [0], "num_position_embeddings": 16,
        },
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLTextModel",
    ),
    "llava": (
        {"model_type": "llama"},
        SIGHT | {"model_type": "clip_vision_model", "projection_dim": 16},
        "LlavaForConditionalGeneration",
        "LlamaModel",
    ),
}  # fmt: skip


def build(family):
    text, sight, _, _ = FAMILIES[family]
    tokens = {"image_token_id": 5, "video_token_id": 6, "vision_start_token_id": 7}
    tokens |= {"vision_end_token_id": 8, "boi_token_index": 7, "eoi_token_index": 8}
    extra = {} if family != "gemma3" else {"mm_tokens_per_image": 4}
    kind = transformers.CONFIG_MAPPING[family]
    config = kind(text_config=TEXT | text, vision_config=sight, **tokens, **extra)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = getattr(transformers, FAMILIES[family][2])(config)
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    assert model.num_parameters() < tiny.MAX_PARAMETERS
    return model.eval()


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Every family, saved with its sight and its output head."""
    root = tmp_path_factory.mktemp("towers")
    for family in FAMILIES:
        build(family).save_pretrained(root / family)
        TOKENIZER.save_pretrained(root / family)
    return root


def texts():
    """Two texts of different lengths, padded, and their lengths."""
    ids = torch.randint(20, len(TOKENIZER), (2, 13), generator=torch.manual_seed(0))
    ids[1, 6:] = 0
    return ids, torch.tensor([13, 6])


@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_those_of_the_whole_for_a_text(family, folders):
    inspection = inspect_backbone(str(folders / family))
    info = inspection.info
    assert info.identity.architecture == FAMILIES[family][3]
    assert (info.n_blocks, info.dim, info.causal, info.final_norm) == (3, 32, True, True)
    backbone = load_backbone(inspection, compute_dtype="float32")
    assert backbone.batching == PADDED and backbone.final_norm is not None

    ids, lengths = texts()
    found = backbone.layers(ids, lengths)
    whole = AutoModel.from_pretrained(folders / family).eval()
    for row, length in enumerate(lengths.tolist()):
        with torch.no_grad():
            expected = whole(
                input_ids=ids[row : row + 1, :length], output_hidden_states=True
            ).hidden_states
        assert len(found) == len(expected) == 4
        for one, two in zip(found, expected, strict=True):
            torch.testing.assert_close(one[row, :length], two[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["gemma3", "llava"])
def test_the_output_head_is_that_of_the_whole(family, folders):
    head = read_output_head(inspect_backbone(str(folders / family)))
    whole = build(family)
    rows = torch.randn(5, 32, generator=torch.manual_seed(1))
    with torch.no_grad():
        expected = whole.get_output_embeddings()(rows)
    torch.testing.assert_close(head(rows), expected, rtol=1e-4, atol=1e-4)


def test_a_whole_that_makes_something_else_of_a_text_is_refused(folders, monkeypatch):
    forward = transformers.Gemma3Model.forward

    def changed(self, input_ids=None, **options):
        return forward(self, input_ids=input_ids.flip(1), **options)

    monkeypatch.setattr(transformers.Gemma3Model, "forward", changed)
    with pytest.raises(
        BackboneError, match=r"\(gemma3\): its text model Gemma3TextModel gives different"
    ):
        load_backbone(inspect_backbone(str(folders / "gemma3")), compute_dtype="float32")


def test_several_models_of_which_none_is_of_texts_alone_are_refused(tmp_path):
    transformers.CONFIG_MAPPING["t5gemma"]().save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(BackboneError, match=r"\(t5gemma\) combines several models"):
        inspect_backbone(str(tmp_path), part="encoder")
