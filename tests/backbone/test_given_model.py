"""A model in memory: known by its tensors, run as a copy, and refused where it is not itself."""

import copy

import pytest
import torch
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertModel,
    BertPreTrainedModel,
)

from probekit.backbone import GivenModel, inspect_backbone, load_backbone
from probekit.backbone.final_parts import read_output_head
from probekit.backbone.forward import quiet_transformers
from probekit.backbone.inspecting import read_saved
from probekit.errors import BackboneError, OptionError
from tests import tiny
from tests.random_models import OPTIONS, save_family

AUTO = {"gpt2": AutoModelForCausalLM, "llama": AutoModelForCausalLM}


def load(folder, auto=AutoModel, **options):
    with quiet_transformers():
        model = auto.from_pretrained(folder, **options).eval()
        return model, AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {name: str(tiny.build(name, root / name)) for name in ("bert", "gpt2", "llama")}


@pytest.fixture(scope="module")
def loaded(folders):
    return load(folders["bert"])


@pytest.fixture
def bert(loaded):
    """A BERT and its tokenizer, which a test may change."""
    return copy.deepcopy(loaded)


def digest(model, tokenizer):
    return GivenModel.of(model, tokenizer, "mine").digest()


def states(inspection, dtype="float32"):
    ids = torch.randint(5, 90, (2, 9), generator=torch.Generator().manual_seed(0))
    backbone = load_backbone(inspection, compute_dtype=dtype)
    return torch.stack(backbone.layers(ids, torch.tensor([9, 6])))[:, :, :6]


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_it_differs_from_the_files_in_the_digest_of_its_weights_alone(folders, family):
    model, tokenizer = load(folders[family], AUTO.get(family, AutoModel))
    given = inspect_backbone(GivenModel.of(model, tokenizer, "mine"))
    files = inspect_backbone(folders[family])
    (difference,) = given.info.identity.differences(files.info.identity)
    assert difference.startswith("weights ")
    for dtype in ("float32", "bfloat16") if family == "bert" else ("float32",):
        assert torch.equal(states(given, dtype), states(files, dtype))


QUICK = ("fnet", "big_bird")


@pytest.mark.parametrize(
    "family", [pytest.param(f, marks=() if f in QUICK else pytest.mark.slow) for f in OPTIONS]
)
def test_families_with_ways_of_their_own_give_the_states_of_their_files(tmp_path, family):
    folder = save_family(family, tmp_path / family)
    model, tokenizer = load(folder)
    model(torch.tensor([[5, 6, 7]]))  # at which BigBird exchanges its attention
    given = inspect_backbone(GivenModel.of(model, tokenizer, "mine"))
    assert torch.equal(states(given), states(inspect_backbone(folder)))


def test_every_tensor_its_dtype_and_the_configuration_count(bert):
    model, tokenizer = bert
    first = digest(model, tokenizer)
    assert digest(*bert) == digest(copy.deepcopy(model), tokenizer) == first
    for name, tensor in model.state_dict().items():
        if "pooler" in name or not tensor.is_floating_point():
            continue
        kept = tensor.clone()
        tensor.view(-1)[-1] += 1
        assert digest(model, tokenizer) != first, name
        tensor.copy_(kept)
    assert digest(model, tokenizer) == first
    assert digest(copy.deepcopy(model).double(), tokenizer) != first
    other = copy.deepcopy(model)
    other.config.layer_norm_eps = 1e-3
    one, two = (inspect_backbone(GivenModel.of(m, tokenizer, "mine")) for m in (model, other))
    (difference,) = one.info.identity.differences(two.info.identity)
    assert difference.startswith("layer_norm_eps")


