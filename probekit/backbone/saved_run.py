"""A saved run as a model: the folder that holds what was trained of a model beside its head."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from probekit.backbone.checkpoint import local_path
from probekit.base.fingerprint import digest, digest_file, is_changed
from probekit.base.registry import PathName
from probekit.errors import BackboneError, MissingFileError, RecordError
from probekit.store.json_types import (
    JsonType,
    fields_of,
    list_of,
    mistyped,
    read_object,
    text,
    whole,
)
from probekit.store.layout import model_slug
from probekit.tuning import Method, method_of
from probekit.tuning.packaging import BACKBONE_FOLDER, PACKAGINGS, Packaging

_IDENTITY = fields_of({"max_length": whole(1, 2**53)}, needed=("max_length",))

_SAID: Mapping[str, JsonType] = {
    "model": fields_of({"name": text, "identity": _IDENTITY}, needed=("name", "identity")),
    "options": fields_of({"method": text}, needed=("method",)),
    "layers": lambda value: list_of(whole(0, 2**53))(value) and len(value) > 0,
}
"""What the folder of a run says of the model that it trained, and the types of that."""


def called(name: str, identity: Mapping[str, Any]) -> str:
    """Return what the cache calls a model, by the fields of its identity: ``bert-random0``.

    Args:
        name: as the user wrote it; of the model of a run, that of its base.
        identity: what makes another model of that.
    """
    seed, few_bits, method = (
        identity.get(field) for field in ("random_init", "quantize", "method")
    )
    endings = [None if seed is None else f"random{seed}", few_bits]
    endings.append(None if method is None else method.partition(":")[0])
    return "-".join([model_slug(name), *filter(None, endings)])


@dataclass(frozen=True, kw_only=True)
class SavedRun:
    """A model that a run trained, with what the run's folder says of it.

    Attributes:
        name: the folder as the user wrote it.
        folder: of the values.
        base: the model that was trained, the fields of ``BackboneInfo``.
        method: what was trained of it, as it is typed.
        deepest: the last layer that the run read; what comes after it was cut off.
        packaging: how the values are kept.
        written: sha256 of their file as the run wrote it; None of the first runs.
    """

    name: str
    folder: Path
    base: Mapping[str, Any]
    method: str
    deepest: int
    packaging: Packaging
    written: str | None = None

    @classmethod
    def at(cls, model: PathName) -> Self | None:
        """Return the run that is saved in a folder; None where no run or head is.

        Raises:
            BackboneError: a head is, whose run trained nothing of its model; or it is damaged.
            MissingFileError: the values are not there, or runs are in the folders of this one.
        """
        model = os.fspath(model)
        path = local_path(model)
        said = None if path is None else read_object(path / "config.json")
        if path is None or said is None or "format_version" not in said:
            return None
        if is_changed(said):
            raise BackboneError(
                f"{path / 'config.json'} is damaged: it has changed since the run wrote it. Train "
                "it again with --save."
            )
        packaging = PACKAGINGS.get(str(said.get("backbone")))
        if packaging is None:
            raise BackboneError(
                f"{model} is a saved head on a frozen model. Give that model instead "
                f"({said.get('model', {}).get('name')})."
            )
        folder = path / BACKBONE_FOLDER
        if not (file := folder / packaging.file).is_file():
            raise MissingFileError(
                f"{file} is missing: it held the weights that the run trained in its model. Train "
                "it again with --save."
            )
        wrong = [*(name for name in _SAID if name not in said), *mistyped(said, _SAID)]
        if wrong:
            raise BackboneError(
                f"{path / 'config.json'}: the facts about its model are missing or wrong "
                f"({', '.join(wrong)}). Train it again with --save."
            )
        return cls(
            name=model,
            folder=folder,
            base=said["model"],
            method=said["options"]["method"],
            deepest=max(said["layers"]),
            packaging=packaging,
            written=said.get("tuned"),
        )

    @property
    def file(self) -> Path:
        """The file of the values.

        Raises:
            RecordError: it is not the one that the run wrote.
        """
        path = self.folder / self.packaging.file
        if self.written not in (None, self._sha256):
            raise RecordError(
                f"{path} has changed since the run wrote it, so its scores no longer apply. Train "
                "it again with --save."
            )
        return path

    @cached_property
    def _sha256(self) -> str:
        return digest_file(self.folder / self.packaging.file)

    @property
    def digest(self) -> str:
        """Return what tells the model from others of its base and method (64 hex digits)."""
        return digest([self.deepest, self._sha256])

    @cached_property
    def tuning(self) -> Method:
        """The method."""
        method = method_of(self.method)
        assert method is not None, "a saved run has a method"
        return method

    @property
    def quantize_for(self) -> str | None:
        """What had the base's linear layers in 4 bits, see ``load_backbone``; None left them."""
        return f"--method {self.tuning.name}" if self.tuning.quantizes else None

    @property
    def called(self) -> str:
        """What the cache calls the model, unless it is told otherwise: ``minilm-l6-lora``."""
        return called(self.base["name"], self.identity())

    def identity(self) -> dict[str, Any]:
        """Return the identity of the model that it is, the fields of `Identity`."""
        identity = self.base["identity"]
        longest = identity["max_length"] - self.tuning.positions
        changes = {"max_length": longest, "method": self.method, "tuned": self.digest}
        return {**identity, **changes}
