"""The encoder of an encoder-decoder: its states are those of the whole model's encoder."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from probekit.backbone import GivenModel, inspect_backbone, load_backbone, remembered
from probekit.backbone.final_parts import read_output_head
from probekit.data.batches import PADDED
from probekit.errors import BackboneError, OptionError, UnknownNameError
from probekit.extraction import ExtractOptions, extract
from probekit.extraction.maintenance import verify_rows
from probekit.features import Location, open_features
from tests.backbone.running import states_of
from tests.extraction.corpus import write_corpus
from tests.random_models import save_random

T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2}
BART = {
    "d_model": 32, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40,
    "hidden_size": None, "num_hidden_layers": None, "intermediate_size": None,
    "num_attention_heads": None, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
# family -> (options, class of the backbone, whether a norm follows the last block)
FAMILIES = {
    "t5": (T5, "T5EncoderModel", True), "bart": (BART, "BartEncoder", False),
    "mbart": (BART, "MBartEncoder", True), "marian": (BART, "MarianEncoder", False),
}  # fmt: skip
HEADS = {"marian": transformers.MarianMTModel, "t5": transformers.T5ForConditionalGeneration}


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Every family, saved whole, some with a head."""
    root = tmp_path_factory.mktemp("halves")
    found = {}
    for family, (options, _, _) in FAMILIES.items():
        found[family] = save_random(
            family, root / family, tokenizer="t5", model_class=HEADS.get(family), **options
        )
    return found


def inspect(folder, **options):
    return inspect_backbone(str(folder), part="encoder", **options)


def texts(inspection):
    """Two texts of different lengths, padded, and their lengths."""
    ids = torch.randint(3, inspection.info.vocab_size, (2, 11), generator=torch.manual_seed(0))
    lengths = torch.tensor([11, 6])
    ids[1, 6:] = inspection.pad_id
    return ids, lengths


@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_those_of_the_whole_models_encoder(family, folders):
    _, architecture, final_norm = FAMILIES[family]
    inspection = inspect(folders[family])
    info = inspection.info
    assert (info.identity.architecture, info.final_norm) == (architecture, final_norm)
    assert (info.n_blocks, info.dim, info.causal, info.identity.part) == (3, 32, False, "encoder")

    backbone = load_backbone(inspection, compute_dtype="float32")
    assert backbone.batching == PADDED
    assert (backbone.final_norm is not None) == final_norm
    ids, lengths = texts(inspection)
    found = backbone.layers(ids, lengths)
    whole = HEADS.get(family, AutoModel).from_pretrained(folders[family]).eval()
    for row, length in enumerate(lengths.tolist()):
        alone = ids[row : row + 1, :length]
        with torch.no_grad():
            expected = whole(
                input_ids=alone, decoder_input_ids=alone, output_hidden_states=True
            ).encoder_hidden_states
        assert len(found) == len(expected) == 4
        for one, two in zip(found, expected, strict=True):
            torch.testing.assert_close(one[row, :length], two[0], rtol=1e-4, atol=1e-4)


def test_an_encoder_that_was_saved_alone_is_read_as_it_is(folders, tmp_path):
    family = "t5"
    transformers.T5EncoderModel.from_pretrained(folders[family]).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folders[family]).save_pretrained(tmp_path)
    found = inspect_backbone(str(tmp_path))
    assert found.info.identity.part is None
    whole = inspect(folders[family])
    assert torch.equal(states_of(found, *texts(found)), states_of(whole, *texts(found)))
    with pytest.raises(OptionError, match=r"--part encoder: .* Leave --part out"):
        inspect(tmp_path)


def test_a_model_without_halves_has_no_part(tiny_folder):
    with pytest.raises(
        OptionError, match=r"--part encoder: model .* \(bert\) is not a whole encoder-dec"
    ):
        inspect(tiny_folder("bert"))


def test_a_model_in_memory_is_that_of_its_files_and_its_decoder_is_not_read(folders):
    family = "bart"
    model = transformers.BartForConditionalGeneration.from_pretrained(folders[family]).eval()
    tokenizer = AutoTokenizer.from_pretrained(folders[family])
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    given = GivenModel.of(model, tokenizer, "mine")
    inspection = inspect_backbone(given, part="encoder")
    files, two = inspect(folders[family]), texts(inspection)
    assert torch.equal(states_of(inspection, *two), states_of(files, *two))
    digest = given.digest()
    with torch.no_grad():
        model.get_decoder().get_parameter(last_parameter(model.get_decoder())).add_(1)
    assert given.digest() == digest
    with torch.no_grad():
        model.get_encoder().get_parameter(last_parameter(model.get_encoder())).add_(1)
    assert given.digest() != digest
    assert not model.training and before.keys() == model.state_dict().keys()


def last_parameter(model):
    return [name for name, _ in model.named_parameters() if "embed" not in name][-1]


def test_random_weights_are_those_of_the_whole_models_start(folders):
    dtype = "bfloat16"
    inspection = inspect(folders["bart"], random_init=4)
    backbone = load_backbone(inspection, compute_dtype=dtype)
    torch.manual_seed(4)
    expected = AutoModel.from_config(inspection.config).encoder.state_dict()
    found = backbone.model.state_dict()
    name = "embed_positions.weight"
    assert torch.equal(found[name].float(), expected[name].to(backbone.compute_dtype).float())


def test_the_output_head_is_the_decoders(folders):
    with pytest.raises(BackboneError, match=r"the whole model belongs to its decoder.*--tie input"):
        read_output_head(inspect(folders["bart"]))


@pytest.mark.parametrize(("half", "wrong"), [("encoder", True), ("decoder", False)])
def test_weights_of_the_encoder_must_be_there(half, wrong, folders, tmp_path):
    for path in folders["bart"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors[f"{half}.layers.1.fc1.weight"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    if not wrong:
        load_backbone(inspect(tmp_path))
        return
    with pytest.raises(BackboneError, match=r"1 missing \(encoder\.layers\.1\.fc1\.weight\)"):
        load_backbone(inspect(tmp_path))


def test_led_reads_as_much_as_it_has_positions_for(tmp_path):
    options = BART | {
        "max_encoder_position_embeddings": 40, "max_decoder_position_embeddings": 30,
        "attention_window": 4, "max_position_embeddings": None,
    }  # fmt: skip
    inspection = inspect(save_random("led", tmp_path, tokenizer="t5", **options))
    assert inspection.info.identity.max_length == 40
    backbone = load_backbone(inspection, compute_dtype="float32")
    backbone.layers(torch.full((1, 40), 7), torch.tensor([40]))


def test_an_entry_names_the_part_and_is_found_by_the_models_path(folders, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    folder, corpus = str(folders["t5"]), str(write_corpus(tmp_path / "corpus", sentences=8))
    options = ExtractOptions(part="encoder", dtype="float32", compute_dtype="float32")
    extract(folder, corpus, label="2", cache=tmp_path / "cache", options=options, device="cpu")
    entry = open_features(folder, corpus, "2", Location(cache=tmp_path / "cache")).entries["train"]
    assert entry.manifest.request["model"]["part"] == "encoder"
    assert remembered.identity_at(folder)["part"] == "encoder"
    assert json.loads(entry.manifest.to_json())["model_info"]["identity"]["part"] == "encoder"
    assert verify_rows(entry, 20).passed
    with pytest.raises(FileNotFoundError, match=r"probekit extract .* --part encoder"):
        open_features(folder, corpus, "2", Location(cache=tmp_path / "none"))
    with pytest.raises(UnknownNameError, match=r"--part 'decoder'\. .* Choose from: encoder\."):
        ExtractOptions(part="decoder")
