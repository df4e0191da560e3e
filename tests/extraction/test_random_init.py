"""Random weights: transformers' own, by the seed alone, and never mixed with the trained ones."""

import json

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer

from probekit.backbone import inspect_backbone, load_backbone
from probekit.errors import BackboneError, OptionError
from probekit.extraction import ExtractOptions, extract
from probekit.extraction.maintenance import verify_rows
from probekit.features import Location, open_features
from tests import tiny
from tests.extraction.corpus import write_corpus


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("random")
    return tiny.build("bert", folder / "model"), write_corpus(folder / "corpus"), folder / "cache"


def make(places, seed, **options):
    model, corpus, cache = places
    wanted = ExtractOptions(
        **{"compute_dtype": "float32", "dtype": "float32", "random_init": seed, **options}
    )
    (entry,) = extract(
        str(model), str(corpus), label="2", splits=["train"], cache=cache, options=wanted,
        device="cpu",
    )  # fmt: skip
    return entry


def reference(folder, seed, words):
    torch.manual_seed(seed)
    config = AutoConfig.from_pretrained(folder)
    model = AutoModel.from_config(config, add_pooling_layer=False).eval()
    encoded = AutoTokenizer.from_pretrained(folder)(
        words, is_split_into_words=True, return_tensors="pt"
    )
    with torch.no_grad():
        states = torch.stack(model(**encoded, output_hidden_states=True).hidden_states)[:, 0]
    return states[:, [encoded.word_ids(0).index(word) for word in range(len(words))]]


def test_rows_are_those_of_transformers_own_initialisation(places):
    entry = make(places, 3)
    words = list(entry.examples.words(1))
    start = int(entry.examples.row_start[1])
    found = entry.arrays["words"].read(slice(start, start + len(words)))
    expected = reference(places[0], 3, words).transpose(0, 1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_entries_lie_under_a_name_of_their_own(places):
    trained, zero, one = (make(places, seed) for seed in (None, 0, 1))
    assert [entry.manifest.model for entry in (trained, zero, one)] == [
        "model", "model-random0", "model-random1",
    ]  # fmt: skip
    identities = [entry.manifest.request["model"] for entry in (trained, zero, one)]
    assert [identity["random_init"] for identity in identities] == [None, 0, 1]
    assert len({identity["weights"] for identity in identities}) == 3
    splits = open_features("model-random1", str(places[1]), "2", Location(cache=places[2]))
    assert splits.entries["train"].path == one.path


def test_verify_draws_the_same_weights_again(places):
    assert verify_rows(make(places, 5), 40).passed


def test_the_global_random_state_is_left_alone(places):
    inspection = inspect_backbone(str(places[0]), random_init=7)
    torch.manual_seed(11)
    expected = torch.randn(3)
    torch.manual_seed(11)
    half, whole = (
        load_backbone(inspection, compute_dtype=dtype).model for dtype in ("bfloat16", "float32")
    )
    assert torch.equal(torch.randn(3), expected)
    names = [name for name, module in whole.named_modules() if hasattr(module, "weight")]
    assert len(names) > 10
    for name in names:
        rounded = whole.get_submodule(name).weight.bfloat16()
        assert torch.equal(half.get_submodule(name).weight, rounded)
    others = half.state_dict()
    assert all(
        torch.equal(others[name].float(), value.bfloat16().float())
        for name, value in whole.state_dict().items()
    )


def test_no_weights_are_read(places, tmp_path):
    model, corpus, _ = places
    bare = tmp_path / "model"
    bare.mkdir()
    for path in model.iterdir():
        if path.suffix != ".safetensors":
            (bare / path.name).write_bytes(path.read_bytes())
    with pytest.raises(BackboneError, match="weights"):
        inspect_backbone(str(bare))
    found, original = make((bare, corpus, tmp_path / "cache"), 3), make(places, 3)
    assert found.manifest.key == original.manifest.key
    rows = slice(0, 30)
    assert torch.equal(found.arrays["words"].read(rows), original.arrays["words"].read(rows))


def test_another_configuration_draws_other_weights(places, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in places[0].iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    config = json.loads((copy / "config.json").read_text("utf-8"))
    (copy / "config.json").write_text(json.dumps(config | {"initializer_range": 0.5}), "utf-8")
    one, other = (inspect_backbone(str(f), random_init=0).info for f in (places[0], copy))
    assert one.identity.weights != other.identity.weights


def test_a_seed_is_not_negative():
    with pytest.raises(OptionError, match="--random-init -1: a seed is 0 or more"):
        ExtractOptions(random_init=-1)
