"""What curves are held against, where the records hold it: guesses, and the same on random weights.

A guess is a baseline without features (the majority, a lexicon that memorised train), which is a
level line. A random version of a model, as ``extract --random-init`` makes it, has a curve by depth
or, where it was trained at full depth alone, a level line.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from probekit.plots.panels import Panel
from probekit.plots.style import CurveStyle
from probekit.results.record import Record
from probekit.results.summaries.grouping import BASELINES, key_of
from probekit.results.summaries.interval import interval
from probekit.results.summaries.scored import SCORE_OF, Scored
from probekit.results.summaries.wording import model_text

GUESS_DASHES: Mapping[str, Any] = {"majority": (0, (6, 2)), "memorised": (0, (6, 2, 1, 2))}
_RANDOM_DASHES: Any = (0, (1, 1.4))
_GREY = "#666666"
_SAME_TASK = ("task", "label", "metric", "shots", "fraction")
_SAME_RUN = ("head", "decoder", "normalize", "pooling", "options", *_SAME_TASK)
_RANDOM = re.compile(r"(.+)-random\d+")


def original_model(model: str) -> str | None:
    """Return the last part of the name of the model that a model with random weights stands for.

    None is a model with weights of its own.
    """
    found = _RANDOM.fullmatch(model_text(model))
    return found[1] if found else None


@dataclass
class References:
    """The records of baselines, and the legend's entries of those that were drawn."""

    guesses: Sequence[Record]
    random: Sequence[Record]
    drawn: dict[str, Line2D] = field(default_factory=dict)

    def draw(
        self,
        axes: Axes,
        panel: Panel,
        styles: Mapping[str, CurveStyle],
        split: Scored,
        tops: Mapping[str, int],
    ) -> None:
        """Draw what the curves of a panel are held against.

        Args:
            axes: of the panel.
            panel: whose curves have it.
            styles: of the curves; what only one of several is held against has its colour.
            split: whose scores are drawn.
            tops: what depths are divided by, per model.
        """
        for name in GUESS_DASHES:
            levels = {
                curve: level
                for curve, members in panel.curves.items()
                if (level := self._guess(name, members[0], split)) is not None
            }
            alike = len(set(levels.values())) == 1 and len(levels) == len(panel.curves)
            for curve, level in list(levels.items())[: 1 if alike else None]:
                colour = _GREY if alike else styles[curve].colour
                self._level(axes, name, level * panel.scale.factor, colour)
        for curve, members in panel.curves.items():
            self._draw_random(axes, members[0], styles[curve].colour, panel, split, tops)

    def _guess(self, name: str, like: Record, split: Scored) -> float | None:
        found = {
            record.seed: getattr(record, SCORE_OF[split])
            for record in self.guesses
            if record.head == name and _same(record, like, _SAME_TASK)
        }
        return _mean(found.values())

    def _level(self, axes: Axes, name: str, level: float, colour: str) -> None:
        axes.axhline(level, color=colour, **_line_options(GUESS_DASHES[name]))
        self._explain(name, name, GUESS_DASHES[name])

    def _explain(self, key: str, text: str, dashes: Any) -> None:
        if key not in self.drawn:
            self.drawn[key] = Line2D([], [], color=_GREY, label=text, **_line_options(dashes))

    def _draw_random(
        self,
        axes: Axes,
        like: Record,
        colour: str,
        panel: Panel,
        split: Scored,
        tops: Mapping[str, int],
    ) -> None:
        """Draw one curve's counterpart on random weights: a curve by depth, else a level."""
        scores: dict[int | None, list[float | None]] = {}
        for record in self.random:
            if original_model(record.model) == model_text(like.model) and _same(
                record, like, _SAME_RUN
            ):
                scores.setdefault(record.depth, []).append(getattr(record, SCORE_OF[split]))
        means = {depth: _mean(values) for depth, values in scores.items()}
        points = {
            depth / tops[like.model]: mean * panel.scale.factor
            for depth, mean in sorted((d, m) for d, m in means.items() if d is not None and m)
        }
        options = {"color": colour} | _line_options(_RANDOM_DASHES)
        if points:
            axes.plot(list(points), list(points.values()), **options)
        elif (level := means.get(None)) is not None:
            axes.axhline(level * panel.scale.factor, **options)
        else:
            return
        self._explain("random", "random weights, in the curve's colour", _RANDOM_DASHES)


def split_off(records: Sequence[Record]) -> tuple[list[Record], References]:
    """Return the records that are curves of their own, and those that curves are held against.

    Records of a model with random weights are curves where the model itself has none.
    """
    own = {model_text(record.model) for record in records if record.head not in BASELINES}
    curves, guesses, random = [], [], []
    for record in records:
        if record.head in BASELINES:
            guesses.append(record)
        elif original_model(record.model) in own:
            random.append(record)
        else:
            curves.append(record)
    return curves, References(guesses, random)


def _same(one: Record, other: Record, names: Sequence[str]) -> bool:
    return key_of(one, names) == key_of(other, names)


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return interval(found).mean if found else None


def _line_options(dashes: Any) -> dict[str, Any]:
    return {"linestyle": dashes, "linewidth": 1.0, "zorder": 1.8}
