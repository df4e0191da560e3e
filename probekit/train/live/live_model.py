"""A model that runs while a head is trained: opened, cut to what is read, with its method."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from transformers import PreTrainedModel

from probekit.backbone import Backbone, GivenModel, load_again
from probekit.backbone.structure import are_same, cannot_be_cut, shorten
from probekit.base.machine import free_memory
from probekit.base.notices import human_bytes
from probekit.base.numbers import derive, seeded, torch_generator
from probekit.data.batches import TokenBatch, pool, token_batches
from probekit.data.encoded import EncodedSplit, Pooling, windows_of
from probekit.errors import BackboneError, OptionError
from probekit.store.codec import READ_DTYPES
from probekit.store.entry import Entry
from probekit.tuning.contract import Method, Tuned
from probekit.tuning.packaging import TrainedValues

logger = logging.getLogger(__name__)

_COPIES = 4
"""Copies of the trained values beside the model's own: gradients, two moments, the best state."""

_FEW_STEPS = 50
"""Steps below which a line says that they are few: three epochs of a few shots are six."""


@dataclass(eq=False)
class LiveModel:
    """A model in training, or frozen, that makes rows as an entry holds them.

    A step of more than ``batch_tokens`` is several batches, each of which forgets what it computed
    on the way to its rows, and computes it again when gradients come back through them (gradient
    caching, Gao et al. 2021; Chen et al. 2016): the gradients are those of the whole step, for the
    memory of one batch and a third more time.

    Attributes:
        backbone: the model, its later blocks cut off.
        method: what is trained of it.
        tuned: those values; None of a frozen model.
        seed: of what the method draws, and of the model's own dropout.
        pooling: which subwords make a word's row.
        dtype: what rows are rounded to: that of the cache where the model is frozen.
        batch_tokens: padded subwords that run at once; of a longer window, which runs alone, each
            block computes again what it needs.
        passes: batches that have run in training, which their dropout depends on.
    """

    backbone: Backbone
    method: Method
    tuned: Tuned | None
    seed: int
    pooling: Pooling
    dtype: torch.dtype
    batch_tokens: int
    passes: int = 0

    @property
    def learns(self) -> bool:
        """Whether anything of the model is trained: nothing is that no layer depends on."""
        return self.tuned is not None and self.tuned.learns

    def check_fits(self, lengths: Int64[np.ndarray, " windows"]) -> None:
        """Check that the model reads every window, there and back, and what is put before it.

        Args:
            lengths: subwords of each window.

        Raises:
            OptionError: one is too long.
        """
        longest = int(lengths.max(initial=0))
        most, before = self.backbone.info.identity.max_length, self.method.positions
        if longest > self.batch_tokens and not self.method.blockwise:
            raise OptionError(
                f"--method {self.method.name}: a window of {longest} subwords does not fit into a "
                f"batch of {self.batch_tokens}, and gradient checkpointing, which it would need, "
                f"loses the prefix. Set batch_tokens = {longest} in the --protocol, or give "
                "--method prefix:of=states."
            )
        if before and longest > most:
            raise OptionError(
                f"--method {self.method.name}: {before} virtual tokens and a window of {longest} "
                f"subwords exceed the {most + before} positions of {self.backbone.info.name!r}. "
                f"Extract with --max-length {most}, or give fewer virtual tokens."
            )

    def check_memory(self, n_steps: int) -> None:
        """Say what a run trains of the model, and refuse one whose optimizer does not fit.

        Args:
            n_steps: steps that the run takes.

        Raises:
            OptionError: gradients, moments and the best state need more memory than is free.
        """
        assert self.tuned is not None, "something is trained"
        name, method, device = self.backbone.info.name, self.method.name, self.backbone.device
        needed = _COPIES * sum(value.nbytes for value in self.tuned.parameters())
        if needed > (free := free_memory(device)):
            raise OptionError(
                f"--method {method} of {name} needs {human_bytes(needed)} of memory beside the "
                f"model, for gradients and optimizer, and only {human_bytes(free)} are free on "
                f"{device}. Give a method that trains less (lora, bitfit), or fewer --layers."
            )
        few = " So few steps hardly train a model: see --epochs." if n_steps < _FEW_STEPS else ""
        logger.info(
            "%s trains %s of %s weights of %s: %d steps.%s",
            method,
            f"{sum(value.numel() for value in self.tuned.parameters()):,}",
            f"{self.tuned.n_model:,}",
            name,
            n_steps,
            few,
        )

    def rows(
        self,
        encoded: EncodedSplit,
        array: str,
        layers: Sequence[int],
        wanted: Int64[np.ndarray, " wanted"],
    ) -> Float[Tensor, "layers rows dim"]:
        """Run the model over texts and return their rows, in float32.

        Gradients go through where they are on, and the model's dropout is active in training.

        Args:
            encoded: the texts.
            array: an array of rows.
            layers: layer numbers, ascending.
            wanted: numbers of the rows that are read: no window runs without one, and other rows
                may be zeros.
        """
        backbone, count = self.backbone, int(encoded.rows[array].sum())
        blocks = [torch.zeros(count, backbone.info.dim, device=backbone.device) for _ in layers]
        several = len(encoded.window_lengths) > len(encoded.ids)
        needed = windows_of(encoded, array, self.pooling, wanted) if several else None
        batches = list(
            token_batches(
                encoded,
                0,
                len(encoded.ids),
                batch_tokens=self.batch_tokens,
                pad_id=backbone.pad_id,
                pooling=self.pooling,
                arrays=(array,),
                batching=backbone.batching,
                needed=needed,
            )
        )
        size = sum(batch.input_ids.numel() for batch in batches)
        again = len(batches) > 1 and size > self.batch_tokens
        for batch in batches:
            picks = batch.picks[array].to(backbone.device, backbone.device)
            for state, block in zip(self._states(batch, layers, again), blocks, strict=True):
                pool(state, picks, block)
        return torch.stack(blocks).to(self.dtype).float()

    @property
    def trained(self) -> TrainedValues | None:
        """The model as a saved run keeps it, with the values that it has now; None if frozen."""
        if self.tuned is None:
            return None
        names = [name.replace("/", ".") for name, _ in self.tuned.named_parameters()]
        return trained_values(self.backbone, names)

    def _states(self, batch: TokenBatch, layers: Sequence[int], again: bool) -> list[Tensor]:
        """Return some layers of a batch, through which gradients may go.

        Args:
            batch: windows of texts.
            layers: layer numbers, ascending.
            again: whether they are computed again on the way back, and nothing is held until then.
        """
        if not self.backbone.model.training:
            return self.backbone.states_of(batch, layers)
        seed = derive(self.seed, "backbone", self.passes)
        self.passes += 1
        long = batch.input_ids.shape[1] > self.batch_tokens

        def run() -> list[Tensor]:  # with the same dropout whenever it is called
            with seeded(seed, self.backbone.device), _by_block(self.backbone.model, long):
                return self.backbone.states_of(batch, layers)

        if not again:
            return run()
        # stopped early, a pass would end in an exception that `hidden_states` takes for the model's
        with set_checkpoint_early_stop(False):
            return list(checkpoint(run, use_reentrant=False, preserve_rng_state=False))


