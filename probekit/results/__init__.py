"""Results of training: records, and the append-only files that hold them."""

from probekit.results.frame import Records
from probekit.results.log import append_record, check_appendable, load_records, recorded
from probekit.results.record import Record
from probekit.results.summaries.select import select

__all__ = [
    "Record",
    "Records",
    "append_record",
    "check_appendable",
    "load_records",
    "recorded",
    "select",
]
