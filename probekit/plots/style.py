"""Figures as such: their look, size, layout, text and fonts, and how they are written.

Letters that DejaVu Sans lacks come from what is installed, or are named.
"""

import contextlib
import io
import logging
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, findSystemFonts, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

from probekit.base.notices import warn_once
from probekit.base.registry import PathName
from probekit.base.replacing import replacing
from probekit.errors import OptionError, RecordError, StorageError

logger = logging.getLogger(__name__)

USUAL = "DejaVu Sans"
"""Comes with matplotlib: the same figure on every machine, wherever it has the letters."""

MISSING_GLYPH = "Glyph .* missing from font"
"""How matplotlib's warnings begin, in place of which `name_missing` says it."""

COLUMN_WIDTH = 3.35
"""Width of a one-column figure, in inches (85 mm)."""

PAGE_WIDTH = 6.9
"""Width of a figure over two columns, in inches (175 mm)."""

RC: dict[Any, Any] = {
    "font.family": [USUAL, "sans-serif"],  # the second one for readers of SVG who lack the first
    "font.sans-serif": [USUAL],
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "figure.titlesize": 8,
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
    "text.parse_math": False,  # a task may be called $x$
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3 fonts
    "svg.fonttype": "none",  # text stays text, which can be searched and edited
    "svg.hashsalt": "probekit",
}
"""Settings for ``matplotlib.rc_context``; nothing global is changed."""

FORMATS: dict[str, dict[str, Any]] = {
    ".png": {"dpi": 200, "metadata": {"Software": "probekit"}},
    ".svg": {"metadata": {"Date": None, "Creator": None}},
    ".pdf": {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
}
"""File name endings, and the options that they are written with: no dates, no versions."""

_UNSETTLED = 8.0  # inches of height around the panels, until what stands there has been laid out


@dataclass(frozen=True)
class Mark:
    """What a point or a cell of a figure shows.

    Attributes:
        axes: where it is drawn.
        x: its place there.
        y: its place there.
        values: what it shows, by name; nothing (None) where it has no such value.
        corner: the opposite corner of a cell, whose first one is (x, y); None of a point.
    """

    axes: Axes
    x: float
    y: float
    values: Mapping[str, str | float | None]
    corner: tuple[float, float] | None = None


class Drawing(Figure):
    """A figure that knows what its marks show, for a reader who points at them."""

    def __init__(self, width: float, height: float) -> None:
        """Make an empty figure (inches) on an Agg canvas; pyplot and its state are not used."""
        super().__init__(
            figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.03, w_pad=0.03)
        )
        FigureCanvasAgg(self)
        self.marks: list[Mark] = []

    def draw(self, renderer: Any) -> None:
        """Draw; letters that no font has are named in a line, but of SVG, where text stays text."""
        missing = give_fonts(self)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", MISSING_GLYPH)
            super().draw(renderer)
        if self.canvas.get_default_filetype() != "svg":
            name_missing(missing)


def note_mark(
    axes: Axes,
    x: float,
    y: float,
    values: Mapping[str, str | float | None],
    corner: tuple[float, float] | None = None,
) -> None:
    """Note a `Mark`, unless it stands in a figure of the caller's own."""
    figure = root_figure(axes)
    if isinstance(figure, Drawing):
        figure.marks.append(Mark(axes, x, y, values, corner))


def root_figure(axes: Axes) -> Figure:
    """Return the figure that some axes are in, also where they are in a part of it."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def new_figure(width: float, panels: float) -> Figure:
    """Return an empty figure, with more height than its panels need until ``fit`` settles that.

    Args:
        width: inches.
        panels: height of all panels below each other, inches.
    """
    return Drawing(width, panels + _UNSETTLED)


def new_axes(count: int, columns: int, width: float, heights: Sequence[float]) -> list[Axes]:
    """Return the axes of a new figure, row by row; ``heights`` are those of the rows, inches."""
    figure = new_figure(width, sum(heights))
    places = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    return [figure.add_subplot(places[divmod(n, columns)]) for n in range(count)]


def lay_out(figure: Figure) -> None:
    """Give all axes of a figure their places, as drawing it would, but without drawing it."""
    give_fonts(figure)
    engine = figure.get_layout_engine()
    if engine is not None:  # a figure of the caller's own may have none
        engine.execute(figure)


def size_of(axes: Axes, side: Literal["width", "height"] = "width") -> float:
    """Return the width or height of some axes as they are laid out, inches."""
    return float(getattr(axes.get_window_extent(), side) / axes.figure.dpi)


def fit(
    figure: Figure, panels: Sequence[Axes], inches: float, side: Literal["width", "height"]
) -> None:
    """Give a figure the size at which panels in a row, or in a column, have theirs together.

    What stands around them keeps what constrained layout gives it.
    """
    lay_out(figure)
    difference = inches - sum(size_of(axes, side) for axes in panels)
    if side == "width":
        figure.set_figwidth(figure.get_figwidth() + difference)
    else:
        figure.set_figheight(figure.get_figheight() + difference)


def refuse_many(count: int, most: int, things: str, remedy: str) -> None:
    """Raise RecordError, with what to do, if there are more things than a figure has room for."""
    if count > most:
        raise RecordError(
            f"{count} {things} are too many for one figure (at most {most}); {remedy}."
        )


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


def save_figure(figure: Figure, path: PathName) -> Path:
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


P = ParamSpec("P")

Given = Axes | Sequence[Axes] | None
"""Axes of the caller's own to draw into, one per panel; None makes a figure."""