def test_a_head_counts_where_an_entry_can_keep_it(folders):
    plain, tokenizer = load(folders["bert"])
    labelling = load(folders["bert"], AutoModelForTokenClassification)[0]
    predicting = load(folders["bert"], AutoModelForMaskedLM)[0]
    assert digest(labelling, tokenizer) == digest(plain, tokenizer)
    assert digest(predicting, tokenizer) != digest(plain, tokenizer)
    found = read_output_head(inspect_backbone(GivenModel.of(predicting, tokenizer, "mine")))
    assert torch.equal(found.weight, predicting.get_output_embeddings().weight)
    with pytest.raises(BackboneError, match="no masked-language-model head"):
        read_output_head(inspect_backbone(GivenModel.of(plain, tokenizer, "mine")))


@pytest.mark.parametrize(
    ("auto", "dtype"),
    [
        (AutoModel, torch.float32),
        (AutoModelForMaskedLM, torch.bfloat16),
        (AutoModelForTokenClassification, torch.float32),
    ],
)
def test_what_is_saved_is_known_again(folders, tmp_path, auto, dtype):
    model, tokenizer = load(folders["bert"], auto, dtype=dtype)
    with quiet_transformers():
        model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    given = inspect_backbone(GivenModel.of(model, tokenizer, "mine"))
    saved = inspect_backbone(read_saved(str(tmp_path)))
    assert given.info.identity == saved.info.identity


def test_a_model_of_the_user_s_own_around_a_known_one_serves(bert):
    class Tagger(BertPreTrainedModel):
        def __init__(self, config):
            super().__init__(config)
            self.inner = BertModel(config)
            self.scores = nn.Linear(config.hidden_size, 3)
            self.post_init()

    model, tokenizer = bert
    own = Tagger(model.config).eval()
    own.inner.load_state_dict(model.state_dict())
    one, two = (inspect_backbone(GivenModel.of(m, tokenizer, "mine")) for m in (own, model))
    assert one.info.identity == two.info.identity
    assert torch.equal(states(one), states(two))


def test_hooks_do_not_run_and_that_is_said(folders, bert, caplog):
    model, tokenizer = bert
    ran = []
    model.encoder.layer[1].register_forward_hook(lambda *arguments: ran.append(1))
    given = inspect_backbone(GivenModel.of(model, tokenizer, "hooked"))
    assert torch.equal(states(given), states(inspect_backbone(folders["bert"])))
    assert not ran and len(model.encoder.layer[1]._forward_hooks) == 1
    assert "'hooked': its hooks do not run" in caplog.text


BAD = {
    "training": (lambda m: m.train(), r"in training mode.*model.eval\(\)"),
    "partly training": (lambda m: m.encoder.layer[0].train(), r"in training mode"),
    "edited": (
        lambda m: setattr(m.encoder.layer[1].output, "dense", nn.Identity().eval()),
        r"module 'encoder.layer.1.output.dense' is Identity, but .* builds Linear",
    ),
    "pruned": (lambda m: m.encoder.layer.pop(2), r"module 'encoder.layer.2.* is missing"),
    "patched": (
        lambda m: setattr(m.encoder, "forward", print),
        r"forward method of its module 'encoder' was replaced",
    ),
    "meta": (lambda m: m.embeddings.to("meta"), r"5 of its \d+ tensors have no values"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_not_itself_is_refused(bert, what):
    model, tokenizer = bert
    change, message = BAD[what]
    change(model)
    with pytest.raises(BackboneError, match=message):
        inspect_backbone(GivenModel.of(model, tokenizer, "mine"))


def test_several_devices_are_refused(bert, monkeypatch):
    model, tokenizer = bert
    state = dict(model.state_dict())

    class Elsewhere:
        device = "cuda:1"

    monkeypatch.setattr(model, "state_dict", lambda: {**state, "other": Elsewhere()})
    with pytest.raises(BackboneError, match=r"several devices \(\d+ tensors on cpu, 1 tensors on"):
        GivenModel.of(model, tokenizer, "mine")


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PEFT asks transformers in an old way
def test_adapters_that_are_not_merged_are_refused(bert):
    peft = pytest.importorskip("peft", reason="the optional extra adapters is not installed")
    model, tokenizer = bert
    adapted = peft.get_peft_model(
        copy.deepcopy(model), peft.LoraConfig(target_modules=["query"])
    ).eval()
    with pytest.raises(BackboneError, match=r"found PeftModel.*merge_and_unload\(\)"):
        GivenModel.of(adapted, tokenizer, "mine")
    with pytest.raises(BackboneError, match=r"an adapter \(\w+\) that is not merged"):
        GivenModel.of(adapted.base_model.model, tokenizer, "mine")
    merged = adapted.merge_and_unload()
    assert digest(merged, tokenizer) == digest(model, tokenizer)  # LoRA begins with nothing


class Changed(BertModel):
    """A class that transformers does not know."""


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda m: nn.ModuleDict({"a": m}), r"found ModuleDict.*the transformers model inside"),
        (lambda m: nn.Linear(2, 2), r"found Linear"),
        (lambda m: m.encoder, r"BertEncoder neither is nor contains|found BertEncoder"),
        (
            lambda m: Changed(m.config).eval(),
            "Changed neither is nor contains a transformers model",
        ),
    ],
)
def test_what_is_no_model_is_said_with_what_to_give(bert, made, message):
    model, tokenizer = bert
    with pytest.raises(BackboneError, match=message):
        GivenModel.of(made(model), tokenizer, "mine")


