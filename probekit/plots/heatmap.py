"""Figures of heatmaps: cells of equal size with their numbers, titles, and one colour bar below."""

import itertools
from collections.abc import Sequence

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from probekit.plots.cells import Grid, draw_cells, layer_label, print_values
from probekit.plots.colours import Colours
from probekit.plots.look import PLAIN, Given, Look, given_axes
from probekit.plots.naming import line_length, wrap_phrases, wrap_words
from probekit.plots.style import COLUMN_WIDTH, PAGE_WIDTH, fit, lay_out, new_figure, size_of

_BAR = 0.09  # height of the colour bar, inches
_SAME = 0.98  # of a neighbour's height, from which on two are the same
_TALL = 9.0  # height of heatmaps from which on the bar stands above them, where reading begins


def heatmap_figure(
    grids: Sequence[Grid],
    titles: Sequence[str],
    label: str,
    colours: Colours,
    *,
    notes: str = "",
    heading: str = "",
    columns: int = 1,
    decimals: int | Sequence[int] = 2,
    narrowest: float = COLUMN_WIDTH,
    ax: Given = None,
    look: Look = PLAIN,
) -> Figure:
    """Return a figure of heatmaps that share their colours.

    Cells have the size that they prefer, as long as the page is wide enough. A heatmap whose rows
    are those of its neighbour does without their names.

    Args:
        grids: the heatmaps, from the left to the right and then down.
        titles: one for each.
        label: of the colour bar.
        colours: of the values.
        notes: what else must be said, in small letters below.
        heading: a title over all of them.
        columns: heatmaps beside each other.
        decimals: of the numbers, for all rows or for each row of a grid.
        narrowest: width of the figure at least, inches.
        ax: axes of the caller's own, one per heatmap; the colour bar takes some of their room.
        look: width and title.

    Raises:
        OptionError: the axes do not fit the heatmaps.
    """
    if look.title is not None and len(grids) == 1:
        titles, heading = [look.title], ""
    elif look.title:
        heading = look.title
    given = given_axes(ax, titles, look)
    if given:
        figure, meshes = _fill_axes(given, grids, label, notes, colours)
        panels = list(given)
    else:
        figure, panels, bar = _new_axes(grids, columns, look)
        meshes = _draw(panels, grids, colours)
        figure.colorbar(meshes[0], cax=bar, orientation="horizontal", extend=colours.extend)
        _name_ticks(bar, colours)
        bar.spines[:].set_visible(False)
        _share_labels(panels, grids, columns)
        if look.width is None:
            wanted = columns * max(grid.width for grid in grids)
            fit(figure, panels[:columns], wanted, "width")
            figure.set_figwidth(min(PAGE_WIDTH, max(narrowest, figure.get_figwidth())))
        gaps = columns > 1 and any(grid.has_gaps for grid in grids)
        said = "; ".join(filter(None, [notes, "hatched: not read" if gaps else ""]))
        lay_out(figure)
        _label(figure, bar, label, said, heading)
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(wrap_phrases(title, line_length(size_of(axes))), loc="left")
        axes.set_xlabel(wrap_words(axes.get_xlabel(), line_length(size_of(axes))))
    if not given:
        _settle_height(figure, panels, bar, grids, columns)
    lay_out(figure)
    for axes, grid, mesh in zip(panels, grids, meshes, strict=True):
        print_values(axes, grid, mesh, decimals)
    return figure


def stacked_heights(grids: Sequence[Grid], columns: int) -> list[float]:
    """Return the height of each row of heatmaps, of which some stand beside each other, inches."""
    heights = [grid.height for grid in grids]
    return [max(heights[n : n + columns]) for n in range(0, len(heights), columns)]


def _draw(panels: Sequence[Axes], grids: Sequence[Grid], colours: Colours) -> list[QuadMesh]:
    norm = colours.norm()
    return [draw_cells(axes, grid, colours, norm) for axes, grid in zip(panels, grids, strict=True)]


