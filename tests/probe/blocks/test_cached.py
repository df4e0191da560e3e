"""Blocks over the cache equal the same blocks over the live backbone; real models."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModel, MPNetConfig, MPNetModel

from probekit.extraction import ExtractOptions, extract
from probekit.probe.heads.contract import BackboneFacts
from probekit.probe.heads.extra_layers import ExtraLayers
from probekit.store.entry import Entry
from tests import tiny
from tests.extraction.corpus import write_corpus

LONGEST = 16


def build_mpnet(folder: Path) -> Path:
    """MPNet with BERT's tokenizer, whose padding id is moved to where MPNet always has it."""
    tokenizer = tiny.build_tokenizer("bert")
    tokenizer.model_max_length = 64
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    config = MPNetConfig(**sizes, num_hidden_layers=2, vocab_size=len(tokenizer))
    with torch.random.fork_rng(devices=[]):
        MPNetModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["mpnet", "llama"])
def backbone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    return build_mpnet(folder) if request.param == "mpnet" else tiny.build(request.param, folder)


def extracted(model: Path, cache: Path) -> Entry:
    corpus = write_corpus(cache / "corpus", sentences=12, longest=30)
    options = ExtractOptions(compute_dtype="float32", dtype="float32", max_length=LONGEST)
    (entry,) = extract(
        str(model), str(corpus), kind="tagging", label="2", splits=["train"],
        cache=cache / "cache", options=options, device="cpu",
    )  # fmt: skip
    return entry


def live_states(model: Path, entry: Entry) -> tuple[Tensor, Tensor]:
    """The last layer of every window, run one by one by transformers alone, and their lengths."""
    network = AutoModel.from_pretrained(model).eval()
    ids = torch.tensor([int(i) for i in entry.examples.flat("subwords")])
    lengths = torch.tensor([int(n) for n in entry.examples.flat("windows")])
    with torch.no_grad():
        states = [
            network(window[None], output_hidden_states=True).hidden_states[-1][0]
            for window in ids.split(lengths.tolist())
        ]
    return torch.cat(states), lengths


def test_cached_rows_give_what_the_live_backbone_gives(backbone: Path, tmp_path: Path) -> None:
    entry = extracted(backbone, tmp_path)
    examples = entry.examples
    places = [
        torch.arange(start, start + count)
        for start, count in zip(examples.token_start, examples.n_tokens, strict=True)
    ]
    cached = entry.arrays["tokens"].read(torch.cat(places))[:, 0]
    live, lengths = live_states(backbone, entry)
    assert lengths.max() == LONGEST and len(lengths) > len(examples)  # some texts took several

    config = json.loads((entry.path / "backbone" / "config.json").read_text())
    config["initializer_range"] = 0.3  # blocks that do something
    manifest = entry.manifest
    facts = BackboneFacts(n_blocks=manifest.n_blocks, dim=manifest.dim, config=config)
    spec = ExtraLayers(n=2).bind(facts)
    head = spec.build((manifest.n_blocks,), manifest.dim, torch.Generator().manual_seed(0))
    with torch.no_grad():
        found, expected = head.transform(cached, lengths), head.transform(live, lengths)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert (expected - live).abs().max() > 0.1
