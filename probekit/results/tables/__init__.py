"""Tables of results: records grouped over seeds, in the styles of `STYLES`."""

from probekit.results.summaries.scored import Score
from probekit.results.summaries.typeset import STYLES, Style
from probekit.results.tables.by_layer import (
    ablation_table,
    depth_table,
    measure_table,
    shares_table,
    weights_table,
)
from probekit.results.tables.captions import caption, footnotes, measure_caption, weights_caption
from probekit.results.tables.pivot import pivot
from probekit.results.tables.scores import (
    ScoreRow,
    score_columns,
    summarise,
    table,
    with_chosen,
    with_verdicts,
)

__all__ = [
    "STYLES",
    "Score",
    "ScoreRow",
    "Style",
    "ablation_table",
    "caption",
    "depth_table",
    "footnotes",
    "measure_caption",
    "measure_table",
    "pivot",
    "score_columns",
    "shares_table",
    "summarise",
    "table",
    "weights_caption",
    "weights_table",
    "with_chosen",
    "with_verdicts",
]
