"""Where a model comes from: a Hub repository, a local folder or a GGUF file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from probekit.backbone import hub
from probekit.backbone.model_files import (
    SMALL_FILES,
    WeightFile,
    index_files,
    local_adapter,
    local_weights,
    pick_adapter,
    pick_weights,
)
from probekit.errors import BackboneError, HubError, MissingFileError, OptionError

SourceKind = Literal["hub", "folder", "gguf"]
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
        adapter: configuration and weights of the PEFT adapter that lies beside them, if any.
        revision: the commit of a Hub repository, else None.
    """

    name: str
    kind: SourceKind
    folder: Path
    weights: tuple[WeightFile, ...]
    adapter: tuple[WeightFile, ...] = ()
    revision: str | None = None

    @property
    def gguf_file(self) -> str | None:
        """The name of the GGUF file inside ``folder``, or None for the other kinds."""
        return self.weights[0].name if self.kind == "gguf" else None

    def fetch_unlisted(self) -> None:
        """Download the weights and adapter files whose sha256 the Hub does not list.

        Raises:
            HubError: the Hub cannot be reached, or refuses.
        """
        self._fetch([file for file in self._files if file.sha256 is None])

    def fetch_weights(self) -> None:
        """Download the weights and adapter of a Hub repository that are not yet on this disk.

        Raises:
            HubError: the Hub cannot be reached, or refuses.
        """
        self._fetch(self._files)

    @property
    def _files(self) -> tuple[WeightFile, ...]:
        return self.weights + self.adapter

    def _fetch(self, files: Sequence[WeightFile]) -> None:
        if self.kind == "hub" and files:
            assert self.revision is not None
            hub.fetch(self.name, self.revision, [file.name for file in files])


def resolve_source(model: str, *, revision: str | None = None, weights: bool = True) -> ModelSource:
    """Find a model without reading its weights.

    Args:
        model: a Hub id such as ``roberta-large``, a local folder, or a ``.gguf`` file. What looks
            like a path and does not exist is an error at once; the network is not asked.
        revision: branch, tag or commit of a Hub repository.
        weights: look for weights and adapter; without, ``ModelSource`` holds none (a ``.gguf``
            file, which holds the configuration too, is listed all the same).

    Raises:
        MissingFileError: the path does not exist.
        BackboneError: the folder or file is no model, or has no weights.
        HubError: the repository is missing, gated or unreachable.
        OptionError: a revision was given for a local model, or the name is neither path nor id.
    """
    if (path := local_path(model)) is not None:
        _refuse_revision(model, revision)
        if path.is_file():
            return _gguf_source(model, path)
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


def local_path(model: str) -> Path | None:
    """Return the file or folder on this disk that ``model`` means, or None if it means none."""
    path = Path(model).expanduser()
    if path.is_file():
        return path
    meant = path.is_dir() and (_looks_like_path(model) or (path / "config.json").exists())
    return path if meant else None


def holds_model(path: Path) -> bool:
    """Say whether a file or folder is a model by its looks: a file, or a configuration in it."""
    return path.is_file() or (path / "config.json").is_file()


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
    if not holds_model(path):
        gguf = sorted(path.glob("*.gguf"))
        file = f"the file itself: {gguf[0]}" if gguf else "a .gguf file"
        raise BackboneError(
            f"model {model!r}: the folder holds no config.json. Save a model there with "
            f"save_pretrained, or name {file}."
        )
    folder = path.resolve()
    return ModelSource(
        name=model,
        kind="folder",
        folder=folder,
        weights=local_weights(folder) if weights else (),
        adapter=local_adapter(folder) if weights else (),
    )


def _hub_source(model: str, revision: str | None, weights: bool) -> ModelSource:
    listing = hub.list_files(model, revision)
    if listing.files is None:
        return _cached_source(model, listing.commit, weights)
    return _listed_source(model, revision, listing.commit, listing.files, weights)


def _cached_source(model: str, commit: str, weights: bool) -> ModelSource:
    """Find the files of a commit that the Hub cache holds."""
    folder = hub.cached_snapshot(model, commit)
    try:
        return ModelSource(
            name=model,
            kind="hub",
            folder=folder,
            weights=local_weights(folder) if weights else (),
            adapter=local_adapter(folder) if weights else (),
            revision=commit,
        )
    except BackboneError as error:
        raise HubError(
            f"the Hub cannot be asked, and the cached copy of {model!r} at {commit[:8]} is "
            "incomplete: its weights are not all there. Run once with the network, or give a "
            "local folder or a .gguf file."
        ) from error


def _listed_source(
    model: str, revision: str | None, commit: str, files: dict[str, str | None], weights: bool
) -> ModelSource:
    """Fetch the small files of a repository, and say which weight files it would need."""
    if "config.json" not in files:
        raise BackboneError(
            f"model {model!r}: the repository holds no config.json, so it is no transformers "
            "model. Choose another repository, or a .gguf file on this disk."
        )
    hub.note_revision(model, revision)
    wanted = [name for name in files if SMALL_FILES.fullmatch(name)] + index_files(files)
    folder = hub.fetch(model, commit, wanted)

    def listed(names: Sequence[str]) -> tuple[WeightFile, ...]:
        return tuple(
            WeightFile(name=name, path=folder / name, sha256=files[name]) for name in names
        )

    return ModelSource(
        name=model,
        kind="hub",
        folder=folder,
        weights=listed(pick_weights(folder, files) if weights else ()),
        adapter=listed(pick_adapter(model, files) if weights else ()),
        revision=commit,
    )
