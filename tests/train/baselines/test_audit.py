"""The audit: a shortcut that is planted is found, a clean probe passes, words are read too."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from probekit import Location, TrainSpec, open_features, sweep
from probekit.data.token_choice import TokenChoice
from probekit.errors import EntryNotFoundError, OptionError, RecordError, UnknownNameError
from probekit.results import load_records
from probekit.results.comparison import choose_run
from probekit.train.baselines.auditing import audit, audit_table
from probekit.train.baselines.guesses import without_part
from tests import tiny
from tests.cli.console import run as typed
from tests.extraction.extracted import entries_of
from tests.planted import MODEL as PLANTED
from tests.planted import plant_all
from tests.planted_texts import plant_texts

WORDS = ("cat", "mat", "dog", "tree", "house", "river", "moon", "bread")
SPLITS = ("train", "dev", "test")
LOCATION = Location(cache="cache", kind="sentence", text="text")
OWN = {"kind": "sentence", "text": "text", "label": "label"}


def write(folder, shortcut):
    """Write texts that only their length, one word, or a pair of neighbours tells apart."""
    rng = np.random.default_rng(7)
    folder.mkdir()
    for split, count in (("train", 160), ("dev", 80), ("test", 120)):
        rows = []
        for n in range(count):
            words = list(rng.choice(WORDS, 8 + 6 * (shortcut == "length") * (n % 2)))
            if shortcut == "word":
                words.insert(int(rng.integers(8)), ("yes", "no")[n % 2])
            if shortcut == "order":
                words.insert(int(rng.integers(8)), ("yes no", "no yes")[n % 2])
            rows.append(json.dumps({"text": " ".join(words), "label": "ab"[n % 2]}))
        (folder / f"{split}.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
    return folder


def probed(root, shortcut, **more):
    """Write texts, extract their states, and train a probe; return its spec and their entries."""
    model, texts = tiny.build("bert", root / "tiny"), write(root / "texts", shortcut)
    entries = entries_of(model, texts, "cache", SPLITS, layers="0,3", **OWN)
    spec = TrainSpec(model="tiny", task=str(texts), head="last", layers="3")
    sweep(spec, out="runs.jsonl", location=LOCATION, predictions=True, **more)
    return spec, entries


def planted(root, splits=SPLITS, **options):
    """Plant texts, train a probe, and return its run."""
    for split in splits:
        plant_texts(root, split=split, **options)
    spec = TrainSpec(model=PLANTED, task="glue/sst2", head="last", layers="3")
    sweep(spec, out=root / "runs.jsonl", location=Location(cache=root), predictions=True)
    return choose_run(str(root / "runs.jsonl"))


@pytest.mark.parametrize(
    ("shortcut", "finding"),
    [("length", {"length"}), ("word", {"bag of words", "tf-idf"}), ("order", {"tf-idf"})],
)
def test_a_planted_shortcut_is_found(tmp_path, monkeypatch, shortcut, finding):
    monkeypatch.chdir(tmp_path)
    probed(tmp_path, shortcut)
    audited = audit(choose_run("runs.jsonl"), out=tmp_path / "audit.jsonl", location=LOCATION)
    verdicts = {reading.reader: reading.verdict for reading in audited.readings}
    assert finding <= {name for name, verdict in verdicts.items() if verdict == "as well"}
    if shortcut == "order":
        assert verdicts["length"] == verdicts["bag of words"] == "not surely"
    assert not audited.passed
    assert audited.notes[-1].startswith("no random weights: extract the task again")


def test_clean_probes_pass(tmp_path):
    passed = []
    for seed in range(2):
        root = tmp_path / f"{seed}"
        run, location = planted(root, seed=seed), Location(cache=root)
        passed.append(audit(run, out=root / "audit.jsonl", location=location).passed)
    assert len(load_records([root / "audit.jsonl"])) == 5
    assert all(passed)


def test_words_are_read_by_their_types(tmp_path, monkeypatch):
    plant_all(tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    spec = TrainSpec(model=PLANTED, task="conll", head="p32")
    sweep(spec, out="runs.jsonl", location=Location(cache="cache"), predictions=True)
    outcome = typed("audit", "runs.jsonl", "--json")
    rows = {row["reader"]: row for row in outcome.rows}
    assert set(rows) == {"memorised", "embeddings"}
    assert outcome.code == (not all(row["passed"] for row in rows.values()))
    shown = typed("audit", "runs.jsonl")
    assert shown.out.splitlines()[0].split("  ")[0] == "reader"
    assert "paired over sentences" in shown.out


def test_what_cannot_be_audited_is_told(tmp_path):
    plant_texts(tmp_path, "glue/stsb", "train")
    plant_texts(tmp_path, "glue/stsb", "dev")
    location = Location(cache=tmp_path)
    spec = TrainSpec(model=PLANTED, task="glue/stsb", head="last")
    for kept, error, message in (
        (False, RecordError, "has no predictions"), (True, OptionError, "is of classes"),
    ):  # fmt: skip
        out = tmp_path / f"{kept}.jsonl"
        sweep(spec, out=out, location=location, predictions=kept)
        with pytest.raises(error, match=message):
            audit(choose_run(str(out)), out=tmp_path / "a.jsonl", location=location)


def test_what_cannot_be_compared_is_no_pass(tmp_path):
    run, out = planted(tmp_path, shuffled=True), tmp_path / "audit.jsonl"
    location = Location(cache=tmp_path)
    audited = audit(run, out=out, location=location)
    assert not audited.passed  # the probe itself reads nothing
    assert "the probe itself is not surely above chance" in audit_table(audited).text()
    with pytest.raises(UnknownNameError, match="unknown split 'train'"):
        audit(run, out=out, location=location, split="train")
    dev = audit(run, out=out, location=location, split="dev")
    assert "dev chose the probe's strength" in dev.notes[0]
    for file in (tmp_path / "audit-predictions").iterdir():
        file.unlink()
    with pytest.raises(RecordError, match=r"has no predictions.*delete .* and run the audit again"):
        audit(run, out=out, location=location)


def test_of_several_entries_that_of_the_run_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec, entries = probed(tmp_path, "word")
    entries_of(tmp_path / "tiny", spec.task, "cache", SPLITS, layers="0,3", max_length=12, **OWN)
    location = Location(cache="cache")
    with pytest.raises(EntryNotFoundError, match="entries match"):
        open_features("tiny", spec.task, location=location)
    audit(choose_run("runs.jsonl"), out=tmp_path / "audit.jsonl", location=location)
    (embeddings,) = (r for r in load_records("audit.jsonl") if r.layers == (0,))
    assert embeddings.entry == entries[0].manifest.key


def test_the_probe_reads_texts_without_a_part(tmp_path, monkeypatch):
    """It scores as the saved head does on texts that never had it."""
    monkeypatch.chdir(tmp_path)
    spec, _ = probed(tmp_path, "word", save="head")
    location = LOCATION
    rules = ("regex:yes |no ", "regex:cat ", "regex:the river")
    run, out = choose_run("runs.jsonl"), tmp_path / "audit.jsonl"
    with pytest.raises(OptionError, match="--without regex:the river: no test text has it"):
        audit(run, out=out, location=location, without=rules)
    audited = audit(run, out=out, location=location, without=rules[:2])
    readings = {reading.reader: reading for reading in audited.readings}
    shortcut, harmless = (readings[f"last without {rule}"] for rule in rules[:2])
    assert shortcut.verdict == shortcut.shortcut == "not surely" != harmless.verdict
    assert any("120 of 120 test texts have it" in note for note in audited.notes)

    more = replace(spec, init_from=str(tmp_path / "head"), fit="adam", epochs=1)
    sweep(more, out="more.jsonl", location=location, predictions=True)
    with pytest.raises(RecordError, match="it started from a saved head"):
        audit(choose_run("more.jsonl"), out=out, location=location, without=rules[:1])

    for file in (tmp_path / "texts").iterdir():
        file.write_text(re.sub("(?:yes|no) ", "", file.read_text("utf-8")), "utf-8")
    entries_of(tmp_path / "tiny", spec.task, "other", SPLITS, layers="0,3", **OWN)
    scored = sweep(
        replace(spec, init_from=str(tmp_path / "head"), shots=0),
        out="scored.jsonl",
        location=replace(location, cache="other"),
    )
    (record,) = (r for r in load_records(out) if r.head == "last without regex:yes |no ")
    assert record.test_score == pytest.approx(scored[0].test_score)


def test_parts_of_texts_are_removed():
    system, between = TokenChoice.parse("system"), TokenChoice.parse("between:<b>:</b>")
    talk = [{"role": "system", "content": "be <b>kind</b>"}, {"role": "user", "content": "hi"}]
    text = json.dumps(talk)
    assert json.loads(without_part(text, system)) == talk[1:]
    assert json.loads(without_part(text, between))[0]["content"] == "be <b></b>"
    assert without_part(text, TokenChoice.parse("tool")) is text
    assert without_part(("a <b>x</b>", "<b>y</b> z"), between) == ("a <b></b>", "<b></b> z")
    assert without_part("no role", system) == "no role"
    everything = TokenChoice.parse("regex:(?s).+")
    assert without_part(text, everything) == text and without_part("aaa", everything) == "aaa"
    optional = TokenChoice.parse(r"regex:Q: (?P<kept>\w+)|A:")
    assert without_part("A: hello Q: foo bar", optional) == "A: hello Q:  bar"


@pytest.mark.parametrize(
    ("rule", "message"),
    [("last:2", "name a part of the text"), ("regex:(", "--without regex:.*not a regular expr")],
)
def test_what_is_no_part_is_refused(tmp_path, rule, message):
    run, readers = planted(tmp_path, ("train", "dev")), tmp_path / "a.jsonl"
    location = Location(cache=tmp_path)
    with pytest.raises(OptionError, match=message):
        audit(run, out=readers, location=location, without=[rule])
    with pytest.raises(RecordError, match="the probe has no test score: choose another --split"):
        audit(run, out=readers, location=location, without=["regex:a"], split="test")
