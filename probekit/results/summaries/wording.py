"""What the options of a record are called, and how options, metrics and layers are written."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePath
from typing import Any

from probekit.base.layers import by_point, is_joined, point_of
from probekit.metrics import METRICS, scale_of
from probekit.tasks.schemes import is_number


@dataclass(frozen=True, slots=True)
class Option:
    """A field of a record that says what was run: its words, and what brings its value about.

    Attributes:
        phrase: what stands alone in a legend or title, with the value.
        none: the same of a run that has no value; unset it is ``no`` and the name.
        cell: what a table prints of such a run.
        number: whether a table prints it to the right.
        titled: whether a title may say it.
        unsaid: the value that a title does not say.
        settled_by: options that bring its value about: a table leaves it out where they settle it.
        how: whether it says how heads were trained; a report has these columns last.
        by_amount: whether its default, or its search, depends on how much is trained on or read.
    """

    phrase: str = "{}"
    none: str | None = None
    cell: str = "-"
    number: bool = False
    titled: bool = False
    unsaid: Any = None
    settled_by: tuple[str, ...] = ()
    how: bool = False
    by_amount: bool = False


_TEXT = ("model", "task", "label")

OPTIONS: Mapping[str, Option] = {
    "model": Option(titled=True),
    "task": Option(titled=True),
    "label": Option(titled=True, unsaid="label"),
    "head": Option(),
    "method": Option(none="from the cache", cell="none", titled=True),
    "shots": Option("{} shots", none="all sentences", cell="all", number=True, titled=True),
    "fraction": Option("fraction {}", none="all sentences", cell="all", number=True, titled=True),
    "depth": Option("depth {}", none="all layers", cell="all", number=True, titled=True),
    "normalize": Option(titled=True, unsaid="none"),
    "pooling": Option("pooling {}", titled=True, settled_by=_TEXT),
    "decoder": Option(settled_by=("head",)),
    "options": Option(none="defaults", titled=True, settled_by=("head", "decoder")),
    "init": Option("from {}", none="from scratch", titled=True),
    "freeze": Option(titled=True, unsaid=False),
    "fitter": Option("fit {}", how=True),
    "select": Option(
        "chosen by {}", none="nothing chosen", settled_by=("head", "method"), how=True
    ),
    "l2": Option("L2 {}", none="no L2 given", number=True, by_amount=True),
    "epochs": Option("{} epochs", number=True, settled_by=("head",), how=True, by_amount=True),
    "evals": Option(
        "{} evals", number=True, settled_by=("head", "method"), how=True, by_amount=True
    ),
    "lr": Option("lr {}", number=True, how=True, by_amount=True),
    "rates": Option(
        "lr {}",
        none="one lr",
        settled_by=("head", "method", "decoder", "lr"),
        how=True,
        by_amount=True,
    ),
    "batch_size": Option(
        "batch {}", number=True, settled_by=("head", "method"), how=True, by_amount=True
    ),
    "batch_tokens": Option("{} subwords at once", number=True, how=True),
    "optimizer": Option(settled_by=("head", "method"), how=True),
    "layers": Option("layers {}", settled_by=("model", "head", "depth"), how=True, by_amount=True),
    "protocol": Option(settled_by=("shots", "fraction"), by_amount=True),
    "metric": Option(settled_by=("task", "label")),
    "entry": Option("entry {}", settled_by=("model", "task")),
    "texts": Option("texts {}", none="texts not recorded", settled_by=("task", "entry")),
    "labels_fingerprint": Option("labels {}", settled_by=("task", "label", "entry", "protocol")),
    "plugins": Option(
        "code of {}",
        none="probekit's own",
        settled_by=("head", "decoder", "normalize", "fitter", "metric"),
    ),
}
"""Everything that says what was run, except the seed; in the order of columns."""


def metric_text(metric: str) -> str:
    """Return a metric's name with its unit, such as ``span F1 (%)``; one unknown has its own."""
    text = METRICS[metric].text if metric in METRICS else metric
    return text + " (%)" * scale_of(metric).percent


def layer_text(layer: int) -> str:
    """Return a layer's number, after its point if it is of one of several (see `point_layer`).

    The embeddings are ``0 = emb``.
    """
    if is_joined(layer):
        return " ".join(map(str, point_of(layer)))
    return "0 = emb" if layer == 0 else str(layer)


def layers_text(layers: Sequence[int]) -> str:
    """Return layer numbers with runs shortened, such as ``0, 4-8``, by point if of several."""
    texts = []
    for point, own in by_point(dict.fromkeys(layers)).items():
        numbered = groupby(enumerate(sorted(own)), lambda pair: pair[1] - pair[0])
        runs = [[layer for _, layer in run] for _, run in numbered]
        parts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
        texts.append(f"{point} " * (is_joined(max(layers))) + ", ".join(parts))
    return ", ".join(texts)


