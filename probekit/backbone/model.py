"""A frozen backbone in memory: token ids in, every layer's hidden states out."""

import logging
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from probekit.backbone import placement
from probekit.backbone.facts import BackboneInfo, Inspection, TunedValues
from probekit.backbone.final_parts import read_final_norm
from probekit.backbone.forward import hidden_states
from probekit.backbone.given_model import GivenModel
from probekit.backbone.inspecting import find_again
from probekit.backbone.loading import check_memory, draw_model, load_model, resolve_compute_dtype
from probekit.backbone.model_files import plain_config
from probekit.backbone.padding import Layers, prove_batching
from probekit.backbone.points import captured
from probekit.backbone.saved_run import SavedRun
from probekit.backbone.states import NO_POINTS, PointLayers
from probekit.backbone.structure import check_runs
from probekit.base.layers import RESID_POST, ReadPoint
from probekit.base.machine import Heap, keep_few_kernels, pick_device
from probekit.base.tensors import send
from probekit.data.batches import PADDED, Batching, TokenBatch
from probekit.errors import BackboneError, OptionError
from probekit.probe.model_parts import FinalNorm, OutputHead

logger = logging.getLogger(__name__)


OVERFLOW = "The forward pass overflowed: rerun with --compute-dtype float32."
"""What to do about states of a pass that are not finite."""

_NOT_FINITE = "They occur in float32 as well: weights of the model are damaged, or far too large."