@contextmanager
def _by_block(model: PreTrainedModel, wanted: bool) -> Iterator[None]:
    """Have a model's blocks keep their input alone for the way back, where it can."""
    blocks: Any = model  # transformers types none of the methods
    if not (wanted and blocks.supports_gradient_checkpointing):
        yield
        return
    renamed = hasattr(blocks, "activation_checkpointing_enable")
    name = "activation_checkpointing" if renamed else "gradient_checkpointing"
    getattr(blocks, f"{name}_enable")({"use_reentrant": False})
    blocks.disable_input_require_grads()  # which the other way of checkpointing needs
    try:
        yield
    finally:
        getattr(blocks, f"{name}_disable")()


def trained_values(backbone: Backbone, names: Iterable[str]) -> TrainedValues:
    """Return a model as it is written, with the names of its trained values."""
    inspection = backbone.inspection
    structure, source = inspection.structure, inspection.checkpoint
    return TrainedValues(
        model=backbone.model,
        names=names,
        base=inspection.info.name,
        revision=inspection.info.revision,
        cut=structure.n_blocks < inspection.info.n_blocks,
        tokenizer=inspection.text_tokenizer,
        code=None if isinstance(source, GivenModel) or not source.trusted else source.folder,
    )


_COMPARED_SUBWORDS = 8
"""Subwords that a cut model is compared on."""


