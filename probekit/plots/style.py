"""How figures look, and how they are written: sizes, fonts, the style of every curve, formats."""

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from probekit.base.replacing import replacing
from probekit.errors import OptionError, RecordError, StorageError
from probekit.results.summaries.grouping import head_order

COLUMN_WIDTH = 3.35
"""Width of a one-column figure, in inches (85 mm)."""

PAGE_WIDTH = 6.9
"""Width of a figure over two columns, in inches (175 mm)."""

RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same figure on every machine
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3 fonts
    "svg.fonttype": "path",
    "svg.hashsalt": "probekit",
}
"""Settings for ``matplotlib.rc_context``; nothing global is changed."""

FORMATS: dict[str, dict[str, Any]] = {
    ".png": {"dpi": 200, "metadata": {"Software": "probekit"}},
    ".svg": {"metadata": {"Date": None, "Creator": None}},
    ".pdf": {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
}
"""File name endings, and the options that they are written with: no dates, no versions."""

# Okabe and Ito's colours for all kinds of colour vision, with grey for the yellow, which is too
# light for lines on white. The counts of colours, markers and dashes have no common factor, so
# that no two curves share more than one of them.
_COLOURS = ("#000000", "#E69F00", "#0072B2", "#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#8C8C8C")
_MARKERS = (
    ("o", 3.8),
    ("s", 3.5),
    ("^", 4.6),
    ("D", 3.5),
    ("v", 4.6),
    ("P", 5.2),
    ("X", 5.0),
    ("<", 4.6),
    (">", 4.6),
    ("p", 4.8),
    ("*", 6.2),
)
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (1.3, 1.1)),
    (0, (4, 1.2, 1.2, 1.2)),
    (0, (5, 1, 1, 1, 1, 1)),
)
_TURNS = (11, 12, 0, 7, 3, 2, 6, 5, 8, 4, 1, 9, 10)
"""Style of each of ``head_order()``; of a head after these, the place in that order."""

MAX_CURVES = 12


@dataclass(frozen=True, slots=True)
class CurveStyle:
    """Colour, marker (with its size in points) and dash pattern of one curve."""

    colour: str
    marker: str
    size: float
    dashes: Any

    def line_options(self) -> dict[str, Any]:
        """Return the keyword arguments of ``Axes.plot``."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.dashes,
            "linewidth": 1.2,
            "markersize": self.size,
            "markeredgecolor": "white",
            "markeredgewidth": 0.4,
        }


def hollow_options(style: CurveStyle) -> dict[str, Any]:
    """Return the keyword arguments of ``Axes.plot`` for the markers of runs with a trouble."""
    return style.line_options() | {
        "linestyle": "none",
        "markersize": style.size + 0.6,
        "markerfacecolor": "white",
        "markeredgecolor": style.colour,
        "markeredgewidth": 1.0,
    }


def refuse_many(
    count: int, most: int, things: str, remedy: str, *, one: str = "one figure"
) -> None:
    """Raise RecordError, with what to do, if there are more things than a figure has room for."""
    if count > most:
        raise RecordError(f"{count} {things} are too many for {one} (at most {most}); {remedy}.")


def curve_styles(
    names: Sequence[str], remedy: str = "choose some, such as --where head=last,p32"
) -> dict[str, CurveStyle]:
    """Return a style for every curve; a head's only curve has the same one in every figure.

    Args:
        names: of the curves.
        remedy: what to do about too many.

    Raises:
        RecordError: there are more curves than a reader can tell apart.
    """
    curves = f"curves ({'; '.join(names[:2])}; ...)"
    refuse_many(len(names), MAX_CURVES, curves, remedy)
    heads = [name.partition(",")[0] for name in names]
    turns = dict(
        zip(head_order(), itertools.chain(_TURNS, itertools.count(len(_TURNS))), strict=False)
    )
    own = {
        name: turns[head]
        for name, head in zip(names, heads, strict=True)
        if head in turns and heads.count(head) == 1
    }
    others = (index for index in itertools.count() if index not in own.values())
    return {name: _style(own[name] if name in own else next(others)) for name in names}


def _style(index: int) -> CurveStyle:
    marker, size = _MARKERS[index % len(_MARKERS)]
    return CurveStyle(_COLOURS[index % len(_COLOURS)], marker, size, _DASHES[index % len(_DASHES)])


def font_scale() -> float:
    """Return how much larger texts are now than in ``RC``: what is laid out by hand follows."""
    return float(matplotlib.rcParams["font.size"]) / float(RC["font.size"])


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure (inches) on an Agg canvas; pyplot and its state are not used."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.03, w_pad=0.03))
    FigureCanvasAgg(figure)
    return figure


def check_format(path: Path) -> str:
    """Return the suffix that chooses a figure's format: known before what is drawn is computed.

    Raises:
        OptionError: the suffix is another one; the message lists the three.
    """
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise OptionError(
            f"{path}: cannot write a figure as {path.suffix or 'a file without a suffix'!r}; "
            f"choose a name that ends in {', '.join(FORMATS)}."
        )
    return kind


def lay_out(figure: Figure) -> None:
    """Give all axes of a figure their places, as drawing it would, but without drawing it."""
    engine = figure.get_layout_engine()
    if engine is not None:  # a figure of the caller's own may have none
        engine.execute(figure)


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure, complete or not at all; parent folders are created.

    Args:
        figure: what one of ``PLOTS`` returned.
        path: the file; its suffix chooses the format (PNG at 200 dpi, SVG, PDF).

    Returns:
        The path.

    Raises:
        OptionError: the suffix is another one; the message lists the three.
        StorageError: the file cannot be written.
    """
    path = Path(path)
    kind = check_format(path)
    drawn = io.BytesIO()  # writing a PDF, matplotlib hides the error of a full disk behind its own
    with matplotlib.rc_context(RC):
        figure.savefig(drawn, format=kind[1:], **FORMATS[kind])
    try:
        with replacing(path) as fresh:
            fresh.write_bytes(drawn.getvalue())
    except OSError as error:
        raise StorageError(f"{path}: cannot write the figure ({error.strerror}).") from error
    return path
