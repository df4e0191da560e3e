"""Load a backbone again: the very one that an entry or a saved head was made with."""

from collections.abc import Mapping
from typing import Any

from probekit.backbone.facts import inspect_backbone
from probekit.backbone.identity import Identity
from probekit.backbone.model import Backbone, load_backbone
from probekit.errors import BackboneError, HubError, MissingFileError


def load_again(
    about: Mapping[str, Any], *, model: str | None, device: str, compute_dtype: str, made: str
) -> Backbone:
    """Load the backbone that ``about`` describes, and prove that it is the same.

    Args:
        about: what ``BackboneInfo.to_json`` returned then.
        model: where the backbone is now; ``None`` is where it was, at the commit that was used.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        compute_dtype: as for ``load_backbone``.
        made: what was made with it, for the message.

    Raises:
        BackboneError: it is another model: weights, tokenizer, configuration, ...
        MissingFileError: no model lies at that path.
        HubError: the repository is missing, gated or unreachable.
    """
    expected = Identity.from_json(about["identity"])
    revision = about["revision"] if model is None else None
    try:
        inspection = inspect_backbone(
            model or about["name"], revision=revision, random_init=expected.random_init
        )
    except (MissingFileError, HubError) as error:
        if model is not None:
            raise
        raise type(error)(f"{error} If it has moved, say where it lies now: --model.") from error
    if differences := expected.differences(inspection.info.identity):
        raise BackboneError(
            f"model {inspection.info.name!r} is not the one that {made} was made with "
            f"({about['name']!r}): {'; '.join(differences)}. Give the right model with --model."
        )
    return load_backbone(inspection, device=device, compute_dtype=compute_dtype)
