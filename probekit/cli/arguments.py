"""Arguments and options that several commands share, and the values that a shell completes."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ParameterInfo

from probekit.base.kinds import KINDS, POOLED
from probekit.base.plugins import offered
from probekit.base.registry import Panel, choose, listed, option
from probekit.extraction.request_options import CHOICES
from probekit.plots import PLOTS

if TYPE_CHECKING:
    from probekit.engines import Engine
    from probekit.plots.style import Look
    from probekit.tasks import TextOptions

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Hub id, local folder or .gguf file; for training also the path of an entry.",
    ),
]
Task = Annotated[
    str,
    typer.Argument(
        metavar="TASK", help="A task (see `probekit tasks`), or the path of your own data."
    ),
]
OptionalTask = Annotated[
    str | None,
    typer.Argument(
        metavar="TASK", help="A task, or the path of your own data; none if MODEL is an entry."
    ),
]
Data = Annotated[
    Path | None, typer.Option("--data", help="Folder with the task's published files.")
]


def cache_root(root: str | Path) -> Path:
    """Return the root of a cache, or what lies in one, as `typed_path` reads it."""
    from probekit.store.files import typed_path

    return typed_path(root)


Cache = Annotated[
    Path,
    typer.Option(
        "--cache",
        parser=str,  # the text as it was typed: a path has lost a URL's second slash
        callback=cache_root,
        metavar="ROOT",
        help="Root of the feature cache.",
        rich_help_panel=Panel.MACHINE,
    ),
]


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
FigureFile = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Draw the figure as well: FILE.png, .svg or .pdf."),
]


SKIPPED = {rows: rows for rows in ("unlabelled", "blank")}
"""Which rows of the user's own data can be left out."""


@dataclass(frozen=True, kw_only=True)
class OwnData:
    """How the user's own data is read, as he types it; entries keep it."""

    PANEL = Panel.OWN_DATA
    kind: str | None = option(
        None,
        "For your own data: tagging (default), span, sentence, pair, regression, multilabel or "
        "language-modelling.",
        Panel.FIRST,
    )
    text: str | None = option(
        None, "For your own data: name or index of the text column; A,B for pairs."
    )
    separator: str | None = option(
        None,
        "For your own tables: what divides the columns (a character, or comma, semicolon, tab, "
        "bar, space); recognised if unset.",
    )
    sentences: str | None = option(
        None,
        "For your own tables of words: name or index of the column of sentence ids; none for no "
        "such column.",
    )
    skip: tuple[str, ...] | None = option(
        None,
        "For your own data: leave out rows that are unlabelled (texts without a label where others "
        "have one), blank (no text), or both: unlabelled,blank.",
    )

    def parse(self) -> "TextOptions":
        """Return the library's options.

        Raises:
            UnknownNameError: there are no such rows to leave out.
        """
        from probekit.tasks import TextOptions

        left_out: dict[str, Any] = {
            f"skip_{choose('--skip', rows, SKIPPED)}": True for rows in self.skip or ()
        }
        given = {name: value for name, value in asdict(self).items() if name != "skip"}
        return TextOptions(**given, **left_out)


@dataclass(frozen=True, kw_only=True)
class FigureLook:
    """How a figure is to look, where it should not be as usual."""

    PANEL = Panel.SHOWN
    width: float | None = option(
        None, "Inches; 3.35 (a column) or 6.9 (a page), by content, if unset."
    )
    title: str | None = option(None, "In place of the figure's own; '' for none.")

    def parse(self) -> "Look":
        """Return what plot functions take."""
        from probekit.plots.style import Look

        return Look(**asdict(self))


Device = Annotated[
    str,
    typer.Option("--device", help="auto, cpu, cuda or cuda:1.", rich_help_panel=Panel.MACHINE),
]
DeviceMap = Annotated[
    str | None,
    typer.Option(
        "--device-map",
        help="In place of --device, for a model that does not fit on one: auto lays its blocks "
        "out over the GPUs, then the CPU's memory; or balanced, balanced_low_0, sequential.",
        rich_help_panel=Panel.MACHINE,
    ),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code",
        help="Run the code that lies with the model, which may do anything on this machine. It is "
        "never taken from an entry or a saved head.",
        rich_help_panel=Panel.MACHINE,
    ),
]
ModelNow = Annotated[
    str | None, typer.Option("--model", help="Where the model lies now, if it has moved.")
]
Layers = Annotated[str, typer.Option("--layers", help="Which layers: all, -1, 0,4,8.")]
Label = Annotated[str | None, typer.Option("--label", help="For your own data: the label column.")]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object per line.", rich_help_panel=Panel.MACHINE),
]


Workers = Annotated[
    int, typer.Option("--workers", help="Worker processes.", rich_help_panel=Panel.MACHINE)
]


@dataclass(frozen=True, kw_only=True)
class Crew:
    """Who does the work of a command, and how many at once."""

    PANEL = Panel.MACHINE
    workers: Workers = 1
    engine: str = option(
        "local",
        "What runs the workers: local, or ray, with options: ray:gpus_per_worker=0.5; on the "
        "cluster of RAY_ADDRESS, else on one that is started here.",
    )

    def chosen(self) -> "Engine":
        """Return the engine.

        Raises:
            UnknownNameError: there is no such engine.
            OptionError: an option is not that engine's, or cannot be used; or the engine needs a
                package that is not installed.
        """
        from probekit.engines import engine_of

        return engine_of(self.engine)

    @property
    def ways(self) -> dict[str, Any]:
        """What `sweep` is told of it."""
        return {"workers": self.workers, "engine": self.chosen()}