def test_the_half_of_an_encoder_decoder_is_named(tmp_path):
    both = load(str(tiny.build("t5", tmp_path)), tiny.T5ForConditionalGeneration)
    with pytest.raises(OptionError, match="encoder-decoder"):
        inspect_backbone(GivenModel.of(*both, "mine"))


def test_a_tokenizer_is_needed_fast_and_of_the_model(bert):
    model, tokenizer = bert
    for other, message in (
        (None, "needs its fast tokenizer, found NoneType"),
        (tokenizer.backend_tokenizer, "needs its fast tokenizer, found Tokenizer"),
    ):
        with pytest.raises(BackboneError, match=message):
            GivenModel.of(model, other, "mine")
    larger = tiny.build_tokenizer("bert")
    larger.add_tokens(["neologism"])
    with pytest.raises(
        BackboneError, match=r"\('neologism'\), but the model has only \d+ embeddings"
    ):
        inspect_backbone(GivenModel.of(model, larger, "mine"))
    padded = tiny.build_tokenizer("bert")
    padded.add_special_tokens({"pad_token": "[EMPTY]"})  # as GPT-2 gets one; it is in no text
    assert inspect_backbone(GivenModel.of(model, padded, "mine")).pad_id < len(padded) - 1


def test_model_and_tokenizer_stay_as_they_were(bert):
    model, tokenizer = bert
    tokenizer.padding_side = "left"
    tokenizer.backend_tokenizer.enable_truncation(5)
    model.embeddings.requires_grad_(False)
    tensors = {name: (t, t.clone()) for name, t in model.state_dict().items()}
    flags = {name: p.requires_grad for name, p in model.named_parameters()}
    classes = [type(module) for module in model.modules()]
    config, said = model.config.to_dict(), tokenizer.backend_tokenizer.to_str()
    given = inspect_backbone(GivenModel.of(model, tokenizer, "mine"))
    assert given.text_tokenizer.backend_tokenizer.truncation is None
    states(given)
    states(given, "bfloat16")
    assert [type(module) for module in model.modules()] == classes
    assert flags == {name: p.requires_grad for name, p in model.named_parameters()}
    assert model.config.to_dict() == config and not model.training
    for name, tensor in model.state_dict().items():
        before, numbers = tensors[name]
        assert tensor.data_ptr() == before.data_ptr() and torch.equal(tensor, numbers)
    assert tokenizer.padding_side == "left" and tokenizer.backend_tokenizer.to_str() == said


def test_hooks_of_transformers_are_no_hooks_of_the_user(bert, caplog):
    model, tokenizer = bert
    model(torch.tensor([[5, 6]]), output_hidden_states=True)
    inspect_backbone(GivenModel.of(model, tokenizer, "mine"))
    assert "hooks" not in caplog.text