_SIZES = tuple(name for name in RC if name.endswith("size") and "major" not in name)
_WIDTHS = (1.5, 40.0)
_FONTS = (3.0, 40.0)


@dataclass(frozen=True, slots=True)
class Look:
    """How a figure is to look, where it should not be as usual.

    Attributes:
        width: of the whole figure, inches; None is one column (3.35) or a page (6.9), by content.
        title: stands in place of a single panel's title, or above several panels; an empty one
            leaves that out.
        font_size: of titles and labels, points (8 if None); other texts are scaled with it.

    Raises:
        OptionError: a width or a font size that no figure can have.
    """

    width: float | None = None
    title: str | None = None
    font_size: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, value, (least, most), unit in (
            ("width", self.width, _WIDTHS, "inches"),
            ("font size", self.font_size, _FONTS, "points"),
        ):
            if value is not None and not least <= value <= most:
                raise OptionError(
                    f"a {name} of {value:g} {unit}: give one from {least:g} to {most:g} {unit}."
                )

    def rc(self) -> dict[Any, Any]:
        """Return the settings of matplotlib that the figure is drawn under."""
        factor = (self.font_size or RC["font.size"]) / RC["font.size"]
        return RC | {name: RC[name] * factor for name in _SIZES}


PLAIN = Look()
"""As usual."""


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Let a plot function draw under the settings of its ``look``; nothing global is changed."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        look = kwargs.get("look", PLAIN)
        if not isinstance(look, Look):
            raise OptionError(f"look: expected a probekit.Look, found {type(look).__name__}.")
        with matplotlib.rc_context(look.rc()), warnings.catch_warnings():
            warnings.filterwarnings("ignore", MISSING_GLYPH)
            figure = draw(*args, **kwargs)
            give_fonts(figure)
            return figure

    return drawn


_FEWER = "choose records of one panel with select(records, [...])"


def given_axes(ax: Given, titles: Sequence[str], look: Look, fewer: str = _FEWER) -> list[Axes]:
    """Return the caller's axes, one per panel; none where a figure is to be made.

    Args:
        ax: what the caller gave.
        titles: of the panels, for the message.
        look: which cannot set the width of a figure that is not made here.
        fewer: how to have one panel, for the message.

    Raises:
        OptionError: there are more or fewer axes than panels, or a width was given as well.
    """
    if ax is None:
        return []
    axes = [ax] if isinstance(ax, Axes) else list(ax)
    for item in axes:
        if not isinstance(item, Axes):
            raise OptionError(
                f"ax: expected an Axes, or a sequence of them, found {type(ax).__name__}"
                f"{'' if isinstance(ax, str) else f' of {type(item).__name__}'}; give what "
                "matplotlib's subplots() returns, flattened."
            )
    if len(axes) != len(titles):
        listed = "; ".join(" ".join(title.split()) for title in titles)
        raise OptionError(
            f"ax: expected one Axes per panel, {len(titles)} ({listed}), found {len(axes)}; give a "
            f"sequence of as many, or {fewer}."
        )
    if look.width is not None:
        raise OptionError(
            "width: axes of your own were given (ax), so the figure has its width already; leave "
            "one of the two out."
        )
    return axes


_NAMED = 12  # letters that a message names


def give_fonts(figure: Figure) -> set[str]:
    """Let texts fall back on installed fonts; return the letters that none of these has."""
    missing: set[str] = set()
    for text in figure.findobj(Text):
        families = {letter: _family_with(letter) for letter in filter(_is_drawn, text.get_text())}
        missing.update(letter for letter, family in families.items() if family is None)
        if families:
            fallback = filter(None, (families[letter] for letter in sorted(families)))
            text.set_fontfamily([*dict.fromkeys([*text.get_fontfamily(), *fallback])])
    return missing


def name_missing(letters: set[str]) -> None:
    """Say once which letters no installed font has, and where to get one."""
    if letters:
        named = " ".join(sorted(letters)[:_NAMED]) + " ..." * (len(letters) > _NAMED)
        warn_once(
            logger,
            "No installed font has %s: the figure shows boxes. Install the Noto font of that "
            "script (fonts.google.com/noto) and draw it again; an .svg file needs no font here.",
            named,
        )


def _is_drawn(letter: str) -> bool:
    return not letter.isascii() and unicodedata.category(letter) not in ("Cc", "Cf", "Cs")


@cache
def _family_with(letter: str) -> str | None:
    """Return the first installed family that has a letter, or None."""
    if ord(letter) in _letters(findfont(USUAL)):
        return USUAL
    return next((family for family, path in _installed() if ord(letter) in _letters(path)), None)


@cache
def _letters(path: str) -> frozenset[int]:
    """Return the letters of a font; none of a file that was removed since, or is damaged."""
    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


@cache
def _installed() -> list[tuple[str, str]]:
    """Return installed families with a file of each: Noto's sans-serif, then all others.

    Matplotlib keeps a list of fonts; what was installed since is added to it. Neither colour fonts
    serve, whose outlines are empty, nor the one that has a box for every letter.
    """
    listed = {font.fname for font in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - listed):
        with contextlib.suppress(OSError, RuntimeError):  # of bitmaps, or damaged
            fontManager.addfont(path)
    files = {font.name: font.fname for font in fontManager.ttflist if font.style == "normal"}
    # of several forms of a Chinese letter the simplified one
    order = {name: (name[:9] != "Noto Sans", not name.endswith(" SC"), name) for name in files}
    return [
        (name, files[name])
        for name in sorted(files, key=order.__getitem__)
        if "Color" not in name and "Last Resort" not in name
    ]
