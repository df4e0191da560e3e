"""The CRF against sums and maxima over all paths, written out."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from probekit.errors import OptionError
from probekit.probe.decoders import CRF, IGNORED, UNSEEN_LOSS, Linear
from probekit.probe.decoders.crf import LARGEST, CRFDecoder, log_partition, pack
from probekit.testing.promises import seeded_generator as generator


def crf(n_tags: int, seed: int = 0, scale: float = 1.0) -> CRFDecoder:
    """A CRF in float64 with drawn transitions."""
    decoder = CRF().build(3, n_tags, generator(seed)).double().eval()
    with torch.no_grad():
        for scores in (decoder.transitions, decoder.start, decoder.end):
            scores.normal_(generator=generator(seed)).mul_(scale)
    return decoder


def bounds(lengths: list[int]) -> Tensor:
    return torch.tensor([0, *itertools.accumulate(lengths)])


def emissions_for(lengths: list[int], n_tags: int, seed: int) -> Tensor:
    return torch.randn(sum(lengths), n_tags, generator=generator(seed), dtype=torch.float64)


def score(decoder: CRFDecoder, emissions: Tensor, path: tuple[int, ...]) -> Tensor:
    total = decoder.start[path[0]] + decoder.end[path[-1]]
    total = total + sum(emissions[t, tag] for t, tag in enumerate(path))
    return total + sum(decoder.transitions[i, j] for i, j in itertools.pairwise(path))


def all_paths(n_tags: int, length: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(n_tags), repeat=length))


def agrees(path: tuple[int, ...], targets: list[int], n_tags: int) -> bool:
    return all(y == tag or not 0 <= y < n_tags for tag, y in zip(path, targets, strict=True))


def reference_loss(decoder: CRFDecoder, emissions: Tensor, targets: list[int]) -> Tensor:
    """-log p of the known tags of one sentence, over all its paths."""
    n_tags = decoder.n_classes
    scores = {path: score(decoder, emissions, path) for path in all_paths(n_tags, len(targets))}
    own = [value for path, value in scores.items() if agrees(path, targets, n_tags)]
    both = (torch.stack(values).logsumexp(0) for values in (list(scores.values()), own))
    return next(both) - next(both) + UNSEEN_LOSS * sum(y >= n_tags for y in targets)


sentences = st.lists(st.integers(0, 4), min_size=1, max_size=4)
tags = st.integers(1, 3)


@settings(max_examples=40)
@given(sentences, tags, st.integers(0, 10**6), st.sampled_from([1.0, 100.0]), st.booleans())
def test_losses_equal_the_sum_over_all_paths_and_unknown_tags_are_summed_out(
    lengths: list[int], n_tags: int, seed: int, scale: float, known: bool
) -> None:
    decoder = crf(n_tags, seed, scale)
    emissions = emissions_for(lengths, n_tags, seed + 1)
    low, high = (0, n_tags) if known else (-2, n_tags + 2)  # two that are ignored, two unseen
    gold = torch.randint(low, high, (len(emissions),), generator=generator(seed))
    gold[gold < 0] = IGNORED
    losses = decoder.row_losses(emissions, gold, bounds(lengths))
    expected = torch.zeros_like(losses)
    for a, b in itertools.pairwise(bounds(lengths).tolist()):
        if b > a:
            expected[a] = reference_loss(decoder, emissions[a:b], gold[a:b].tolist())
    torch.testing.assert_close(losses, expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@given(sentences, tags, st.integers(0, 10**6))
def test_predicts_the_best_of_all_paths_and_of_equal_ones_the_smallest_tags_from_the_end(
    lengths: list[int], n_tags: int, seed: int
) -> None:
    check_best(crf(n_tags, seed), emissions_for(lengths, n_tags, seed + 1), lengths)
    decoder = crf(n_tags, seed)
    with torch.no_grad():
        for scores in (decoder.transitions, decoder.start, decoder.end):
            scores.round_()  # whole numbers add exactly, so that equal paths are equal
    check_best(decoder, emissions_for(lengths, n_tags, seed + 1).round(), lengths)


@torch.no_grad()
def check_best(decoder: CRFDecoder, emissions: Tensor, lengths: list[int]) -> None:
    found = decoder.predict(emissions, bounds(lengths)).tolist()
    for a, b in itertools.pairwise(bounds(lengths).tolist()):
        if b > a:
            paths = all_paths(decoder.n_classes, b - a)
            best = max(
                paths, key=lambda p: (score(decoder, emissions[a:b], p), *(-y for y in p[::-1]))
            )
            assert tuple(found[a:b]) == best


@pytest.mark.parametrize("scale", [1.0, 2 * LARGEST])
def test_gradients(scale: float) -> None:
    """Both ways of summing over the tag before: by matrix product, and by logsumexp."""
    decoder, lengths = crf(3, 1), [2, 0, 4, 1]
    with torch.no_grad():
        decoder.transitions[0, 1] = scale
    emissions = emissions_for(lengths, 3, 2).requires_grad_()
    gold = torch.tensor([0, 1, 2, IGNORED, 0, 1, 2])
    values = (emissions, decoder.transitions, decoder.start, decoder.end)
    assert torch.autograd.gradcheck(
        lambda logits, *_: decoder.row_losses(logits, gold, bounds(lengths)), values
    )


def test_without_transitions_it_is_the_linear_decoder() -> None:
    decoder, linear = CRF().build(6, 5, generator(3)), Linear().build(6, 5, generator(3))
    h, gold = torch.randn(12, 6, generator=generator(1)), torch.arange(12) % 5
    logits, offsets = decoder.eval()(h), bounds([4, 7, 1])
    assert torch.equal(logits, linear.eval()(h))
    assert torch.equal(decoder.predict(logits, offsets), linear.predict(logits))
    expected = functional.cross_entropy(logits, gold)
    torch.testing.assert_close(decoder.loss(logits, gold, offsets), expected)


@pytest.mark.parametrize("size", [LARGEST, 1e4])
def test_large_scores_stay_finite_in_float32(size: float) -> None:
    """Emissions of raw decoder states and forbidding transitions, against float64."""
    decoder = crf(4, 2).float()
    with torch.no_grad():
        decoder.transitions[1] = -size
    logits = 1e3 * emissions_for([9, 4], 4, 5).float().requires_grad_()
    logits.retain_grad()
    gold = torch.tensor([1] * 13)
    losses = decoder.row_losses(logits, gold, bounds([9, 4]))
    losses.sum().backward()
    assert logits.grad is not None and logits.grad.isfinite().all()
    exact = decoder.double().row_losses(logits.detach().double(), gold, bounds([9, 4]))
    torch.testing.assert_close(losses.double(), exact, rtol=1e-5, atol=0)


def test_hidden_layers() -> None:
    assert CRF().build(6, 5, generator()).affine is not None
    deep = CRF(hidden=8).build(6, 5, generator())
    assert deep.affine is None
    n_parameters = sum(p.numel() for p in deep.parameters())
    assert n_parameters == 6 * 8 + 8 + 8 * 8 + 8 + 8 * 5 + 5 + 25 + 5 + 5
    with pytest.raises(OptionError, match="hidden"):
        CRF(hidden=-1)
    with pytest.raises(OptionError, match="dropout"):
        CRF(dropout=math.nan)


@pytest.mark.parametrize("scale", [3.0, LARGEST])
def test_marginals_are_the_gradient_of_the_partition_function(scale: float) -> None:
    """Of long sentences with many tags, whose paths nobody can list."""
    lengths, decoder = [40, 0, 17], crf(12, scale=scale)
    emissions = emissions_for(lengths, 12, 5).requires_grad_()
    packing = pack(bounds(lengths))
    chain = decoder._chain()
    log_partition(chain, emissions[packing.rows], packing).sum().backward()
    found = decoder.log_probabilities(emissions.detach(), bounds(lengths))
    torch.testing.assert_close(found.detach().exp(), emissions.grad)


def test_marginals_of_huge_emissions_and_of_no_words() -> None:
    decoder = crf(2, scale=0.0).float()
    with torch.no_grad():
        sure = decoder.log_probabilities(torch.tensor([[3e4, 0.0], [0.0, 3e4]]))
        none = decoder.log_probabilities(torch.zeros(0, 2), torch.tensor([0, 0]))
    assert sure.tolist() == [[0, -3e4], [-3e4, 0]]
    assert none.shape == (0, 2)
