"""Normalisations shared by the members of a stream, and their share for one member."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.features import FeatureView
from probekit.probe.normalization.norms import (
    ApplyFinalNorm,
    Normalization,
    Standardize,
    fit_normalization,
    normalization_from_json,
)
from probekit.train.probe import start_from

_PREFIX = "normalization."


@dataclass(frozen=True, eq=False)
class Treatment:
    """A fitted normalisation and the layers it was fitted for.

    Attributes:
        normalization: the module.
        layers: layer numbers along axis 1 of what it treats, ascending.
    """

    normalization: Normalization
    layers: tuple[int, ...]

    def apply(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "layers rows dim"]:
        """Return the treated rows, layer-major as they came."""
        return self.normalization(z.transpose(0, 1)).transpose(0, 1)

    def cut(self, layers: tuple[int, ...]) -> Normalization:
        """Return the normalisation of some of the layers alone."""
        places = [self.layers.index(layer) for layer in layers]
        options = self.normalization.to_json()
        state = dict(self.normalization.state_dict())
        dim = 1
        if isinstance(self.normalization, Standardize):
            state = {name: value[places] for name, value in state.items()}
            dim = self.normalization.mean.shape[1]
        elif isinstance(self.normalization, ApplyFinalNorm):
            normed = self.normalization.already_normed
            options["already_normed"] = places.index(normed) if normed in places else None
            dim = len(self.normalization.weight)
        part = normalization_from_json(options, len(layers), dim)
        part.load_state_dict(state)
        return part


def saved_treatment(
    name: str, state: Mapping[str, Tensor], layers: tuple[int, ...], device: torch.device
) -> Treatment | None:
    """Return the normalisation that a continued run takes over, if it has one that was fitted.

    A standardisation that was fitted again would change what the saved head and decoder see.

    Args:
        name: the normalisation.
        state: what the run starts from; ``normalization.*`` where it is taken over.
        layers: layers of the head.
        device: where the rows are.

    Raises:
        RecordError: the saved tensors are not those of a normalisation of these layers.
    """
    own = [value for key, value in state.items() if key.startswith(_PREFIX)]
    if name != Standardize.name or not own:
        return None
    found = normalization_from_json({"name": name}, len(layers), own[0].shape[-1])
    start_from(_PREFIX, state, found)
    return Treatment(found.to(device), layers)


def fit_treatment(
    name: str,
    blocks: Iterable[Float[Tensor, "layers rows dim"]],
    layers: tuple[int, ...],
    view: FeatureView,
    device: torch.device,
) -> Treatment:
    """Fit a normalisation on the rows of a view, for all layers that the blocks have.

    Raises:
        UnknownNameError: no normalisation has this name.
        OptionError: ``final-norm`` for a backbone without one.
    """
    normalization = fit_normalization(
        name,
        (z.transpose(0, 1) for z in blocks),
        layers=layers,
        final_norm=view.final_norm,
        already_normed=view.normed_layer,
    )
    return Treatment(normalization.to(device), layers)
