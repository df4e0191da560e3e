"""Values that a shell completes: ``probekit train bert conll --head <TAB>``."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

import typer

from probekit.base.plugins import offered
from probekit.cli.config_option import parameters_of

Values = Callable[[typer.Context], Iterable[str]]
"""What may stand for an option; it loads no torch, since a person is waiting."""


def _tasks(ctx: typer.Context) -> Iterable[str]:
    from probekit.tasks import TASKS

    for name, family in TASKS.items():
        if family.variants:
            yield from (f"{name}/{variant}" for variant in family.variants)
        else:
            yield f"{name}/" if family.variant else name


def _families(ctx: typer.Context) -> Iterable[str]:
    from probekit.tasks import TASKS

    return [name for name, family in TASKS.items() if family.variant]


def _models(ctx: typer.Context) -> Iterable[str]:
    """Return the models of the cache, which may lie elsewhere by an option that stands before."""
    root = Path(ctx.params.get("cache") or "cache")
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else ()


def _kinds(ctx: typer.Context) -> Iterable[str]:
    """Return kinds of figures, or of labels."""
    from probekit.base.kinds import KINDS
    from probekit.plots import PLOTS

    return PLOTS if ctx.info_name == "plot" else KINDS


def _poolings(ctx: typer.Context) -> Iterable[str]:
    from probekit.base.kinds import POOLED

    return ("auto", "first", "last", "mean") if ctx.info_name == "extract" else POOLED


def _names(registry: str) -> Values:
    """Return what completes to the names of a registry, given as ``module:attribute``."""
    return lambda ctx: resolve_name(f"probekit.{registry}")


def _some(*values: str, kind: str | None = None) -> Values:
    """Return what completes to some values, and to what packages offer of a kind of plug-in."""
    return lambda ctx: (*values, *(offered(kind) if kind else ()))


VALUES: Mapping[str, Values] = {
    "head": _names("probe.heads:HEADS"),
    "decoder": _some("linear", "mlp", "crf", "pooler", "regression", "vocabulary", kind="decoder"),
    "normalize": _some("none", "layernorm", "standardize", "final-norm", kind="normalization"),
    "method": _some(
        *("frozen", "full", "bitfit", "lora", "qlora", "adapter", "prompt", "prefix", "diff-prune"),
    ),
    "pooling": _poolings,
    "fit": _some("auto", "adam", "lbfgs", "ridge", kind="fitter"),
    "select": _some("dev", "cv:5", "hold-out:0.1", "held-out"),
    "protocol": _names("train.sweeps.protocols:PROTOCOLS"),
    "model": _models,
    "task": _tasks,
    "family": _families,
    "kind": _kinds,
    "keep": _names("extraction.request_options:KEEP"),
    "array": _names("extraction.request_options:KEEP"),
    "format": _some("zarr", "hdf5"),
    "dtype": _some("auto", "float16", "bfloat16", "float32", "int8"),
    "compute_dtype": _some("auto", "float32", "bfloat16", "float16"),
    "overlong": _some("stride", "truncate", "error"),
    "split": _some("train", "dev", "test"),
    "special_tokens": _some("present", "stripped", "absent"),
    "last_layer": _some("normed", "raw"),
    "device": _some("auto", "cpu", "cuda"),
    "ablate": _some("mean", "refit"),
    "track": _names("results.trackers:TRACKERS"),
    "style": _names("results.tables:STYLES"),
    "of": _some("scores", "depth", "weights", "initial", "shares", "ablation", "score", "loss"),
    "overlay": _some("model", "task", "head"),
    "below": _some("last", "best"),
    "along": _some("step", "epoch", "seconds"),
    "sort": _some("name", "size", "created"),
    "form": _some("npz", "safetensors", "repeng"),
    "engine": _some("local", "ray"),
    "device_map": _some("auto", "balanced", "balanced_low_0", "sequential"),
    "quantize": _some("8bit", "4bit"),
}
"""By the name of the parameter, whichever command has it; a path is the shell's own to complete.

What is written out are names of registries that are loaded with torch; a test compares them."""


def offer_completion(apps: Iterable[typer.Typer]) -> None:
    """Let a shell complete the values of all parameters that have some in ``VALUES``."""
    for app in apps:
        for command in app.registered_commands:
            assert command.callback is not None
            for name, hint, info in parameters_of(command.callback):
                if info is not None and name in VALUES and Path not in (hint, *get_args(hint)):
                    info.autocompletion = _completer(VALUES[name])


def _completer(values: Values) -> Callable[[typer.Context, str], list[str]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        # of last,p3 the last item is completed: last,p32
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in values(ctx) if name.startswith(last)]

    return complete
