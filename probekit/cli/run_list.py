"""From the command line's words to the runs of ``train``, ``sweep`` and ``depth``."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from probekit.base.layers import ReadPoint
from probekit.base.numbers import parse_seeds
from probekit.base.registry import Panel, choose, flag, nearest, option
from probekit.base.selection import PROTOCOL_DEFAULTS
from probekit.cli import arguments
from probekit.cli.arguments import split_list
from probekit.cli.config_option import load_toml
from probekit.cli.spread import OptionsOf
from probekit.errors import OptionError
from probekit.probe.heads import HEADS
from probekit.train.option_groups import number_or_search
from probekit.train.sweeps.protocols import PLAIN, Protocol, get_protocol
from probekit.train.sweeps.run_options import GROUPS, start_of

if TYPE_CHECKING:
    from probekit.features import Location, Splits
    from probekit.tasks import Task
    from probekit.train.sweeps.specs import TrainSpec

OF_RUNS = OptionsOf(GROUPS, apart=tuple(PROTOCOL_DEFAULTS))
"""The options of runs: their help stands where the library keeps them."""

ALL_HEADS = "z:head=all"
"""What stands for the points of all attention heads, one after the other."""

Preset = str | Mapping[str, Any]
"""What is typed for ``--protocol``, or the table ``[protocol]`` of a config file."""

Asked = Annotated[Mapping[str, Any], OF_RUNS]
"""Options of runs as the user types them, by name; lists are still text, separated by commas."""


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options besides those of runs, as the user types them."""

    seeds: str | None = option(
        None, arguments.SEEDS_HELP, callback=arguments.check_seeds, show_default="1"
    )
    protocol: Any = option(
        None,
        "Preset of what is not given: dwatt, attention-fusion, p32, sae-probes; with the model "
        "trained: dwatt-ft, attention-fusion-ft, p32-ft (see `probekit heads`); or the file of "
        "your own: " + ", ".join(PROTOCOL_DEFAULTS) + ". NAME,FILE.toml is both.",
        Panel.FITTED,
        parser=lambda preset: preset,  # typer has no type for a word or a table
        metavar="NAME|FILE.toml",
    )
    data: Path | None = option(
        None, "Read the labels (only the labels) afresh from here.", Panel.MACHINE
    )
    cache: arguments.Cache = Path("cache")
    out: Path | None = option(None, "Records file; runs/<model>/<task>.jsonl if unset.", Panel.KEPT)
    save: Path | None = option(None, "Folder to save the trained heads in.", Panel.KEPT)
    device: arguments.Device = "auto"
    track: str | None = option(
        None,
        "Show finished runs by tensorboard or wandb as well; with options: wandb:project=NAME, "
        "tensorboard:curves=true.",
        Panel.KEPT,
    )
    trust_remote_code: arguments.TrustRemoteCode = False
    json: arguments.Json = False


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which features a command trains on.

    Attributes:
        model: the model as the user names it.
        task: the task as the user names it.
        location: where entries and labels lie.
        tasks: what the task is, by label column, once it was asked for.
    """

    model: str
    task: str
    location: "Location"
    tasks: "dict[str | None, Task]" = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        model: str,
        task: str | None,
        shared: TrainingOptions,
        asked: Mapping[str, Any],
    ) -> Self:
        """Read MODEL TASK, or the path of an entry in their place.

        Args:
            model: as it was typed.
            task: likewise; None with an entry's path.
            shared: where the cache is, among others.
            asked: the options of runs, as typed.

        Raises:
            OptionError: there is no TASK, and MODEL is not the path of an entry; or the two are
                the wrong way round.
            UnknownNameError, MissingFileError: there is no such task, kind or label column; before
                torch is imported, which takes longer than all this.
        """
        model, task, location = at_entry(model, task, shared.cache)
        location = replace(location, data=shared.data, group=asked.get("group"))
        target = cls(model=model, task=task, location=location)
        target.about(first_label(asked))
        return target

    def about(self, label: str | None) -> "Task":
        """Return the task, its default label column first unless another one is named."""
        if label not in self.tasks:
            self.tasks[label] = self.location.task(self.task, label)
        return self.tasks[label]

    def check_cached(self, asked: Mapping[str, Any]) -> None:
        """Refuse what the cache knows nothing of; torch is not imported for that."""
        label = first_label(asked)
        tokens = asked.get("token_head") is not None
        self.location.check_cached(
            self.model,
            self.about(label),
            label,
            asked["fit_on"],
            tokens=tokens,
            point=_first_point(asked),
        )

    def splits(self, asked: Mapping[str, Any]) -> "Splits":
        """Return the features, as they are in the cache, at the first point that is named."""
        from probekit.features import open_features

        label, fit_on = first_label(asked), asked["fit_on"]
        return open_features(
            self.model, self.task, label, self.location, fit_on=fit_on, point=_first_point(asked)
        )

    def points(self, asked: Mapping[str, Any], typed: Sequence[str | None]) -> list[str | None]:
        """Return points as a run takes them: of ``z:head=all`` one for each attention head."""
        points: list[str | None] = []
        for point in typed:
            if point != ALL_HEADS:
                points.append(point)
                continue
            count = self.splits({**asked, "point": "z"}).manifest.attention_heads or 1
            points += [str(ReadPoint("z", head)) for head in range(count)]
        return points

    def kind(self, label: str | None) -> str:
        """Return what a label column labels: words, whole texts, ..."""
        task = self.about(label)
        return task.kinds[task.columns[0]] if task.columns else task.kind

    def default_out(self, label: str | None) -> Path:
        """Return ``runs/<model>/<task>.jsonl``; of own data, the file begun under another name."""
        from probekit.backbone.saved_run import SavedRun
        from probekit.store.layout import model_slug
        from probekit.tasks import HASH

        run = SavedRun.at(self.model)
        folder = Path("runs") / (model_slug(self.model) if run is None else run.called)
        slug = self.about(label).slug
        text = HASH.search(slug)
        begun = sorted(folder.glob(f"*{text[0]}.jsonl")) if text is not None else []
        return begun[0] if len(begun) == 1 else folder / f"{slug}.jsonl"


T = TypeVar("T")

_UNSET = ("auto", "none", "all")


def at_entry(model: str, task: str | None, cache: Path) -> tuple[str, str, "Location"]:
    """Return model, task and where they are cached, of MODEL TASK or the path of an entry.

    Args:
        model: as it was typed.
        task: likewise; None with an entry's path.
        cache: root of the cache, where no entry says it.

    Raises:
        OptionError: there is no TASK, and MODEL is not the path of an entry; or both are given.
    """
    from probekit.features import Location
    from probekit.store.layout import MANIFEST
    from probekit.store.manifest import read_manifest

    path = Path(model)
    of_entry = (path / MANIFEST).is_file()
    if task is not None and of_entry:
        raise OptionError(f"{model!r} is an entry's path, which says its task: leave TASK out.")
    if task is not None:
        return model, task, Location(cache=cache)
    if not of_entry:
        raise OptionError(
            f"{model!r} is not the path of a cache entry. Give MODEL and TASK, or a path that "
            "`probekit cache ls` or `probekit cache path` shows."
        )
    manifest = read_manifest(path)
    root, identity = path.resolve().parents[2], manifest.request["model"]
    # Not the name that the user typed: as a path, it means nothing in another folder.
    return manifest.model, manifest.task, Location(cache=root, entry=str(path), identity=identity)


def make_plan(
    target: Target,
    shared: TrainingOptions,
    asked: Mapping[str, Any],
    *,
    head: str | None,
    depths: Sequence[int | None],
) -> "list[TrainSpec]":
    """Return one spec for every combination, the seed varying fastest.

    Raises:
        OptionError: an option names no value, or one that cannot be used.
        UnknownNameError: no protocol has the name of the preset.
        MissingFileError: the file of a protocol is not there.
    """
    preset = read_protocol(shared.protocol)
    heads = preset.heads if head is None else split_list(head)
    for name in heads:
        choose("head", name.partition(":")[0], dict.fromkeys(HEADS))
    lists = _option_values(asked, preset)
    if "point" in lists:
        lists["point"] = target.points(asked, lists["point"])
    labels = lists.pop("label", [None])
    if not labels:
        raise OptionError("--label names no value.")
    from probekit.train.sweeps.specs import TrainSpec, product  # with torch

    decoders = lists.pop("decoder", None)
    seeds = parse_seeds(preset.seeds if shared.seeds is None else shared.seeds)
    varied = {"head": heads, "depth": depths, **lists, "seed": seeds}
    usual = {
        name: value if isinstance(value, list) else [value]
        for name, value in preset.options.items()
        if name not in varied
    }
    first = next(iter(heads), "last")
    base = TrainSpec(model=target.model, task=target.task, head=first)
    # --label ner,pos --head last,p32 --seeds 2 are eight runs, in this order: last-0 and last-1 of
    # ner, p32-0 and p32-1 of ner, then the same four of pos.
    plan: list[TrainSpec] = []
    for label in labels:
        decoder = decoders
        if decoder is None:  # a preset has some for what the column labels; None is its default
            decoder = [preset.decoders.get(target.kind(label)) if preset.decoders else None]
        plan += product(base, {"label": [label], "decoder": decoder, **usual, **varied})
    if preset.name and not preset.tunes:
        _check_frozen(preset.name, plan)
    # without training, no seed differs from another
    return [spec for spec in plan if not (spec.untrained and spec.seed)]


def read_protocol(preset: Preset | None) -> Protocol:
    """Return the protocol that is asked for, the plain one for None.

    Args:
        preset: ``NAME``, ``FILE.toml``, or ``NAME,FILE.toml``, where the file goes before the
            preset; or what such a file would hold.

    Raises:
        UnknownNameError: there is no preset of that name.
        MissingFileError: there is no such file.
        OptionError: it is no TOML, has a field that no protocol states, or a value of another type.
    """
    if preset is None or isinstance(preset, Mapping):
        return replace(PLAIN, options=_details(preset or {}, "[protocol]"))
    protocol = PLAIN
    for word in split_list(preset):
        if word.endswith(".toml"):
            stated = _details(load_toml(Path(word), "--protocol"), word)
            protocol = replace(protocol, options={**protocol.options, **stated})
        else:
            named = get_protocol(word)
            protocol = replace(named, options={**named.options, **protocol.options})
    return protocol


def _details(table: Mapping[str, Any], where: str) -> dict[str, list[Any]]:
    """Return the values of each field: one, or those of an array.

    Raises:
        OptionError: an unknown field, or a value of another type.
    """
    details = {}
    for name, value in table.items():
        if name not in PROTOCOL_DEFAULTS:
            raise OptionError(
                f"{where}: unknown field {name!r}.{nearest(name, PROTOCOL_DEFAULTS)} A protocol "
                f"states {', '.join(PROTOCOL_DEFAULTS)}."
            )
        values = value if isinstance(value, list) else [value]
        text = isinstance(PROTOCOL_DEFAULTS[name], str)
        fits = all(isinstance(each, str if text else int | float) for each in values)
        if not values or not fits or any(isinstance(each, bool) for each in values):
            kind = "text" if text else "a number"
            raise OptionError(
                f"{where}: {name} must be {kind}, or an array of these; found {value!r:.80}."
            )
        details[name] = values
    return details


def _check_frozen(protocol: str, plan: "Sequence[TrainSpec]") -> None:
    """Refuse to train a model at the rate that a protocol of frozen features has for its head.

    Raises:
        OptionError: a run has no other.
    """
    from probekit.tuning.contract import BACKBONE

    for spec in plan:
        if spec.tunes and BACKBONE not in dict(spec.rates):
            raise OptionError(
                f"--protocol {protocol} trains over frozen features, and has no rate for the model "
                f"that --method {spec.method} trains. Give --protocol {protocol}-ft, or that rate: "
                f"--lr {BACKBONE}=2e-5."
            )


def _option_values(asked: Mapping[str, Any], preset: Protocol) -> dict[str, Sequence[Any]]:
    """Return the options that were given, each with its values."""
    lists: dict[str, Sequence[Any]] = {}
    for name, declared in OF_RUNS.fields.items():
        value, usual = asked.get(name), preset.options.get(name)
        if value is None:
            continue
        if name == "lr":
            rates, groups = _each_rate(value)
            lists |= {"lr": rates or [usual], "rates": groups, "rate_from": [None]}
        elif name == "start":
            lists |= _starts(value)
        elif "each" not in declared.metadata:
            lists[name] = [value]
        else:
            lists[name] = each(value, declared.metadata["each"], flag(name))
        if name == "epochs":  # of which every protocol has its own
            lists[name] = [usual if count is None else count for count in lists[name]]
    return lists


def _starts(text: str) -> dict[str, Sequence[Any]]:
    """Read ``--start``: how head and decoder start, several with commas, or one saved head."""
    starts = [start_of(item) for item in split_list(text)]
    if all("start" in start for start in starts):
        return {"start": [start["start"] for start in starts]}
    return {name: [value] for name, value in start_of(text).items()}


def first_label(asked: Mapping[str, Any]) -> str | None:
    """Return the first label column that was named, or None for the task's default."""
    return next(iter(split_list(asked.get("label") or "")), None)