def _fill_axes(
    panels: Sequence[Axes], grids: Sequence[Grid], label: str, notes: str, colours: Colours
) -> tuple[Figure, list[QuadMesh]]:
    """Draw heatmaps and their colour bar into axes of the caller's own."""
    figure = panels[0].get_figure(root=True)
    assert figure is not None
    meshes = _draw(panels, grids, colours)
    width = size_of(panels[0]) * len(panels)
    bar = figure.colorbar(
        meshes[0], ax=list(panels), orientation="horizontal", extend=colours.extend
    )
    _name_ticks(bar.ax, colours)
    bar.set_label(wrap_words(f"{label}; {notes}" if notes else label, line_length(width)))
    for (one, left), (two, right) in itertools.pairwise(zip(panels, grids, strict=True)):
        here, there = one.get_window_extent(), two.get_window_extent()
        beside = abs(here.y0 - there.y0) < 1 and here.x1 <= there.x0
        if beside and list(left.names) == list(right.names):
            two.tick_params(axis="y", labelleft=False)
    return figure, meshes


def _new_axes(grids: Sequence[Grid], columns: int, look: Look) -> tuple[Figure, list[Axes], Axes]:
    """Return a figure, the axes of its heatmaps, and of the bar: below, or above tall ones."""
    tallest = stacked_heights(grids, columns)
    figure = new_figure(look.width or PAGE_WIDTH, sum(tallest))
    above = sum(tallest) > _TALL
    ratios = [_BAR, *tallest] if above else [*tallest, _BAR]
    places = figure.add_gridspec(len(ratios), columns, height_ratios=ratios)
    panels = [
        figure.add_subplot(places[n // columns + above, n % columns]) for n in range(len(grids))
    ]
    return figure, panels, figure.add_subplot(places[0 if above else -1, :])


def _share_labels(panels: Sequence[Axes], grids: Sequence[Grid], columns: int) -> None:
    """Leave out the names of rows and of the layer axis where a neighbour has them already."""
    for index, (axes, grid) in enumerate(zip(panels, grids, strict=True)):
        if index % columns and list(grid.names) == list(grids[index - 1].names):
            axes.tick_params(axis="y", labelleft=False)
            axes.set_ylabel("")
        if not grid.classes:
            last = index + columns >= len(grids)
            gaps = columns == 1 and any(one.has_gaps for one in grids)
            axes.set_xlabel(layer_label(gaps) if last else "")


def _label(figure: Figure, bar: Axes, label: str, notes: str, heading: str) -> None:
    """Say what the colours are, what else must be said, and what all heatmaps are of."""
    width = figure.get_figwidth()
    bar.set_xlabel(wrap_words(label, line_length(size_of(bar))))
    if notes:
        text = wrap_words(notes, line_length(width, "legend.fontsize"))
        figure.supxlabel(text, size=rcParams["legend.fontsize"])
    if heading:
        figure.suptitle(wrap_phrases(heading, line_length(width)))


def _settle_height(
    figure: Figure, panels: Sequence[Axes], bar: Axes, grids: Sequence[Grid], columns: int
) -> None:
    """Give rows their heights; a heatmap beside a taller one ends where its own rows do."""
    tallest = stacked_heights(grids, columns)
    fit(figure, [*panels[::columns], bar], sum(tallest) + _BAR, "height")
    lay_out(figure)
    for index, (axes, grid) in enumerate(zip(panels, grids, strict=True)):
        if grid.height < _SAME * tallest[index // columns]:
            axes.set_box_aspect(grid.height / size_of(axes))
            axes.set_anchor("NW")


def _name_ticks(bar: Axes, colours: Colours) -> None:
    if colours.ticks:
        bar.set_xlim(*colours.ends)
        bar.set_xticks(list(colours.ticks), list(colours.ticks.values()))
        bar.minorticks_off()