def open_live(
    entry: Entry,
    about: Mapping[str, Any],
    method: Method,
    *,
    layers: Sequence[int],
    seed: int,
    batch_tokens: int,
    model: str | GivenModel | None = None,
    device: str = "auto",
    trust_remote_code: bool = False,
) -> LiveModel:
    """Load the model of an entry, cut it, and attach a method.

    Args:
        entry: whose rows it makes: as they were pooled, and of a frozen model rounded.
        about: what is known of the model.
        method: what is trained.
        layers: those that are read; what comes after the last of them is cut off.
        seed: of what the method draws, and of dropout.
        batch_tokens: padded subwords that run at once.
        model: where the model lies now; None is where it was.
        device: where it runs.
        trust_remote_code: run code that lies with the model.

    Raises:
        BackboneError: it is another model, or the method cannot be had.
        MissingFileError: no model lies there.
        OptionError: the method has nothing to train here.
    """
    _check_weights(about, method)
    pooling, dtype = cast(Pooling, entry.manifest.pooling), READ_DTYPES[entry.manifest.dtype]

    def load() -> Backbone:
        return load_again(
            about,
            model=model,
            device=device,
            compute_dtype=entry.manifest.compute_dtype,
            made=str(entry.path),
            trust_remote_code=trust_remote_code,
            learns=method.trains,
            quantize_for=f"--method {method.name}" if method.quantizes else None,
        )

    if not method.trains:
        try:
            backbone = cut(load(), max(layers))
        except BackboneError as error:  # it may be in part
            logger.debug("%s The whole model runs.", error)
            backbone = load()
        return LiveModel(backbone, method, None, seed, pooling, dtype, batch_tokens)
    backbone = cut(load(), max(layers))
    backbone = replace(backbone, inspection=backbone.inspection.with_room(method))
    every = method.attach(backbone.model, torch_generator(seed, "method", method.name))
    tuned = Tuned(backbone.model, reached(backbone, every, layers), method)
    if not tuned.learns:
        logger.info(
            "--method %s trains nothing that layer %d depends on: only the head is trained.",
            method.name,
            max(layers),
        )
    if method.positions and not tuned.learns:  # virtual tokens would move the text all the same
        backbone = cut(load(), max(layers))
        tuned = Tuned(backbone.model, {}, method)
    return LiveModel(backbone, method, tuned.eval(), seed, pooling, torch.float32, batch_tokens)


def _check_weights(about: Mapping[str, Any], method: Method) -> None:
    """Refuse weights that take no gradients, and say what becomes of those of a GGUF file.

    Raises:
        OptionError: the weights of the entry's model are quantized, and the method wants others.
    """
    bits = about["identity"].get("quantize")
    if method.trains and about["identity"].get("tuned"):
        raise OptionError(
            f"--method {method.name}: this entry's model was already fine-tuned by a run "
            f"({about['name']}), and cannot be trained further. Extract with a whole model: the "
            "run's folder backbone after --method full, else what `probekit merge` writes."
        )
    if not method.trains or (method.quantizes and bits == "4bit"):
        return
    if bits:
        raise OptionError(
            f"--method {method.name}: the weights of this entry's model are in {bits} and cannot "
            "be trained. Extract without --quantize, or extract with --quantize 4bit and train "
            "with --method qlora."
        )
    if about.get("source") == "gguf" and not method.quantizes:
        logger.info(
            "%s is a GGUF file: its weights are unpacked to float32, and what is trained is saved "
            "in safetensors.",
            about["name"],
        )


def cut(backbone: Backbone, deepest: int) -> Backbone:
    """Return a model of the first blocks of another one, whose layers are the same.

    Args:
        backbone: the model; it is cut in place.
        deepest: the last layer that is wanted, so how many blocks stay.

    Raises:
        BackboneError: its blocks are not found, or it computes other states without the later ones.
    """
    inspection, name = backbone.inspection, backbone.info.name
    structure = inspection.structure
    if deepest == structure.n_blocks:
        return backbone
    layers = [layer for layer in structure.usable if layer <= deepest]
    with torch.no_grad():
        before = _compared_states(backbone, layers)
    shorter = shorten(name, backbone.model, structure, deepest)
    first = replace(backbone, inspection=replace(inspection, structure=shorter))
    with torch.no_grad():
        after = _compared_states(first, layers)
    if not all(map(are_same, before, after)):
        raise cannot_be_cut(name, deepest, "it computes different states without its later blocks")
    return first


def reached(
    backbone: Backbone, values: Mapping[str, nn.Parameter], layers: Sequence[int]
) -> dict[str, nn.Parameter]:
    """Return those of some values that layers depend on; the others learn nothing, and stay.

    Args:
        backbone: the model.
        values: what is to be trained of it, by name.
        layers: the layers that are read.
    """
    if not values:
        return {}
    total = torch.stack([state.float().sum() for state in _compared_states(backbone, layers)]).sum()
    gradients: Sequence[Tensor | None] = [None] * len(values)
    if total.requires_grad:
        gradients = torch.autograd.grad(total, list(values.values()), allow_unused=True)
    for value, gradient in zip(values.values(), gradients, strict=True):
        value.requires_grad_(gradient is not None)
    return {name: value for name, value in values.items() if value.requires_grad}


def _compared_states(backbone: Backbone, layers: Sequence[int]) -> list[Tensor]:
    """Return the states of some layers of a text of the first ids of the vocabulary."""
    length = min(_COMPARED_SUBWORDS, backbone.info.identity.max_length)
    ids = torch.arange(length)[None] % backbone.info.vocab_size
    return backbone.layers(ids, torch.tensor([length]), layers)
