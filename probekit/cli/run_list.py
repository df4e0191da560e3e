"""From the command line's words to the runs of a sweep."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from probekit.base.numbers.seeding import parse_seeds
from probekit.base.registry import flag, nearest
from probekit.base.selection import PROTOCOL_DEFAULTS
from probekit.cli.arguments import split_list
from probekit.cli.config_option import load_toml
from probekit.cli.training_options import OF_RUNS, Preset, Target, TrainingOptions
from probekit.errors import OptionError
from probekit.train.option_groups import number_or_search
from probekit.train.sweeps.protocols import PLAIN, Protocol, get_protocol
from probekit.train.sweeps.run_options import start_of

if TYPE_CHECKING:
    from probekit.train.sweeps.specs import TrainSpec

T = TypeVar("T")

_UNSET = ("auto", "none", "all")


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
    from probekit.train.sweeps.specs import TrainSpec, product

    preset = read_protocol(shared.protocol)
    lists = _read(asked, preset)
    labels = lists.pop("label", [None])
    if not labels:
        raise OptionError("--label names no value.")
    decoders = lists.pop("decoder", None)
    heads = preset.heads if head is None else split_list(head)
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


def _read(asked: Mapping[str, Any], preset: Protocol) -> dict[str, Sequence[Any]]:
    """Return the options that were given, each with its values."""
    lists: dict[str, Sequence[Any]] = {}
    for name, field in OF_RUNS.fields.items():
        value, usual = asked.get(name), preset.options.get(name)
        if value is None:
            continue
        if name == "lr":
            rates, groups = each_rate(value)
            lists |= {"lr": rates or [usual], "rates": groups, "rate_from": [None]}
        elif name == "start":
            lists |= _starts(value)
        elif "each" not in field.metadata:
            lists[name] = [value]
        else:
            lists[name] = each(value, field.metadata["each"], flag(name))
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


def each_rate(text: str) -> tuple[list[float | str | None], list[tuple[tuple[str, float], ...]]]:
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
    from probekit.probe.parameter_groups import WEIGHTS

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
