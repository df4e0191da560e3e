"""The names of the files and folders of an entry."""

MANIFEST = "manifest.json"
EXAMPLES = "examples.parquet"
CHECKSUMS = "checksums.parquet"
BACKBONE = "backbone"

PARTIAL = ".partial"  # suffix of an entry under construction
REPLACED = ".replaced"  # suffix of an old entry while its replacement is renamed
BUILDING = "building"  # in an entry under construction: plan and unit marks
PLAN = "plan.json"  # in the latter
UNITS = "units"  # beside it: the marks, a file per finished unit

LABELS = "labels"  # beside the entries of a task
