"""What an extraction is of, where its entries lie, and which share of it a process does."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Self

from probekit.backbone import GivenModel, as_given
from probekit.backbone.placement import DeviceMap, check_device_map
from probekit.backbone.remembered import identity_at
from probekit.base.registry import PathName, flag, listed, typed_name
from probekit.engines import check_workers
from probekit.errors import OptionError
from probekit.extraction.plan import Plan, Unit
from probekit.extraction.request_options import ExtractOptions, changed_options
from probekit.store.entry import list_entries
from probekit.store.files import typed_path
from probekit.store.layout import model_slug
from probekit.tasks import TASKS, TextOptions
from probekit.tasks.task import slugify

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

_SHARD = re.compile(r"(\d+)/(\d+)", re.ASCII)


@dataclass(frozen=True)
class Shard:
    """One of several processes that extract the same entries.

    Attributes:
        index: its number, 1 to ``count``.
        count: how many there are.
    """

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read ``2/4``: the second of four.

        Raises:
            OptionError: it has another form, or there is no such shard.
        """
        match = _SHARD.fullmatch(text.strip())
        if match is None:
            raise OptionError(
                f"--shard {text!r}: expected which of how many, such as 2/4 for the second of four."
            )
        index, count = map(int, match.groups())
        if not 1 <= index <= count:
            raise OptionError(
                f"--shard {text}: shards of {count} are 1/{count} to {count}/{count}"
                + (f", for which an array job is --array=1-{count}." if index == 0 < count else ".")
            )
        return cls(index, count)

    @classmethod
    def asked(cls, text: str | None, workers: int) -> "Shard | None":
        """Read the shard that a user asks for, if any.

        Raises:
            OptionError: as `parse`; or workers are asked for as well.
        """
        if text is not None and workers != 1:
            raise OptionError(
                f"--shard {text} with --workers {workers}: each worker is a shard already. Leave "
                "one of them out."
            )
        return None if text is None else cls.parse(text)

    def __str__(self) -> str:
        """Return the form that `parse` reads."""
        return f"{self.index}/{self.count}"

    @property
    def place(self) -> str:
        """Its place among the others as the name of a file has it."""
        return f"{self.index}-of-{self.count}"

    def has_part(self, number: int) -> bool:
        """Say whether a part of a split, 0, 1, ..., is this shard's."""
        return number % self.count == self.index - 1

    def units_of(self, plan: Plan, key: str) -> list[Unit]:
        """Return the units that are this shard's, a function of plan, key and number alone.

        The largest goes to the shard that has least to do (Graham 1969: no shard has more than 4/3
        of what the best division gives the fullest one). Entries begin with another shard each, as
        their keys say: the one unit of a small split is not always the first shard's.

        Args:
            plan: layout of the entry.
            key: of the entry, hex digits.
        """
        tokens, mine = [0] * min(self.count, len(plan.units)), []  # beyond, a shard has none
        first = int(key[:8], 16)
        for unit in plan.largest_first:
            least = tokens.index(min(tokens))
            tokens[least] += plan.unit_tokens(unit)
            if (least + first) % self.count == self.index - 1:
                mine.append(unit)
        return mine


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
        check_workers(self.workers)
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

    @classmethod
    def of(
        cls,
        model: Any,
        task: PathName | None,
        *,
        tokenizer: Any,
        examples: Any,
        data: PathName | None,
        splits: Sequence[str] | None,
        cache: PathName,
        name: str | None,
        **more: Any,
    ) -> Self:
        """Return the target of a call of the library, whose arguments are those of `extract`.

        Raises:
            OptionError: a model or examples in memory have no name, one that no folder can have, or
                one that commands would take for something else.
            BackboneError: a model in memory cannot serve.
        """
        in_memory = None
        if isinstance(model, str | PathLike):
            as_given(model, tokenizer, "")  # which refuses a tokenizer
            called = typed_name(model)
        elif name is None:
            raise OptionError(
                "a model in memory has no name of its own: give one by which the cache knows "
                "it, such as name='mine'."
            )
        else:
            _check_folder_name("--name ", name, model_slug(name))
            called, in_memory = name, GivenModel.of(model, tokenizer, name)
        return cls(
            model=called,
            task=_name_task(task, examples),
            given=in_memory,
            examples=examples,
            data=None if data is None else Path(data),
            splits=None if splits is None else listed(splits),
            cache=typed_path(cache),
            name=name,
            **more,
        )

    @property
    def _changed(self) -> dict[str, Any]:
        """What was typed of the target besides model, task and own data, by name."""
        typed = {name: getattr(self, name) for name in _TYPED}
        if self.workers != 1:
            del typed["shard"]
        return {n: value for n, value in typed.items() if value != getattr(ExtractTarget, n)}

    def words(self) -> list[str]:
        """Return the target as a command line names it."""
        words = [self.model, self.task, *self.own.typed]
        for name, value in self._changed.items():
            option = "--split" if name == "splits" else flag(name)
            words += [option, ",".join(value) if isinstance(value, tuple) else str(value)]
        return [*words, *(["--trust-remote-code"] if self.trust_remote_code else [])]

    def command(self, options: ExtractOptions) -> str:
        """Return the command line that extracts it with some options; Python, if need be."""
        by_part = isinstance(self.device_map, Mapping)  # a device for each part
        if self.given is None and self.examples is None and not by_part:
            return shlex.join(["probekit", "extract", *self.words(), *options.words()])
        said = ", ".join(f"{n}={value!r}" for n, value in changed_options(options).items())
        plain = {n: str(v) if isinstance(v, Path | Shard) else v for n, v in self._changed.items()}
        words = [
            f"model={self.model!r}" if self.given is None else "model=MODEL, tokenizer=TOKENIZER",
            f"task={self.task!r}",
            *(["examples=EXAMPLES"] if self.examples is not None else []),
            *(f"{name}={value!r}" for name, value in {**self.own.given, **plain}.items()),
            *([f"options=probekit.ExtractOptions({said})"] if said else []),
        ]
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


IN_MEMORY = "in-memory"
"""What examples are called that nobody gave a name."""


def _name_task(task: PathName | None, examples: Any) -> str:
    """Return what the task is called; errors are those of `ExtractTarget.of`."""
    if examples is None:
        if task is None:
            raise OptionError("no text was given: give a task, or examples=.")
        return typed_name(task)
    name = IN_MEMORY if task is None else typed_name(task)
    if name.partition("/")[0] in TASKS:
        raise OptionError(
            f"{name} is one of probekit's tasks, but examples= gives a text of your own. Leave one "
            "of them out, or choose another name for the examples."
        )
    if Path(name).exists():
        raise OptionError(
            f"task={name!r} is also a file or folder here, and commands would read that instead of "
            "the examples. Choose another name."
        )
    _check_folder_name("task=", name, slugify(name))
    return name


def _check_folder_name(typed: str, name: str, slug: str) -> None:
    if slug != name:
        raise OptionError(
            f"{typed}{name!r} cannot name a folder in the cache: use letters, digits, '.', '_' and "
            f"'-', such as {slug!r}."
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
