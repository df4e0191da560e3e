"""Methods change no state before they learn, and then what they name alone; how much that is."""

from functools import cache

import pytest
import torch
from torch.nn import functional
from transformers import AutoConfig, AutoModel, BertConfig, BertModel

from probekit.backbone import inspect_backbone, load_backbone
from probekit.base.registry import normal_form, parse
from probekit.errors import BackboneError, OptionError, UnknownNameError
from probekit.train.live.live_model import cut, reached
from probekit.tuning import METHODS, Tuned, contract
from probekit.tuning.adapter import Bottleneck
from probekit.tuning.contract import blocks_of
from tests import tiny
from tests.random_models import save_random
from tests.tuning.cases import IDS, LENGTHS, attached, check_states, installed, learning, states

FAMILIES = ("bert", "roberta", "gpt2", "llama", "deberta-v2")
SIZES = {
    "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "ffn_dim": 48,
    "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
SAME = [name for name in METHODS if name not in ("qlora", "prompt", "prefix")]
"""Methods that can be compared with the model as it was; the others have files of their own."""
TRAINING = (
    *("full", "bitfit", "lora:dropout=0.1", "adapter:size=4", "prompt:length=3"),
    *("prefix:length=3", "prefix:length=3:of=states", "diff-prune:share=0.1"),
)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return {kind: str(tiny.build(kind, tmp_path_factory.mktemp(kind))) for kind in FAMILIES}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "bert") for name in SAME if name not in ("lora", "adapter")),
        *((name, "gpt2") for name in ("lora", "adapter")),
        *((name, "llama") for name in ("bitfit", "lora", "adapter")),
    ],
)
def test_until_the_first_step_the_model_is_what_it_was(kind, name, models):
    installed(name)
    plain = AutoModel.from_pretrained(models[kind])
    if (name, kind) == ("bitfit", "llama"):
        with pytest.raises(OptionError, match="trains biases, and LlamaModel has none"):
            attached(name, learning(models[kind]).model)
        return
    model = learning(models[kind]).model
    values = attached(name, model)
    assert bool(values) == METHODS[name].trains
    assert all(value.requires_grad for value in values.values())
    assert {n for n, v in model.named_parameters() if v.requires_grad} == set(values)
    check_states(states(model), states(plain))


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "bert") for name in TRAINING), ("prefix:length=3", "llama")]
)
def test_steps_change_the_states_by_what_is_named_alone(kind, name, models):
    installed(name)
    backbone = cut(learning(models[kind]), 2)
    model = backbone.model
    values = reached(backbone, attached(name, model), [1, 2])
    tuned = Tuned(model, values, parse("method", name, METHODS))
    before = {key: value.clone() for key, value in model.named_parameters()}
    with torch.no_grad():
        first = backbone.layers(IDS, LENGTHS, [1, 2])
    optimizer = torch.optim.Adam(tuned.parameters(), lr=1e-2)
    wanted = torch.randn(2, *first[0].shape, generator=torch.Generator().manual_seed(1))
    tuned.train()
    for step in range(5):
        loss = (torch.stack(backbone.layers(IDS, LENGTHS, [1, 2])) * wanted).mean()
        optimizer.zero_grad()
        loss.backward()
        tuned.before_step(1 - step / 5)
        optimizer.step()
    tuned.eval()
    moved = {key for key, value in model.named_parameters() if (value != before[key]).any()}
    assert moved == set(values)
    with torch.no_grad():
        last, again = (backbone.layers(IDS, LENGTHS, [1, 2]) for _ in range(2))
    for one, other, same in zip(first, last, again, strict=True):
        assert (one - other).abs().max() > 1e-4 and torch.equal(other, same)


@pytest.mark.parametrize(
    ("kind", "deepest"), [*((kind, 2) for kind in FAMILIES), ("bert", 0), ("llama", 0)]
)
def test_a_cut_model_has_the_layers_of_the_whole(kind, deepest, models):
    whole = learning(models[kind])
    shorter = cut(learning(models[kind]), deepest)
    layers = list(range(deepest + 1))
    with torch.no_grad():
        check_states(*(each.layers(IDS, LENGTHS, layers) for each in (shorter, whole)))
    before, after = (sum(v.numel() for v in m.model.parameters()) for m in (whole, shorter))
    assert after < before