def _first_point(asked: Mapping[str, Any]) -> str | None:
    """Return the first point that was named; of all attention heads, that of all side by side."""
    point = next(iter(split_list(asked.get("point") or "")), None)
    return "z" if point == ALL_HEADS else point


def each(text: str | None, read: Callable[[str], T], option: str) -> list[T | None]:
    """Read a comma-separated option: names, or numbers, ``auto``, ``none`` and ``all`` for unset.

    Raises:
        OptionError: an item is no such number.
    """
    if text is None:
        return [None]
    unset = () if read is str else _UNSET
    values: list[T | None] = []
    for item in split_list(text):
        try:
            values.append(None if item in unset else read(item))
        except ValueError:
            kind = "a whole number" if read is int else "a number"
            raise OptionError(f"{option}: {item!r} is not {kind}.") from None
    return values


def _each_rate(text: str) -> tuple[list[float | str | None], list[tuple[tuple[str, float], ...]]]:
    """Read ``--lr``: numbers, ``auto``, ``search``, and rates of groups as ``mixing=0.1``.

    A number alone is the rate of the group ``weights``, and may be written with its name.

    Returns:
        The numbers, and every combination of the rates of groups, sorted by group; one that names
        none where no group was given.

    Raises:
        OptionError: an item is no such thing.
    """
    # "auto,mixing=0.1,mixing=0.3,a=1" has the number auto, and two combinations of rates:
    # (a=1, mixing=0.1) and (a=1, mixing=0.3)
    from probekit.probe.model_parts import WEIGHTS

    plain: list[str] = []
    groups: dict[str, list[tuple[str, float]]] = {}
    for item in split_list(text):
        name, equals, value = item.partition("=")
        if not equals or name.strip() == WEIGHTS:
            plain.append(value if equals else item)
            continue
        (rate,) = each(value, float, f"--lr {name}") or [None]
        if rate is None:
            raise OptionError(f"--lr {name}={value}: give a number, such as {name}=0.1.")
        groups.setdefault(name.strip(), []).append((name.strip(), rate))
    combinations = itertools.product(*(groups[name] for name in sorted(groups)))
    return each(",".join(plain), number_or_search, "--lr"), list(combinations)
