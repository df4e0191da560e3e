"""Figures of heatmaps: cells of equal size with their numbers, titles, and one colour bar below."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from probekit.plots.cells import Grid, draw_cells, layer_label, print_values
from probekit.plots.colours import Colours, amount_colours
from probekit.plots.look import PLAIN, Given, Look, given_axes
from probekit.plots.naming import fitted_text, label_text, title_text
from probekit.plots.style import COLUMN_WIDTH, PAGE_WIDTH, lay_out, new_figure

_BAR = 0.09  # height of the colour bar, inches
_SAME = 0.98  # of a neighbour's height, from which on two are the same
_TALL = 9.0  # height of heatmaps from which on the bar stands above them, where reading begins


def heatmap_figure(
    grids: Sequence[Grid],
    titles: Sequence[str],
    label: str,
    *,
    notes: str = "",
    heading: str = "",
    columns: int = 1,
    low: float | None = None,
    high: float | None = None,
    decimals: int | Sequence[int] = 2,
    narrowest: float = COLUMN_WIDTH,
    colours: Colours | None = None,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Return a figure of heatmaps that share their colours.

    Cells have the size that they prefer, as long as the page is wide enough: the figure is laid out
    once to see what names, titles and labels take beside them. A heatmap whose rows are those of
    its neighbour does without their names.

    Args:
        grids: the heatmaps, from the left to the right and then down.
        titles: one for each.
        label: of the colour bar.
        notes: what else must be said, in small letters below.
        heading: a title over all of them.
        columns: heatmaps beside each other.
        low: value of the lightest colour; the smallest value when None.
        high: value of the darkest colour; the largest value when None.
        decimals: of the numbers, for all rows or for each row of a grid.
        narrowest: width of the figure at least, inches.
        colours: of the values; light to dark from ``low`` to ``high`` when None.
        ax: axes of the caller's own, one per heatmap; the colour bar takes some of their room.
        look: width and title.

    Raises:
        OptionError: the axes do not fit the heatmaps.
    """
    colours = colours or amount_colours(low, high)
    if look.title is not None and len(grids) == 1:
        titles, heading = [look.title], ""
    elif look.title:
        heading = look.title
    panels = given_axes(ax, titles, look)
    if panels:
        said = f"{label}; {notes}" if notes else label
        figure = _fill_axes(panels, grids, titles, said, colours)
    else:
        layout = _Layout(grids, titles, label, notes, heading, columns, narrowest, look)
        figure = layout.drawn(colours)
        panels = figure.axes[: len(grids)]
    if any(grid.numbers and not grid.strips for grid in grids):
        lay_out(figure)  # numbers are written where they fit
    for axes, grid in zip(panels, grids, strict=True):
        print_values(axes, grid, decimals)
    return figure


def _fill_axes(
    panels: Sequence[Axes],
    grids: Sequence[Grid],
    titles: Sequence[str],
    label: str,
    colours: Colours,
) -> Figure:
    """Draw heatmaps and their colour bar into axes of the caller's own."""
    figure = panels[0].get_figure(root=True)
    assert figure is not None
    norm = colours.norm()
    meshes = [
        draw_cells(axes, grid, colours, norm) for axes, grid in zip(panels, grids, strict=True)
    ]
    width = panels[0].get_window_extent().width / figure.dpi
    bar = figure.colorbar(
        meshes[0], ax=list(panels), orientation="horizontal", extend=colours.extend
    )
    _name_ticks(bar.ax, colours)
    bar.set_label(label_text(label, width * len(panels)))
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title_text(title, width), loc="left")
    for (one, left), (two, right) in itertools.pairwise(zip(panels, grids, strict=True)):
        if list(left.names) == list(right.names) and _are_neighbours(one, two):
            two.tick_params(axis="y", labelleft=False)
    return figure


def _are_neighbours(one: Axes, two: Axes) -> bool:
    """Say whether some axes stand right of others, at the same height."""
    left, right = one.get_window_extent(), two.get_window_extent()
    return abs(left.y0 - right.y0) < 1 and abs(left.y1 - right.y1) < 1 and left.x1 <= right.x0


def stacked_heights(grids: Sequence[Grid], columns: int) -> list[float]:
    """Return the height of each row of heatmaps, of which some stand beside each other, inches."""
    heights = [sum(grid.row_heights) for grid in grids]
    return [max(heights[n : n + columns]) for n in range(0, len(heights), columns)]


