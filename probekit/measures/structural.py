"""Structural probes: a linear map under which squared distances are those of a tree.

Hewitt & Manning 2019: sections 2.2 (distances) and 2.3 (depths), trained as in appendix A.1.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int64, Shaped
from torch import Tensor

from probekit.base.layers import parse_layers
from probekit.base.machine import pick_device
from probekit.base.notices import ProgressBar
from probekit.base.numbers import numpy_generator, torch_generator
from probekit.base.registry import PathName
from probekit.errors import DataError, OptionError, UnknownNameError
from probekit.features import FeatureView, Location, Splits, open_features
from probekit.features.rows import labels_of, layer_rows
from probekit.measures.trees import (
    Tree,
    chain_edges,
    distance_correlation,
    over_lengths,
    spanning_edges,
    spearman,
)
from probekit.results.comparison.resampling import Bootstrap, Groups
from probekit.results.layer_scores import LayerStructure, Structure
from probekit.tasks.spans import head_number

RANK, BATCH, EPOCHS, RATE = 128, 20, 40, 1e-3
"""Rows of the map; sentences of a step; epochs at most; Adam's rate at first."""

_DECAY, _DECAYS, _LEAST_GAIN = 0.1, 3, 1e-4
"""The rate is multiplied by the first after each epoch that improves the loss on dev by less than
the third (relative). After as many of these as the second says, the next one ends training."""

HEAD, TAG, PUNCTUATION = "head", "upos", "PUNCT"

Form = Literal["distance", "depth"]


class _Split(NamedTuple):
    """The sentences of a split that have a tree and all rows."""

    view: FeatureView
    trees: Sequence[Tree]
    rows: Sequence[Int64[np.ndarray, " n"]]
    groups: Groups
    left_out: int


class _Batch(NamedTuple):
    """Sentences side by side, padded: rows, what is to be predicted, the weight of each loss."""

    states: Float[Tensor, "b n dim"]
    targets: Float[Tensor, "b n ..."]
    weights: Float[Tensor, "b n ..."]


def structure(
    model: PathName,
    task: PathName,
    *,
    layers: str = "all",
    rank: int = RANK,
    epochs: int = EPOCHS,
    seed: int = 0,
    split: str | None = None,
    location: Location | None = None,
    device: str = "auto",
    progress: bool = False,
) -> Structure:
    """Train a structural probe of distances and one of depths at every layer, and score them.

    Args:
        model: the backbone, or the path of an entry.
        task: of words, with the label columns ``head`` and, for punctuation, ``upos``.
        layers: which layers.
        rank: rows of the maps.
        epochs: passes over train, at most.
        seed: of the maps and of the order.
        split: what is scored; None is test where it is labelled, else dev.
        location: where entries and labels lie.
        device: what computes.
        progress: show progress on stderr.

    Raises:
        OptionError: a number or layer cannot be used.
        EntryNotFoundError: the cache does not hold the features.
        DataError: a split has no sentence with a tree.
    """
    if rank < 1 or epochs < 1:
        raise OptionError(f"--rank and --epochs must be 1 or more; found {rank} and {epochs}.")
    features = open_features(model, task, HEAD, location)
    tags = _tags(model, task, location)
    scored = split or ("test" if "test" in features.labels else "dev")
    splits = {name: _read(features, tags, name) for name in {"train", "dev", scored}}
    chosen = parse_layers(layers, features.manifest.n_blocks)
    where, found = torch.device(pick_device(device)), []
    with ProgressBar(total=2 * len(chosen), desc="maps", unit="map", shown=progress) as bar:
        for layer in chosen:
            rows = {name: layer_rows(part.view, layer).X for name, part in splits.items()}
            fits = []
            for form in ("distance", "depth"):
                fits.append(_fit(form, splits, rows, rank, epochs, seed, where))
                bar.report(1)
            found.append(_score(layer, fits, splits, rows, scored))
    return _compared(found, features, splits, scored, rank, punctuation=tags is None)


def _tags(model: PathName, task: PathName, location: Location | None) -> Splits | None:
    """Return the parts of speech of a task, by which punctuation is known; None without any."""
    try:
        return open_features(model, task, TAG, location)
    except (DataError, UnknownNameError):
        return None


def _words_of(view: FeatureView) -> list[tuple[int, int]]:
    """Return the example of each word, and its place there."""
    return list(zip(view.owners.tolist(), view.word_places.tolist(), strict=True))


