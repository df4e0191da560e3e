"""Tables of results: records grouped over seeds, as text, Markdown or JSON lines."""

from probekit.results.comparison.comparison_table import comparison_table
from probekit.results.tables.by_layer import depth_table, weights_table
from probekit.results.tables.captions import caption, weights_caption
from probekit.results.tables.footnotes import footnotes
from probekit.results.tables.scores import table
from probekit.results.tables.styles import STYLES, Score, Style
from probekit.results.tables.summary import Row, summarise

__all__ = [
    "STYLES",
    "Row",
    "Score",
    "Style",
    "caption",
    "comparison_table",
    "depth_table",
    "footnotes",
    "summarise",
    "table",
    "weights_caption",
    "weights_table",
]
