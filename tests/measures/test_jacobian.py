"""Jacobian lenses, against finite differences and plain automatic differentiation."""

import multiprocessing

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import (
    AutoModelForCausalLM,
    GPTNeoXForCausalLM,
    LlamaForCausalLM,
    Olmo2ForCausalLM,
    Qwen3ForCausalLM,
)

from probekit import Location, lens, lens_of_text
from probekit.data.encoded import encoded_of
from probekit.errors import BackboneError, DataError, MissingFileError, OptionError, StorageError
from probekit.measures import jacobian
from probekit.measures.lens_maps import Lens
from tests import tiny
from tests.cli.console import done, refused
from tests.extraction.extracted import entries_of
from tests.extraction.passages import passages
from tests.random_models import save_random

OWN = {"kind": "language-modelling", "label": None, "max_length": 32}
FAMILIES = {
    "llama": LlamaForCausalLM,
    "gpt_neox": GPTNeoXForCausalLM,
    "qwen3": Qwen3ForCausalLM,
    "olmo2": Olmo2ForCausalLM,
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for split in ("train", "test"):
        (folder / f"{split}.txt").write_text("\n\n".join(passages(6)) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def cached(texts, tmp_path_factory):
    """Return a family's model, its entry of train, and where both splits are cached."""
    made = {}

    def of(family):
        if family not in made:
            cache = tmp_path_factory.mktemp(family)
            own = {"head_dim": 8, "num_key_value_heads": 2} if family == "qwen3" else {}
            folder = save_random(
                family, cache / "model", tokenizer="llama", model_class=FAMILIES[family], **own
            )
            entry, _ = entries_of(folder, texts, cache, ("train", "test"), **OWN)
            made[family] = folder, entry, Location(cache=cache, kind=OWN["kind"])
        return made[family]

    return of


def fitted(entry, **options):
    asked = {"rows": None, "seed": 0, "save": None, "device": "cpu", "progress": False}
    return jacobian.fit_jacobian(entry, **asked | options)


def windows(entry):
    split = encoded_of(entry.examples)
    parts = np.split(split.subwords, split.window_bounds[1:-1])
    return [torch.from_numpy(part).long() for part in parts if len(part) > jacobian.SKIPPED]


def into_norm(model, ids, layer, moved):
    """Return what goes into the final norm when a block's output is moved."""
    caught = {}
    base = model.base_model
    blocks = next(m for m in base.modules() if isinstance(m, torch.nn.ModuleList))
    norm = [m for n, m in base.named_children() if "norm" in type(m).__name__.lower()][-1]

    def move(block, given, made):
        first = made[0] if isinstance(made, tuple) else made
        first = first + moved
        return (first, *made[1:]) if isinstance(made, tuple) else first

    def catch(norm, given):
        caught["last"] = given[0]

    with blocks[layer - 1].register_forward_hook(move), norm.register_forward_pre_hook(catch):
        model(ids)
    return caught["last"][0]


@pytest.mark.parametrize("family", FAMILIES)
def test_jacobians_are_those_of_finite_differences(family, cached):
    folder, entry, _ = cached(family)
    model = AutoModelForCausalLM.from_pretrained(folder).double().eval()
    found = fitted(entry)
    texts, start = windows(entry), jacobian.SKIPPED
    assert set(found.translators) == {1, 2} and entry.manifest.n_blocks == 3
    generator = torch.Generator().manual_seed(0)
    for layer, (weight, bias) in found.translators.items():
        direction = torch.randn(entry.manifest.dim, generator=generator).double()
        wanted = torch.zeros_like(direction)
        step = 1e-4 * direction / direction.norm()
        for ids in texts:
            for place in range(start, len(ids)):
                moved = torch.zeros(1, len(ids), len(step), dtype=torch.float64)
                moved[0, place] = step
                with torch.no_grad():
                    up, down = (
                        into_norm(model, ids[None], layer, sign * moved) for sign in (1, -1)
                    )
                change = (up - down)[start:].sum(0) / 2e-4 * direction.norm()
                wanted += change / (len(ids) - start) / len(texts)
        got = (direction + weight.double() @ direction).float()
        assert not bias.any()
        assert torch.linalg.norm(got - wanted) < 0.02 * torch.linalg.norm(wanted), layer


def test_the_lens_reads_what_its_jacobian_makes(cached, texts, tmp_path):
    folder, entry, location = cached("llama")
    options = {"location": location, "rows": None}
    found = lens(folder, texts, lens="jacobian", save=tmp_path, **options)
    assert found.lens == "jacobian" and [one.layer for one in found.layers] == [1, 2, 3]
    state = torch.load(tmp_path / "jacobian_lens.pt", weights_only=True)
    assert state["source_layers"] == [0, 1] and state["n_prompts"] == len(windows(entry))
    assert [file.name for file in tmp_path.iterdir()] == ["jacobian_lens.pt"]
    again = lens(folder, texts, lens=str(tmp_path), **options)
    assert again.layers == found.layers and again.lens == str(tmp_path)
    with pytest.raises(OptionError, match=r"--layers 0: lens .* maps only for layers 1, 2"):
        lens(folder, texts, lens=str(tmp_path), layers="0,1", **options)
    text = lens_of_text(folder, "one two three", lens=str(tmp_path))
    assert [one.layer for one in text.positions[0]] == [1, 2, 3]
    h = torch.randn(5, entry.manifest.dim)
    made = Lens.load(tmp_path, 3, entry.manifest.dim)
    assert torch.allclose(made(2, h), h @ state["J"][1].float().T, atol=1e-5)


@pytest.mark.parametrize("form", ["J", "parameters", "safetensors", "half"])
def test_published_forms_are_read(form, tmp_path):
    maps = {n: torch.randn(8, 8) for n in (0, 2)}
    path = tmp_path / ("lens.safetensors" if form == "safetensors" else "lens.pt")
    if form == "safetensors":
        save_file({f"layers.{n}": one for n, one in maps.items()}, path)
    elif form == "parameters":
        torch.save({"parameters": {"jacobians": maps}, "version": 2}, path)
    else:
        cast = {n: one.half() if form == "half" else one for n, one in maps.items()}
        torch.save({"J": cast, "n_prompts": 3, "d_model": 8}, path)
    made = Lens.load(path, 4, 8)
    assert set(made.translators) == {1, 3} and made.partial
    h = torch.randn(5, 8)
    for block, matrix in maps.items():
        assert torch.allclose(
            made(block + 1, h), h @ matrix.T, atol=2e-2 if form == "half" else 1e-5
        )


def test_what_is_no_lens_is_said(tmp_path):
    odd = {
        "list.pt": [1], "empty.pt": {}, "deep.pt": {"J": {9: torch.eye(8)}},
        "negative.pt": {"J": {-1: torch.eye(8)}},
        "twice.pt": {"J.0": torch.eye(8), "K.0": torch.eye(8)}, "of-list.pt": {"J": [torch.eye(8)]},
        "complex.pt": {"J": {0: torch.eye(8, dtype=torch.complex64)}},
        "vector.pt": {"J": {0: torch.ones(8)}}, "more.pt": {"J.0": torch.eye(8), "notes": "no"},
        "heads.pt": {"layers.0.head.1": torch.eye(8), "layers.0.head.2": torch.eye(8)},
    }  # fmt: skip
    for name, content in odd.items():
        torch.save(content, tmp_path / name)
        with pytest.raises(OptionError, match=r"is no lens|fitted on this model"):
            Lens.load(tmp_path / name, 4, 8)
    (tmp_path / "text.safetensors").write_text("no")
    with pytest.raises(OptionError, match="is no lens"):
        Lens.load(tmp_path / "text.safetensors", 4, 8)
    torch.save({"J": {0: torch.full((8, 8), torch.inf)}}, tmp_path / "inf.pt")
    with pytest.raises(OptionError, match="not finite"):
        Lens.load(tmp_path / "inf.pt", 4, 8)
    with pytest.raises(MissingFileError, match="there is no"):
        Lens.load(tmp_path / "none.pt", 4, 8)


def test_a_killed_fit_goes_on(cached, tmp_path, monkeypatch):
    _, entry, _ = cached("llama")
    whole, of_text, read = fitted(entry, save=tmp_path / "whole"), jacobian._text_jacobians, []

    def dying(backbone, ids, layers):
        if len(read) == 2:
            raise KeyboardInterrupt
        read.append(ids)
        return of_text(backbone, ids, layers)

    monkeypatch.setattr(jacobian, "_text_jacobians", dying)
    with pytest.raises(KeyboardInterrupt):
        fitted(entry, save=tmp_path / "killed")
    read.append(None)
    again = fitted(entry, save=tmp_path / "killed")
    assert len(read) == len(windows(entry)) + 1, "finished texts were read again"
    for layer, (weight, _) in whole.translators.items():
        assert torch.allclose(weight, again.translators[layer][0], atol=1e-3)
    fitted(entry, save=tmp_path / "killed")
    assert len(read) == len(windows(entry)) + 1, "a complete lens was fitted again"


def _fit(entry, folder, started):
    started.wait()
    fitted(entry, save=folder)


def test_processes_share_the_texts(cached, tmp_path, monkeypatch):
    _, entry, _ = cached("llama")
    whole = fitted(entry)
    monkeypatch.setattr(jacobian, "_PAUSE", 0.02)
    context = multiprocessing.get_context("fork")
    started = context.Barrier(2)
    workers = [context.Process(target=_fit, args=(entry, tmp_path, started)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    made = Lens.load(tmp_path, 3, entry.manifest.dim)
    for layer, (weight, _) in whole.translators.items():
        assert torch.allclose(weight, made.translators[layer][0], atol=1e-3)
    assert [file.name for file in tmp_path.iterdir()] == ["jacobian_lens.pt"]


def test_no_other_lens_is_overwritten(cached, texts, tmp_path):
    folder, entry, location = cached("llama")
    for name, content in (("pub", {"J": {0: torch.eye(32)}}), ("odd", [1])):
        (tmp_path / name).mkdir()
        torch.save(content, tmp_path / name / "jacobian_lens.pt")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "jacobian_lens.pt").write_text("no lens")
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "params.pt").touch()
    for name in ("pub", "odd", "text", "tuned"):
        with pytest.raises(OptionError, match="already holds another lens"):
            fitted(entry, save=tmp_path / name)
    with pytest.raises(OptionError, match="already holds another lens"):
        lens(folder, texts, lens="tuned", rows=None, location=location, save=tmp_path / "pub")
    with pytest.raises(OptionError, match="has maps from layer 1 on"):
        lens(folder, texts, lens="jacobian", layers="0,1", location=location)


def test_sums_that_are_damaged_are_named(cached, tmp_path, monkeypatch):
    _, entry, _ = cached("llama")
    key = jacobian.digest([entry.manifest.key, None, 0])[:12]
    damaged = tmp_path / f"jacobian-{key}" / "0.sum"
    damaged.parent.mkdir()
    for content in (b"", b"no sum"):
        damaged.write_bytes(content)
        with pytest.raises(StorageError, match=r"0\.sum is damaged .* Remove it"):
            fitted(entry, save=tmp_path)
    damaged.unlink()
    huge = lambda backbone, ids, layers: torch.full((len(layers), 32, 32), 1e6)  # noqa: E731
    monkeypatch.setattr(jacobian, "_text_jacobians", huge)
    assert (fitted(entry, save=tmp_path).translators[2][0] > 9e5).all(), "too large for half"


def test_rows_choose_texts(cached):
    _, entry, _ = cached("llama")
    few = jacobian._drawn(entry, 20, 0)
    assert sum(len(ids) - jacobian.SKIPPED for ids in few[:-1]) < 20
    assert sum(len(ids) - jacobian.SKIPPED for ids in few) >= 20
    assert [ids.tolist() for ids in few] == [ids.tolist() for ids in jacobian._drawn(entry, 20, 0)]
    assert len(jacobian._drawn(entry, None, 0)) == len(windows(entry))


def test_models_and_texts_without_a_lens_are_refused(texts, cached, tmp_path, monkeypatch):
    encoder = tiny.build("bert", tmp_path / "bert")
    (entry,) = entries_of(encoder, texts, tmp_path, ("train",), tie="input", **OWN)
    with pytest.raises(BackboneError, match=r"is not causal.*--lens tuned"):
        fitted(entry)
    folder, entry, location = cached("llama")
    monkeypatch.setattr(jacobian, "SKIPPED", 40)
    with pytest.raises(DataError, match="Extract longer texts"):
        fitted(entry)
    with pytest.raises(OptionError, match="score another split"):
        lens(folder, texts, lens="jacobian", fit_on="test", location=location)


def test_the_command_fits_and_reads_it(cached, texts, tmp_path):
    folder, _, location = cached("llama")
    shared = (folder, texts, "--cache", location.cache, "--rows", "40", "--layers", "1,-1")
    said = done("lens", *shared, "--lens", "jacobian", "--save", tmp_path).out
    assert "jacobian lens, " in said
    assert str(tmp_path) in done("lens", folder, "one two", "--lens", tmp_path).out
    assert "give the folder that --save wrote" in refused(
        "lens", folder, "a b", "--lens", "jacobian"
    )
