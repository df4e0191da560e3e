"""Tables of results: records grouped over seeds, as text, Markdown or JSON lines."""

from probekit.report.captions import caption, weights_caption
from probekit.report.compared import comparison_table
from probekit.report.footnotes import footnotes
from probekit.report.layers import depth_table, weights_table
from probekit.report.rows import Row, summarise
from probekit.report.scores import table
from probekit.report.styles import STYLES, Score, Style

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
