"""Grids of predictions per example: its words by depths (or heads), and what is true of each.

Of several seeds the first is shown, since a mean of predictions is none.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64

from probekit.base.notices import ProgressBar
from probekit.errors import ProbekitError, RecordError
from probekit.metrics import METRICS
from probekit.page.page_figures import task_title
from probekit.plots.panels import TASK
from probekit.results.comparison.pairing import read_alike
from probekit.results.comparison.runs import RecordedRun
from probekit.results.predictions import Predicted
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped, series, without_baselines
from probekit.results.summaries.scored import reported_split
from probekit.results.summaries.wording import layer_text
from probekit.tasks.conversations import readable

MOST = 254
"""What the byte of a probability of 1 is: probabilities go in steps of 1/254."""

UNKNOWN = 255
"""The byte of a probability that is not known."""

MOST_SETS = 2**16
"""Sets of labels of a grid, whose numbers have two bytes."""

Packed = Literal["u1", "u2", "f4"]
"""How numbers are packed: classes in one byte or two, values in float32."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ExampleGrid:
    """What several probes predicted of the same sentences.

    Attributes:
        title: whose predictions they are.
        along: ``depth`` or ``head``: what the columns are.
        split: whose sentences.
        seed: the seed that is shown, in words.
        columns: name of each probe.
        found: what each predicted: class numbers of all of the same names, or values.
        probabilities: of the class that each predicted, NaN where it is not known; one row per
            column. None of values.
    """

    title: str
    along: str
    split: str
    seed: str
    columns: Sequence[str]
    found: Sequence[Predicted]
    probabilities: Float64[np.ndarray, "columns rows"] | None

    def to_json(self, most: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the grid as the page reads it, and its sentences, which other grids may share.

        Args:
            most: sentences that the page holds, at most, evenly spaced.
        """
        first = self.found[0]
        # 5 sentences, at most 3: 0, 2 and 4
        spaced = np.linspace(0, len(first.ids) - 1, min(most, len(first.ids)))
        kept = np.unique(spaced.round().astype(np.int64))
        of_kept = np.isin(np.arange(len(first.ids)), kept)
        rows = np.flatnonzero(np.repeat(of_kept, np.diff(first.offsets)))
        assert first.gold is not None, "classes and values have a gold side"
        kind: Packed = "f4" if first.content == "values" else "u1"
        if len(first.names) > 256:  # numbers of classes that one byte does not hold
            kind = "u2"
        texts = [first.texts[sentence] for sentence in kept] if first.texts else []
        predicted = np.stack([probe.predicted[rows] for probe in self.found])
        sentences = {
            "ids": [first.ids[sentence] for sentence in kept],
            "texts": [readable(text) if isinstance(text, str) else text for text in texts],
            "lengths": np.diff(first.offsets)[kept].tolist(),
            "of": len(first.ids),
            "names": list(first.names),
            "kind": kind,
            "gold": packed_numbers(first.gold[rows], kind),
        }
        grid = {
            **{name: getattr(self, name) for name in ("title", "along", "split", "seed")},
            "columns": list(self.columns),
            "predicted": packed_numbers(predicted, kind),
        }
        if self.probabilities is not None:
            grid["probabilities"] = packed_probabilities(self.probabilities[:, rows])
        return grid, sentences


Probes = tuple[Mapping[str, str], Mapping[str, Record]]
"""Title, ``along`` and seed of a grid, and the record of each of its columns by name."""


def packed_grids(
    records: Sequence[Record], split: str | None, most: int, *, progress: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Return a grid per curve and per task, and why there is none of others.

    Args:
        records: any; baselines, which predict nothing, are left out.
        split: whose sentences; None is test where all of a grid have one, else dev.
        most: sentences that a grid holds; with 0 there are no grids.
        progress: show progress on stderr.

    Returns:
        The grids and the sentences that they are of, each once; and what has no grid and why.
    """
    probes = without_baselines(records) if most else []
    groups = [members for members in grouped(probes, TASK).values() if members[0].metric in METRICS]
    grids: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    missing: list[str] = []
    with ProgressBar(total=len(groups), desc="examples", unit="task", shown=progress) as bar:
        for group in groups:
            of_task, why = _of_task(group, split)
            missing += why
            for grid, sentences in (probe_grid.to_json(most) for probe_grid in of_task):
                if sentences not in texts:
                    texts.append(sentences)
                grids.append(grid | {"sentences": texts.index(sentences)})
            bar.report(1)
    return {"grids": grids, "sentences": texts}, missing


def _of_task(group: Sequence[Record], split: str | None) -> tuple[list[ExampleGrid], list[str]]:
    """Return the grids of one model and task, and why there is none."""
    grids, missing = [], []
    kept = [record for record in group if record.predictions is not None]
    consumed = METRICS[group[0].metric].consumes
    if consumed == "losses":
        missing.append(
            f"{task_title(group[0])}: {group[0].metric} scores losses, and which token was "
            "predicted is not kept."
        )
    elif not kept:
        again = "run the commands above again with --predictions"
        if all(record.depth is None for record in group):
            again = (
                "run `probekit depth` of the same model and task, which keeps them, or the "
                "commands above again with --predictions"
            )
        count = f"its {len(group)} records" if len(group) > 1 else "its record"
        missing.append(f"{task_title(group[0])}: {count} kept no predictions; {again}.")
    else:
        for about, columns in [*_curves(kept), *_heads(kept)]:
            try:
                grids.append(_grid(about, columns, split))
            except ProbekitError as error:
                missing.append(f"{about['title']}: {error}")
    return grids, missing


def _curves(records: Sequence[Record]) -> Iterator[Probes]:
    """Yield the probes of each curve, by depth."""
    truncated = [record for record in records if record.depth is not None]
    for name, members in series(truncated, given=["depth"]).items():
        seeds = sorted({record.seed for record in members})
        first = {record.depth: record for record in members if record.seed == seeds[0]}
        depths = sorted(depth for depth in first if depth is not None)
        if len(depths) > 1:
            title = f"{name}: {task_title(members[0])}"
            columns = {layer_text(depth): first[depth] for depth in depths}
            yield {"title": title, "along": "depth", "seed": _seed_text(seeds)}, columns


def _heads(records: Sequence[Record]) -> Iterator[Probes]:
    """Yield the probes of all layers on as much of train, by head and what tells them apart."""
    whole = [record for record in records if record.depth is None]
    for (shots, fraction), group in grouped(whole, ["shots", "fraction"]).items():
        seeds = sorted({record.seed for record in group})
        settings = series(group, given=["shots", "fraction"]).items()
        first = {name: min(runs, key=lambda record: record.seed) for name, runs in settings}
        title = f"heads: {task_title(group[0], shots=shots, fraction=fraction)}"
        yield {"title": title, "along": "head", "seed": _seed_text(seeds)}, first


def _seed_text(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" + (f" of {len(seeds)} seeds" if len(seeds) > 1 else "")


def _grid(
    about: Mapping[str, str], columns: Mapping[str, Record], split: str | None
) -> ExampleGrid:
    """Read the side files of some probes, checked to be about the same sentences and labels."""
    split = split or reported_split([*columns.values()])
    runs = [
        RecordedRun.of(f"{about['title']}, {about['along']} {name}", [record])
        for name, record in columns.items()
    ]
    predicted = [probe for (probe,) in read_alike(runs, split)]
    probabilities = None
    if predicted[0].content != "values":
        probabilities = np.stack([probe.probability_of_predicted() for probe in predicted])
    if predicted[0].content == "sets":
        predicted = _sets_as_classes(about["title"], predicted)
    return ExampleGrid(
        **about,
        split=split,
        columns=list(columns),
        found=[replace(probe, probabilities=None, kept=None) for probe in predicted],
        probabilities=probabilities,
    )


def _sets_as_classes(title: str, probes: Sequence[Predicted]) -> list[Predicted]:
    """Return sets of labels as classes, one for each set that occurs: right is all of a set."""
    texts = [[*map(probe.label_text, probe.predicted)] for probe in probes]
    gold = [*map(probes[0].label_text, probes[0].gold if probes[0].gold is not None else ())]
    names = tuple(sorted({text for rows in (gold, *texts) for text in rows}))
    if len(names) > MOST_SETS:
        raise RecordError(f"{title}: {len(names)} sets of labels are more than a page can hold.")
    number = {name: n for n, name in enumerate(names)}
    truth, *said = (np.array([number[text] for text in rows]) for rows in (gold, *texts))
    return [
        replace(probe, content="classes", names=names, gold=truth, predicted=rows)
        for probe, rows in zip(probes, said, strict=True)
    ]


def packed_numbers(values: np.ndarray, kind: Packed) -> str:
    """Return numbers, row after row, as base64 of their bytes, the little end first."""
    return _base64(values.astype(f"<{kind}"))


def packed_probabilities(values: np.ndarray) -> str:
    """Return probabilities, row after row, as base64 of one byte each; NaN is `UNKNOWN`."""
    steps = np.rint(np.clip(np.nan_to_num(values), 0, 1) * MOST)
    return _base64(np.where(np.isnan(values), UNKNOWN, steps).astype("u1"))


def _base64(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
