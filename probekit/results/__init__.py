"""Results of training: records, and the append-only files that hold them."""

from probekit.results.frame import Records, load_records, select
from probekit.results.log import append_record, check_appendable, recorded
from probekit.results.record import Record
from probekit.results.summaries.scored import scored_by

__all__ = [
    "Record",
    "Records",
    "append_record",
    "check_appendable",
    "load_records",
    "recorded",
    "scored_by",
    "select",
]
