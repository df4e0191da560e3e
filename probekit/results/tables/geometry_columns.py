"""The geometry of an entry as a table: a row per layer."""

from probekit.base.markup import Markup, html_view
from probekit.results.layer_geometry import Geometry, LayerGeometry
from probekit.results.summaries.text_layout import NOTHING, Column
from probekit.results.summaries.typeset import html_columns
from probekit.results.summaries.wording import range_text


def geometry_columns(found: Geometry) -> list[Column]:
    """Return layer, rank, mean cosine, dimension, norm, two CKAs and massive channels."""
    layers, places = found.layers, range(len(found.layers))
    before = [found.cka[place][place - 1] if place else None for place in places]
    return [
        Column("layer", [str(one.layer) for one in layers], words=True),
        Column("covariance rank", [_number(one.effective_rank, 1) for one in layers]),
        Column("cosine", [_number(one.anisotropy, 3) for one in layers]),
        Column("dimension", [_dimension_text(one) for one in layers]),
        Column("norm", [f"{one.norm:.4g} ± {one.norm_deviation:.2g}" for one in layers]),
        Column("CKA before", [_number(one, 3) for one in before]),
        Column("CKA last", [_number(found.cka[place][-1], 3) for place in places]),
        Column("massive", [_massive_text(one) for one in layers], words=True),
    ]


def _number(value: float | None, decimals: int) -> str:
    return NOTHING if value is None else f"{value:.{decimals}f}"


def _dimension_text(layer: LayerGeometry) -> str:
    """Return the dimension with its interval: ``12.3 (11.8 to 12.9)``."""
    value, low, high = (
        _number(one, 1)
        for one in (layer.intrinsic_dimension, layer.dimension_low, layer.dimension_high)
    )
    return value if layer.dimension_low is None else f"{value} ({low} to {high})"


def _massive_text(layer: LayerGeometry) -> str:
    """Return the channels with massive activations, each with its rows: ``138 (2,490 rows)``."""
    shown = [f"{one.channel} ({one.rows:,} rows)" for one in layer.massive[:2]]
    more = [f"{len(layer.massive) - 2} more"] if len(layer.massive) > 2 else []
    return ", ".join([*shown, *more]) or NOTHING


def geometry_caption(found: Geometry) -> str:
    """Return what was measured, and what the columns are."""
    of = f" of {found.of_rows:,}" if found.rows < found.of_rows else ""
    different = [one.dimension_rows for one in found.layers if one.dimension_rows is not None]
    drawn = f"{found.sample:,} drawn rows"
    if different:
        drawn = f"{range_text(different)} that differ of {drawn}, with its 95 % interval"
    few = " Fewer rows than channels: the rank is too low, CKA too high." * (found.rows < found.dim)
    return (
        f"{found.model}, {found.task} {found.split}: {found.rows:,}{of} rows of {found.array}, "
        f"{found.dim} wide; rank: effective rank of their covariance (entropy of its eigenvalues); "
        f"dimension by TwoNN from {drawn}; massive: over 100 and 1,000 times the layer's median "
        f"magnitude.{few}"
    )


def geometry_view(found: Geometry) -> Markup:
    """Return the table and its caption, for a notebook."""
    return html_view(html_columns(geometry_columns(found)), notes=[geometry_caption(found)])
