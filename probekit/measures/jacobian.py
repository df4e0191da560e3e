"""Jacobian lenses, fitted by backward passes through a causal model (Gurnee et al. 2026).

The Jacobian J_i of layer i is a mean over texts. Of one text it is the mean over positions t of the
sum over positions t' >= t of ``d h(t') / d h_i(t)``, where h is the last layer before the final
norm. The first positions are left out, as in the package jlens: their states are unlike others.
"""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from filelock import FileLock, Timeout
from jaxtyping import Float, Int64
from torch import Tensor, nn

from probekit.backbone.model import Backbone, load_again
from probekit.base.fingerprint import digest
from probekit.base.notices import ProgressBar
from probekit.base.numbers import numpy_generator
from probekit.base.replacing import matching, replacing, scratch
from probekit.data.batches import TokenBatch
from probekit.data.encoded import encoded_of
from probekit.errors import BackboneError, DataError, StorageError
from probekit.measures import lens_maps
from probekit.store import Entry

SKIPPED = 16
"""Positions at the start of a text that are neither read from nor to."""

_SUBWORDS_PER_PASS = 1_024
"""A text is repeated in a pass, once for each channel whose gradient is taken."""

_LARGEST = torch.finfo(torch.float16).max

_PAUSE = 1.0
"""Seconds between looks at what other processes have finished."""


def fit_jacobian(
    entry: Entry, *, rows: int | None, seed: int, save: Path | None, device: str, progress: bool
) -> lens_maps.Lens:
    """Fit the Jacobians of all layers between the embeddings and the last one.

    With ``save``, finished texts are kept there until the lens is complete. A run that was killed
    goes on from them, and several runs at a time share the texts.

    Args:
        entry: of language modelling by a causal model, which is loaded from where it was.
        rows: texts are drawn at random until they have so many positions; None is all texts.
        seed: of the texts that are drawn.
        save: folder to write ``jacobian_lens.pt`` to.
        device: where the model runs.
        progress: show progress on stderr.

    Raises:
        BackboneError: the model is not causal, or not the one that made the entry.
        DataError: no text is long enough.
        OptionError: another lens lies in ``save``.
        StorageError: what lies there of a fit that was stopped is damaged.
    """
    about = {**entry.manifest.model_info, "apart": None}
    if not about["causal"]:
        raise BackboneError(
            f"model {entry.manifest.model} is not causal, and a Jacobian lens is defined for "
            "causal models. Use --lens tuned."
        )
    texts, layers = _drawn(entry, rows, seed), range(1, entry.manifest.n_blocks)
    with scratch() if save is None else nullcontext(save) as folder:
        work = _SharedSums(folder, digest([entry.manifest.key, rows, seed]), len(texts))
        work.check_free()
        backbone: Backbone | None = None
        with ProgressBar(total=len(texts), desc="lens", unit="text", shown=progress) as bar:
            for number in work.unfinished():
                if backbone is None:
                    backbone = load_again(
                        about, model=None, device=device, compute_dtype="float32",
                        made=str(entry.path), learns=True,
                    )  # fmt: skip
                    backbone.model.requires_grad_(requires_grad=False)
                work.add(number, _text_jacobians(backbone, texts[number], layers))
                bar.report(1)
        work.complete(layers)
        lens = lens_maps.Lens.load(folder, entry.manifest.n_blocks, entry.manifest.dim)
    return replace(lens, name=lens_maps.JACOBIAN)


def _drawn(entry: Entry, rows: int | None, seed: int) -> list[Int64[Tensor, " time"]]:
    """Return texts, as windows, in random order until they have ``rows`` positions."""
    split = encoded_of(entry.examples)
    lengths = split.window_lengths.astype(np.int64)
    order = numpy_generator(seed, "jacobian").permutation(np.flatnonzero(lengths > SKIPPED))
    if not len(order):
        raise DataError(
            f"{entry.path}: no text has more than {SKIPPED} tokens, and a Jacobian lens leaves the "
            f"first {SKIPPED} out. Extract longer texts."
        )
    positions = lengths[order] - SKIPPED
    if rows is not None:
        order = order[np.cumsum(positions) - positions < rows]
    bounds = split.window_bounds
    return [torch.from_numpy(split.subwords[bounds[n] : bounds[n + 1]]).long() for n in order]