def test_biases_of_attention_have_names_of_their_own(tmp_path):
    """The first DeBERTa adds them to queries and values itself."""
    folder = save_random("deberta", tmp_path, pos_att_type=["c2p", "p2c"], relative_attention=True)
    values = attached("bitfit", learning(str(folder)).model)
    names = {name.rpartition(".")[2] for name in values}
    assert names == {"bias", "q_bias", "v_bias"}


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("falcon", {"multi_query": True, "new_decoder_architecture": False}),
        ("lfm2", {"num_key_value_heads": 4, "layer_types": ["conv", "full_attention", "conv"]}),
    ],
)
def test_keys_that_a_model_cannot_read_are_refused(family, options, tmp_path):
    installed("prefix")
    folder = save_random(family, tmp_path, tokenizer="gpt2", **options)
    model = learning(str(folder)).model
    with pytest.raises(
        OptionError, match=r"does not take keys from outside .* Give --method prefix:of=states"
    ):
        attached("prefix:length=3", model)
    assert attached("prefix:length=3:of=states", learning(str(folder)).model)


def test_the_blocks_of_t5_hold_lists_of_as_many(tmp_path):
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_heads": 4, "num_decoder_layers": 2}
    sizes |= {"num_layers": 2, "num_hidden_layers": None}
    folder = save_random("t5", tmp_path, tokenizer="t5", **sizes)
    inspection = inspect_backbone(str(folder), part="encoder")
    model = load_backbone(inspection, compute_dtype="float32", learns=True).model
    assert blocks_of(model, 2) is model.encoder.block


def test_what_no_layer_that_is_read_depends_on_is_not_trained(models):
    backbone = learning(models["bert"])
    values = reached(backbone, attached("full", backbone.model), [0])
    assert values and all(name.startswith("embeddings.") for name in values)
    assert {n for n, v in backbone.model.named_parameters() if v.requires_grad} == set(values)


@pytest.mark.parametrize("deepest", [0, 2])
def test_a_model_that_projects_its_last_layer_keeps_the_ones_before(deepest, tmp_path):
    """As OPT's 350M does: cut to ``deepest`` blocks it would project layer ``deepest`` instead."""
    tokenizer = tiny.build_tokenizer("llama", 400)
    config = AutoConfig.for_model(
        "opt", **SIZES, vocab_size=len(tokenizer), word_embed_proj_dim=16,
        do_layer_norm_before=False,
    )  # fmt: skip
    tokenizer.save_pretrained(tmp_path)
    AutoModel.from_config(config).save_pretrained(tmp_path)
    whole, shorter = (learning(str(tmp_path)) for _ in range(2))
    shorter, layers = cut(shorter, deepest), list(range(deepest + 1))
    blocks = len(shorter.model.decoder.layers)
    assert blocks == shorter.inspection.structure.n_blocks == max(deepest, 1) + 1
    with torch.no_grad():
        one, other = (m.layers(IDS, LENGTHS, layers) for m in (whole, shorter))
    torch.testing.assert_close(one, other)
    with pytest.raises(OptionError, match=f"layer {blocks} is 16 wide"):
        shorter.layers(IDS, LENGTHS, [blocks])


def test_a_model_whose_blocks_are_not_found_is_not_cut(models):
    backbone = learning(models["bert"])
    backbone.model.encoder.layer = torch.nn.Sequential(*backbone.model.encoder.layer)
    with pytest.raises(BackboneError, match="cannot be cut to 1 blocks: its blocks are not in"):
        cut(backbone, 1)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("adapter:size=0", "size must be at least 1; found 0"),
        ("lora:rank=0", "rank and alpha must be at least 1"),
        ("prompt:length=0", "length must be at least 1; found 0"),
        ("prefix:length=0", "length must be at least 1; found 0"),
        ("diff-prune:share=0", "share must be above 0 and at most 1, penalty at"),
        ("diff-prune:penalty=-1", "share must be above 0 and at most 1, penalty at"),
        ("diff-prune:fixed=2", "share must be above 0 and at most 1, penalty at"),
    ],
)
def test_numbers_that_make_no_sense(typed, says):
    with pytest.raises(OptionError, match=says):
        parse("method", typed, METHODS)


