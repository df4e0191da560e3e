"""Code of a model's own: it runs only where the user has typed so, and is known by its digest."""

import json
from collections.abc import Mapping
from pathlib import Path

from transformers import AutoModel, PretrainedConfig
from transformers.dynamic_module_utils import get_class_from_dynamic_module

from probekit.backbone.checkpoint import Checkpoint
from probekit.base.fingerprint import digest, digest_file
from probekit.errors import BackboneError, OptionError

_NEEDED = ("AutoConfig", "AutoModel")


def own_classes(checkpoint: Checkpoint) -> Mapping[str, str]:
    """Return the classes of its own code that a model's configuration names (``auto_map``)."""
    if checkpoint.gguf_file:
        return {}
    try:
        found = json.loads((checkpoint.folder / "config.json").read_text("utf-8")).get("auto_map")
    except (ValueError, AttributeError, RecursionError):  # which reading the configuration says
        return {}
    return found if isinstance(found, dict) else {}


def check_trusted(checkpoint: Checkpoint) -> None:
    """Check that the code of a model is there to run, where the user has typed that it may.

    Raises:
        OptionError: the model has none.
        BackboneError: its configuration names no class that would do, or one elsewhere.
    """
    named, name = own_classes(checkpoint), checkpoint.name
    if not checkpoint.trusted:
        return
    if not named:
        raise OptionError(
            f"--trust-remote-code: model {name!r} has no code of its own (no auto_map in its "
            "config.json). Leave it out."
        )
    if missing := [one for one in _NEEDED if one not in named]:
        raise BackboneError(
            f"model {name!r}: the auto_map of its config.json names no {missing[0]}, without which "
            "its hidden states cannot be asked for. Choose another model."
        )
    elsewhere = [place for place in map(str, named.values()) if "--" in place]
    if elsewhere:
        raise BackboneError(
            f"model {name!r}: its code lies in another repository ({elsewhere[0].split('--')[0]}), "
            "of which no revision is fixed. Copy its .py files into the model's folder, and take "
            "the repository out of the auto_map of config.json."
        )


def register_own(checkpoint: Checkpoint, config: PretrainedConfig) -> None:
    """Let transformers build models of a configuration whose code the user trusts.

    Raises:
        Exception: whatever the code raises.
    """
    place, folder = own_classes(checkpoint)["AutoModel"], str(checkpoint.folder)
    model = get_class_from_dynamic_module(place, folder, local_files_only=True)
    AutoModel.register(type(config), model, exist_ok=True)


def refusal(checkpoint: Checkpoint) -> str | None:
    """Return why a model cannot be read without its own code; None of a model that has none."""
    if "AutoConfig" not in own_classes(checkpoint):
        return None
    files = ", ".join(sorted(path.name for path in checkpoint.folder.glob("*.py")))
    where = f"{checkpoint.folder}: {files}" if files else "the .py files of its repository"
    return (
        f"model {checkpoint.name!r} is computed by code of its own, which could do "
        f"anything on this machine. Read it ({where}); if you trust it, give --trust-remote-code."
    )


def code_digest(folder: Path) -> str:
    """Return the digest of all code in a model's folder (64 hex digits), by path and content."""
    return digest(
        {path.relative_to(folder).as_posix(): digest_file(path) for path in folder.rglob("*.py")}
    )
