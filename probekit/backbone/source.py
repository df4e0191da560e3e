"""Where a model comes from: a Hub repository, a local folder or a GGUF file."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from probekit.backbone import hub
from probekit.backbone.files import (
    SMALL_FILES,
    WeightFile,
    index_files,
    local_weights,
    pick_weights,
)
from probekit.errors import BackboneError, HubError, MissingFileError, OptionError

Kind = Literal["hub", "folder", "gguf"]
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """A model that was found, with its small files on this disk.

    Attributes:
        name: the model as the user wrote it.
        kind: where it comes from.
        folder: the folder with its configuration and tokenizer files (for a GGUF file, the
            folder it lies in).
        weights: the weight files, in the order in which they are read.
        revision: the commit of a Hub repository, else None.
    """

    name: str
    kind: Kind
    folder: Path
    weights: tuple[WeightFile, ...]
    revision: str | None = None

    @property
    def gguf_file(self) -> str | None:
        """The name of the GGUF file inside ``folder``, or None for the other kinds."""
        return self.weights[0].name if self.kind == "gguf" else None

    def fetch_unlisted_weights(self) -> tuple[WeightFile, ...]:
        """Return ``weights``, after downloading those whose sha256 the Hub does not list.

        Raises:
            HubError: the Hub cannot be reached, or refuses.
        """
        unlisted = [file.name for file in self.weights if file.sha256 is None]
        if self.kind == "hub" and unlisted:
            assert self.revision is not None
            hub.fetch(self.name, self.revision, unlisted)
        return self.weights

    def fetch_weights(self) -> None:
        """Download the weight files of a Hub repository that are not yet on this disk.

        Raises:
            HubError: the Hub cannot be reached, or refuses.
        """
        if self.kind == "hub":
            assert self.revision is not None
            hub.fetch(self.name, self.revision, [file.name for file in self.weights])


def resolve_source(model: str, *, revision: str | None = None, weights: bool = True) -> ModelSource:
    """Find a model without reading its weights.

    Args:
        model: a Hub id such as ``roberta-large``, a local folder, or a ``.gguf`` file. What looks
            like a path and does not exist is an error at once; the network is not asked.
        revision: branch, tag or commit of a Hub repository.
        weights: look for the weight files; without, ``ModelSource.weights`` is empty (a ``.gguf``
            file, which holds the configuration too, is listed all the same).

    Raises:
        MissingFileError: the path does not exist.
        BackboneError: the folder or file is no model, or has no weights.
        HubError: the repository is missing, gated or unreachable.
        OptionError: a revision was given for a local model, or the name is neither path nor id.
    """
    path = Path(model).expanduser()
    if path.is_file():
        _refuse_revision(model, revision)
        return _gguf_source(model, path)
    if path.is_dir() and (_looks_like_path(model) or (path / "config.json").exists()):
        _refuse_revision(model, revision)
        return _folder_source(model, path, weights)
    if _looks_like_path(model):
        raise MissingFileError(
            f"model {model!r}: no such file or folder. Check the path, or give a Hub id such as "
            "'roberta-large'."
        )
    if not _HUB_ID.fullmatch(model):
        raise OptionError(
            f"model {model!r} is neither a path nor a Hub id. Give a folder, a .gguf file, or an "
            "id such as 'roberta-large' or 'org/name'."
        )
    return _hub_source(model, revision, weights)


def _looks_like_path(model: str) -> bool:
    if model.startswith((".", "/", "~")) or model.endswith((".gguf", "/")) or "\\" in model:
        return True
    return model.count("/") > 1 or ("/" in model and Path(model).parent.is_dir())


def _refuse_revision(model: str, revision: str | None) -> None:
    if revision is not None:
        raise OptionError(
            f"--revision {revision} applies to a Hub repository, and {model!r} is local. Leave it "
            "out."
        )


def _gguf_source(model: str, path: Path) -> ModelSource:
    if path.suffix != ".gguf":
        raise BackboneError(
            f"model {model!r} is a file but not a .gguf file. Give the folder that holds "
            "config.json and the weights."
        )
    weights = (WeightFile(name=path.name, path=path.resolve()),)
    return ModelSource(name=model, kind="gguf", folder=path.resolve().parent, weights=weights)


def _folder_source(model: str, path: Path, weights: bool) -> ModelSource:
    if not (path / "config.json").is_file():
        gguf = sorted(path.glob("*.gguf"))
        file = f"the file itself: {gguf[0]}" if gguf else "a .gguf file"
        raise BackboneError(
            f"model {model!r}: the folder holds no config.json. Save a model there with "
            f"save_pretrained, or name {file}."
        )
    folder = path.resolve()
    found = local_weights(folder) if weights else ()
    return ModelSource(name=model, kind="folder", folder=folder, weights=found)


def _hub_source(model: str, revision: str | None, weights: bool) -> ModelSource:
    listing = hub.list_files(model, revision)
    if listing.files is None:
        folder, found = _cached_files(model, listing.commit, weights)
    else:
        folder, found = _hub_files(model, revision, listing.commit, listing.files, weights)
    return ModelSource(
        name=model, kind="hub", folder=folder, weights=found, revision=listing.commit
    )


def _cached_files(model: str, commit: str, weights: bool) -> tuple[Path, tuple[WeightFile, ...]]:
    """Find the files of a commit that the Hub cache holds."""
    folder = hub.cached_snapshot(model, commit)
    try:
        return folder, local_weights(folder) if weights else ()
    except BackboneError as error:
        raise HubError(
            f"the Hub cannot be asked, and the cached copy of {model!r} at {commit[:8]} is "
            "incomplete: its weights are not all there. Run once with the network, or give a "
            "local folder or a .gguf file."
        ) from error


def _hub_files(
    model: str, revision: str | None, commit: str, files: dict[str, str | None], weights: bool
) -> tuple[Path, tuple[WeightFile, ...]]:
    """Fetch the small files of a repository, and say which weight files it would need."""
    if "config.json" not in files:
        raise BackboneError(
            f"model {model!r}: the repository holds no config.json, so it is no transformers "
            "model. Choose another repository, or a .gguf file on this disk."
        )
    hub.note_revision(model, revision)
    wanted = [name for name in files if SMALL_FILES.fullmatch(name)] + index_files(files)
    folder = hub.fetch(model, commit, wanted)
    names = pick_weights(folder, files) if weights else ()
    return folder, tuple(
        WeightFile(name=name, path=folder / name, sha256=files[name]) for name in names
    )