def _read(features: Splits, tags: Splits | None, split: str) -> _Split:
    """Return the sentences of a split with their trees.

    Raises:
        DataError: none has a tree.
    """
    view = features.view(split, valid_only=True)
    heads = labels_of(view)
    counted = np.ones(len(view), bool)
    if tags is not None:
        tagged = tags.view(split, valid_only=True)  # which may lack other words than heads do
        told = dict(zip(_words_of(tagged), labels_of(tagged) != PUNCTUATION, strict=True))
        counted = np.array([told.get(word, True) for word in _words_of(view)], bool)
    places, trees, rows, kept = view.word_places, [], [], []
    for example, (start, stop) in enumerate(zip(view.offsets[:-1], view.offsets[1:], strict=True)):
        words = slice(int(start), int(stop))
        whole = np.array_equal(places[words], np.arange(stop - start))
        numbers = map(head_number, heads[words].tolist())
        given = [number for number in numbers if number is not None]
        tree = Tree.of(given, counted[words]) if whole and len(given) == stop - start else None
        if tree is not None and tree.counted.any():
            trees.append(tree)
            rows.append(np.arange(start, stop))
            kept.append(example)
    if not trees:
        raise DataError(
            f"no {split} sentence of {features.task.name} has a dependency tree in its column "
            f"{HEAD!r}. Extract it again if it was extracted by an earlier version."
        )
    groups = Groups(len(trees))
    if (shared := view.resampled) is not None:
        names = [shared.names[position] for position in view.positions[kept].tolist()]
        groups = Groups.named(len(trees), names, shared.column)
    return _Split(view, trees, rows, groups, view.n_examples - len(trees))


def _batches(
    part: _Split, rows: Float32[np.ndarray, "words dim"], form: Form, device: torch.device
) -> list[_Batch]:
    """Return padded batches of sentences of mixed lengths, the same in every epoch.

    A sentence's weights sum to 1: over the squares of its pairs, or its words (equation 3).
    """
    order = numpy_generator(0, "batches").permutation(len(part.rows)).tolist()
    batches = []
    for start in range(0, len(order), BATCH):
        members = order[start : start + BATCH]
        longest = max(len(part.rows[n]) for n in members)
        shape = (len(members), longest, longest) if form == "distance" else (len(members), longest)
        states = np.zeros((len(members), longest, rows.shape[1]), np.float32)
        targets, weights = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        for place, n in enumerate(members):
            size, tree = len(part.rows[n]), part.trees[n]
            states[place, :size] = rows[part.rows[n]]
            if form == "distance":
                targets[place, :size, :size] = tree.distances
                weights[place, :size, :size] = size**-2
            else:
                targets[place, :size], weights[place, :size] = tree.depths, 1 / size
        tensors = (torch.from_numpy(values).to(device) for values in (states, targets, weights))
        batches.append(_Batch(*tensors))
    return batches


def _predicted(
    form: Form, states: Float[Tensor, "*b n dim"], weight: Float[Tensor, "rank dim"]
) -> Float[Tensor, "..."]:
    """Return squared distances between all words of a sentence, or their squared norms."""
    mapped = states @ weight.t()
    norms = mapped.square().sum(-1)
    if form == "depth":
        return norms
    products = mapped @ mapped.transpose(-1, -2)
    return norms.unsqueeze(-1) + norms.unsqueeze(-2) - 2 * products


def _fit(
    form: Form,
    splits: dict[str, _Split],
    rows: dict[str, Float32[np.ndarray, "words dim"]],
    rank: int,
    epochs: int,
    seed: int,
    device: torch.device,
) -> tuple[Float[Tensor, "rank dim"], bool]:
    """Train a map by Adam; return that with the least loss on dev, and whether it had converged."""
    dim = rows["train"].shape[1]
    weight = torch.empty(rank, dim).uniform_(-0.05, 0.05, generator=torch_generator(seed, form))
    weight = weight.to(device).requires_grad_()
    best, least, rate, lowered = weight.detach().clone(), math.inf, RATE, 0
    optimizer = torch.optim.Adam([weight], lr=rate)

    train, dev = (_batches(splits[name], rows[name], form, device) for name in ("train", "dev"))

    def loss_of(batch: _Batch) -> Float[Tensor, ""]:
        apart = (_predicted(form, batch.states, weight) - batch.targets).abs()
        return (apart * batch.weights).sum()

    for epoch in range(epochs):
        for n in numpy_generator(seed, "order", epoch).permutation(len(train)).tolist():
            optimizer.zero_grad()
            torch.autograd.backward(loss_of(train[n]) / len(train[n].states))
            optimizer.step()
        with torch.no_grad():
            on_dev = [float(loss_of(batch)) for batch in dev]
        mean = math.fsum(on_dev) / len(splits["dev"].trees)
        improved = mean < least * (1 - _LEAST_GAIN)
        if mean < least:
            least, best = mean, weight.detach().clone()
        if not improved:
            lowered += 1
            if lowered > _DECAYS:
                return best.cpu(), True
            rate *= _DECAY
            optimizer = torch.optim.Adam([weight], lr=rate)
    return best.cpu(), False