@dataclass(frozen=True, kw_only=True, eq=False)
class Backbone:
    """A frozen model without a head, on a device, in one compute dtype.

    Attributes:
        inspection: the model's facts and tokenizers.
        device: where it computes.
        compute_dtype: the dtype of weights and hidden states.
        batching: which texts may share a batch, as was proven.
        final_norm: the norm after the last block, or None if there is none (or none that is
            understood).
        products: of a model whose values may learn, in float32, the dtype of its matrix products;
            gradients go through it. None of one that is frozen.
        model: the model itself, for what trains it.
        unnormed: whether layer L of `states_of` is what goes into the final norm, as some programs
            export it.
    """

    inspection: Inspection
    device: torch.device
    compute_dtype: torch.dtype
    batching: Batching
    final_norm: FinalNorm | None
    model: PreTrainedModel
    products: torch.dtype | None = None
    unnormed: bool = False
    _heap: Heap = field(default_factory=Heap, init=False)

    @property
    def info(self) -> BackboneInfo:
        """The model's facts."""
        return self.inspection.info

    def layers(
        self,
        input_ids: Int[Tensor, "batch time"],
        lengths: Int[Tensor, " batch"],
        keep: Sequence[int] | None = None,
        token_types: Int[Tensor, "batch time"] | None = None,
    ) -> list[Float[Tensor, "batch time dim"]]:
        """Run the model once and return hidden states, layer by layer.

        Args:
            input_ids: padded on the right (with ``inspection.pad_id``), on any device.
            lengths: the number of real subwords of each row, 1 to time.
            keep: layer numbers to return, 0 (embeddings) to L, in any order; None means all of the
                model's width. The others are not kept in memory.
            token_types: which of two texts each subword belongs to, for a model that is told
                (``info.identity.token_types``); None is the first.

        Returns:
            One tensor per layer of ``keep``, on ``device`` in ``compute_dtype``: HuggingFace's
            ``hidden_states[i]``. Positions past a row's length hold numbers without meaning.

        Raises:
            OptionError: a layer that the model does not have (transformers would leave it out), or
                one of another width than the others.
            BackboneError: a token id that the model does not have, or a batch that it fails on.
        """
        structure = self.inspection.structure
        wanted = structure.usable if keep is None else [int(layer) for layer in keep]
        structure.check_layers(self.info.name, wanted)
        largest = int(input_ids.max())
        if largest >= self.info.vocab_size:
            raise BackboneError(
                f"model {self.info.name!r}: token id {largest} "
                f"({self.inspection.tokenizer.convert_ids_to_tokens(largest)!r}) is outside its "
                f"{self.info.vocab_size} embeddings. Its tokenizer belongs to another model."
            )
        assert int(lengths.min()) >= 1 and int(lengths.max()) <= input_ids.shape[1]
        self._heap.trim()
        padded = bool((lengths < input_ids.shape[1]).any())
        real = torch.arange(input_ids.shape[1], device=lengths.device) < lengths[:, None]
        mask = send(real.long(), self.device) if padded else None
        lower = self.products not in (None, torch.float32)
        with torch.autocast(self.device.type, self.products, enabled=lower):
            states = hidden_states(
                self.info.name,
                self.model,
                send(input_ids, self.device),
                mask,
                layers=wanted,
                token_types=None if token_types is None else send(token_types, self.device),
                gradients=self.products is not None,
            )
        states = [state.to(self.device) for state in states]  # from wherever their blocks are
        expected = (*input_ids.shape, self.info.dim)
        for layer, state in zip(wanted, states, strict=True):
            if state.shape != expected:
                raise BackboneError(
                    f"model {self.info.name!r}: layer {layer} has the shape {tuple(state.shape)}, "
                    f"expected {expected}. Choose another model."
                )
        return states

    def width_at(self, point: str) -> int:
        """Return the channels of a point that was found."""
        place = self.inspection.places[point] if point != RESID_POST else None
        return self.info.dim if place is None or place.width is None else place.width

    def states_of(
        self, batch: TokenBatch, layers: Sequence[int], points: PointLayers = NO_POINTS
    ) -> list[Float[Tensor, "batch time _"]]:
        """Run the model over a batch, see `layers`; return these, then each layer of each point.

        Raises:
            BackboneError: a block does not go through the module that makes a point.
        """
        if not points:
            return self._stream_of(batch, layers)
        with captured(self.model, self.inspection.places, points) as caught:
            # a model is not run without a layer to keep
            states = self._stream_of(batch, layers or self.inspection.structure.usable[-1:])
        wanted = [(point, layer) for point, numbers in points.items() for layer in numbers]
        return states[: len(layers)] + [self._state_at(at, caught, batch) for at in wanted]

    def _state_at(
        self, at: tuple[str, int], caught: Mapping[tuple[str, int], Tensor], batch: TokenBatch
    ) -> Float[Tensor, "batch time _"]:
        shape, states = batch.input_ids.shape, caught.get(at)
        if states is None or states.shape[:-1].numel() != shape.numel():
            raise BackboneError(
                f"model {self.info.name!r}: block {at[1]} did not produce {at[0]} for every "
                "subword. Leave it out of --points."
            )
        return states.reshape(*shape, -1).to(self.device)

    def _stream_of(
        self, batch: TokenBatch, layers: Sequence[int]
    ) -> list[Float[Tensor, "batch time dim"]]:
        given = batch.input_ids, batch.lengths, layers, batch.token_types
        if not self.unnormed:
            return self.layers(*given)
        name, into_norm = self.inspection.structure.final_norm, list[Tensor]()
        assert name is not None, "the model has a final norm"
        norm = self.model.get_submodule(name)
        with norm.register_forward_pre_hook(lambda norm, inputs: into_norm.append(inputs[0])):
            states = self.layers(*given)
        pairs = zip(layers, states, strict=True)
        return [into_norm[-1] if n == self.info.n_blocks else state for n, state in pairs]

    def columns(self, point: ReadPoint) -> slice:
        """Return which channels of a point that was found are read.

        Raises:
            OptionError: the model has no such attention head.
        """
        heads = None if point.attention_head is None else self.inspection.places[point.name].heads
        return point.columns(self.width_at(point.name), heads, self.info.name)

    @property
    def pad_id(self) -> int:
        """The id that fills padding."""
        return self.inspection.pad_id

    @property
    def computed_on(self) -> str:
        """What makes the states: the device, or the devices of its parts."""
        layout = placement.layout_of(self.model)
        return str(self.device) if layout is None else placement.describe_layout(layout)

    @property
    def overflow(self) -> str:
        """What values that are not finite come from, and what to do."""
        return _NOT_FINITE if self.compute_dtype_name == "float32" else OVERFLOW

    @property
    def compute_dtype_name(self) -> str:
        """The compute dtype as options and manifests write it ("bfloat16")."""
        return str(self.compute_dtype).removeprefix("torch.")

    def config_json(self) -> dict[str, Any]:
        """Return transformers' configuration as JSON values."""
        return plain_config(self.model.config)

    def tied_head(self) -> OutputHead:
        """Return the input embeddings as the projection of a head, its transform not yet trained.

        Raises:
            BackboneError: they are narrower or wider than the hidden states.
        """
        weight = placement.host_copy(self.model, self.model.get_input_embeddings()).weight
        assert isinstance(weight, Tensor)
        if weight.shape[1] != self.info.dim:
            raise BackboneError(
                f"model {self.info.name!r}: its input embeddings are {weight.shape[1]} wide and "
                f"its hidden states {self.info.dim}, so --tie input cannot be used. Choose a "
                "model with a language-model head."
            )
        return OutputHead(kind="tied-input", weight=weight.detach().cpu().clone())


