"""From the command line's words to the runs of a sweep."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from probekit.cli.options import check_order, split_list
from probekit.cli.training_options import TrainingOptions
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.features import Location
    from probekit.results import Record
    from probekit.specs import TrainSpec

logger = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_HEADS = ("last", "p32", "concat", "dwatt")
DEFAULT_EPOCHS = 50

_UNSET = ("auto", "none", "all")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which features a command trains on.

    Attributes:
        model: the model as the user names it.
        task: the task as the user names it.
        location: where entries and labels lie.
    """

    model: str
    task: str
    location: "Location"

    @classmethod
    def of(cls, model: str, task: str | None, shared: TrainingOptions) -> Self:
        """Read MODEL TASK, or the path of an entry in their place.

        Raises:
            OptionError: there is no TASK, and MODEL is not the path of an entry; or the two are
                the wrong way round.
        """
        from probekit.features import Location
        from probekit.store.entry import read_manifest
        from probekit.store.names import MANIFEST

        check_order(model, task)
        cache, entry = shared.cache, shared.entry
        if task is None:
            path = Path(model)
            if not (path / MANIFEST).is_file():
                raise OptionError(
                    f"{model!r} is not the path of a cache entry. Give MODEL and TASK, or a path "
                    "that `probekit cache ls` or `probekit cache path` shows."
                )
            manifest = read_manifest(path)
            # Not the name that the user typed: as a path, it means nothing in another folder.
            model, task = manifest.model, manifest.task
            cache, entry = path.resolve().parents[2], str(path)
        place = Location(
            cache=cache, entry=entry, data=shared.data, kind=shared.kind, text=shared.text
        )
        return cls(model=model, task=task, location=place)

    def n_blocks(self, label: str | None, fit_on: str) -> int:
        """Return the model's number of blocks L, from the cache."""
        from probekit.features import open_features

        splits = open_features(self.model, self.task, label, self.location, fit_on=fit_on)
        return splits.n_blocks

    def kind(self, label: str | None) -> str:
        """Return what a label column labels: words, whole texts, ..."""
        from probekit.tasks import get_task

        place = self.location
        task = get_task(self.task, kind=place.kind, text=place.text, label=label)
        return task.kind_of(task.columns[0]) if task.columns else task.kind

    def default_out(self, label: str | None) -> Path:
        """Return ``runs/<model>/<task>.jsonl``."""
        from probekit.store.layout import model_slug
        from probekit.tasks import get_task

        place = self.location
        task = get_task(self.task, kind=place.kind, text=place.text, label=label)
        return Path("runs") / model_slug(self.model) / f"{task.slug}.jsonl"


def run(
    target: Target,
    shared: TrainingOptions,
    *,
    head: str | None,
    depths: Sequence[int | None],
    epochs: str | None,
    evals: int,
    save: Path | None = None,
    predictions: bool = False,
    workers: int = 1,
    engine: str = "local",
) -> "list[Record]":
    """Train every combination of the options, and say where the records are.

    Args:
        target: the features.
        shared: options of all training commands.
        head: heads; what the protocol compares if unset.
        depths: largest layers that heads may see.
        epochs: passes over the training sentences; the protocol's if unset.
        evals: how often dev is scored.
        save: folder for the trained heads.
        predictions: write predictions beside the records.
        workers: worker processes.
        engine: what runs them.
    """
    from probekit.cli.output import progress_wanted
    from probekit.sweeps import sweep

    out = shared.out or target.default_out(first_label(shared))
    records = sweep(
        _plan(target, shared, head=head, depths=depths, epochs=epochs, evals=evals),
        out=out,
        location=target.location,
        workers=workers,
        engine=engine,
        memory=parse_bytes(shared.memory),
        device=shared.device,
        save=save,
        predictions=predictions,
        progress=progress_wanted(),
    )
    logger.info("records: %s", out)
    if save is not None:
        logger.info("saved heads: %s", save)
    return records


def with_baselines(
    target: Target,
    shared: TrainingOptions,
    *,
    head: str,
    depths: Sequence[int | None],
    epochs: str | None,
    evals: int,
    save: Path | None = None,
    predictions: bool = False,
) -> "list[Record]":
    """Train heads with their baselines; return all records, and say what could not be had."""
    from probekit.baselines import check_plan, run_baselines
    from probekit.cli.output import progress_wanted

    plan = _plan(target, shared, head=head, depths=depths, epochs=epochs, evals=evals)
    check_plan(plan)
    run(
        target,
        shared,
        head=head,
        depths=depths,
        epochs=epochs,
        evals=evals,
        save=save,
        predictions=predictions,
    )
    found = run_baselines(
        plan,
        out=shared.out or target.default_out(first_label(shared)),
        location=target.location,
        memory=parse_bytes(shared.memory),
        device=shared.device,
        progress=progress_wanted(),
    )
    for note in found.notes:
        logger.info("%s", note)
    return [*found.guesses, *found.heads, *found.random]


