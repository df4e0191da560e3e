"""The model that something was made with, once more: found or given again, and proven to be it."""

from collections.abc import Mapping
from typing import Any

import transformers

from probekit.backbone.architecture import load_config, read_with
from probekit.backbone.checkpoint import find_checkpoint, local_path
from probekit.backbone.facts import Inspection, inspect_backbone
from probekit.backbone.given_model import GivenModel
from probekit.backbone.identity import Identity
from probekit.backbone.model import Backbone, load_backbone
from probekit.backbone.model_classes import backbone_classes
from probekit.backbone.placement import DeviceMap, check_device_map
from probekit.backbone.tokenizer import read_tokenizer
from probekit.errors import BackboneError, HubError, MissingFileError, reason_of

_AGAIN = (
    "Give it again: model=MODEL, tokenizer=TOKENIZER in Python; for the command line save both "
    "with save_pretrained, and say where they lie: --model FOLDER."
)
_MOVED = "If it has moved, say where it lies now: --model."


def load_again(
    about: Mapping[str, Any],
    *,
    model: str | GivenModel | None,
    device: str,
    compute_dtype: str,
    made: str,
    device_map: DeviceMap | None = None,
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
        check_device_map(device_map, device, given=isinstance(model, GivenModel))
    inspection = find_again(about, model=model, made=made, trust_remote_code=trust_remote_code)
    return load_backbone(
        inspection,
        device=device,
        compute_dtype=compute_dtype,
        device_map=device_map,
        learns=learns,
        quantize_for=quantize_for,
    )


def find_again(
    about: Mapping[str, Any],
    *,
    model: str | GivenModel | None = None,
    made: str,
    remedy: str | None = None,
    trust_remote_code: bool = False,
) -> Inspection:
    """Inspect the backbone that ``about`` describes, and prove that it is the same.

    Errors are those of `load_again`.

    Args:
        about: as there.
        model: as there.
        made: as there.
        trust_remote_code: as there.
        remedy: what to do where it is another model, or none is there; None is to give --model.
    """
    expected, name, source = Identity(**about["identity"]), about["name"], about.get("source")
    if apart := about.get("apart"):
        raise BackboneError(
            f"{made} was made of states of {name!r} that were imported, and a pass of the model "
            f"makes other ones: {apart}. Extract the entry with probekit instead."
        )
    how: dict[str, Any] = {
        "random_init": expected.random_init,
        "part": expected.part,
        "quantize": expected.quantize,
        "trust_remote_code": trust_remote_code,
    }
    if model is None:
        inspection = _where_it_was(about, made, remedy, **how)
    elif isinstance(model, str) and source == "memory" and expected.random_init is None:
        inspection = inspect_backbone(read_saved(model), **how)
    else:
        inspection = inspect_backbone(model, **how)
    if differences := expected.differences(inspection.info.identity):
        known = isinstance(model, GivenModel) and source != "memory"
        hint = " A model in memory is known by its tensors, one in files by these." if known else ""
        told = remedy or "Give the right model with --model."
        raise BackboneError(
            f"model {inspection.info.name!r} is not the one that {made} was made with "
            f"({name!r}): {'; '.join(differences)}.{hint} {told}"
        )
    return inspection


def _where_it_was(
    about: Mapping[str, Any], made: str, remedy: str | None, **how: Any
) -> Inspection:
    """Inspect a model where it was."""
    name, source, moved = about["name"], about.get("source", "hub"), remedy or _MOVED
    if source == "memory":
        raise MissingFileError(
            f"model {name!r} was in memory when {made} was made. {remedy or _AGAIN}"
        )
    if source != "hub" and local_path(name) is None:
        # not looked for on the Hub: 'models/bert' would pass for a repository
        raise MissingFileError(f"model {name!r}: no such file or folder. {moved}")
    try:
        return inspect_backbone(name, revision=about["revision"], **how)
    except (MissingFileError, HubError) as error:
        raise type(error)(f"{error} {moved}") from error


def read_saved(model: str) -> GivenModel:
    """Load what ``save_pretrained`` wrote, as the class and in the dtypes that it was saved with.

    Its tensors are then those of the model in memory, by which that one is known.

    Args:
        model: where it lies.

    Raises:
        BackboneError: it cannot be loaded, or can be no backbone.
        MissingFileError: no model lies there.
    """
    checkpoint = find_checkpoint(model)
    checkpoint.fetch()
    config = load_config(checkpoint)
    saved = next(iter(config.architectures or ()), "")
    kind = getattr(transformers, saved) if hasattr(transformers, saved) else None
    try:
        found = read_with(kind or backbone_classes(config)[0], checkpoint, dtype="auto")
    except Exception as error:  # damaged files raise whatever their reader raises
        raise BackboneError(
            f"model {model!r}: its weights in {checkpoint.folder} cannot be loaded "
            f"({reason_of(error)}). Save the model again."
        ) from error
    return GivenModel.of(found.eval(), read_tokenizer(checkpoint), model)