def test_methods_as_they_are_typed(monkeypatch):
    assert normal_form("method", "lora:rank=8:alpha=16", METHODS) == "lora"
    assert normal_form("method", "lora:rank=4", METHODS) == "lora:rank=4"
    with pytest.raises(UnknownNameError, match=r"unknown method 'lorra'\. Did you mean 'lora'\?"):
        normal_form("method", "lorra", METHODS)
    monkeypatch.setattr(contract, "find_spec", lambda name: None)
    with pytest.raises(BackboneError, match=r"needs the package peft. Run `pip .*\[finetune\]"):
        attached("lora", None)


OTHER_NAMES = {
    "distilbert": {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48}
    | dict.fromkeys(SIZES.keys() - {"ffn_dim", "pad_token_id", "max_position_embeddings"})
    | {"intermediate_size": None},
    "modernbert": {"local_attention": 8, "global_attn_every_n_layers": 2},
    "mpnet": {"pad_token_id": 1, "max_position_embeddings": 66},
    "phi3": {"tokenizer": "llama"},
}
"""Families whose projections, or counts of heads, have other names, and their configurations."""


@pytest.mark.parametrize("kind", OTHER_NAMES)
def test_lora_lies_beside_queries_and_values_of_every_block(kind, tmp_path):
    installed("lora")
    folder = save_random(kind, tmp_path / kind, **OTHER_NAMES[kind])
    names = [n for n in attached("lora", AutoModel.from_pretrained(folder)) if "lora_A" in n]
    projections = {name.split(".lora_A")[0].rpartition(".")[2] for name in names}
    assert len(names) == 3 * len(projections)
    assert projections in ({"q_lin", "v_lin"}, {"Wqkv"}, {"q", "v"}, {"qkv_proj"})


def test_lora_says_where_it_would_lie_in_no_layer(tmp_path):
    installed("lora")
    folder = save_random("fnet", tmp_path / "fnet", num_attention_heads=None)
    with pytest.raises(OptionError, match=r"no layer of fnet .* Give --method lora:targets=linear"):
        attached("lora", AutoModel.from_pretrained(folder))


OTHERS = {
    "distilbert": {
        "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "hidden_size": None,
        "num_hidden_layers": None, "num_attention_heads": None, "intermediate_size": None,
    },
    "modernbert": {}, "bloom": {}, "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
}  # fmt: skip


def adapted(folder, name="adapter:size=4"):
    backbone = learning(folder)
    return backbone, attached(name, backbone.model)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_families_have_two_in_a_block_that_change_nothing_at_first(kind, tmp_path):
    folder = save_random(kind, tmp_path, **OTHERS[kind])
    backbone, values = adapted(folder)
    adapters = [one for one in backbone.model.modules() if isinstance(one, Bottleneck)]
    assert len(adapters) == 2 * 3 and sum(".adapter." in name for name in values) == 4 * 2 * 3
    with torch.no_grad():
        before, after = (one.layers(IDS, LENGTHS) for one in (learning(folder), backbone))
        assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))
        for adapter in adapters:
            adapter.up_bias += torch.arange(32)
        moved = backbone.layers(IDS, LENGTHS)
    assert torch.equal(moved[0], after[0]) and (moved[1] != after[1]).any(-1).all()


def test_a_block_of_bert_by_hand(tmp_path):
    tiny.build("bert", tmp_path)
    backbone, values = adapted(tmp_path)
    with torch.no_grad():
        for value in values.values():
            value += 0.1 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1))
        first, second = backbone.layers(IDS, LENGTHS, [0, 1])
        block = backbone.model.encoder.layer[0]

        def put_through(adapter, h):
            inner = functional.gelu(h @ adapter.down.T + adapter.down_bias)
            return h + inner @ adapter.up.T + adapter.up_bias

        seen = block.attention.self(first)[0]
        out, own = block.attention.output, block.attention.output.dropout.adapter
        middle = out.LayerNorm(put_through(own, out.dense(seen)) + first)
        fed = block.output.dense(block.intermediate(middle))
        last = block.output.LayerNorm(put_through(block.output.dropout.adapter, fed) + middle)
    torch.testing.assert_close(second, last, rtol=1e-5, atol=1e-6)
    assert {name for name in values if "LayerNorm" in name} == {
        name for name, _ in AutoModel.from_pretrained(tmp_path).named_parameters()
        if "LayerNorm" in name
    }  # fmt: skip


