"""A linear probe as directions: a vector per layer and class, and the files of them."""

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from safetensors.numpy import save_file
from torch import Tensor

from probekit.base.kinds import KINDS
from probekit.base.registry import PathName, choose
from probekit.base.replacing import replacing
from probekit.errors import OptionError, StorageError
from probekit.probe.heads import HEADS
from probekit.probe.heads.contract import FusionHead
from probekit.train.saved.folder import CONFIG, SavedHead, read_saved, saved_below
from probekit.train.saved.head import TrainedHead

_BLOCK_VALUES = 2**24
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

    def logits(self, z: Tensor | np.ndarray) -> Float[Tensor, "..."]:
        """Return the logits of raw states; of several probes those of each.

        Args:
            z: (rows, layers, dim), of ``layers`` alone, or (layers, dim) of one row. Of one layer
                (rows, dim), as ``features.numpy`` returns them, or (dim,) of one row.

        Returns:
            (rows, classes), or of several probes (rows, layers, classes); of one row without rows.

        Raises:
            OptionError: states of other layers or of another width.
        """
        states = z if isinstance(z, Tensor) else torch.from_numpy(np.array(z, np.float32))
        layers, dim = len(self.layers), self.direction.shape[2]
        if layers == 1 and states.ndim < 3:
            states = states.unsqueeze(-2)
        if states.ndim not in (2, 3) or states.shape[-2:] != (layers, dim):
            raise OptionError(
                f"states of shape {tuple(z.shape)}: this probe reads layers "
                f"{', '.join(map(str, self.layers))} of {dim} numbers each; give (rows, {layers}, "
                f"{dim}), or ({layers}, {dim}) of one row."
            )
        by_layer = torch.einsum("...ld,lcd->...lc", states.to(self.direction), self.direction)
        return (by_layer.sum(-2) if self.one_probe else by_layer) + self.bias

    def contrast(self, name: str | None = None) -> Float[Tensor, "layers dim"]:
        """Return one direction per layer: along it a class gains on the mean of all others.

        Of sets of labels, along it the label becomes more probable, whatever the others do.

        Args:
            name: of the class; a regression has none.

        Raises:
            OptionError: no class is named, there is none of that name, or there are none at all.
        """
        named = ", ".join(self.classes)
        if self.saved.labels and name is None:
            raise OptionError(f"a direction belongs to one class: name one of {named}.")
        if not self.saved.labels and name is not None:
            raise OptionError(f"class {name!r}: this head predicts a number; name no class.")
        if name is not None and name not in self.classes:
            raise OptionError(f"class {name!r}: this head has no such class; it has {named}.")
        chosen = 0 if name is None else self.classes.index(name)
        alone = KINDS[self.saved.features.kind].targets == "sets"
        others = [n for n in range(len(self.classes)) if n != chosen and not alone]
        along = self.direction[:, chosen]
        return along - self.direction[:, others].mean(1) if others else along


def export(folder: PathName) -> Directions:
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
    found = [_of_folder(one) for one in several or [path]]
    return _by_layer(path, found) if several else found[0]


def _of_folder(path: Path) -> Directions:
    saved, state = read_saved(path)
    if KINDS[saved.features.kind].targets == "vocabulary":
        raise OptionError(
            f"{path}: this head predicts tokens with its backbone's output head, which stays in "
            "the cache. Its directions are the rows of that matrix; it has none of its own."
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
    spec, reason = HEADS[trained.saved.head["name"]], None
    if not head.linear:
        reason = f"the logits of head {spec.name} are not linear in the states (h = {spec.formula})"
    elif weight is None:
        named = trained.saved.decoder["name"]
        reason = f"decoder {named} has a nonlinearity between h and the logits"
    elif affine is None:
        named = trained.saved.normalization["name"]
        reason = f"--normalize {named} divides every row by a number of its own"
    if reason is not None:
        raise OptionError(f"{name} is not a linear probe: {reason}. It has no direction to export.")
    assert weight is not None and affine is not None
    step = max(1, _BLOCK_VALUES // (head.dim * len(head.layers)))
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


def _by_layer(path: Path, probes: Sequence[Directions]) -> Directions:
    """Return the probes of several layers side by side.

    Raises:
        OptionError: one reads several layers, two read the same, or they are of different things.
    """
    for probe in probes:
        if len(probe.layers) > 1:
            raise OptionError(
                f"{path}: its head {probe.saved.head['name']} reads {len(probe.layers)} layers "
                "together; give the folder of that head alone. Only heads that read one layer "
                "each can be exported together."
            )
    ordered = sorted(probes, key=lambda probe: probe.layers)
    layers = tuple(probe.layers[0] for probe in ordered)
    alike = itemgetter("task", "label", "classes", "array", "attention_head")
    kinds = {str([p.saved.model.get("identity"), *alike(about(p))]) for p in ordered}
    if len(set(layers)) < len(layers) or len(kinds) > 1:
        raise OptionError(
            f"{path}: its heads must be of one model, task and label column, and read a different "
            "layer each, of rows of one kind; give a folder that holds no others."
        )
    return Directions(
        saved=ordered[-1].saved,
        layers=layers,
        classes=ordered[0].classes,
        direction=torch.cat([probe.direction for probe in ordered]),
        bias=torch.stack([probe.bias for probe in ordered]),
    )


MARKS = {"npz": "probekit".encode("utf-32-le"), "safetensors": b"probekit"}
"""What every file of a format holds that is written here; NumPy keeps text in four bytes."""


def write_directions(found: Directions, form: str, path: PathName) -> Path:
    """Write directions to a file, which is whole or absent.

    Args:
        found: what `export` returned.
        form: ``npz`` or ``safetensors``: ``direction`` (layers, classes, dim), ``bias`` and
            ``layers`` in float32 and int64, with the names of the classes.
        path: of the file.

    Raises:
        UnknownNameError: there is no such format.
        OptionError: a file of another suffix, which may be anybody's.
        StorageError: the file cannot be written.
    """
    choose("format", form, MARKS)
    target, said = Path(path), about(found)
    if target.suffix != f".{form}":
        raise OptionError(f"-o {target}: for {form}, choose a name that ends in .{form}.")
    arrays: dict[str, Any] = {
        "direction": found.direction.contiguous().numpy(),
        "bias": found.bias.contiguous().numpy(),
        "layers": np.asarray(found.layers, np.int64),
    }
    try:
        with replacing(target) as fresh:
            if form == "safetensors":
                save_file(arrays, fresh, {key: json.dumps(value) for key, value in said.items()})
            else:
                words: dict[str, Any] = {"classes": found.classes, "about": json.dumps(said)}
                np.savez(fresh, **arrays, **words)
    except OSError as error:
        raise StorageError(
            f"{target}: cannot be written ({error.strerror or error}). Choose another file with -o."
        ) from error
    return target


def about(directions: Directions) -> dict[str, Any]:
    """Return what directions are of, as files have it beside them."""
    saved = directions.saved
    return {
        "classes": list(directions.classes),
        "model": saved.model.get("name"),
        "task": saved.task,
        "label": saved.label,
        "head": saved.head["name"],
        "array": saved.features.array,
        "attention_head": saved.features.attention_head,
        "one_probe": directions.one_probe,
        "key": saved.key,
        "probekit": saved.probekit,
    }
