"""How a saved run keeps the values that a method trained: in a way that other programs load too."""

import copy
import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from probekit.base.replacing import discard, put
from probekit.errors import RecordError, reason_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

BACKBONE_FOLDER = "backbone"
"""Where they lie in the folder of a saved run."""

VIRTUAL_TOKENS = ("prompt.embedding.weight", "prefix.embedding.weight")
"""What is before the text, of which peft keeps one tensor under a name of its own."""

_METADATA = {"format": "pt", "made_by": "probekit"}


@dataclass(frozen=True, kw_only=True)
class TrainedValues:
    """What is written of a run's model.

    Attributes:
        model: with its trained values.
        names: of these in it.
        base: what the model is called that it was made of.
        revision: commit of that, from the Hub.
        cut: whether its later blocks were taken away.
        tokenizer: the model's.
        code: folder of its own code; None where it has none.
    """

    model: "PreTrainedModel"
    names: Iterable[str]
    base: str
    revision: str | None
    cut: bool
    tokenizer: "PreTrainedTokenizerFast"
    code: Path | None = None


@dataclass(frozen=True)
class Packaging:
    """The values by their names in the model, and nothing beside them.

    Attributes:
        name: what a saved run's ``config.json`` calls it.
        file: of the values.
        whole: whether it is a model that needs no other.
    """

    name: str = "values"
    file: str = "values.safetensors"
    whole: bool = False

    def write(self, folder: Path, trained: TrainedValues) -> None:
        """Write the files of a run's model into an empty folder.

        Raises:
            OSError: they cannot be written.
            SafetensorError: likewise.
        """
        tensors = {self.key(name): value for name, value in self.tensors(trained).items()}
        plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        save_file(plain, folder / self.file, metadata=_METADATA)
        _order_metadata(folder / self.file)
        self.write_beside(folder, trained)

    def put_into(self, model: "PreTrainedModel", path: Path) -> None:
        """Load the values of a file into a model that their method has been attached to.

        Raises:
            RecordError: the file is missing or damaged, or not of such a model; or its run
                diverged.
        """
        try:
            tensors = load_file(path)
        except (OSError, SafetensorError) as error:
            raise RecordError(f"{path}: cannot be read ({reason_of(error)}). {_AGAIN}") from error
        places = {self.key(name): value for name, value in model.state_dict().items()}
        strange = [
            name for name, value in tensors.items()
            if name not in places or places[name].shape != value.shape
        ]  # fmt: skip
        if not tensors:
            raise RecordError(f"{path}: it is empty. {_AGAIN}")
        if strange:
            name = type(model).__name__
            raise RecordError(f"{path}: {name} has no place for {strange[0]}. {_AGAIN}")
        endless = [name for name, value in tensors.items() if not torch.isfinite(value).all()]
        if endless:
            raise RecordError(
                f"{path}: {endless[0]} is not finite, so its run diverged. Train it again with "
                "lower rates."
            )
        with torch.no_grad():
            for name, value in tensors.items():
                places[name].copy_(value)

    def key(self, name: str) -> str:
        """Return what a value of the model is called in the file."""
        return name

    def tensors(self, trained: TrainedValues) -> Mapping[str, Tensor]:
        """Return what is kept, by its name in the model."""
        values = trained.model.state_dict()
        return {name: values[name] for name in trained.names}

    def write_beside(self, folder: Path, trained: TrainedValues) -> None:
        """Write what the file of the values needs beside it."""