def test_one_in_a_block_and_where_a_family_ends_its_layers_must_be_known(tmp_path):
    _, values = adapted(tiny.build("bert", tmp_path), "adapter:size=4:after=feed-forward")
    places = {name.partition(".adapter.")[0] for name in values if ".adapter." in name}
    assert places == {f"encoder.layer.{block}.output.dropout" for block in range(3)}
    with pytest.raises(OptionError, match=r"blocks of AlbertModel\. Choose another"):
        adapted(save_random("albert", tmp_path / "albert", embedding_size=16))


D, M, L, N = 32, 5, 3, 7
"""Width, bottleneck, blocks and virtual tokens of the small model."""
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
PRINTED_MODEL = 340e6
"""Values of BERT-large (Devlin et al. 2019): the paper's shares are of these, not of its 335 M."""


def bert(**sizes):
    return BertModel(BertConfig(**sizes), add_pooling_layer=False)


@cache
def trained(name, large):
    """Return the number of values that a method trains, by the last part of their names."""
    with torch.device("meta" if large else "cpu"):
        small = {"hidden_size": D, "num_hidden_layers": L, "num_attention_heads": 4}
        sizes = LARGE | {"intermediate_size": 4096} if large else small | {"intermediate_size": 64}
        model = bert(**sizes, **({} if large else {"vocab_size": 50}))
        model.requires_grad_(False)
    values = parse("method", name, METHODS).attach(model, torch.Generator().manual_seed(0))
    assert all(value.requires_grad for value in values.values())
    return {name: value.numel() for name, value in values.items()}


def total(counts, part=""):
    return sum(count for name, count in counts.items() if part in name)


NORMS = 2 * D * (2 * L + 1)
OWN = 50 * D + 512 * D + 2 * D + L * (4 * (D * D + D) + 2 * 64 * D + 64 + D) + NORMS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("full", OWN), ("bitfit", L * (7 * D + 64) + D), ("lora:rank=4", L * 2 * 4 * (D + D)),
        ("qlora:rank=4", L * 4 * (4 * (D + D) + 2 * (D + 64))),
        (f"adapter:size={M}", 2 * L * (2 * M * D + D + M) + NORMS),
        (f"adapter:size={M}:after=feed-forward", L * (2 * M * D + D + M) + NORMS),
        (f"prompt:length={N}", N * D), (f"prefix:length={N}", 2 * L * N * D),
        (f"prefix:length={N}:of=states", L * N * D), ("diff-prune", 2 * OWN), ("frozen", 0),
    ],
)  # fmt: skip
def test_by_the_equations_of_the_papers(name, expected):
    installed(name.removeprefix("q"))  # which needs no 4 bits here
    assert total(trained(name, False)) == expected


def test_bert_large_as_the_attention_fusion_paper_prints_it():
    biases = trained("bitfit", True)  # 270 K, 0.08 %: the norm of the embeddings has 1,024 more
    assert total(biases) - 1024 == 24 * (7 * 1024 + 4096) == 270_336
    assert round(100 * total(biases) / PRINTED_MODEL, 2) == 0.08
    # 12.6 million: num_layers (2 m d + m + d) counts one adapter in a block, and no norms
    one = trained("adapter:size=256:after=feed-forward", True)
    assert total(one, "adapter") == 24 * (2 * 1024 * 256 + 1024 + 256) == 12_613_632
    assert total(one) - total(one, "adapter") == 2 * 1024 * (2 * 24 + 1)
    assert total(trained("adapter:size=256", True), "adapter") == 2 * 12_613_632
