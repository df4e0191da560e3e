"""What runs leave behind besides their records: saved heads and predictions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from probekit.tasks.task import slugify
from probekit.train.saved.folder import check_replaceable, saved_key
from probekit.train.sweeps.resolve import Run


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a run leaves behind besides its record.

    Attributes:
        heads: folder of each saved head, by record key.
        predictions: Parquet file of each run's predictions, by record key.
    """

    heads: dict[str, Path]
    predictions: dict[str, Path]

    @classmethod
    def of(cls, runs: Sequence[Run], out: Path, save: Path | None, predictions: bool) -> "Outputs":
        """Return what runs are to leave behind.

        Args:
            runs: all that are recorded in ``out``.
            out: the records file.
            save: as in `sweep`.
            predictions: as in `sweep`.

        Raises:
            OptionError: the head of another run would be overwritten.
            StorageError: a head cannot be saved there.
        """
        heads, files = {}, {}
        for run in runs:
            key = run.options.key
            if save is not None:
                heads[key] = save if len(runs) == 1 else save / _name(run)
                _check_save(heads[key], run)
            if predictions:
                files[key] = out.parent / f"{out.stem}-predictions" / f"{key[:16]}.parquet"
        return cls(heads=heads, predictions=files)

    def are_there(self, key: str) -> bool:
        """Say whether all that was asked for of a run besides its record is there."""
        predicted = key not in self.predictions or self.predictions[key].is_file()
        # The folder may hold the head of another run.
        return predicted and (key not in self.heads or saved_key(self.heads[key]) == key)


def _check_save(folder: Path, run: Run) -> None:
    """Refuse, before anything is trained, to overwrite the saved head of another run."""
    spec = run.spec
    check_replaceable(
        folder, key=run.options.key, task=spec.task, label=spec.label, head=run.member.head.name
    )


def _name(run: Run) -> str:
    """Return a folder name that people can read and that no other run has."""
    spec = run.spec
    parts = [slugify(spec.head), spec.label, None if spec.depth is None else f"depth{spec.depth}"]
    parts += [None if spec.shots is None else f"shots{spec.shots}", f"seed{spec.seed}"]
    return "-".join([*(part for part in parts if part), run.options.key[:8]])