def _over(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return the quotient, 0 where nothing is counted."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


class _Scored(NamedTuple):
    """What the maps of a layer say of each sentence of a split; of the dev split UUAS alone.

    Attributes:
        layer: its number.
        edges: right edges of each sentence, and all of them.
        values: rank correlation of distances, whether the root was found, and rank correlation of
            depths; 0 where one is undefined.
        shares: of each sentence in the mean of both correlations.
        dev_uuas: UUAS on dev.
        converged: whether both maps stopped before the last epoch.
    """

    layer: int
    edges: Int64[np.ndarray, "sentences 2"]
    values: Float64[np.ndarray, "sentences 3"]
    shares: Float64[np.ndarray, "sentences 2"]
    dev_uuas: float
    converged: bool


def _edge_counts(
    part: _Split, rows: np.ndarray, weight: Float[Tensor, "rank dim"]
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield of each sentence how many edges are right, how many there are, and the distances."""
    for tree, places in zip(part.trees, part.rows, strict=True):
        distances = _predicted("distance", torch.from_numpy(rows[places]), weight).numpy()
        gold, guessed = tree.edges, spanning_edges(distances, tree.counted)
        yield len(gold & guessed), len(gold), distances


def _score(
    layer: int,
    fits: Sequence[tuple[Float[Tensor, "rank dim"], bool]],
    splits: dict[str, _Split],
    rows: dict[str, np.ndarray],
    scored: str,
) -> _Scored:
    """Return what both maps of a layer say of the sentences of a split."""
    (near, near_done), (deep, deep_done) = fits
    part, edges, columns = splits[scored], [], []
    for (right, total, distances), tree, places in zip(
        _edge_counts(part, rows[scored], near), part.trees, part.rows, strict=True
    ):
        depths = _predicted("depth", torch.from_numpy(rows[scored][places]), deep).numpy()
        edges.append((right, total))
        but_punctuation = np.where(tree.counted, depths, np.inf)
        columns.append(
            (
                distance_correlation(tree, distances) if len(places) > 1 else math.nan,
                float(tree.heads[int(but_punctuation.argmin())] == -1),
                spearman(tree.depths, depths),
            )
        )
    values = np.array(columns)
    lengths = [len(places) for places in part.rows]
    shares = np.stack([over_lengths(lengths, values[:, n]) for n in (0, 2)], 1)
    on_dev = [(right, total) for right, total, _ in _edge_counts(splits["dev"], rows["dev"], near)]
    dev = np.array(on_dev).sum(0)
    return _Scored(
        layer, np.array(edges), np.nan_to_num(values), shares, float(dev[0] / max(dev[1], 1)),
        near_done and deep_done,
    )  # fmt: skip


def _compared(
    found: Sequence[_Scored],
    features: Splits,
    splits: dict[str, _Split],
    scored: str,
    rank: int,
    *,
    punctuation: bool,
) -> Structure:
    """Return the scores of all layers with their intervals, and how far each is behind the best."""
    groups = splits[scored].groups
    best = max(range(len(found)), key=lambda n: (found[n].dev_uuas, -n))

    def statistics(counts: Shaped[np.ndarray, "samples sentences"]) -> np.ndarray:
        uuas = [_over(*(counts @ layer.edges.astype(float)).T) for layer in found]
        columns = []
        for layer, own in zip(found, uuas, strict=True):
            near, deep = (
                _over(
                    counts @ (layer.shares[:, k] * layer.values[:, n]), counts @ layer.shares[:, k]
                )
                for k, n in ((0, 0), (1, 2))
            )
            root = counts @ layer.values[:, 1] / counts.sum(1)
            columns += [own, near, root, deep, uuas[best] - own]
        return np.stack(columns, 1)

    estimates = iter(Bootstrap(samples=2_000).estimates(groups, statistics))
    layers = []
    for n, layer in enumerate(found):
        uuas, near, root, deep, behind = itertools.islice(estimates, 5)
        layers.append(
            LayerStructure(
                layer=layer.layer, uuas=uuas, distance_spearman=near, root=root,
                depth_spearman=deep, dev_uuas=layer.dev_uuas, converged=layer.converged,
                behind=None if n == best else behind,
            )
        )  # fmt: skip
    trees = splits[scored].trees
    joined = [(len(tree.edges & chain_edges(tree.counted)), len(tree.edges)) for tree in trees]
    right, total = np.array(joined).sum(0)
    return Structure(
        model=features.manifest.model,
        task=features.task.name,
        split=scored,
        layers=layers,
        chain=float(right / max(total, 1)),
        over=groups.drawn.text,
        rank=rank,
        left_out=sum(part.left_out for part in splits.values()),
        punctuation=punctuation,
    )