def load_backbone(
    inspection: Inspection,
    *,
    device: str = "cpu",
    compute_dtype: str = "auto",
    device_map: placement.DeviceMap | None = None,
    learns: bool = False,
    quantize_for: str | None = None,
) -> Backbone:
    """Read a model's weights and make it ready to run.

    Args:
        inspection: from ``inspect_backbone``.
        device: a torch device string, or ``auto`` (`choose_device`).
        compute_dtype: "auto" (bfloat16 where the device has it in hardware and the family runs
            in it, else float32), "float32", "bfloat16" or "float16".
        device_map: lay its blocks out over several devices; a small copy is tried on ``device``.
        learns: its values are to be trained: it is in float32, and its products run in the compute
            dtype.
        quantize_for: the option, as typed, that has its linear layers in 4 bits though the
            inspected model has not; None leaves them.

    Raises:
        HubError: a download failed.
        UnknownNameError: there is no such dtype.
        OptionError: there is no such device, or the model cannot be quantized.
        BackboneError: weights are missing, left over or of the wrong shape; its states depend on
            chance (``prove_batching``).
    """
    if inspection.tuned is not None and device_map is not None:
        raise OptionError(
            f"--device-map {device_map}: the model of a saved run ({inspection.info.name}) runs "
            "on one device. Give --device instead."
        )
    keep_few_kernels()
    target = torch.device(choose_device(inspection, device))
    products = _products_in(inspection, compute_dtype, target)
    dtype = torch.float32 if learns else products
    if device_map is None and inspection.info.identity.quantize is None:
        check_memory(inspection, dtype)
    batching = prove_batching(inspection, _layers_of, target, products)
    model = _read_model(
        inspection, target, dtype, products, device_map=device_map, quantize_for=quantize_for
    )
    if learns and isinstance(inspection.checkpoint, GivenModel):
        for value in model.parameters():  # which may be those of the given model
            value.data = value.data.clone()
    if learns or inspection.tuned is not None:  # which computes in 4 bits what it did as it learned
        placement.keep_gradients(model)
    target = placement.main_device(model)
    if target.type == "cpu" and placement.layout_of(model) is None and not learns:
        placement.pack_linear_layers(model)
    norm = None
    if (name := inspection.structure.final_norm) is not None:
        norm = read_final_norm(
            placement.host_copy(model, model.get_submodule(name)), inspection.info.dim
        )
    return Backbone(
        inspection=inspection,
        device=target,
        compute_dtype=dtype,
        batching=batching,
        final_norm=norm,
        model=model,
        products=products if learns else None,
    )


