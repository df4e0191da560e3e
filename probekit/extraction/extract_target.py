"""What an extraction is of, and where its entries lie."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from probekit.backbone import GivenModel
from probekit.backbone.placement import DeviceMap, check_device_map
from probekit.backbone.remembered import identity_at
from probekit.base.registry import flag, typed_name
from probekit.errors import OptionError
from probekit.extraction.plan import Shard
from probekit.extraction.request_options import ExtractOptions
from probekit.store.entry import list_entries
from probekit.tasks import TextOptions

_TYPED = (
    "data",
    "splits",
    "revision",
    "label",
    "device",
    "device_map",
    "name",
    "cache",
    "shard",
    "workers",
)
"""What a command line names, in its order; what is done once stays out."""


@dataclass(frozen=True, kw_only=True)
class ExtractTarget:
    """One model and one task as the user names them, and where their entries go.

    Attributes:
        model: Hub id, local folder or .gguf file; the name of a model in memory.
        task: name of a task, or path of the user's own data; the name of examples in memory.
        given: the model in memory, if it is one.
        examples: those in memory, if they are: of the train split, or by split.
        own: how the user's own data is read.
        data: folder with the task's published files; ``None`` reads from the Hub.
        splits: splits to extract; ``None`` is every split that there is.
        revision: Hub branch, tag or commit of the model.
        label: for the user's own data, name or index of the label column.
        device: where the model runs; ``auto`` is CUDA where there is some, else the CPU.
        device_map: in its place, how its blocks are laid out over several devices.
        name: what to call the model in the cache; None is the name of its folder or repository.
        trust_remote_code: run code in the model's folder.
        cache: root of the feature cache.
        overwrite: compute complete entries again and replace them.
        restart: throw away what an unfinished extraction with other options has finished.
        shard: which of several processes this is, that extract the same entries together.
        workers: processes that one command starts, which are its shards.

    Raises:
        BackboneError: blocks are to be laid out, and accelerate is not installed.
        OptionError: blocks cannot be laid out so; or several processes are to replace what one of
            them may be writing, or to share what is in the memory of one.
    """

    model: str
    task: str
    given: GivenModel | None = None
    examples: Any = None
    own: TextOptions = field(default_factory=TextOptions)
    data: Path | None = None
    splits: tuple[str, ...] | None = None
    revision: str | None = None
    label: str | None = None
    device: str = "auto"
    device_map: DeviceMap | None = None
    trust_remote_code: bool = False
    name: str | None = None
    cache: Path = Path("cache")
    overwrite: bool = False
    restart: bool = False
    shard: Shard | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        """Check that several devices, and several processes, can do it; take names of paths."""
        object.__setattr__(self, "model", typed_name(self.model))
        object.__setattr__(self, "task", typed_name(self.task))
        if self.workers < 1:
            raise OptionError(f"--workers must be at least 1; found {self.workers}.")
        if self.device_map is not None:
            check_device_map(self.device_map, self.device, given=self.given is not None)
            if self.workers > 1:
                raise OptionError(
                    f"--device-map {self.device_map}: each of --workers {self.workers} would take "
                    "all devices. Use one worker, or --device for models that fit on one."
                )
        if self.shard is not None:
            self.check_shared(f"--shard {self.shard}", in_one_process=self.workers == 1)
        elif self.workers > 1:
            self.check_shared(f"--workers {self.workers}")

    def check_shared(self, many: str, *, in_one_process: bool = False) -> None:
        """Check that other processes can do it.

        Args:
            many: what asks for them.
            in_one_process: whether it is this process all the same.

        Raises:
            OptionError: see the class.
        """
        for name in ("overwrite", "restart"):
            if getattr(self, name):
                raise OptionError(
                    f"{many} with --{name}: it could delete what another process has just written. "
                    "Remove the entry first (`probekit cache rm`)."
                )
        if not in_one_process and (self.given is not None or self.examples is not None):
            raise OptionError(
                f"{many}: other processes cannot reach a model, or examples, in this one's memory. "
                "Save them first, or use one worker."
            )

    def command(self, options: ExtractOptions) -> str:
        """Return the command line that extracts it with some options; Python, if need be."""
        named = isinstance(self.device_map, Mapping)  # a device for each part
        if self.given is not None or self.examples is not None or named:
            return self._call(options)
        words = [self.model, self.task, *self.own.typed]
        for name, value in self._changed.items():
            option = "--split" if name == "splits" else flag(name)
            words += [option, ",".join(value) if isinstance(value, tuple) else str(value)]
        words += ["--trust-remote-code"] if self.trust_remote_code else []
        return shlex.join(["probekit", "extract", *words, *options.words()])

    @property
    def _changed(self) -> dict[str, Any]:
        """What was typed of the target besides model, task and own data, by name."""
        values = {name: getattr(self, name) for name in _TYPED}
        if self.workers != 1:
            del values["shard"]
        return {n: value for n, value in values.items() if value != getattr(ExtractTarget, n)}

    def _call(self, options: ExtractOptions) -> str:
        """Return the call of the library that extracts what no command line can name."""
        words = [
            f"model={self.model!r}" if self.given is None else "model=MODEL, tokenizer=TOKENIZER",
            f"task={self.task!r}",
            *(["examples=EXAMPLES"] if self.examples is not None else []),
            *(f"{name}={value!r}" for name, value in self.own.given.items()),
        ]
        for name, value in self._changed.items():
            words.append(f"{name}={str(value) if isinstance(value, Path | Shard) else value!r}")
        changed = {
            field.name: getattr(options, field.name)
            for field in fields(options)
            if getattr(options, field.name) != field.default
        }
        said = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        words += [f"options=probekit.ExtractOptions({said})"] if said else []
        return f"probekit.extract({', '.join(words)})"

    def check_name(self, identity: Mapping[str, Any]) -> None:
        """Refuse a name for a model in memory that commands would take for another one's.

        Args:
            identity: of the model.

        Raises:
            OptionError: the cache has another model of that name, or one is known by it.
        """
        entries = [folder for folder in list_entries(self.cache) if folder.model == self.model]
        if any(folder.asked.get("model") not in (None, identity) for folder in entries):
            where = "" if self.cache == Path("cache") else f" --cache {self.cache}"
            raise OptionError(
                f"--name {self.model}: {len(entries)} entries in {self.cache} have that name and "
                "are of a model with other weights. Choose another name, or remove them first: "
                f"probekit cache rm {self.model}{where}."
            )
        if identity_at(self.model) not in (None, identity):
            raise OptionError(
                f"--name {self.model}: that is the path of a model, or its name on the Hub, and "
                "commands would take it for that one. Choose another name."
            )


@dataclass(frozen=True, kw_only=True)
class EntryAddress:
    """Where the entry of a split lies, or is to lie.

    Attributes:
        request: what its key hashes.
        key: the entry's key, 64 hex digits.
        folder: its folder in the cache.
        model: what the cache calls the model.
    """

    request: Mapping[str, Any]
    key: str
    folder: Path
    model: str
