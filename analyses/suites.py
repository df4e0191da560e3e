"""Every layer of small models on whole suites of tasks: `probekit suite`.

DIR holds a folder for each suite that is run, under its name: `docs/howto/suites.md` says where the
files are from. Finished tasks are skipped.

    python analyses/suites.py MODEL MODEL --data DIR   # blimp: 15 minutes for MiniLM
"""

from pathlib import Path

from shared import RESULTS, argument_parser, write

from probekit import load_records, run_suite
from probekit.results import scored_by
from probekit.results.tables import suite_table
from probekit.tasks.suites import SUITES

NAME = "suites"

INTRODUCTION = """\
Mean scores over the tasks of a suite, a linear probe solved at each layer (`probekit suite`). The
best layer is chosen on dev."""


def main() -> None:
    """Run the suites whose files are there, and write a table of each."""
    parser = argument_parser(__doc__, "models")
    parser.add_argument("--data", type=Path, required=True)
    args = parser.parse_args()
    parts = [INTRODUCTION]
    for name, suite in SUITES.items():
        out = RESULTS / f"suite_{name}.jsonl"
        if (folder := args.data / name).is_dir():
            for model in args.models:
                run_suite(name, model, out=out, data=folder, cache=args.cache, workers=args.workers)
        if out.is_file():
            records = scored_by(load_records([out]), suite.metric)
            parts += [f"## {name}: {suite.summary}", suite_table(records).text("markdown")]
    write(NAME, parts)


if __name__ == "__main__":
    main()
