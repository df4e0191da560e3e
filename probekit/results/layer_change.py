"""How far the layers of two models lie apart on the same rows: numbers, and their JSON form."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from probekit.base.markup import Markup, html_view
from probekit.results.summaries.text_layout import NOTHING, Column
from probekit.results.summaries.typeset import html_columns
from probekit.results.summaries.wording import model_text


@dataclass(frozen=True, kw_only=True)
class LayerChange:
    """One layer.

    Attributes:
        layer: its number.
        change: ||after - before|| / ||before|| in Euclidean norms, mean over rows; rows of zeros
            before are left out, and None is where all are.
        deviation: its standard deviation over the rows.
        cka: linear centred kernel alignment between the layer before and after (Kornblith et al.
            2019, section 3): 1 where rows were turned, scaled or moved as a whole; None where
            either is constant.
    """

    layer: int
    change: float | None
    deviation: float | None
    cka: float | None


@dataclass(frozen=True, kw_only=True)
class Change:
    """What of the layers of a model changed, on the rows of a text.

    Attributes:
        model: name of the model after.
        before: name of the model before.
        task: name of the task.
        split: whose rows.
        entry: key of the entry after.
        entry_before: key of the entry before.
        array: which rows (``words``, ``cls``, ...).
        rows: rows that were measured.
        of_rows: rows that there are.
        seed: of the draw.
        layers: those that both entries hold, ascending.
        version: version of probekit that measured.
    """

    model: str
    before: str
    task: str
    split: str
    entry: str
    entry_before: str
    array: str
    rows: int
    of_rows: int
    seed: int
    layers: Sequence[LayerChange]
    version: str

    def _repr_html_(self) -> str:
        """Return for a notebook what ``probekit geometry --against`` prints."""
        return change_view(self)

    def to_json(self) -> dict[str, Any]:
        """Return all numbers as plain JSON values."""
        return dict(json.loads(json.dumps(asdict(self))))


def change_columns(found: Change) -> list[Column]:
    """Return layer, change and CKA."""
    return [
        Column("layer", [str(one.layer) for one in found.layers], words=True),
        Column("change", [_change_text(one) for one in found.layers]),
        Column("CKA", [NOTHING if one.cka is None else f"{one.cka:.3f}" for one in found.layers]),
    ]


def change_caption(found: Change) -> str:
    """Return what was measured, and what the columns are."""
    return f"{change_title(found)}; change: ||after - before|| / ||before||, mean ± SD over rows."


def change_title(found: Change) -> str:
    """Return which models were compared, and on which rows."""
    of = f" of {found.of_rows:,}" if found.rows < found.of_rows else ""
    return (
        f"{model_text(found.model)} against {model_text(found.before)}, {found.task} "
        f"{found.split}: {found.rows:,}{of} rows of {found.array}"
    )


def change_view(found: Change) -> Markup:
    """Return the table and its caption, for a notebook."""
    return html_view(html_columns(change_columns(found)), notes=[change_caption(found)])


def _change_text(layer: LayerChange) -> str:
    if layer.change is None or layer.deviation is None:
        return NOTHING
    return f"{layer.change:.3g} ± {layer.deviation:.2g}"
