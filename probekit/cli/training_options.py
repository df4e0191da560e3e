"""What ``train``, ``sweep`` and ``depth`` share: their options, and MODEL and TASK as typed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from probekit.base.registry import Panel, option
from probekit.base.selection import PROTOCOL_DEFAULTS
from probekit.cli import arguments
from probekit.cli.spread import OptionsOf
from probekit.errors import OptionError
from probekit.train.sweeps.run_options import GROUPS

if TYPE_CHECKING:
    from probekit.features import Location, Splits

OF_RUNS = OptionsOf(GROUPS, apart=tuple(PROTOCOL_DEFAULTS))
"""The options of runs: their help stands where the library keeps them."""

Preset = str | Mapping[str, Any]
"""What is typed for ``--protocol``, or the table ``[protocol]`` of a config file."""

Asked = Annotated[Mapping[str, Any], OF_RUNS]
"""Options of runs as the user types them, by name; lists are still text, separated by commas."""


def _name_or_table(preset: Preset) -> Preset:
    """Return what was given: typer has no type for a word or a table."""
    return preset


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options besides those of runs, as the user types them."""

    seeds: str | None = option(
        None, arguments.SEEDS_HELP, callback=arguments.check_seeds, show_default="1"
    )
    protocol: Any = option(
        None,
        "Preset of what is not given: dwatt, attention-fusion, p32; the same with the model "
        "trained: dwatt-ft, attention-fusion-ft, p32-ft (see `probekit heads`); or the file of "
        "your own: " + ", ".join(PROTOCOL_DEFAULTS) + ". NAME,FILE.toml is both.",
        Panel.FITTED,
        parser=_name_or_table,
        metavar="NAME|FILE.toml",
    )
    entry: arguments.EntryName = None
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
    """

    model: str
    task: str
    location: "Location"

    @classmethod
    def of(
        cls,
        model: str,
        task: str | None,
        text: arguments.OwnText,
        shared: TrainingOptions,
        group: str | None = None,
    ) -> Self:
        """Read MODEL TASK, or the path of an entry in their place.

        Args:
            model: as it was typed.
            task: likewise; None with an entry's path.
            text: which own data is meant.
            shared: where the cache is, among others.
            group: the column that ``--group`` names.

        Raises:
            OptionError: there is no TASK, and MODEL is not the path of an entry; or the two are
                the wrong way round.
        """
        from probekit.features import Location
        from probekit.store.layout import MANIFEST
        from probekit.store.manifest import read_manifest

        arguments.check_order(model, task)
        path = Path(model)
        of_entry = (path / MANIFEST).is_file()
        if task is not None and of_entry:
            raise OptionError(f"{model!r} is an entry's path, which says its task: leave TASK out.")
        cache, entry, identity = shared.cache, shared.entry, None
        if task is None:
            if not of_entry:
                raise OptionError(
                    f"{model!r} is not the path of a cache entry. Give MODEL and TASK, or a path "
                    "that `probekit cache ls` or `probekit cache path` shows."
                )
            manifest = read_manifest(path)
            # Not the name that the user typed: as a path, it means nothing in another folder.
            model, task = manifest.model, manifest.task
            cache, entry, identity = path.resolve().parents[2], str(path), manifest.request["model"]
        location = Location(
            cache=cache,
            entry=entry,
            data=shared.data,
            group=group,
            identity=identity,
            **text.parse().given,
        )
        return cls(model=model, task=task, location=location)

    def splits(self, label: str | None, fit_on: str) -> "Splits":
        """Return the features, as they are in the cache."""
        from probekit.features import open_features

        return open_features(self.model, self.task, label, self.location, fit_on=fit_on)

    def kind(self, label: str | None) -> str:
        """Return what a label column labels: words, whole texts, ..."""
        task = self.location.task(self.task, label)
        return task.kinds[task.columns[0]] if task.columns else task.kind

    def default_out(self, label: str | None) -> Path:
        """Return ``runs/<model>/<task>.jsonl``; of own data, the file begun under another name."""
        from probekit.backbone.saved_run import SavedRun
        from probekit.store.layout import model_slug
        from probekit.tasks import HASH

        task = self.location.task(self.task, label)
        run = SavedRun.at(self.model)
        folder = Path("runs") / (model_slug(self.model) if run is None else run.called)
        text = HASH.search(task.slug)
        begun = sorted(folder.glob(f"*{text[0]}.jsonl")) if text is not None else []
        return begun[0] if len(begun) == 1 else folder / f"{task.slug}.jsonl"
