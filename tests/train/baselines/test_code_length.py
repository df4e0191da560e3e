"""The online code against a code length recomputed block by block."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from probekit.base.numbers import numpy_generator
from probekit.base.selection import Selection
from probekit.metrics import METRICS
from probekit.train.baselines.baseline_records import SHARES, CodeLength, block_ends, online_code
from probekit.train.fit import fit_group
from probekit.train.option_groups import Steps
from probekit.train.stream import StreamSpec
from tests.train import grouped
from tests.train.grouped import splits_in

PERPLEXITY = METRICS["perplexity"]
STEPS = Steps(epochs=4, batch_size=4, evals=3)
TRAINING = {"seed": 3, "steps": STEPS}


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return splits_in(tmp_path_factory.mktemp("cache"))


def member(head="last", decoder="linear", layers=(3,), lr=2e-2):
    return grouped.member(head, decoder, layers, lr=lr)


def views(splits):
    return splits.view("train", valid_only=True), splits.view("dev")


def code(splits, *members, **options):
    train, dev = views(splits)
    options = {"n_classes": len(splits.train_classes)} | TRAINING | options
    return online_code(members, train, dev, **options)


def bits_by_hand(train, dev, one, ends):
    """Code length in bits: the probabilities of each block by a probe of those before it.

    Laplace's rule tells classes that were not sent before; blocks of one class are sent uniformly.
    """
    order = numpy_generator(3, "online code").permutation(train.n_examples)
    bits, n_new = 0.0, 0
    for start, stop in itertools.pairwise([0, *ends]):
        sent, following = train.take(order[:start]), train.take(order[start:stop])
        known = sorted(set(sent.targets.tolist()))
        if len(known) < 2:
            bits += len(following) * math.log2(5)
            continue
        stream = StreamSpec(train=sent, members=(one,), **TRAINING)
        (result,) = fit_group([stream], dev, metric=PERPLEXITY)[0]
        rows = following.array.read(torch.from_numpy(following.rows), [3])[:, 0]
        logits = (rows @ result.state["decoder.weight"].T + result.state["decoder.bias"]).double()
        solved = one.fitter == "lbfgs"  # else a class that was not sent has a score as well
        chances = (logits[:, known] if solved else logits).softmax(1).tolist()
        share_new = (5 - len(known)) / (len(sent) + 5) if solved else 0
        for target, chance in zip(following.targets.tolist(), chances, strict=True):
            if solved and target not in known:
                bits, n_new = bits - math.log2(share_new / (5 - len(known))), n_new + 1
            else:
                place = known.index(target) if solved else target
                bits -= math.log2(chance[place] * (1 - share_new))
    return bits, n_new


@pytest.mark.parametrize("fitter", ["adam", "lbfgs"])
def test_bits_equal_those_recomputed_from_probabilities(splits, fitter):
    """A solved probe sends new classes by Laplace's rule."""
    one, (train, dev) = member(), views(splits)
    asked = one
    if fitter == "lbfgs":
        one = replace(one, fitter="lbfgs", select=Selection("dev"))
        asked = replace(one, select=Selection.parse("cv:5"))  # for which blocks are too small
        order = numpy_generator(3, "online code").permutation(train.n_examples)
        late = train.places(order[train.n_examples // 2 :])
        targets, others = train.targets.copy(), np.setdiff1d(np.arange(len(train)), late)
        targets[others[targets[others] == 1]] = 4  # class 1 is in the later blocks alone
        train = replace(train, targets=targets)
    (found,) = online_code([asked], train, dev, n_classes=5, **TRAINING)
    ends = sorted({max(1, round(share * train.n_examples)) for share in SHARES})
    bits, n_new = bits_by_hand(train, dev, one, ends)
    assert found.bits == pytest.approx(bits, rel=1e-4) and (n_new > 0) == (fitter == "lbfgs")
    assert found.n_rows == len(train)
    assert found.uniform_bits == pytest.approx(len(train) * math.log2(5))
    assert found.compression == found.uniform_bits / found.bits
    assert found.bits_per_row == found.bits / len(train)


def test_a_member_costs_the_same_alone_and_beside_others(splits):
    members = [member(), member("mean", decoder="crf"), member(lr=1e-4)]
    together = code(splits, *members)
    assert len({one.bits for one in together}) == len(members)
    for one, found in zip(members, together, strict=True):
        assert code(splits, one) == [found]
    assert together[1].compression > 1.2, "a CRF sends sentences"


def test_memory_changes_nothing_and_the_seed_does(splits):
    whole = code(splits, member())
    assert code(splits, member(), memory=0) == whole
    assert code(splits, member(), seed=4) != whole


def test_a_probe_that_diverges_says_so(splits):
    sound, endless = code(splits, member(), member(lr=1e38))
    assert endless.diverged and not sound.diverged
    assert endless.bits > 1e100 and endless.compression >= 0


def test_sentences_that_lost_all_their_words_cost_nothing(tmp_path):
    # The first block is one sentence: half of them are empty, so some seed would train on none.
    splits = splits_in(tmp_path, invalid=0.8)
    train, _ = views(splits)
    assert (train.lengths == 0).sum() > 5
    for seed in range(2):
        (found,) = code(splits, member(), seed=seed, steps=replace(STEPS, epochs=1))
        assert np.isfinite(found.bits) and 0.3 < found.compression < 3


def test_a_single_class_has_nothing_to_send(tmp_path):
    splits = splits_in(tmp_path, names=("O",))
    (found,) = code(splits, member(), steps=replace(STEPS, epochs=1))
    assert (found.bits, found.uniform_bits, found.compression) == (0, 0, 1)


@given(st.integers(1, 200_000))
def test_blocks_cover_every_example_once(n):
    ends = block_ends(n)
    assert ends[-1] == n and ends[0] >= 1
    assert (np.diff(ends) > 0).all()
    assert len(ends) <= len(SHARES)
    assert block_ends(1000) == [1, 2, 4, 8, 16, 32, 62, 125, 250, 500, 1000]


def test_one_example_is_sent_uniformly(splits):
    train, dev = views(splits)
    one = train.take(np.array([4]))
    (found,) = online_code([member()], one, dev, n_classes=5, **TRAINING)
    assert found == CodeLength(
        bits=pytest.approx(len(one) * math.log2(5)),
        uniform_bits=len(one) * math.log2(5),
        n_rows=len(one),
    )