def neighbours(numbers: Sequence[int], among: Sequence[int]) -> list[list[int]]:
    """Return numbers with each run of neighbours by itself.

    Args:
        numbers: ascending.
        among: all that there are, ascending: 0, 2 and 4 are neighbours if no other lies between.
    """
    # 0, 2 and 6 among 0, 2, 4, 6: two that are held, one that is not, one that is
    return [list(run) for held, run in groupby(among, lambda number: number in numbers) if held]


def numbers_text(numbers: Sequence[int], among: Sequence[int]) -> str:
    """Return numbers in words, with neighbours joined, such as ``0 to 4, 6`` (see ``neighbours``).

    Two neighbours stand as they are.
    """
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run))
        for run in neighbours(numbers, among)
    )


def range_text(counts: Sequence[int]) -> str:
    """Return the least and the largest of some counts, such as ``3 to 5``; or the only one."""
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def seeds_text(counts: Iterable[int]) -> str:
    """Return how many seeds something is over, such as ``5 seeds`` or ``3 to 5 seeds``.

    Args:
        counts: the number of seeds behind each thing that is shown.
    """
    numbers = list(counts)
    return "one seed" if max(numbers) == 1 else f"{range_text(numbers)} seeds"


def model_text(model: str) -> str:
    """Return the last part of a model's name, as ``org/name`` and paths are long."""
    return PurePath(model).name or model


def entry_text(key: str, about: Mapping[str, Any]) -> str:
    """Return what tells an entry from others, such as ``200 examples int8 (1a2b3c4d...)``.

    Args:
        key: its key, of which tables show the digits that ``probekit cache ls`` prints.
        about: ``Record.seen``; what is usual (all examples, 16 bits, Zarr) is not said.
    """
    limit, dtype, form = (about.get(name) for name in ("limit", "dtype", "format"))
    words = [f"{limit} examples"] if limit is not None else []
    words += [str(dtype)] if dtype not in (None, "float16", "bfloat16") else []
    words += [str(form)] if form not in (None, "zarr") else []
    return f"{' '.join(words)} ({key})" if words else key


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return settings as they are typed, such as ``decoder.hidden=128:head.n=2``."""
    return ":".join(f"{name}={_setting_text(value)}" for name, value in settings.items())


def rates_text(rates: Mapping[str, float]) -> str:
    """Return the rates of groups as they are typed, such as ``mixing=0.2,transitions=0.1``."""
    return ",".join(f"{name}={_digits(rate)}" for name, rate in rates.items())


def plugins_text(plugins: Mapping[str, Mapping[str, str]]) -> str:
    """Return which code the plug-ins of third parties are, such as ``head 1a2b3c4d``."""
    code = {
        kind: origin.get("code") or origin.get("package", "") for kind, origin in plugins.items()
    }
    return ", ".join(f"{kind} {text}" for kind, text in sorted(code.items()))


def _setting_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_setting_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and (value in ("true", "false", "None") or is_number(value)):
        return repr(value)
    return _digits(value) if isinstance(value, float) else str(value)


def _digits(value: float) -> str:
    """Return a number as short as it can be, with all digits that tell it from another."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


_FINGERPRINTS = ("entry", "texts", "labels_fingerprint", "plugins")
_DIGITS = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")
"""Of a fingerprint, those that are shown."""


def value_text(name: str, value: Any) -> str:
    """Return the value of a record's option as a table prints it."""
    if value is None:
        return OPTIONS[name].cell if name in OPTIONS else "-"
    if name == "layers":
        return layers_text(value)
    if name in _FINGERPRINTS:
        return _DIGITS.sub(r"\1", str(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def listed_text(name: str, value: Any) -> str:
    """Return a value as it stands among others, and can be typed: in quotes if it has a comma."""
    text = value_text(name, value)
    return f"'{text}'" if "," in text else text


def option_text(name: str, value: Any) -> str:
    """Return an option so that it can stand alone in a legend or title, such as ``8 shots``."""
    option = OPTIONS.get(name, Option())
    if value is None:
        return option.none or f"no {name.replace('_', ' ')}"
    if name == "model":
        return model_text(value)
    if name == "normalize" and value == "none":
        return "raw"
    if name == "freeze":
        return "frozen" if value else "not frozen"
    return option.phrase.format(value_text(name, value))


def options_text(options: Mapping[str, Any], full_model: bool = False, exact: bool = False) -> str:
    """Return several options as one line for a legend or title.

    Args:
        options: values by name.
        full_model: whether a model has its whole name, not the last part of it.
        exact: whether numbers and fingerprints have all their digits.
    """

    def write(name: str, value: Any) -> str:
        if full_model and name == "model":
            return str(value)
        if exact and (isinstance(value, float) or (value and name in _FINGERPRINTS)):
            return OPTIONS[name].phrase.format(value)
        return option_text(name, value)

    return ", ".join(write(name, value) for name, value in options.items())
