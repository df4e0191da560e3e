"""sae-probes: 113 binary tasks of single texts (Kantamneni et al. 2025, arXiv 2502.16681).

The tables lie in the package ``sae-probes`` of PyPI, one for each task, without splits. These are
those of its own runner: balanced, at most 1,024 texts of train, drawn with the seed 42, of which
the last fifth, at most 100, validates and is dev here. Eight tasks can be tested on texts of
another source.
"""

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING

from probekit.errors import DataError, MissingFileError, reason_of
from probekit.tasks.corpora.published import SplitsTogether
from probekit.tasks.schemes import class_text
from probekit.tasks.sentences import Sentences, plain_text
from probekit.tasks.task import Task

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from jaxtyping import Int64

OBTAIN = "the package sae-probes 0.4.2 of PyPI, its folder sae_probes/data/cleaned_data"
_TABLES, _OTHERS, _OTHER = "cleaned_data", "OOD data", "_OOD"
"""The folders of the tables and of the texts of another source; how the latter's names end."""

SEED = 42
MOST_TRAINED, LEAST_TESTED, MOST_VALIDATED = 1024, 100, 100
_MASTER = "probing_datasets_MASTER.csv.zst"


class _Spaced(SplitsTogether):
    """Files whose names may have blanks where tags have "_"."""

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Read ``split`` from ``data``."""
        names, folder = self.files[split], Path() if data is None else data
        spaced = [path.name for path in folder.glob("* *") if path.name.replace(" ", "_") in names]
        return SplitsTogether(**vars(self) | {"files": {split: (*names, *spaced)}})(split, data)


def sae_probes(tag: str, *, other: bool = False) -> Task:
    """Return the task ``sae-probes/<tag>`` ("sae-probes/5_hist_fig_ismale").

    Args:
        tag: the name of its file.
        other: test on texts of another source: ``sae-probes-ood/<tag>``.
    """
    own = (f"{tag}.csv.zst", f"{tag}.csv")
    tested = (f"{tag}{_OTHER}.csv.zst", f"{tag}{_OTHER}.csv") if other else own
    corpus = _Spaced(
        task=f"sae-probes{'-ood' * other}/{tag}",
        files={"train": own, "dev": own, "test": tested},
        folders=(f"../{_OTHERS}",),
        parse=_parse,
        obtain=OBTAIN,
    )
    return corpus.labelled({"target": "accuracy"}, kind="sentence")


def other_tags(data: Path | None) -> list[str]:
    """Return the tags of the tasks of which a folder has texts of another source.

    Raises:
        MissingFileError, DataError: as `tags`.
    """
    known = tags(data)
    folders = [] if data is None else [data, data / f"../{_OTHERS}"]
    there = {path.name.partition(".csv")[0] for folder in folders for path in folder.glob("*.csv*")}
    return [tag for tag in known if f"{tag}{_OTHER}" in there]


def tags(data: Path | None) -> list[str]:
    """Return the tags of the binary tasks of a folder.

    Raises:
        MissingFileError: there is no folder, or no list of tasks in it or above it.
        DataError: the list cannot be read.
    """
    folders = [] if data is None else [data, data.parent]
    path = next((folder / _MASTER for folder in folders if (folder / _MASTER).is_file()), None)
    if path is None:
        raise MissingFileError(
            f"the list of tasks, {_MASTER}, is not there. Give --data DIR: {OBTAIN}."
        )
    table = _read(path, ("Data type", "Dataset save name"))
    binary = table[table["Data type"] == "Binary Classification"]
    names = [Path(name).name.removesuffix(".csv") for name in binary["Dataset save name"]]
    return [name.replace(" ", "_") for name in names]


def _read(path: Path, needed: tuple[str, ...]) -> "pandas.DataFrame":
    """Return a table, packed or not.

    Raises:
        DataError: it cannot be read, or lacks a column.
    """
    import pandas
    import pyarrow as pa

    try:
        with pa.input_stream(path, compression="zstd" if path.suffix == ".zst" else None) as stream:
            table = pandas.read_csv(io.BytesIO(stream.read()))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a table of sae-probes ({reason_of(error)}).") from error
    if missing := [name for name in needed if name not in table.columns]:
        raise DataError(f"{path} has no column {missing[0]!r}; is it a table of sae-probes?")
    return table


def _parse(path: Path, split: str) -> Sentences:
    import numpy as np

    table, names = _read(path, ("prompt", "target")), None
    if _OTHER in path.name:  # its classes may have other names, in the same order
        own, around = path.name.replace(_OTHER, ""), (path.parent, path.parent.parent / _TABLES)
        files = (file for folder in around for file in folder.glob("*.csv*"))
        train = next((file for file in files if file.name.replace(" ", "_") == own), path)
        names = sorted(_read(train, ("target",))["target"].unique())
    classes, numbers = np.unique(table["target"].to_numpy(), return_inverse=True)
    if len(classes) != 2:
        raise DataError(f"{path} has {len(classes)} classes, and tasks of sae-probes have two.")
    drawn = None if names else draw(numbers.astype(np.int64), str(path))
    rows = np.arange(len(table)) if drawn is None else drawn[split]
    names = [str(class_text(name)) for name in names or classes.tolist()]
    texts = table["prompt"].astype(str).tolist()
    return Sentences.of_file(
        path,
        (
            plain_text((texts[row],), {"target": names[numbers[row]]}, row + 2, f"row-{row}")
            for row in rows.tolist()
        ),
    )


def draw(
    numbers: "Int64[np.ndarray, ' texts']", where: str
) -> "dict[str, Int64[np.ndarray, ' rows']]":
    """Return the rows of each split, as the runner of sae-probes draws them.

    Args:
        numbers: the class of each row, 0 or 1.
        where: the file, for the message.

    Raises:
        DataError: a class has too few rows.
    """
    import numpy as np

    n_train = min(len(numbers) - LEAST_TESTED, MOST_TRAINED)
    left = {number: np.flatnonzero(numbers == number) for number in (1, 0)}
    random, parts = np.random.RandomState(SEED), []
    for size in (n_train, len(numbers) - n_train - 1):
        sizes = {1: math.ceil(size / 2), 0: size // 2}
        if any(not 0 < sizes[number] <= len(left[number]) for number in left):
            raise DataError(f"{where}: too few texts of a class for {n_train} of train and a test.")
        drawn = {n: random.choice(left[n], size=sizes[n], replace=False) for n in left}
        left = {n: np.setdiff1d(left[n], drawn[n]) for n in left}
        parts.append(np.concatenate([*drawn.values()]))
    train, test = map(random.permutation, parts)
    kept = n_train - min(n_train // 5, MOST_VALIDATED)
    return {"train": train[:kept], "dev": train[kept:], "test": test}