@dataclass(frozen=True)
class PeftAdapter(Packaging):
    """What ``PeftModel.from_pretrained`` loads, over the whole base model, cut or not.

    A prefix of keys alone needs a base of as many blocks.
    """

    name: str = "adapter"
    file: str = "adapter_model.safetensors"

    def key(self, name: str) -> str:
        """Return the name without that of the adapter, inside of peft's own model."""
        if name in VIRTUAL_TOKENS:
            return "prompt_embeddings"
        return f"base_model.model.{name.replace('.default', '')}"

    def write_beside(self, folder: Path, trained: TrainedValues) -> None:
        """Write peft's configuration; of a cut model it names every layer that has an adapter."""
        from peft.tuners.lora.layer import ParamWrapper  # of tensors, which it names otherwise
        from peft.tuners.tuners_utils import BaseTunerLayer

        config: Any = copy.copy(trained.model.peft_config["default"])
        config.base_model_name_or_path, config.revision = trained.base, trained.revision
        config.task_type, config.inference_mode = "FEATURE_EXTRACTION", True
        if trained.cut and not config.is_prompt_learning:
            config.target_modules = {
                name
                for name, part in trained.model.named_modules()
                if isinstance(part, BaseTunerLayer) and not isinstance(part, ParamWrapper)
            }
        config.save_pretrained(folder)


@dataclass(frozen=True)
class WholeModel(Packaging):
    """A model as ``AutoModel.from_pretrained`` loads it, with its tokenizer.

    That of a cut model has so many blocks. Where the whole has a norm after its last block it has
    it too, and transformers then gives the last layer after that norm; the head read it before.
    """

    name: str = "checkpoint"
    file: str = "model.safetensors"
    whole: bool = True

    def tensors(self, trained: TrainedValues) -> Mapping[str, Tensor]:
        """Return all tensors of the model; one that has several names is kept by the first."""
        parameters = dict(trained.model.named_parameters())
        named = dict(trained.model.named_parameters(remove_duplicate=False))
        everything = trained.model.state_dict().items()
        return {
            name: value for name, value in everything if name in parameters or name not in named
        }

    def write_beside(self, folder: Path, trained: TrainedValues) -> None:
        """Write configuration, tokenizer and the model's own code."""
        config = copy.deepcopy(trained.model.config)
        config.architectures, config.dtype = [type(trained.model).__name__], torch.float32
        if hasattr(config, "quantization_config"):  # of a GGUF file, which is unpacked
            del config.quantization_config
        config.save_pretrained(folder)
        trained.tokenizer.save_pretrained(folder)
        code = trained.code
        if code is None:
            return
        for path in sorted(code.rglob("*.py")):
            # neither what is hidden, nor other models beside it, nor what is written here
            above = [code / parent for parent in path.relative_to(code).parents][:-1]
            apart = any(up.name.startswith(".") or (up / "config.json").exists() for up in above)
            if not apart and not path.resolve().is_relative_to(folder.resolve()):
                target = folder / path.relative_to(code)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


def _order_metadata(path: Path) -> None:
    """Put a file's metadata in order, which safetensors writes in any: same values, same bytes."""
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode().ljust(size)
        assert len(text) == size, "the same words in another order"
        file.seek(8)
        file.write(text)


_AGAIN = "The saved run is damaged: move it away, and train it again with --save."

PACKAGINGS: Mapping[str, Packaging] = {
    one.name: one for one in (Packaging(), PeftAdapter(), WholeModel())
}


def is_ours(path: Path) -> bool:
    """Say whether a file holds tensors that probekit wrote."""
    with suppress(OSError, SafetensorError), safe_open(path, "pt") as file:
        return (file.metadata() or {}).get("made_by") == _METADATA["made_by"]
    return False


def may_replace(folder: Path) -> bool:
    """Say whether a run may put its files in place of a folder: none is there, or a run's own.

    Args:
        folder: ``backbone`` in the folder of a saved run.
    """
    if not folder.exists():
        return True
    if folder.is_symlink() or not folder.is_dir():
        return False
    written = any(is_ours(folder / packaging.file) for packaging in PACKAGINGS.values())
    return written or not any(folder.iterdir())


def put_in_place(fresh: Path, folder: Path) -> None:
    """Put what a packaging wrote in place of what an earlier run has there.

    Args:
        fresh: holds the new files; it need not exist, where a run trained nothing of the model.
        folder: where they go; somebody else's (see `may_replace`) stays.

    Raises:
        OSError: the files cannot be put there, or the earlier ones removed.
    """
    if folder.exists() and may_replace(folder):
        discard(folder)
    if fresh.exists():
        put(fresh, folder)
