"""MODEL and TASK as a user names them: which features a command trains on."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from probekit.cli.options import OwnData, check_order
from probekit.cli.training_options import TrainingOptions
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.features import Location


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
    def of(cls, model: str, task: str | None, own: OwnData, shared: TrainingOptions) -> Self:
        """Read MODEL TASK, or the path of an entry in their place.

        Raises:
            OptionError: there is no TASK, and MODEL is not the path of an entry; or the two are
                the wrong way round.
        """
        from probekit.features import Location
        from probekit.store.layout import MANIFEST
        from probekit.store.manifest import read_manifest

        check_order(model, task)
        if task is not None and (Path(model) / MANIFEST).is_file():
            raise OptionError(f"{model!r} is an entry's path, which says its task: leave TASK out.")
        cache, entry, identity = shared.cache, shared.entry, None
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
            cache, entry, identity = path.resolve().parents[2], str(path), manifest.request["model"]
        place = Location(
            cache=cache,
            entry=entry,
            data=shared.data,
            identity=identity,
            **own.parse().given,
        )
        return cls(model=model, task=task, location=place)

    def n_blocks(self, label: str | None, fit_on: str) -> int:
        """Return the model's number of blocks L, from the cache."""
        from probekit.features import open_features

        splits = open_features(self.model, self.task, label, self.location, fit_on=fit_on)
        return splits.n_blocks

    def kind(self, label: str | None) -> str:
        """Return what a label column labels: words, whole texts, ..."""
        task = self.location.task(self.task, label)
        return task.kind_of(task.columns[0]) if task.columns else task.kind

    def default_out(self, label: str | None) -> Path:
        """Return ``runs/<model>/<task>.jsonl``; of own data, the file begun under another name."""
        from probekit.store.layout import model_slug
        from probekit.tasks import HASH

        task = self.location.task(self.task, label)
        folder = Path("runs") / model_slug(self.model)
        text = HASH.search(task.slug)
        begun = sorted(folder.glob(f"*{text[0]}.jsonl")) if text is not None else []
        return begun[0] if len(begun) == 1 else folder / f"{task.slug}.jsonl"
