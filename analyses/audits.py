"""What else reads ten tasks of sae-probes as well as a probe of the best layer: `probekit audit`.

Ten tasks of short texts. The probe is the linear one, solved, of the layer that is best on dev.

    python analyses/audits.py MODEL --data DIR/sae-probes    # ten minutes of one core
"""

from pathlib import Path

from shared import argument_parser, markdown, write

from probekit import ExtractOptions, Location, extract, run_suite
from probekit.metrics import scale_of
from probekit.results.comparison.runs import RecordedRun
from probekit.results.predictions import read_predicted
from probekit.tasks.suites import SUITES
from probekit.train.baselines.auditing import Reading, audit

NAME = "audits"
SUITE = "sae-probes"
TASKS = (
    *("5_hist_fig_ismale", "24_headline_isiran", "41_truthqa_tf", "87_glue_cola", "92_glue_sst2"),
    *("95_toxic_is", "96_spam_is", "105_click_bait", "106_hate_hate", "150_twt_emotion_sadness"),
)

INTRODUCTION = """\
`probekit audit` of ten tasks of sae-probes: accuracy on test in percent. The probe is a solved
linear one of the layer that is best on dev; random weights are those of a model of the same shape,
read by the same probe at the same layer. In bold is what reads the labels as well as the probe, as
far as these texts can tell: surely above chance, and the probe not surely above it (paired over
texts, 5 % after Holm's correction over the readers of a task). A star marks what is not surely
above chance."""


def main() -> None:
    """Audit each task, and write one table."""
    parser = argument_parser(__doc__, "model")
    parser.add_argument("--data", type=Path, required=True)
    args = parser.parse_args()
    work = args.cache / NAME
    header: list[str] = []
    lines, passed = [], []
    tasks = {task.name: task for task in SUITES[SUITE].tasks(args.data)}
    for tag in TASKS:
        task = tasks[f"{SUITE}/{tag}"]
        records = run_suite(
            SUITE, args.model, tasks=[tag], data=args.data, out=work / "probes.jsonl",
            cache=args.cache, workers=args.workers,
        )  # fmt: skip
        best = max(records, key=lambda record: record.eval_score or 0.0)
        untrained = ExtractOptions(layers="all", keep=("last",), random_init=0)
        extract(args.model, task.name, data=task.data, options=untrained, cache=args.cache)
        location = Location(cache=args.cache, data=task.data)
        run = RecordedRun.of(tag, [best])
        audited = audit(run, out=work / "readers.jsonl", location=location, workers=args.workers)
        percent = scale_of(audited.probe.metric).text
        readings = audited.readings
        header = ["task", "texts", "layer", "most frequent", "probe"]
        header += [reading.reader for reading in readings]
        _, predicted = read_predicted(str(best.predictions), texts=False, probabilities=False)
        known = [f"{len(predicted['test'].ids):,}", str(best.depth)]
        scores = [percent(audited.probe.score_b), percent(audited.probe.score_a)]
        lines.append([tag, *known, *scores, *map(_cell, readings)])
        passed += [tag] * audited.passed
    table = markdown(header, lines)
    found = f"{len(TASKS) - len(passed)} of {len(TASKS)} probes have a reader that does as well."
    write(NAME, ["# Audits", INTRODUCTION, table, found])


def _cell(reading: Reading) -> str:
    """Return a reader's score, in bold where it reads the labels as well."""
    text = scale_of(reading.behind_probe.metric).text(reading.behind_probe.score_b)
    return {"as well": f"**{text}**", "in part": text, "not surely": rf"{text}\*"}[reading.verdict]


if __name__ == "__main__":
    main()