def _plan(
    target: Target,
    shared: TrainingOptions,
    *,
    head: str | None,
    depths: Sequence[int | None],
    epochs: str | None,
    evals: int,
) -> "list[TrainSpec]":
    """Return one spec for every combination, the seed varying fastest.

    Raises:
        OptionError: an option names no value, or one that cannot be used.
    """
    from probekit.specs import TrainSpec, product

    preset = Preset.of(shared, target)
    seeds = preset.seeds if shared.seeds is None else shared.seeds
    if seeds < 1:
        raise OptionError("--seeds must be at least 1.")
    varied: dict[str, Sequence[Any]] = {
        "label": each_name(shared.label),
        "head": preset.heads if head is None else split_list(head),
        "decoder": [preset.decoder] if shared.decoder is None else split_list(shared.decoder),
        "depth": depths,
        "normalize": split_list(shared.normalize),
        "shots": each(shared.shots, int, "--shots"),
        "fraction": each(shared.fraction, float, "--fraction"),
        "epochs": each(epochs, int, "--epochs"),
        "lr": each(shared.lr, float, "--lr"),
        "mix_lr": each(shared.mix_lr, float, "--mix-lr"),
        "seed": range(seeds),
    }
    given = {
        name: getattr(shared, name)
        for name in ("batch_size", "optimizer", "schedule")
        if getattr(shared, name) is not None
    }
    defaults = {"epochs": DEFAULT_EPOCHS, **preset.options}
    for name in ("epochs", "lr"):
        varied[name] = [defaults.get(name) if value is None else value for value in varied[name]]
        defaults.pop(name, None)
    base = TrainSpec(
        model=target.model,
        task=target.task,
        head=next(iter(varied["head"]), "last"),
        hold_out=shared.hold_out,
        layers=shared.layers,
        evals=evals,
        pooling=shared.pooling,
        fit_on=shared.fit_on,
        control=shared.control,
        fusion_from=shared.fusion_from,
        freeze_fusion=shared.freeze_fusion,
        init_from=shared.init_from,
        **defaults | given,
    )
    return product(base, varied)


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What ``--protocol`` fills in.

    Attributes:
        heads: heads to train.
        seeds: how many seeds.
        decoder: the decoder for the labels at hand; ``None`` is their default.
        options: other fields of ``TrainSpec``.
    """

    heads: Sequence[str]
    seeds: int = 1
    decoder: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, shared: TrainingOptions, target: Target) -> Self:
        """Return the preset that was named, or the plain defaults.

        Raises:
            UnknownNameError: no protocol has this name.
        """
        from probekit.protocols import get_protocol

        if shared.protocol is None:
            return cls(heads=DEFAULT_HEADS)
        found = get_protocol(shared.protocol)
        return cls(
            heads=found.heads,
            seeds=found.seeds,
            decoder=found.decoders.get(target.kind(first_label(shared)))
            if found.decoders
            else None,
            options=found.options,
        )


def own_head(protocol: str | None) -> str:
    """Return the head that a single run trains by default: the protocol's own."""
    from probekit.protocols import get_protocol

    return "dwatt" if protocol is None else get_protocol(protocol).heads[-1]


def each(text: str | None, read: Callable[[str], T], option: str) -> list[T | None]:
    """Read a comma-separated option of numbers; ``auto``, ``none`` and ``all`` mean unset.

    Raises:
        OptionError: an item is no such number.
    """
    if text is None:
        return [None]
    values: list[T | None] = []
    for item in split_list(text):
        try:
            values.append(None if item in _UNSET else read(item))
        except ValueError:
            kind = "a whole number" if read is int else "a number"
            raise OptionError(f"{option}: {item!r} is not {kind}.") from None
    return values


def first_label(shared: TrainingOptions) -> str | None:
    """Return the first label column that was named, or None for the task's default."""
    return next(iter(each_name(shared.label)), None)


def each_name(text: str | None) -> list[str | None]:
    """Read a comma-separated option of names; unset stays unset."""
    return [None] if text is None else [*split_list(text)]


def parse_bytes(text: str | None) -> int | None:
    """Read a size such as ``8GB`` or ``500MB`` (powers of ten).

    Raises:
        OptionError: the text is not a size.
    """
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", text.strip().lower())
    if not found:
        raise OptionError(f"--memory {text!r} is not a size. Write 8GB or 500MB.")
    return int(float(found[1]) * _UNITS[found[2]])