def _text_jacobians(
    backbone: Backbone, ids: Int64[Tensor, " time"], layers: Sequence[int]
) -> Float[Tensor, "layers dim dim"]:
    """Return the Jacobians of one text; row k is the gradient of channel k.

    Raises:
        BackboneError: the last layer is not computed from the states that the model returns.
    """
    dim = backbone.info.dim
    at_once = min(max(_SUBWORDS_PER_PASS // len(ids), 1), dim)
    batch = TokenBatch(
        input_ids=ids.expand(at_once, -1),
        lengths=torch.full((at_once,), len(ids)),
        picks={},
        windows=np.zeros(at_once, np.int64),
    )
    has_norm = backbone.inspection.structure.final_norm is not None
    with torch.enable_grad(), _gradients_from_embeddings(backbone):
        unnormed = replace(backbone, unnormed=has_norm)
        *sources, last = unnormed.states_of(batch, [*layers, backbone.info.n_blocks])
    found = torch.zeros(len(layers), dim, dim)
    for start in range(0, dim, at_once):
        channels = torch.arange(start, min(start + at_once, dim), device=last.device)
        selected = torch.zeros_like(last)
        selected[channels - start, SKIPPED:, channels] = 1
        gradients = torch.autograd.grad(
            last, sources, selected, retain_graph=start + at_once < dim, allow_unused=True
        )
        for layer, rows, gradient in zip(layers, found, gradients, strict=True):
            if gradient is None:
                raise BackboneError(
                    f"model {backbone.info.name!r}: no gradient reaches layer {layer}, so it has "
                    "no Jacobian lens. Use --lens tuned."
                )
            means = gradient[: len(channels), SKIPPED:].mean(1)
            rows[start : start + len(channels)] = means.float().cpu()
    return found


@contextmanager
def _gradients_from_embeddings(backbone: Backbone) -> Iterator[None]:
    """Let gradients reach the embeddings of a model whose weights take none."""
    embeddings = backbone.model.get_input_embeddings()

    def require(module: nn.Module, given: object, made: Tensor) -> Tensor:
        return made.requires_grad_().clone()  # some models scale it in place

    with embeddings.register_forward_hook(require):
        yield


class _SharedSums:
    """Sums of the Jacobians of texts, one file for each process that shares the texts."""

    def __init__(self, folder: Path, key: str, n_texts: int) -> None:
        """Join the work on a lens.

        Args:
            folder: where the lens is to lie.
            key: says of what model and texts it is.
            n_texts: how many these are.
        """
        self._result, self._key, self._n_texts = folder / lens_maps.JACOBIANS, key, n_texts
        self._folder = folder / f"jacobian-{key[:12]}"
        self._own = self._folder / f"{uuid4().hex}.sum"
        self._sum, self._added = torch.zeros(()), list[int]()

    def check_free(self) -> None:
        """Check that no other lens lies where this one is to lie.

        Raises:
            OptionError: one does.
        """
        lens_maps.check_no_other(self._result.parent, lens_maps.PARAMETERS)
        if not self._is_complete():
            lens_maps.check_no_other(self._result.parent, self._result.name)

    def unfinished(self) -> Iterator[int]:
        """Yield each unfinished text that no other process is working on; none can meanwhile."""
        while left := self._left():
            self._folder.mkdir(parents=True, exist_ok=True)
            idle = True
            for number in left:
                lock = FileLock(self._folder / f"{number}.lock", timeout=0)
                with suppress(Timeout), lock:
                    if number in self._left():
                        idle = False
                        yield number
            time.sleep(_PAUSE if idle else 0)

    def add(self, number: int, jacobians: Float[Tensor, "layers dim dim"]) -> None:
        """Add those of a text, and write the sum."""
        self._sum = self._sum + jacobians
        self._added.append(number)
        with replacing(self._own) as made:
            torch.save({"sum": self._sum, "texts": self._added}, made)

    def complete(self, layers: Sequence[int]) -> None:
        """Write the lens as the package jlens does, and remove the sums, unless another has.

        Args:
            layers: their numbers; those of blocks, which the file has, count from 0.
        """
        sums = [part["sum"] for part in self._parts()]
        self.check_free()
        if not self._is_complete():  # else another process may have removed sums that were read
            mean = torch.stack(sums).sum(0) / self._n_texts
            dtype = torch.float16 if mean.abs().max() < _LARGEST else torch.float32
            jacobians = {n - 1: one.to(dtype) for n, one in zip(layers, mean, strict=True)}
            about = {"n_prompts": self._n_texts, "d_model": mean.shape[-1], "key": self._key}
            with replacing(self._result) as made:
                torch.save({"J": jacobians, "source_layers": list(jacobians), **about}, made)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _left(self) -> list[int]:
        done = {number for part in self._parts() for number in part["texts"]}
        return [] if self._is_complete() else sorted(set(range(self._n_texts)) - done)

    def _is_complete(self) -> bool:
        try:
            found = torch.load(self._result, weights_only=True, mmap=True)
        except (*lens_maps.DAMAGE, FileNotFoundError):  # of another program
            return False
        return isinstance(found, dict) and found.get("key") == self._key

    def _parts(self) -> list[dict[str, Any]]:
        parts = []
        for file in matching(self._folder, "*.sum"):
            try:
                parts.append(torch.load(file, weights_only=True, mmap=True))
            except (*lens_maps.DAMAGE, OSError) as error:
                if file.exists():  # else another process has completed the lens
                    raise StorageError(f"{file} is damaged ({error}). Remove it.") from error
        return parts
