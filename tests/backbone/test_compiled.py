"""Compiled blocks: the same hidden states, one program for all shapes, failures in words."""

import pytest
import torch

from probekit.backbone import inspect_backbone, load_backbone
from probekit.errors import OptionError

BATCHES = (((9, 9, 9), 9), ((12, 7), 12), ((4, 3, 2, 1), 6), ((15,), 15))
"""Lengths and padded width: without padding, with some, with nothing but padding, a single row."""


def _batch(lengths, width, vocabulary):
    generator = torch.Generator().manual_seed(width)
    return torch.randint(0, vocabulary, (len(lengths), width), generator=generator)


@pytest.fixture(scope="module", params=["bert", pytest.param("llama", marks=pytest.mark.slow)])
def pair(request, tiny_folder):
    inspection = inspect_backbone(str(tiny_folder(request.param)))
    return tuple(
        load_backbone(inspection, compute_dtype="float32", compile=compiled)
        for compiled in (False, True)
    )


def test_compiled_blocks_return_the_same_states(pair):
    plain, compiled = pair
    assert (plain.compiled, compiled.compiled) == (False, True)
    for lengths, width in BATCHES:
        ids = _batch(lengths, width, plain.info.vocab_size)
        sizes = torch.tensor(lengths)
        states = zip(plain.layers(ids, sizes), compiled.layers(ids, sizes), strict=True)
        for expected, found in states:
            for row, length in enumerate(lengths):
                torch.testing.assert_close(
                    found[row, :length], expected[row, :length], rtol=1e-4, atol=1e-5
                )


def test_the_final_norm_is_that_of_the_plain_model(pair):
    plain, compiled = pair
    assert (compiled.final_norm is None) == (plain.final_norm is None) == (not plain.info.causal)
    if plain.final_norm is not None:
        rows = torch.randn(3, plain.info.dim, generator=torch.Generator().manual_seed(0))
        assert torch.equal(compiled.final_norm(rows), plain.final_norm(rows))


def test_another_shape_is_not_compiled_again(pair):
    _, compiled = pair
    with torch.compiler.set_stance("fail_on_recompile"):
        for lengths, width in (((11, 10), 11), ((8, 8, 8, 8, 8), 8), ((13, 2, 1), 14)):
            ids = _batch(lengths, width, compiled.info.vocab_size)
            compiled.layers(ids, torch.tensor(lengths))


def test_the_setting_of_torch_s_compiler_is_left_as_it_was(pair):
    before = torch._inductor.config.freezing, torch._dynamo.config.recompile_limit
    _, compiled = pair
    compiled.layers(_batch((5, 4), 5, compiled.info.vocab_size), torch.tensor([5, 4]))
    assert (torch._inductor.config.freezing, torch._dynamo.config.recompile_limit) == before


def test_a_compiler_that_fails_is_explained_before_any_work(tiny_folder, monkeypatch):
    def refuse(function, **options):
        def call(*arguments, **named):
            raise RuntimeError("No working C++ compiler found\nsecond line" + 50 * " and more")

        return call

    monkeypatch.setattr(torch, "compile", refuse)
    inspection = inspect_backbone(str(tiny_folder("bert")))
    with pytest.raises(OptionError) as caught:
        load_backbone(inspection, compute_dtype="float32", compile=True)
    assert "(RuntimeError: No working C++ compiler found second line and more" in str(caught.value)
    assert "Leave --compile out" in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_a_model_without_blocks_is_refused(tiny_folder, monkeypatch):
    monkeypatch.setattr("probekit.backbone.compiled._blocks", lambda model: [])
    inspection = inspect_backbone(str(tiny_folder("bert")))
    with pytest.raises(OptionError, match=r"BertModel has no list of blocks.*Leave it out"):
        load_backbone(inspection, compute_dtype="float32", compile=True)
