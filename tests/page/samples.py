"""Records with side files whose words, labels and names would harm a page that trusted them."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from probekit.metrics import METRICS, ValueGold
from probekit.results.predictions import About, Predicted, write_predicted
from tests.results.overthinking.held import HELD, add, add_depths
from tests.results.samples import make_record

HOSTILE = (
    "</script><script>window.harmed = 1</script>", "<img src=x onerror='window.harmed = 2'>",
    "<!--<script>", '" onmouseover="window.harmed = 3', "{{ 7 * 7 }} {% raw %}",
    "\u2028line\u2029separator", "\u202egnirts drawkcab", "javascript:window.harmed=4",
    "]]>&lt;b&gt;&amp;", "\U0001f600 \u05e9\u05dc\u05d5\u05dd 'quoted'",
)  # fmt: skip
LABELS = ("O", "B-<b>PER</b>", "</script><i>ORG")
MODEL = "org/<svg onload=window.harmed=5>"
TASK = 'own"><h1>task'
LENGTHS = (4, 3, 1, 6, 2) * 8
DEPTHS = 4


def hostile_records(folder: Path) -> list:
    """Probes of every depth over 40 sentences of hostile words, with side files."""
    rng = np.random.default_rng(0)
    rows = sum(LENGTHS)
    gold = rng.integers(0, len(LABELS), rows)

    def guesses(count, sure):
        return np.stack([np.where(rng.random(rows) < sure, gold, rng.integers(0, 3, rows))
                         for _ in range(count)])  # fmt: skip

    probes = guesses(DEPTHS, 0.7)
    records = add_depths(
        probes, gold, names=LABELS, lengths=LENGTHS, model=MODEL, task=TASK, label="ner"
    )
    return [on_disk(one, folder) for one in records]


def whole_records(folder: Path) -> list:
    """Heads on all layers with predictions, and few-shot runs of theirs without any."""
    rng = np.random.default_rng(1)
    gold = rng.integers(0, 3, sum(LENGTHS))
    options = {"names": LABELS, "lengths": LENGTHS, "model": MODEL, "task": TASK, "label": "ner"}
    records = [
        on_disk(add(np.where(rng.random(len(gold)) < 0.8, gold, 0), gold, head=head, **options),
                folder)
        for head in ("last", "p32")
    ]  # fmt: skip
    few = [
        make_record(head, seed, shots=shots, protocol="few-shot", model=MODEL, task=TASK)
        for head in ("last", "p32")
        for seed in range(3)
        for shots in (8, 32)
    ]
    return records + few


def regression_records(folder: Path) -> list:
    """Probes of three depths that predict a number for each of 60 hostile pairs of texts."""
    rng = np.random.default_rng(2)
    gold = rng.uniform(0, 5, 60)
    offsets = np.arange(61)
    pairs = tuple((one, HOSTILE[-1 - n % 10]) for n, one in enumerate(HOSTILE * 6))
    records = []
    for depth, noise in enumerate((2.0, 0.3, 0.8)):
        key = f"{depth:064x}"
        found = Predicted(
            ids=tuple(f"dev-{n}" for n in range(60)), offsets=offsets, content="values",
            predicted=gold + rng.normal(0, noise, 60), gold=gold, texts=pairs,
        )  # fmt: skip
        score = METRICS["spearman"](ValueGold(gold, offsets)).score(found.predicted)["spearman"]
        path = folder / f"{key}.parquet"
        about = About(key=key, metric="spearman", labels_fingerprint="ab" * 32)
        write_predicted(path, about, {"dev": found})
        records.append(
            make_record(
                *("last", 0, 2), depth=depth, metric="spearman", task="glue/stsb", label="label",
                confusion=None, eval_score=score, test_score=None, key=key, predictions=str(path),
                decoder="regression",
            )
        )  # fmt: skip
    return records


def on_disk(record, folder: Path):
    """Write what is held in memory for a record to a side file, its texts hostile."""
    about, splits = HELD[Path(record.predictions)]
    hostile = {split: replace(one, texts=_texts(one)) for split, one in splits.items()}
    path = folder / f"{record.key}.parquet"
    write_predicted(path, about, hostile)
    return replace(record, predictions=str(path))


def _texts(found):
    words = [HOSTILE[row % len(HOSTILE)] for row in range(int(found.offsets[-1]))]
    pieces = np.split(np.array(words, dtype=object), found.offsets[1:-1])
    return tuple(tuple(piece.tolist()) for piece in pieces)


def plain_page(**parts):
    """Data of a page that holds nothing but some parts."""
    lists = dict.fromkeys(("entries", "commands", "tables", "figures", "absent"), ())
    texts = {"title": "title", "note": "", "version": "0", "made": "now", "facts": {}}
    return lists | texts | {"examples": {"grids": [], "sentences": []}} | parts


class PageReader(HTMLParser):
    """The elements of a page with their attributes, its texts by element, and its scripts."""

    VOID = ("meta", "input", "br", "link", "img")

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.scripts = []
        self._open = []
        self._texts = {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append((tag, dict(attrs).get("id")))
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self._open.pop()[0] == tag

    def handle_data(self, data):
        if self._open and self._open[-1][0] == "script":
            self.scripts[-1] += data
        for name in {name for pair in self._open for name in pair}:
            self._texts.setdefault(name, []).append(data)

    def texts(self, name):
        """What stands in all elements of a tag, or in that of an id, text by text."""
        return [text.strip() for text in self._texts.get(name, ()) if text.strip()]

    @property
    def data(self):
        """What the page's scripts read."""
        place = [attrs for tag, attrs in self.elements if tag == "script"]
        (number,) = [n for n, attrs in enumerate(place) if attrs.get("id") == "data"]
        return json.loads(self.scripts[number])


def links_of(page: PageReader) -> list[str]:
    """Whatever an element of a page would load or lead to, but for places on the page itself."""
    found = [value for _, attrs in page.elements for name, value in attrs.items()
             if name in ("src", "href", "xlink:href", "action", "data", "srcset")]  # fmt: skip
    return [one for one in found if not re.match("#", one or "")]
