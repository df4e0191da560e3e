"""Saved heads: a folder with model.safetensors and config.json, and what the latter says."""

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from probekit.base.fingerprint import CHECKSUM, digest_file, is_changed, parse_json, with_checksum
from probekit.base.notices import human_list
from probekit.base.plugins import Registry
from probekit.base.replacing import matching, put, workshop
from probekit.data.encoded import Pooling
from probekit.errors import (
    MissingFileError,
    OptionError,
    RecordError,
    StorageError,
    reason_of,
    upgrade_to,
)
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.probe.normalization import NORMALIZATIONS
from probekit.store.files import nearest
from probekit.store.json_types import JsonType, fields_of, list_of, mistyped, whole
from probekit.store.layout import FeatureDtype
from probekit.tasks import folder_name, is_called
from probekit.tuning.packaging import (
    BACKBONE_FOLDER,
    PACKAGINGS,
    TrainedValues,
    is_ours,
    may_replace,
    put_in_place,
)
from probekit.version import __version__

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
_REGISTRIES: Mapping[str, Registry[Any]] = {
    "head": HEADS, "decoder": DECODERS, "normalization": NORMALIZATIONS,
}  # fmt: skip
"""Of its parts, with which the names of its tensors begin."""

_SIZES: Mapping[str, JsonType] = {
    "layers": list_of(whole(0, 2**12)),
    "features": fields_of({"dim": whole(1, 2**20), "n_blocks": whole(0, 2**12)}),
}
"""What memory is taken by, before its tensors show what there is."""


class _Form:
    """A value with the form of a JSON object, of which it needs the fields without a default."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the value of such an object.

        Raises:
            KeyError: a field is missing.
        """
        return cls(
            **{
                one.name: values[one.name]
                for one in fields(cls)  # type: ignore[arg-type]
                if one.name in values or (one.default is MISSING and one.default_factory is MISSING)
            }
        )


@dataclass(frozen=True, kw_only=True)
class HeadFeatures(_Form):
    """How the rows of a saved head are made of text.

    Attributes:
        dim: width of a row.
        n_blocks: blocks of the backbone.
        kind: what the head predicts, in ``KINDS``; the first saved heads do not say that it is
            labels of words.
        text_kind: kind of the texts that it reads; that of a regression says how many they are,
            which the first ones do not.
        array: the cache's array that its rows come from.
        pooling: of a word's subwords.
        dtype: of the stored rows.
        compute_dtype: of the backbone.
        max_length: tokens of a window; None is the model's most.
        overlong: what becomes of longer texts.
        only: which of a text's tokens are read; None is all.
        chat_template: sha256 of the template that wrote conversations; None of other texts.
        token_head: dict form of what makes rows of tokens, where it is not trained.
        attention_head: number of the one whose part of a row is read; None is the whole row.
        entry: key of the cache entry of train.
    """

    dim: int
    n_blocks: int
    kind: str = "tagging"
    text_kind: str | None = None
    array: str = "words"
    pooling: Pooling
    dtype: FeatureDtype
    compute_dtype: str
    max_length: int | None
    overlong: str
    only: str | None = None
    chat_template: str | None = None
    token_head: Mapping[str, Any] | None = None
    attention_head: int | None = None
    entry: str


@dataclass(frozen=True, kw_only=True)
class SavedHead(_Form):
    """What is known of a saved head besides its tensors: its config.json.

    Attributes:
        format_version: of the folder.
        probekit: the version that wrote it.
        head: dict form.
        decoder: dict form.
        normalization: dict form.
        layers: layers that the head reads, ascending.
        n_params: trained values, head and decoder together.
        model: the backbone: name and hashes.
        features: how its rows are made of text.
        task: as the user names it.
        label: label column.
        labels: name of each class.
        metric: name of the metric.
        eval_score: dev score.
        test_score: test score, where there is one.
        options: of the run.
        init: what the head that the run started from was trained on, if there is one.
        backbone: packaging of what was trained of the model, in the folder ``backbone``; None
            where nothing was.
        tuned: sha256 of its file.
        weights: sha256 of ``model.safetensors``; None of heads that earlier versions saved.
        plugins: where plug-ins that are not probekit's own are from, by kind.
        read: how the user's own text was read that it was trained on, as its entry says.
        key: of the run's record.
    """

    format_version: int = FORMAT_VERSION
    probekit: str = __version__
    head: Mapping[str, Any]
    decoder: Mapping[str, Any]
    normalization: Mapping[str, Any]
    layers: tuple[int, ...]
    n_params: int
    model: Mapping[str, Any]
    features: HeadFeatures
    task: str
    label: str | None
    labels: tuple[str, ...]
    metric: str
    eval_score: float
    test_score: float | None
    options: Mapping[str, Any]
    init: str | None = None
    backbone: str | None = None
    tuned: str | None = None
    weights: str | None = None
    plugins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    read: Mapping[str, Any] = field(default_factory=dict)
    key: str

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return what a config.json says.

        Raises:
            KeyError: it lacks something.
            TypeError: it is of another form.
            ValueError: it has layers, or a width, that no model has.
        """
        if wrong := mistyped(values, _SIZES):
            raise ValueError(f"{CONFIG} has no such {human_list(wrong)}")
        return super().of(
            {
                **values,
                "layers": tuple(values["layers"]),
                "labels": tuple(values["labels"]),
                "features": HeadFeatures.of(values["features"]),
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Return what ``of`` reads."""
        values = {**vars(self), "features": vars(self.features)}
        later = ("plugins", "read", "backbone", "tuned", "weights")
        return {name: value for name, value in values.items() if value or name not in later}

    def recall_plugins(self) -> None:
        """Make sure that what it is made of is known here.

        Raises:
            UnknownNameError: it is not, and is not or cannot be imported.
            PluginError: it breaks its contract by now.
        """
        for kind, registry in _REGISTRIES.items():
            registry.recall(str(vars(self)[kind].get("name")), self.plugins.get(kind))

    @property
    def text_kind(self) -> str:
        """What it reads: words (tagging), running texts (sentence), or pairs.

        The first saved regressions do not tell which of the last two: regression.
        """
        return self.features.text_kind or self.features.kind