@dataclass(frozen=True)
class _Layout:
    """How heatmaps and their colour bar share a figure: the arguments of ``heatmap_figure``."""

    grids: Sequence[Grid]
    titles: Sequence[str]
    label: str
    notes: str
    heading: str
    columns: int
    narrowest: float
    look: Look

    def drawn(self, colours: Colours) -> Figure:
        """Return the figure, whose axes are the heatmaps and then the bar."""
        tallest = stacked_heights(self.grids, self.columns)
        above = sum(tallest) > _TALL
        width = self.look.width or PAGE_WIDTH
        figure = new_figure(width, 2 * sum(tallest) + width + 4.0)  # settled below
        ratios = [_BAR, *tallest] if above else [*tallest, _BAR]
        places = figure.add_gridspec(len(ratios), self.columns, height_ratios=ratios)
        panels = [
            figure.add_subplot(places[n // self.columns + above, n % self.columns])
            for n in range(len(self.grids))
        ]
        bar = figure.add_subplot(places[0 if above else -1, :])
        norm = colours.norm()
        meshes = [draw_cells(*each, colours, norm) for each in zip(panels, self.grids, strict=True)]
        figure.colorbar(
            meshes[0], cax=bar, orientation="horizontal", label=" ", extend=colours.extend
        )
        _name_ticks(bar, colours)
        bar.spines[:].set_visible(False)
        self._share_labels(panels)
        self._settle_width(figure, panels, bar)
        stacked = [*panels[:: self.columns], bar]
        around = figure.get_figheight() - sum(box[3] for box in _laid_out(figure, stacked))
        figure.set_figheight(sum(tallest) + _BAR + around)
        self._keep_heights(figure, panels, tallest)
        return figure

    def _keep_heights(
        self, figure: Figure, panels: Sequence[Axes], tallest: Sequence[float]
    ) -> None:
        """Let a heatmap beside a taller one end where its own rows do."""
        boxes = _laid_out(figure, panels)
        for index, (axes, grid, box) in enumerate(zip(panels, self.grids, boxes, strict=True)):
            height = sum(grid.row_heights)
            if height < _SAME * tallest[index // self.columns]:
                axes.set_box_aspect(height / box[2])
                axes.set_anchor("NW")

    def _share_labels(self, panels: Sequence[Axes]) -> None:
        """Leave out the names of rows and of the layer axis where a neighbour has them already."""
        for index, (axes, grid) in enumerate(zip(panels, self.grids, strict=True)):
            if index % self.columns and list(grid.names) == list(self.grids[index - 1].names):
                axes.tick_params(axis="y", labelleft=False)
            if grid.classes:
                continue
            last = index + self.columns >= len(self.grids)
            gaps = self._gaps and self.columns == 1  # else the notes say it once
            axes.set_xlabel(layer_label(gaps) if last else "")

    @property
    def _gaps(self) -> bool:
        return any(grid.has_gaps and not grid.classes for grid in self.grids)

    def _settle_width(self, figure: Figure, panels: Sequence[Axes], bar: Axes) -> None:
        """Give cells their width, if the page has it, and write texts in lines that fit."""
        before = figure.get_figwidth()
        boxes = _laid_out(figure, panels[: self.columns])
        beside = before - sum(box[2] for box in boxes)
        if self.look.width is None:
            wanted = self.columns * max(grid.width for grid in self.grids) + beside
            figure.set_figwidth(min(PAGE_WIDTH, max(self.narrowest, wanted)))
        after = figure.get_figwidth()
        inside = (after - beside) / self.columns  # of each heatmap, all of which are equally wide
        # a title may reach up to the next heatmap, or to the edge of the page
        gaps = [right[0] - left[0] - left[2] for left, right in itertools.pairwise(boxes)]
        rooms = [inside + gap for gap in [*gaps, before - boxes[-1][0] - boxes[-1][2]]]
        for index, (axes, title) in enumerate(zip(panels, self.titles, strict=True)):
            axes.set_title(title_text(title, rooms[index % self.columns] - 0.05), loc="left")
            axes.set_xlabel(label_text(axes.get_xlabel(), inside))
        bar.set_xlabel(label_text(self.label, inside * self.columns + sum(gaps)))
        notes = [self.notes, "hatched: not read" if self._gaps and self.columns > 1 else ""]
        size = rcParams["legend.fontsize"]
        if text := "; ".join(filter(None, notes)):
            figure.supxlabel(fitted_text(text, after - 0.1, size), fontsize=size)
        if self.heading:
            text = title_text(self.heading, after)
            figure.suptitle(text, fontsize=rcParams["axes.titlesize"])


def _name_ticks(bar: Axes, colours: Colours) -> None:
    if colours.ticks:
        bar.set_xlim(*colours.ends)
        bar.xaxis.set_major_locator(FixedLocator(list(colours.ticks)))
        bar.xaxis.set_major_formatter(FixedFormatter(list(colours.ticks.values())))
        bar.xaxis.set_minor_locator(NullLocator())


def _laid_out(figure: Figure, panels: Sequence[Axes]) -> list[list[float]]:
    """Return left, bottom, width and height of some axes as they are laid out now, inches."""
    lay_out(figure)
    boxes = [axes.get_window_extent().bounds for axes in panels]
    return [[length / figure.dpi for length in box] for box in boxes]