def load_again(
    about: Mapping[str, Any],
    *,
    model: str | GivenModel | None,
    device: str,
    compute_dtype: str,
    made: str,
    device_map: placement.DeviceMap | None = None,
    trust_remote_code: bool = False,
    learns: bool = False,
    quantize_for: str | None = None,
) -> Backbone:
    """Load the backbone that ``about`` describes, and prove that it is the same.

    Args:
        about: what the fields of ``BackboneInfo`` were then.
        model: where the backbone is now, or the backbone itself; ``None`` is where it was, at the
            commit that was used. One that was in memory may have been saved since.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        compute_dtype: as for ``load_backbone``.
        made: what was made with it, for the message.
        device_map: in place of ``device``, how its blocks are laid out over several.
        trust_remote_code: run the model's own code; what ``about`` says of it counts for nothing.
        learns: its values are to be trained, see `load_backbone`.
        quantize_for: what has its linear layers in 4 bits, see `load_backbone`.

    Raises:
        BackboneError: it is another model (weights, tokenizer, configuration, ...), or one whose
            states were imported and differ from what it computes.
        MissingFileError: no model lies at that path; or it was in memory, and none is given.
        HubError: the repository is missing, gated or unreachable.
        OptionError: its blocks cannot be laid out so, or it cannot be quantized.
    """
    if device_map is not None:
        placement.check_device_map(device_map, device, given=isinstance(model, GivenModel))
    inspection = find_again(about, model=model, made=made, trust_remote_code=trust_remote_code)
    return load_backbone(
        inspection,
        device=device,
        compute_dtype=compute_dtype,
        device_map=device_map,
        learns=learns,
        quantize_for=quantize_for,
    )


def tuned_backbone(base: "Backbone", run: SavedRun) -> "Backbone":
    """Return the model of a run, made of its base, which is changed in place."""
    inspection = base.inspection
    tuned = TunedValues(run=run, whole=inspection.structure)
    structure = tuned.put_into(base.model)
    inspection = replace(inspection, structure=structure).with_room(run.tuning)
    return replace(base, inspection=inspection)


def _products_in(inspection: Inspection, asked: str, device: torch.device) -> torch.dtype:
    """Return the dtype in which a model's products run: one that its family runs in.

    Raises:
        UnknownNameError: there is no such dtype.
        BackboneError: the family does not run in the dtype that was asked for.
    """
    dtype = resolve_compute_dtype(asked, str(device))
    if dtype == torch.float32:
        return dtype
    try:
        check_runs(inspection.info.name, inspection.config, dtype, device)
    except BackboneError as error:
        if asked != "auto":
            raise BackboneError(f"{error} Give --compute-dtype float32.") from error
        logger.info("%s does not run in bfloat16: computing in float32.", inspection.info.name)
        return torch.float32
    return dtype


def _read_model(
    inspection: Inspection,
    device: torch.device,
    dtype: torch.dtype,
    products: torch.dtype,
    *,
    device_map: placement.DeviceMap | None,
    quantize_for: str | None,
) -> PreTrainedModel:
    """Return the model with its values where they are to be; see `load_backbone`."""
    tuned, bits = inspection.tuned, inspection.info.identity.quantize
    if tuned is not None:
        quantize_for = tuned.run.quantize_for
    if bits is None and quantize_for is not None:
        placement.check_quantizable(inspection.checkpoint, inspection.whole, quantize_for)
        bits = "4bit"
    quantized = placement.quantization(bits, products)
    read_as = dtype if tuned is None else torch.float32  # in which the values were trained
    seed = inspection.info.identity.random_init
    with ExitStack() as offloaded:
        placed = {**quantized, **placement.placing(device_map, device, bool(quantized), offloaded)}
        if seed is None:
            model = load_model(inspection, read_as, placed)
        else:
            model = draw_model(inspection, read_as, seed, placed)
        if tuned is not None:
            tuned.put_into(model)
            if not quantized:
                model.to(dtype)  # type: ignore[arg-type]  # a wrapper hides the method's signature
        if not placed:
            model.to(device)  # type: ignore[arg-type]  # a wrapper hides the method's signature
        weakref.finalize(model, offloaded.pop_all().close)
    return model


def choose_device(inspection: Inspection, name: str) -> str:
    """Return where a model is to run: ``auto`` is where a model in memory lies, see `pick_device`.

    Raises:
        OptionError: neither a CPU nor a CUDA device, or there is none of that number.
    """
    source = inspection.checkpoint
    if name == "auto" and isinstance(source, GivenModel):
        name = str(source.device)
    return pick_device(name)


def _layers_of(inspection: Inspection, model: PreTrainedModel) -> Layers:
    """Return the method that runs a stand-in, as it runs the model itself."""
    return Backbone(
        inspection=inspection,
        device=model.device,
        compute_dtype=model.dtype,
        batching=PADDED,
        final_norm=None,
        model=model,
    ).layers