def save_head(
    folder: Path,
    head: SavedHead,
    state: Mapping[str, Tensor],
    trained: TrainedValues | None = None,
) -> Path:
    """Write a trained head to a folder, config.json last.

    Args:
        folder: created when it does not exist; a head in it is replaced.
        head: what is known of it.
        state: its tensors: ``head.*``, ``decoder.*``, ``normalization.*``.
        trained: what was trained of the model, for a head that names its packaging.

    Raises:
        StorageError: the folder cannot be written.
    """
    try:
        with workshop(folder) as fresh:
            save_file(dict(state), fresh / WEIGHTS, metadata={"made_by": "probekit"})
            head = replace(head, weights=digest_file(fresh / WEIGHTS))
            backbone = fresh / BACKBONE_FOLDER
            if trained is not None and head.backbone is not None:
                backbone.mkdir()
                packaging = PACKAGINGS[head.backbone]
                packaging.write(backbone, trained)
                head = replace(head, tuned=digest_file(backbone / packaging.file))
            config = with_checksum(json.loads(json.dumps(head.to_json(), allow_nan=False)))
            text = json.dumps(config, indent=1, ensure_ascii=False) + "\n"
            (fresh / CONFIG).write_text(text, "utf-8")
            if backbone.exists() and not may_replace(folder / BACKBONE_FOLDER):
                raise FileExistsError(f"no run wrote {folder / BACKBONE_FOLDER}: move it away")
            (folder / CONFIG).unlink(missing_ok=True)  # the old weights' own; only now they go
            put(fresh / WEIGHTS, folder / WEIGHTS)
            put_in_place(backbone, folder / BACKBONE_FOLDER)
            put(fresh / CONFIG, folder / CONFIG)
    except (OSError, SafetensorError) as error:
        raise StorageError(
            f"{folder}: cannot save the head ({error}). Choose another folder with --save."
        ) from error
    return folder


def _are_others(file: Path) -> bool:
    """Say whether a file holds tensors that are no head's; one that is damaged tells of none."""
    with suppress(OSError, SafetensorError), safe_open(file, "pt") as opened:
        return not {name.partition(".")[0] for name in opened.keys()} <= _REGISTRIES.keys()  # noqa: SIM118
    return False


