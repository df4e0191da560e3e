"""What ``probekit demo`` gave before the structure of the package changed: keys, scores and marks.

    python -m tests.kept_demo DEMO

compares the records that ``make demo`` has left in a folder with ``kept_demo.json``. Scores may
differ by what another processor rounds.
"""

import json
import sys
from pathlib import Path

from probekit import load_records
from probekit.results.summaries.diagnosis import marks

KEPT = Path(__file__).with_name("kept_demo.json")
ROUNDED = 0.01


def said(folder):
    """Return what the records of a demo say, by key."""
    return {
        one.key: [one.head, one.depth, one.seed, round(one.eval_score, 4), [*marks([one])]]
        for one in load_records(folder / "demo-ner.jsonl")
    }


def differences(found, kept):
    """Return what is no longer as it was, in words."""
    lines = [f"{key[:8]} {kept[key][:3]}: missing" for key in kept.keys() - found.keys()]
    lines += [f"{key[:8]} {found[key][:3]}: new" for key in found.keys() - kept.keys()]
    for key in kept.keys() & found.keys():
        *one, score, noted = found[key]
        *other, before, noted_before = kept[key]
        if [one, noted] != [other, noted_before] or abs(score - before) > ROUNDED:
            lines.append(f"{key[:8]} {found[key]}, and was {kept[key]}")
    return lines


if __name__ == "__main__":
    differing = differences(said(Path(sys.argv[1])), json.loads(KEPT.read_text("utf-8")))
    print("\n".join(differing) or "The demo is what it was.")
    sys.exit(bool(differing))
