"""A linear probe as directions: for each layer and class a vector of the original states."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.base.kinds import KINDS
from probekit.errors import OptionError
from probekit.probe.heads import HEADS
from probekit.probe.heads.contract import FusionHead
from probekit.train.saved.folder import CONFIG, SavedHead, read_saved, saved_below
from probekit.train.saved.head import TrainedHead

_VALUES = 2**24
"""Of a block of rows: a width is what a file says."""
VALUE = "value"
"""Name of the one number of a regression, where others have the names of classes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Directions:
    """What a linear probe reads in the states as the backbone gives them.

    Of one probe the logits of a row are ``sum_i direction[i] z_i + bias``, of a CRF its emissions,
    of a regression its value. Of several probes, one for each layer, those of the probe of layer i
    are ``direction[i] z_i + bias[i]``.

    Attributes:
        saved: the head, or that of the highest layer.
        layers: layer numbers, ascending.
        classes: names of the classes.
        direction: by layer and class.
        bias: by class; of several probes by layer and class.
    """

    saved: SavedHead
    layers: tuple[int, ...]
    classes: tuple[str, ...]
    direction: Float[Tensor, "layers classes dim"]
    bias: Float[Tensor, "*layers classes"]

    @property
    def one_probe(self) -> bool:
        """Whether the layers are read by one probe together."""
        return self.bias.ndim == 1

    def logits(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows *layers classes"]:
        """Return the logits of raw states of ``layers``; of several probes those of each."""
        by_layer = torch.einsum("rld,lcd->rlc", z.to(self.direction), self.direction)
        return (by_layer.sum(1) if self.one_probe else by_layer) + self.bias

    def contrast(self, name: str | None = None) -> Float[Tensor, "layers dim"]:
        """Return one direction per layer: along it a class gains on the mean of all others.

        Args:
            name: of the class; a regression has none.

        Raises:
            OptionError: no class is named, there is none of that name, or there are none at all.
        """
        named = ", ".join(self.classes)
        if self.saved.labels and name is None:
            raise OptionError(f"one direction is that of one class: say --class NAME, of {named}.")
        if not self.saved.labels and name is not None:
            raise OptionError(f"--class {name}: this head predicts a number; leave it out.")
        if name is not None and name not in self.classes:
            raise OptionError(f"--class {name}: this head knows {named}.")
        chosen = 0 if name is None else self.classes.index(name)
        others = [number for number in range(len(self.classes)) if number != chosen]
        along = self.direction[:, chosen]
        return along - self.direction[:, others].mean(1) if others else along


def export(folder: str | Path) -> Directions:
    """Return the directions of a saved head, or of a folder of heads that read one layer each.

    With head h = sum_i A_i z_i + a, decoder W h + b and every layer normalised as s_i z_i + t_i,
    channel by channel, the logits are sum_i W A_i diag(s_i) z_i + b + W a + sum_i W A_i t_i. The
    products are made in float64, and rounded once to float32.

    Args:
        folder: of the head, or of several that differ in the layer they read, as
            ``probekit depth --save`` writes them.

    Raises:
        MissingFileError: no saved head lies there.
        OptionError: a head is not linear, and why; or several read the same layer, or other things.
        RecordError: the files of a head are damaged.
    """
    path = Path(folder)
    several = [] if (path / CONFIG).exists() else saved_below(path)
    if not several:
        return _of_folder(path)
    return _by_layer(path, [_of_folder(folder) for folder in several])


def _of_folder(path: Path) -> Directions:
    saved, state = read_saved(path)
    if KINDS[saved.features.kind].targets == "vocabulary":
        raise OptionError(
            f"{path}: this head predicts tokens with its backbone's output head, which stays in "
            "the cache; its directions are the rows of that matrix, and none of its own."
        )
    return directions(TrainedHead.of_files(path, saved, state), str(path))


def directions(trained: TrainedHead, name: str = "this head") -> Directions:
    """Return the directions of a trained head, see `export`.

    Args:
        trained: the head.
        name: what to call it in messages.

    Raises:
        OptionError: it is not linear, and why.
    """
    head, decoder, normalization = deepcopy(trained.modules)
    for part in (head, decoder, normalization):
        part.double()
    weight, affine = decoder.logit_weight, normalization.affine
    if reason := _not_linear(trained.saved, head.linear, weight is not None, affine is not None):
        raise OptionError(f"{name} is no linear probe: {reason} It has no direction to export.")
    assert weight is not None and affine is not None
    step = max(1, _VALUES // (head.dim * len(head.layers)))
    with torch.no_grad():
        blocks = [
            head.layer_parts(_unit_rows(start, step, head), weight)
            for start in range(0, head.dim, step)
        ]
        maps = torch.cat(blocks, dim=1).transpose(1, 2)
        constant = decoder(head(torch.zeros(1, len(head.layers), head.dim).double()))[0]
        scale, shift = affine
        moved = (maps * shift.unsqueeze(1)).sum((0, 2))
    return Directions(
        saved=trained.saved,
        layers=trained.layers,
        classes=trained.labels or (VALUE,),
        direction=(maps * scale.unsqueeze(1)).float(),
        bias=(constant + moved).float(),
    )


def _unit_rows(start: int, step: int, head: FusionHead) -> Float[Tensor, "rows layers dim"]:
    """Return rows that are 1 in one channel alone, from channel ``start`` on; of all layers."""
    rows = torch.zeros(min(step, head.dim - start), head.dim, dtype=torch.float64)
    rows.diagonal(start).fill_(1)
    return rows.unsqueeze(1).expand(-1, len(head.layers), -1)


def _not_linear(saved: SavedHead, head: bool, decoder: bool, normalization: bool) -> str | None:
    """Return why the logits are no affine map of the states, or None where they are."""
    if not head:
        spec = HEADS[saved.head["name"]]
        return f"the logits of head {spec.name} are not linear in the states (h = {spec.formula})."
    if not decoder:
        return f"decoder {saved.decoder['name']} has a nonlinearity between h and the logits."
    if not normalization:
        name = saved.normalization["name"]
        return f"--normalize {name} divides every row by a number of its own."
    return None


def _by_layer(path: Path, probes: Sequence[Directions]) -> Directions:
    """Return the probes of several layers side by side.

    Raises:
        OptionError: one reads several layers, two read the same, or they are of different things.
    """
    for probe in probes:
        if len(probe.layers) > 1:
            raise OptionError(
                f"{path}: head {probe.saved.head['name']} in it reads {len(probe.layers)} layers "
                "together; give its own folder. Several heads go together that read one layer each."
            )
    ordered = sorted(probes, key=lambda probe: probe.layers)
    layers = tuple(probe.layers[0] for probe in ordered)
    if len(set(layers)) < len(layers):
        twice = next(layer for layer in layers if layers.count(layer) > 1)
        raise OptionError(
            f"{path}: {layers.count(twice)} heads in it read layer {twice} (of several seeds or "
            "options); give the folder of one, or keep one for each layer."
        )
    kinds = {(p.saved.task, p.saved.label, p.classes, _identity(p.saved.model)) for p in ordered}
    if len(kinds) > 1:
        raise OptionError(
            f"{path}: the heads in it are of {len(kinds)} models, tasks or label columns; give a "
            "folder for each."
        )
    return Directions(
        saved=ordered[-1].saved,
        layers=layers,
        classes=ordered[0].classes,
        direction=torch.cat([probe.direction for probe in ordered]),
        bias=torch.stack([probe.bias for probe in ordered]),
    )


def _identity(model: Mapping[str, Any]) -> str:
    return str(model.get("identity", model.get("name")))