def check_replaceable(
    folder: Path, *, key: str, task: str, label: str | None, head: str, tunes: bool = False
) -> None:
    """Refuse a folder that cannot be written, or where a run would overwrite another kind of thing.

    A head of the same task, label and head name may be replaced, and so may a damaged one.

    Args:
        folder: where the run is to be saved; it need not exist.
        key: record key of the run.
        task: its task, as records name it.
        label: its label column.
        head: name of its head.
        tunes: whether it trains values of the model too.

    Raises:
        OptionError: the folder holds the head of another task, label or head, or a config.json or
            weights that are no saved head's (a model's); or something else in ``backbone``.
        StorageError: the folder cannot be made or written.
    """
    there = nearest(folder)
    if not there.is_dir():
        raise StorageError(f"--save {folder}: {there} is a file. Choose another folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise StorageError(f"--save {folder}: {there} cannot be written. Choose another folder.")
    backbone = folder / BACKBONE_FOLDER
    if tunes and not may_replace(backbone):
        raise OptionError(
            f"--save {folder}: the run would write its trained weights to {backbone}, which holds "
            "something else. Move it away, or choose another folder."
        )
    config, foreign = _json_of(folder / CONFIG), None
    if config is not None and not _is_saved(config):
        foreign = CONFIG
    elif config is not None and _are_others(folder / WEIGHTS):
        foreign = WEIGHTS
    elif config is None and not is_ours(folder / WEIGHTS):
        foreign = next((name for name in (WEIGHTS, CONFIG) if (folder / name).exists()), None)
    if foreign is not None:
        raise OptionError(
            f"--save {folder}: its {foreign} does not belong to a saved head, perhaps to a model. "
            "Choose another folder."
        )
    if config is None:
        return
    named = config.get("head")
    name = named.get("name") if isinstance(named, Mapping) else None
    other_task, other_label = config.get("task"), config.get("label")
    same = (other_label, name) == (label, head) and is_called(folder_name(task), str(other_task))
    if config.get("key") != key and not same:
        raise OptionError(
            f"--save {folder}: a head of another run is saved there (task {other_task}, label "
            f"{other_label}, head {name}; this one: {task}, {label}, {head}). Choose another "
            "folder, or remove that one."
        )


def saved_key(folder: Path) -> str | None:
    """Return the record key of the run whose head a folder holds, or None without a sound one."""
    try:
        return _read_config(folder).get("key")
    except (MissingFileError, RecordError):
        return None


def read_saved(folder: Path) -> tuple[SavedHead, dict[str, Tensor]]:
    """Return what is known of a saved head and its tensors, without building its modules.

    Raises:
        MissingFileError: the folder holds no saved head.
        RecordError: its files are damaged, or of a newer format, or its run diverged.
    """
    config = _read_config(folder)
    try:
        head = SavedHead.of(config)
    except KeyError as error:
        raise RecordError(damaged(folder, f"{CONFIG} lacks {error}")) from None
    except (TypeError, ValueError) as error:
        raise RecordError(damaged(folder, reason_of(error))) from None
    if head.weights is None:
        logger.info("%s: saved by an earlier version, without checksums", folder)
    try:
        same = head.weights in (None, digest_file(folder / WEIGHTS))
        state = load_file(folder / WEIGHTS)
    except FileNotFoundError:
        raise MissingFileError(f"{folder}: no saved head here ({WEIGHTS} is missing).") from None
    except (SafetensorError, ValueError) as error:
        raise RecordError(damaged(folder, reason_of(error))) from None
    if not same:
        raise RecordError(damaged(folder, f"{WEIGHTS} has changed since it was written"))
    endless = [name for name, value in state.items() if not torch.isfinite(value).all()]
    if endless:
        raise RecordError(
            f"{folder}: {endless[0]} of the saved head is not finite, so its run diverged. Train "
            "it again with a lower --lr or with --normalize."
        )
    return head, state


def saved_below(folder: Path) -> list[Path]:
    """Return the folders in a folder that hold a saved head, sorted by name."""
    return [path.parent for path in matching(folder, f"*/{CONFIG}") if _holds_saved(path)]


def damaged(folder: Path, reason: str) -> str:
    """Return the message for a saved head that cannot be read."""
    return f"{folder}: the saved head is damaged ({reason}). Train it again with --save."


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        config = parse_json(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(_none_here(folder, f"no {CONFIG}")) from None
    except ValueError as error:
        raise RecordError(f"{path} is not JSON ({error}). Train the head again.") from None
    if not _is_saved(config):
        reason = f"its {CONFIG} does not belong to a saved head, perhaps to a model"
        raise MissingFileError(_none_here(folder, reason))
    version = config["format_version"]
    if version != FORMAT_VERSION:
        newer = isinstance(version, int) and version > FORMAT_VERSION
        remedy = upgrade_to(config.get("probekit")) if newer else "train the head again"
        raise RecordError(
            f"{path}: format version {version}, this probekit reads {FORMAT_VERSION}; {remedy}."
        )
    if is_changed(config):
        raise RecordError(damaged(folder, f"{CONFIG} has changed since it was written"))
    return {name: value for name, value in config.items() if name != CHECKSUM}


def _is_saved(config: object) -> bool:
    """Say whether the content of a config.json is that of a saved head, of whatever version."""
    return isinstance(config, dict) and "format_version" in config


def _none_here(folder: Path, reason: str) -> str:
    """Say that a folder is no saved head, and which of its folders are."""
    names = [path.name for path in saved_below(folder)]
    if not names:
        return f"{folder}: no saved head here ({reason}). `probekit train --save DIR` makes one."
    listed = human_list(names)
    return f"{folder}: no saved head here, but in its folders: {listed}. Give one of them."


def _json_of(path: Path) -> Any:
    """Return what a file holds; None where none is there, or it is not JSON."""
    with suppress(FileNotFoundError, ValueError):
        return parse_json(path.read_text("utf-8"))
    return None


def _holds_saved(path: Path) -> bool:
    """Say whether a file can be read, and is the config.json of a saved head."""
    with suppress(OSError):
        return _is_saved(_json_of(path))
    return False
