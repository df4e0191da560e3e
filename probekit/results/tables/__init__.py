"""Tables of results: records grouped over seeds, each with what stands below it, in any style."""

from probekit.results.summaries.typeset import STYLES, Table
from probekit.results.tables.by_layer import (
    depth_table,
    measure_table,
    pivot,
    suite_table,
    weights_table,
)
from probekit.results.tables.scores import score_table, summarise, table

__all__ = [
    "STYLES",
    "Table",
    "depth_table",
    "measure_table",
    "pivot",
    "score_table",
    "suite_table",
    "summarise",
    "table",
    "weights_table",
]
