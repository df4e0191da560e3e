"""Which layers hold dependency trees: structural probes on English-EWT (Hewitt & Manning 2019).

Maps of rank 128 of distances and of depths at every layer of the encoders, on all of train; test is
scored with intervals over documents.

    probekit extract MODEL ud/en_ewt --data DIR
    python analyses/structural.py MODEL MODEL       # an hour of one core for the smaller one
"""

from shared import argument_parser, write

import probekit
from probekit.features import Location
from probekit.results.layer_scores import structure_table

NAME = "structural"

INTRODUCTION = """\
Structural probes (Hewitt & Manning 2019) on English-EWT, test, in percent: `probekit structure`.
"""


def main() -> None:
    """Train the probes of each model, and write their tables."""
    args = argument_parser(__doc__, "models").parse_args()
    location = Location(cache=args.cache)
    found = [probekit.structure(name, "ud/en_ewt", location=location) for name in args.models]
    tables = [structure_table(of_model) for of_model in found]
    parts = [f"## {of_model.model}\n\n" for of_model in found]
    written = [head + table.text("markdown") for head, table in zip(parts, tables, strict=True)]
    write(NAME, [INTRODUCTION, *written])


if __name__ == "__main__":
    main()
