"""Prompts and prefixes: the states of the text are those that transformers and peft compute."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModel

from probekit.errors import BackboneError, OptionError
from probekit.extraction import ExtractOptions, extract
from probekit.features import Location
from probekit.train.live.live_model import _by_block
from probekit.train.saved.labelling import predict
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from tests import tiny
from tests.random_models import save_random
from tests.train.saved.test_prediction import dev_words, write_corpus
from tests.tuning.cases import attached, learning, predicted

peft = pytest.importorskip("peft", reason="the optional extra finetune is not installed")

FAMILIES = ("bert", "mpnet", "llama")
COUNT = 3
IDS, LENGTHS = torch.arange(9, 31).view(2, 11), torch.tensor([8, 11])
MASK = (torch.arange(11) < LENGTHS[:, None]).long()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    made = {kind: tmp_path_factory.mktemp(kind) for kind in FAMILIES}
    for kind, folder in made.items():
        save_random(kind, folder) if kind == "mpnet" else tiny.build(kind, folder)
    return {kind: str(folder) for kind, folder in made.items()}


def prefixed(name, folder):
    backbone = learning(folder)
    return backbone, attached(name, backbone.model)


@torch.no_grad()
def states(backbone):
    """Return layers of two texts, one of them padded; what padding holds is 0."""
    found = backbone.layers(IDS, LENGTHS)
    return [state * MASK[..., None] for state in found]


def check_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        other = other[:, -IDS.shape[1] :] * MASK[..., None]
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_prompt_is_what_transformers_reads_before_the_text(kind, models):
    backbone, values = prefixed(f"prompt:length={COUNT}", models[kind])
    (prompt,) = values.values()
    plain = AutoModel.from_pretrained(models[kind]).eval()
    words = plain.get_input_embeddings()
    drawn = (prompt[:, None] == words.weight).all(-1)
    assert drawn.any(1).all(), "it is drawn from the vocabulary"
    with torch.no_grad():
        text = torch.cat([prompt.expand(2, -1, -1), words(IDS)], 1)
        mask = torch.cat([torch.ones(2, COUNT, dtype=torch.long), MASK], 1)
        wanted = plain(inputs_embeds=text, attention_mask=mask, output_hidden_states=True)
    check_same(states(backbone), wanted.hidden_states)
    assert (states(backbone)[-1] - wanted.last_hidden_state[:, COUNT:]).abs().max() > 0


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing")  # which peft asks
@pytest.mark.parametrize(
    ("name", "kind"), [("prompt", "bert"), *(("prefix", kind) for kind in FAMILIES)]
)
def test_they_are_those_of_peft(kind, name, models):
    if (name, kind) == ("prefix", "mpnet"):
        with pytest.raises(OptionError, match=r"takes no past_key_values. Give .*of=states"):
            prefixed(name, models[kind])
        return
    backbone, values = prefixed(f"{name}:length={COUNT}", models[kind])
    make = {"prompt": peft.PromptTuningConfig, "prefix": peft.PrefixTuningConfig}[name]
    config = make(task_type="FEATURE_EXTRACTION", num_virtual_tokens=COUNT)
    whole = peft.PeftModelForFeatureExtraction(AutoModel.from_pretrained(models[kind]), config)
    (own,) = values.values()
    with torch.no_grad():
        whole.prompt_encoder.default.embedding.weight.copy_(own)
        wanted = whole.eval()(input_ids=IDS, attention_mask=MASK, output_hidden_states=True)
    check_same(states(backbone), wanted.hidden_states)


@pytest.mark.parametrize("kind", FAMILIES)
def test_states_of_a_prefix_are_what_every_block_reads_before_the_text(kind, models):
    backbone, values = prefixed(f"prefix:length={COUNT}:of=states", models[kind])
    plain = AutoModel.from_pretrained(models[kind]).eval()
    blocks = next(one for one in plain.modules() if isinstance(one, torch.nn.ModuleList))
    for block, prefix in zip(blocks, values.values(), strict=True):

        def replaced(block, args, prefix=prefix):
            return torch.cat([prefix.expand(2, -1, -1), args[0][:, COUNT:]], 1), *args[1:]

        block.register_forward_pre_hook(replaced)
    text = plain.get_input_embeddings()(IDS)
    text = torch.cat([torch.zeros(2, COUNT, text.shape[2]), text], 1)
    mask = torch.cat([torch.ones(2, COUNT, dtype=torch.long), MASK], 1)
    with torch.no_grad():
        wanted = plain(inputs_embeds=text, attention_mask=mask, output_hidden_states=True)
    check_same(states(backbone), wanted.hidden_states)


@pytest.mark.parametrize("name", ["prompt", "prefix:of=states"])
def test_the_second_of_two_texts_stays_the_second(name, models):
    backbone, _ = prefixed(f"{name}:length={COUNT}", models["bert"])
    types = (torch.arange(11) >= 4).long().expand(2, -1)
    with torch.no_grad():
        told, untold = (backbone.layers(IDS, LENGTHS, [0], one)[0] for one in (types, None))
    assert torch.equal(told[:, :4], untold[:, :4])
    assert (told[:, 4:] - untold[:, 4:]).abs().amin(1).max() > 0


def test_a_prefix_of_keys_is_not_lost_under_gradient_checkpointing(models):
    backbone, _ = prefixed("prefix", models["bert"])
    backbone.model.train()
    with (
        _by_block(backbone.model, wanted=True),
        pytest.raises(BackboneError, match=r"is lost under gradient checkpointing.*of=states"),
    ):
        backbone.layers(IDS, LENGTHS)


@pytest.fixture(scope="module")
def extracted(models, tmp_path_factory):
    """The spec of a run over words, where their features are, and the entry of train."""
    root = tmp_path_factory.mktemp("words")
    options = ExtractOptions(compute_dtype="float32", max_length=64)
    corpus = str(write_corpus(root / "corpus"))
    entry, *_ = extract(models["bert"], corpus, cache=root, options=options)
    spec = TrainSpec(model=models["bert"], task=corpus, head="last")
    return spec, Location(cache=root), entry


@pytest.mark.parametrize("method", ["prompt:length=2", "prefix:length=2"])
def test_a_saved_run_says_of_longer_texts_too_what_it_scored(method, extracted, tmp_path):
    spec, at, _ = extracted
    spec = replace(spec, head="p32", method=method, epochs=2)
    (record,) = sweep([spec], location=at, out=tmp_path / "runs.jsonl",
                      predictions=True, save=tmp_path / "head")  # fmt: skip
    said = predict(tmp_path / "head", dev_words(Path(spec.task)))
    assert said == predicted(record) and 0 < record.backbone_share < 0.1
    (long,) = predict(tmp_path / "head", [["Paris"] * 70])
    assert len(long) == 70, "windows leave room for the virtual tokens"
