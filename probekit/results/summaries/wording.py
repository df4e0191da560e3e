"""How options, metrics and layers are written in tables and figures."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

METRIC_TEXT = {
    "span-f1": "span F1",
    "accuracy": "accuracy",
    "f1": "F1",
    "micro-f1": "micro F1",
    "matthews": "Matthews correlation",
    "spearman": "Spearman correlation",
    "perplexity": "perplexity",
}
"""Metrics as an axis names them; one that is not listed keeps its own name."""

_PHRASE = {
    "shots": "{} shots",
    "fraction": "fraction {}",
    "depth": "depth {}",
    "fitter": "fit {}",
    "select": "chosen by {}",
    "l2": "L2 {}",
    "lr": "lr {}",
    "rates": "lr {}",
    "epochs": "{} epochs",
    "evals": "{} evals",
    "batch_size": "batch {}",
    "layers": "layers {}",
    "entry": "entry {}",
    "labels_fingerprint": "labels {}",
    "init": "from {}",
    "pooling": "pooling {}",
}
_NONE = {
    "shots": "all sentences",
    "fraction": "all sentences",
    "depth": "all layers",
    "options": "defaults",
    "rates": "one lr",
    "init": "from scratch",
}


def metric_text(metric: str, percent: bool = True) -> str:
    """Return a metric's name with its unit, such as ``span F1 (%)``."""
    return METRIC_TEXT.get(metric, metric) + (" (%)" if percent else "")


def layer_text(layer: int) -> str:
    """Return a layer's number; the embeddings are ``0 = emb``."""
    return "0 = emb" if layer == 0 else str(layer)


def layers_text(layers: Sequence[int]) -> str:
    """Return layer numbers with runs shortened, such as ``0, 4-8``."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def neighbours(numbers: Sequence[int], among: Sequence[int]) -> list[list[int]]:
    """Return numbers with each run of neighbours by itself.

    Args:
        numbers: ascending.
        among: all that there are, ascending: 0, 2 and 4 are neighbours if no other lies between.
    """
    runs: list[list[int]] = []
    for place, number in enumerate(among):
        if number not in numbers:
            continue
        if runs and place and runs[-1][-1] == among[place - 1]:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def numbers_text(numbers: Sequence[int], among: Sequence[int]) -> str:
    """Return numbers in words, with neighbours joined, such as ``0 to 4, 6`` (see ``neighbours``).

    Two neighbours stand as they are.
    """
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run))
        for run in neighbours(numbers, among)
    )


def model_text(model: str) -> str:
    """Return the last part of a model's name, as ``org/name`` and paths are long."""
    return PurePath(model).name or model


def entry_text(key: str, about: Mapping[str, Any]) -> str:
    """Return what tells an entry from others, such as ``200 examples int8 (1a2b3c4d)``.

    Args:
        key: its key; the digits that ``probekit cache ls`` prints are shown.
        about: ``Record.seen``; what is usual (all examples, 16 bits, Zarr) is not said.
    """
    limit, dtype, form = (about.get(name) for name in ("limit", "dtype", "format"))
    words = [f"{limit} examples"] if limit is not None else []
    words += [str(dtype)] if dtype not in (None, "float16", "bfloat16") else []
    words += [str(form)] if form not in (None, "zarr") else []
    return f"{' '.join(words)} ({key[:8]})" if words else key[:8]


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return settings as they are typed, such as ``decoder.hidden=128:head.n=2``."""
    return ":".join(f"{name}={_setting_text(value)}" for name, value in settings.items())


def rates_text(rates: Mapping[str, float]) -> str:
    """Return the rates of groups as they are typed, such as ``mixing=0.2,transitions=0.1``."""
    return ",".join(f"{name}={rate:g}" for name, rate in rates.items())


def _setting_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_setting_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def value_text(name: str, value: Any) -> str:
    """Return the value of a record's option as a table prints it."""
    if value is None:
        return "all" if name in ("shots", "fraction", "depth") else "-"
    if name == "layers":
        return layers_text(value)
    if name == "labels_fingerprint":
        return str(value)[:8]
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def listed_text(name: str, value: Any) -> str:
    """Return a value as it stands among others, and can be typed: in quotes if it has a comma."""
    text = value_text(name, value)
    return f"'{text}'" if "," in text else text


def option_text(name: str, value: Any) -> str:
    """Return an option so that it can stand alone in a legend or title, such as ``8 shots``."""
    if value is None:
        return _NONE.get(name, f"no {name.replace('_', ' ')}")
    if name == "model":
        return model_text(value)
    if name == "normalize" and value == "none":
        return "raw"
    if name == "freeze":
        return "frozen" if value else "not frozen"
    return _PHRASE.get(name, "{}").format(value_text(name, value))


def options_text(options: Mapping[str, Any]) -> str:
    """Return several options as one line for a legend or title."""
    return ", ".join(option_text(name, value) for name, value in options.items())
