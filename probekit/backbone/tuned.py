"""The model of a saved run: its base, cut as it was, with the values that were trained."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from probekit import backbone
from probekit.backbone.cutting import shorten, shortened
from probekit.backbone.saved_run import SavedRun
from probekit.backbone.structure import Structure
from probekit.errors import OptionError
from probekit.tuning import Method

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from probekit.backbone.facts import Inspection
    from probekit.backbone.model import Backbone


@dataclass(frozen=True, kw_only=True)
class TunedValues:
    """What makes the model of a run of its base model.

    Attributes:
        run: the saved run.
        whole: structure of its base.
    """

    run: SavedRun
    whole: Structure

    def put_into(self, model: "PreTrainedModel") -> Structure:
        """Cut the base model, and give it the trained values; it is frozen then, and evaluating.

        Returns:
            its structure now.

        Raises:
            BackboneError: the method cannot be had.
            RecordError: the values are damaged.
        """
        run = self.run
        structure = shorten(run.name, model, self.whole, run.deepest)
        run.tuning.attach(model, torch.Generator())
        run.packaging.put_into(model, run.file)
        run.tuning.settle(model.train(False).requires_grad_(False))
        return structure


def inspect_run(
    run: SavedRun, *, asked: Mapping[str, Any], trust_remote_code: bool
) -> "Inspection":
    """Inspect the model of a saved run; see ``inspect_backbone``.

    Args:
        run: the saved run.
        asked: options that make another model of one, by name; they are the base's, and may be
            said again.
        trust_remote_code: run the code of the base model.

    Raises:
        OptionError: one of them is not what the base was.
        BackboneError: another model lies where the base was.
        MissingFileError: none does.
    """
    known = run.base["identity"]
    for name, value in asked.items():
        if value is not None and value != known.get(name):
            raise OptionError(
                f"--{name.replace('_', '-')} {value}: the model of a saved run is what it was "
                f"trained as ({run.name}). Leave it out."
            )
    base = backbone.find_again(
        run.base,
        made=f"the saved run {run.name}",
        remedy=f"A whole model is saved there: give {run.folder} as MODEL."
        if run.packaging.whole
        else "What the run trained is added to that model, which must lie where it did; a relative "
        "path is one from the folder in which the run was started. If it has moved: of "
        "lora, bitfit and diff-prune a whole model is made by "
        f"`probekit merge {run.name} FOLDER --model PATH`.",
        trust_remote_code=trust_remote_code,
    )
    structure = shortened(base.structure, run.deepest)
    info = replace(
        base.info,
        name=run.name,
        source="run",
        revision=None,
        base=base.info.name,
        n_blocks=structure.n_blocks,
        final_norm=structure.final_norm is not None,
        identity=replace(base.info.identity, method=run.method, tuned=run.digest),
    )
    tuned = TunedValues(run=run, whole=base.structure)
    found = replace(base, info=info, structure=structure, tuned=tuned)
    return with_room(found, run.tuning)


def tuned_backbone(base: "Backbone", run: SavedRun) -> "Backbone":
    """Return the model of a run, made of its base, which is changed in place."""
    inspection = base.inspection
    tuned = TunedValues(run=run, whole=inspection.structure)
    structure = tuned.put_into(base.model)
    found = with_room(replace(inspection, structure=structure), run.tuning)
    return replace(base, inspection=found)


def with_room(inspection: "Inspection", method: Method) -> "Inspection":
    """Return a model whose longest input leaves room for what a method puts before a text.

    Raises:
        OptionError: that leaves no text.
    """
    info, longest = inspection.info, inspection.info.identity.max_length
    if method.positions >= longest:
        raise OptionError(
            f"--method {method.name}: {method.positions} virtual tokens leave nothing of the "
            f"{longest} positions of {info.name!r}. Give fewer: --method {method.name}:length=20."
        )
    identity = replace(info.identity, max_length=longest - method.positions)
    return replace(inspection, info=replace(info, identity=identity))