@dataclass(frozen=True, kw_only=True)
class ModelRun:
    """Where a model lies that runs again, and where it is run."""

    model: ModelNow = None
    device: Device = "auto"
    device_map: DeviceMap = None
    trust_remote_code: TrustRemoteCode = False


SEEDS_HELP = "How many seeds (3 is 0,1,2), or which: 0,3,7 or 10:15."


def check_seeds(seeds: str | None) -> str | None:
    """Refuse words where ``--seeds`` wants numbers."""
    if seeds and set(seeds) - set("0123456789,: "):
        raise typer.BadParameter(f"{seeds!r}: write how many (3), which (0,3,7) or a range (10:15)")
    return seeds


def split_list(text: str) -> list[str]:
    """Split a comma-separated option; empty items are left out."""
    return list(listed(text))


Values = Callable[[typer.Context], Iterable[str]]
"""What may stand for an option; it loads no torch, since a person is waiting."""


def _task_names(ctx: typer.Context) -> Iterable[str]:
    from probekit.tasks import TASKS

    for name, family in TASKS.items():
        if family.variants:
            yield from (f"{name}/{variant}" for variant in family.variants)
        else:
            yield f"{name}/" if family.variant else name


def _model_names(ctx: typer.Context) -> Iterable[str]:
    """Return the models of the cache, which may lie elsewhere by an option that stands before."""
    root = Path(ctx.params.get("cache") or "cache")
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else ()


def _names(registry: str) -> Values:
    """Return what completes to the names of a registry, given as ``module:attribute``."""
    return lambda ctx: resolve_name(f"probekit.{registry}")


def _some(*values: str, kind: str | None = None) -> Values:
    """Return what completes to some values, and to what packages offer of a kind of plug-in."""
    return lambda ctx: (*values, *(offered(kind) if kind else ()))


VALUES: Mapping[str, Values] = {
    **{name: _some(*choices) for name, choices in CHOICES.items()},
    "head": _names("probe.heads:HEADS"),
    "decoder": _some(
        "linear", "one-vs-rest", "mlp", "crf", "pooler", "regression", "vocabulary", kind="decoder"
    ),
    "normalize": _some("none", "layernorm", "standardize", "final-norm", kind="normalization"),
    "method": _some(
        *("frozen", "full", "bitfit", "lora", "qlora", "adapter", "prompt", "prefix", "diff-prune"),
    ),
    "pooling": lambda ctx: CHOICES["pooling"] if ctx.info_name == "extract" else POOLED,
    "fit": _some("auto", "adam", "lbfgs", "ridge", "sae-probes", kind="fitter"),
    "select": _some("dev", "cv:5", "hold-out:0.1", "held-out"),
    "protocol": _names("train.sweeps.protocols:PROTOCOLS"),
    "model": _model_names,
    "task": _task_names,
    "family": lambda ctx: sorted({n.partition("/")[0] for n in _task_names(ctx) if "/" in n}),
    "kind": lambda ctx: PLOTS if ctx.info_name == "plot" else KINDS,
    "keep": _names("extraction.request_options:KEEP"),
    "array": _names("extraction.request_options:KEEP"),
    "format": _some("zarr", "hdf5"),
    "split": _some("train", "dev", "test"),
    "skip": lambda ctx: SKIPPED,
    "special_tokens": _some("present", "stripped", "absent"),
    "last_layer": _some("normed", "raw"),
    "device": _some("auto", "cpu", "cuda"),
    "ablate": _some("mean", "refit"),
    "track": _names("results.trackers:TRACKERS"),
    "style": _names("results.tables:STYLES"),
    "of": _some(
        *("scores", "depth", "weights", "raw", "initial", "shares", "ablation", "score", "loss")
    ),
    "overlay": _some("model", "task", "head"),
    "along": _some("step", "epoch", "seconds"),
    "sort": _some("name", "size", "created"),
    "engine": _some("local", "ray"),
    "device_map": _some("auto", "balanced", "balanced_low_0", "sequential"),
}
"""By the name of the parameter, whichever command has it; a path is the shell's own to complete.

What is written out are names of registries that are loaded with torch; a test compares them."""


def offer_completion(apps: Iterable[typer.Typer]) -> None:
    """Let a shell complete the values of all parameters that have some in ``VALUES``."""
    for app in apps:
        for command in app.registered_commands:
            assert command.callback is not None
            for name, hint, info in _parameters_of(command.callback):
                if info is not None and name in VALUES and Path not in (hint, *get_args(hint)):
                    info.autocompletion = _completer(VALUES[name])


def _parameters_of(command: Callable[..., Any]) -> Iterator[tuple[str, Any, ParameterInfo | None]]:
    """Yield the parameters of a command: name, type, and what was declared for typer."""
    hints = get_type_hints(command, include_extras=True)
    for name in inspect.signature(command).parameters:
        annotated = get_origin(hints[name]) is Annotated
        hint, *about = get_args(hints[name]) if annotated else [hints[name]]
        yield name, hint, next((info for info in about if isinstance(info, ParameterInfo)), None)


def _completer(values: Values) -> Callable[[typer.Context, str], list[str]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        # of last,p3 the last item is completed: last,p32
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in values(ctx) if name.startswith(last)]

    return complete
