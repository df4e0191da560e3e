"""What an extraction is of, where its entries lie, and the time and room that they take."""

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from probekit.backbone import GivenModel, StateSource
from probekit.backbone.placement import DeviceMap, check_device_map
from probekit.backbone.remembered import identity_at
from probekit.base.notices import human_bytes, human_time, short_time
from probekit.base.registry import flag
from probekit.data.batches import TokenBatch
from probekit.errors import OptionError
from probekit.extraction.compute import batches_of
from probekit.extraction.plan import Plan, Shard
from probekit.extraction.request_options import ExtractOptions
from probekit.extraction.units import Unit
from probekit.store.entry import list_entries
from probekit.store.files import check_room, disk_bytes
from probekit.store.layout import PARTIAL, beside
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
        """Check that several devices, and several processes, can do it."""
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
                    f"{many} with --{name}: what it would throw away may be what another process "
                    "has just written. Remove it first (`probekit cache rm`)."
                )
        if not in_one_process and (self.given is not None or self.examples is not None):
            raise OptionError(
                f"{many}: a model, or examples, in the memory of this process cannot be shared "
                "with others. Save them first, or use one worker."
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
                f"--name {self.model}: the cache {self.cache} calls another model so (other "
                f"tensors are another model), in {len(entries)} entries. Choose another name, or "
                f"remove them first: probekit cache rm {self.model}{where}."
            )
        if identity_at(self.model) not in (None, identity):
            raise OptionError(
                f"--name {self.model}: commands would take that for the model that lies at "
                "that path, or that the Hub calls so. Choose another name."
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


_MOST_TOKENS = 512
"""Tokens of the measured pass on a CPU, where more take long and go no faster."""

_LEAST_TOKENS = 128
"""The same where so many are a large part of the entry; fewer would go slower than a batch does."""


def tokens_per_second(backbone: StateSource, plan: Plan, *, share: float = 1.0) -> float:
    """Measure the forward pass on some of the entry's own sentences of middling length.

    Args:
        backbone: the frozen model.
        plan: of the entry.
        share: of the entry's tokens, how many are measured on a CPU: 128 at least, 512 at most,
            after a warm-up with a quarter as many. Elsewhere it is a batch.
    """
    batches = batches_of(backbone, plan, plan.largest_first[0])
    batch = batches[len(batches) // 2]
    count = len(batch.lengths)
    if backbone.device.type == "cpu":
        most = min(_MOST_TOKENS, max(int(share * plan.tokens), _LEAST_TOKENS))
        count = min(count, max(1, most // batch.input_ids.shape[1]))
    # a few first: they pay for allocation and kernel selection
    run_pass(backbone, plan, batch, -(-count // 4))
    seconds = seconds_of(lambda: run_pass(backbone, plan, batch, count))
    return int(batch.lengths[:count].sum()) / seconds


def run_pass(backbone: StateSource, plan: Plan, batch: TokenBatch, count: int) -> None:
    """Take the states of the first windows of a batch, and wait for them."""
    states = backbone.states_of(batch.first(count), plan.layers)
    states[-1][0, 0, 0].item()  # an accelerator returns before it is done; this waits for it


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def describe_work(
    title: str, plan: Plan, units: Sequence[Unit], folder: Path, speed: float, begun: float
) -> str:
    """Return one line for people: what is read, what is written and where, and the time it takes.

    Args:
        title: the split's name, and which shard this is.
        plan: the layout.
        units: those that are written.
        folder: the entry's folder.
        speed: of the forward pass, tokens per second as measured.
        begun: share of their subwords that an earlier run has done.
    """
    # "12,345 words x 7 layers x 384 and 23,456 tokens x 1 layer x 384"
    arrays = " and ".join(
        f"{plan.encoded.rows[name].sum():,} {name} x {len(array.layers)} "
        f"layer{'' if len(array.layers) == 1 else 's'} x {array.dim}"
        for name, array in plan.arrays.items()
    )
    some = "" if len(units) == len(plan.units) else f"{len(units)} of {len(plan.units)} units of "
    tokens = [plan.unit_tokens(unit) for unit in units]
    seconds, largest = (1 - begun) * sum(tokens) / speed, max(tokens, default=0) / speed
    of_units = f", units of {short_time(largest)}" if len(units) > 1 else ""
    there = f"; {begun:.0%} of it is there already" if begun >= 0.005 else ""
    return (
        f"{title}: {len(plan.encoded.ids):,} examples; writing {some}{arrays} "
        f"({human_bytes(plan.nbytes)}) to {folder} in about "
        f"{human_time(seconds)} ({speed:,.0f} tokens/s{of_units}){there}"
    )


def describe_cuts(split: str, counts: Mapping[str, int], limit: int) -> str | None:
    """Return what a split loses to the limit, for people; None if it loses nothing.

    Args:
        split: the split's name.
        counts: of its manifest.
        limit: most subwords of a window.
    """
    if texts := counts.get("truncated_examples"):
        return f"{split}: {texts:,} of {counts['examples']:,} texts are cut at {limit} subwords."
    if words := counts.get("truncated_words"):
        return (
            f"{split}: {words:,} of {counts['words']:,} words do not fit into windows of {limit} "
            "subwords. What is cut off a word takes no part in its states; a word that is cut off "
            "whole has none: it is not trained on, and counts in scoring as any other word, with a "
            "row of zeros."
        )
    return None


def missing_bytes(plan: Plan, address: EntryAddress) -> int:
    """Return the bytes of an entry that are still to be written."""
    # What is unfinished is there already when the build is resumed, and given back when it begins
    # afresh.
    return plan.nbytes - disk_bytes(beside(address.folder, PARTIAL))


def check_free_space(folder: Path, needed: int) -> None:
    """Refuse to start when the disk cannot hold the entry; see `check_room`."""
    check_room(
        folder,
        needed,
        "this extraction",
        "choose another --cache, or store less: --dtype int8 halves it, --layers and --limit "
        "narrow it",
    )
