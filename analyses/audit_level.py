"""How often an audit finds a planted shortcut, and how often it lets a clean probe pass.

Texts of common words, 400 to train on, 100 of dev, 300 of test. A clean label is the side of a
plane on which the mean row of a middle layer lies, another plane each time, parallel to what words
and embeddings tell of that row. A shortcut is one word, the order of two neighbours, or five words
more. The probe is a solved linear one over the same rows.

(Which of two distant words comes first is no clean label: the embeddings of a model with positions
tell that better than its middle layer.)

    python analyses/audit_level.py MODEL            # half an hour of one core
"""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from shared import argument_parser, markdown, write

import probekit
from probekit import TrainSpec
from probekit.backbone import inspect_backbone
from probekit.features import Location, Splits
from probekit.results.comparison.runs import RecordedRun
from probekit.train.baselines.auditing import Audit, audit

NAME = "audit_level"
WORDS = (
    *("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world"),
    *("school", "state", "family", "student", "group", "country", "problem", "hand", "part"),
    *("place", "case", "week", "company", "system", "program", "question", "work", "government"),
    *("number", "night", "point", "home", "water", "room", "mother", "area", "money", "story"),
    *("fact", "month", "lot", "right", "study", "book"),
)
SIZES = {"train": 400, "dev": 100, "test": 300}
SHORTCUTS = {"one word": "bag of words", "order of neighbours": "tf-idf", "length": "length"}
"""A shortcut, and the reader that must find it."""
CLEAN, PLANTED = 100, 34

INTRODUCTION = f"""\
Verdicts of `probekit audit` on the test split of made-up data, {SIZES["train"]} texts to train on
and {SIZES["test"]} to test. *Score* is the probe's mean accuracy in percent. A clean probe passes
if no reader reads the labels as well; a shortcut is found if its reader does."""


Examples = Mapping[str, list[tuple[str, str]]]
"""Texts and labels by split."""


def examples(kind: str, seed: int) -> Examples:
    """Return texts and labels by split."""
    random = np.random.default_rng(seed)
    first, second, *others = random.permutation(WORDS)
    made = {}
    for split, count in SIZES.items():
        texts = []
        for n in range(count):
            words, label = list(random.choice(others, 8)), n % 2
            pair = [first, second][:: -1 if label else 1]
            if kind == "order of neighbours":
                place = int(random.integers(9))
                words[place:place] = pair
            elif kind == "one word":
                words[int(random.integers(8))] = pair[0]
            elif kind == "length" and label:
                words += list(random.choice(others, 5))
            texts.append((" ".join(words), "ab"[label]))
        made[split] = texts
    return made


def by_plane(made: Examples, features: Splits, layer: int, seed: int) -> Examples:
    """Return the texts with another label: the side of a random plane on which their row lies.

    The plane is parallel to all that least squares can tell of a row from the words of its text and
    the 50 main components of its embeddings.
    """
    rows, known = {}, {}
    for split, texts in made.items():
        embedded, rows[split] = (
            features.numpy(split, layer=n, pooling="mean")[0] for n in (0, layer)
        )
        counts = [[text.split().count(word) for word in WORDS] for text, _ in texts]
        known[split] = np.hstack([counts, embedded])
    centre = rows["train"].mean(0)
    words, embedded = np.split(known["train"] - known["train"].mean(0), [len(WORDS)], axis=1)
    components = np.linalg.svd(embedded, full_matrices=False)[2][:50].T
    told = np.linalg.lstsq(np.hstack([words, embedded @ components]), rows["train"] - centre)[0]
    span = np.linalg.svd(told, full_matrices=False)[2]
    direction = np.random.default_rng([seed, 1]).normal(size=len(centre))
    direction -= span.T @ (span @ direction)
    return {
        split: [
            (text, "ab"[int(side > 0)])
            for (text, _), side in zip(texts, (rows[split] - centre) @ direction, strict=True)
        ]
        for split, texts in made.items()
    }


def audited(model: str, layer: int, kind: str, seed: int) -> tuple[float, Audit]:
    """Extract, train and audit once; return the probe's score and what was found."""
    with tempfile.TemporaryDirectory() as folder:
        cache, out = Path(folder) / "cache", Path(folder) / "runs.jsonl"
        options = probekit.ExtractOptions(keep=("mean",), layers=f"0,{layer}")
        made = examples(kind, seed)
        extract = partial(probekit.extract, model, "made-up", cache=cache, options=options)
        entries = extract(examples=made)
        if kind == "clean":
            made = by_plane(made, probekit.open_features(entries), layer, seed)
            extract(examples=made)
        spec = TrainSpec(model=model, task="made-up", head="last", layers=f"{layer}")
        location = Location(cache=cache)
        (record,) = probekit.sweep(spec, out=out, location=location, predictions=True)
        run = RecordedRun.of("the probe", [record])
        assert record.test_score is not None, "there is a test split"
        return record.test_score, audit(run, out=out.with_name("a.jsonl"), location=location)


def main() -> None:
    """Audit all probes, and write how many pass and how many shortcuts are found."""
    args = argument_parser(__doc__, "model").parse_args()
    layer = inspect_backbone(args.model).info.n_blocks // 2
    lines = []
    for kind, count in {"clean": CLEAN, **dict.fromkeys(SHORTCUTS, PLANTED)}.items():
        outcomes = [audited(args.model, layer, kind, seed) for seed in range(count)]
        scores, audits = zip(*outcomes, strict=True)
        passed = sum(found.passed for found in audits)
        reader = SHORTCUTS.get(kind)
        by_reader = sum(
            reading.verdict == "as well"
            for found in audits
            for reading in found.readings
            if reading.reader == reader
        )
        score = f"{100 * float(np.mean(scores)):.1f}"
        lines.append([kind, f"{count}", score, f"{passed}", f"{by_reader}" if reader else "-"])
        print(lines[-1], flush=True)
    header = ("label", "probes", "score", "passed", "found by its reader")
    write(NAME, [INTRODUCTION, markdown(header, lines)])


if __name__ == "__main__":
    main()
