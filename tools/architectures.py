"""Run every text architecture of transformers through probekit, and write what works as a table.

Of each architecture a tiny random checkpoint is saved, inspected, loaded and extracted; the rows of
the cache are compared with plain transformers, which reads one sentence at a time. Each one has a
process and a limit of time of its own. This writes `docs/models.csv`, and the summary in
`docs/models.md` from it:

    python tools/architectures.py --write docs/models.md
"""

import argparse
import csv
import json
import logging
import multiprocessing
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from tiny_models import WORDS, save_tiny
from torch import Tensor
from transformers import AutoModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)

from probekit import ExtractOptions, extract
from probekit.backbone import inspect_backbone, part_to_name
from probekit.backbone.forward import quiet_transformers
from probekit.errors import ProbekitError
from probekit.store.entry import Entry

WORKS, ONE_LENGTH, ALONE = "works", "works in batches of one length", "works one at a time"
REFUSED = "refused"
WRONG, NOT_MADE = "WRONG", "no tiny model"
_SAID = {
    WORKS: "work",
    ONE_LENGTH: "work in batches of one length",
    ALONE: "work one at a time",
    REFUSED: "are refused",
}
"""Outcomes of several architectures, in the order in which their numbers are said."""

ENCODER, DECODER = "encoders", "decoders"
ENCODER_HALF, INSIDE = "encoders of encoder-decoders, `--part encoder`", "text models inside others"
_WORKING = (WORKS, ONE_LENGTH, ALONE)
"""Outcomes of families that are listed by what they are."""

_NAMED = frozenset(
    {
        *("albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "esm"),
        *("eurobert", "longformer", "modernbert", "mpnet", "roberta", "xlm-roberta", "xlnet"),
        *("bloom", "cohere2", "deepseek_v3", "falcon", "gemma2", "gemma3_text", "gpt2", "gpt_neox"),
        *("gpt_oss", "granite", "llama", "mistral", "mixtral", "olmo2", "opt", "phi3", "qwen2"),
        *("qwen3", "qwen3_moe", "smollm3"),
        *("bart", "m2m_100", "marian", "mbart", "mt5", "pegasus", "t5"),
        *("gemma3", "llama4", "llava", "mistral3", "qwen2_5_vl", "qwen2_vl", "qwen3_vl"),
        *("canine", "fsmt", "funnel", "mamba", "mamba2", "perceiver", "reformer", "rwkv"),
    }
)
"""Families that the page names; the table beside it has all of them."""

LIMIT = 120
"""Seconds that one architecture may take."""

BEGIN, END = "<!-- architectures: begin -->", "<!-- architectures: end -->"
_OTHERS = ("bros", "canine", "lilt", "splinter")
"""Models of texts that transformers lists as neither language models nor encoders."""

TOLERANCE = 1e-3
"""Largest difference of a row, relative to its norm: float32 in batches of other shapes."""

_ROWS = 0.98
"""Share of the rows that must agree: a mixture of experts may choose another one at a tie."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        family: ``model_type`` of the configuration.
        outcome: ``works`` and how, ``refused``, or what must not be.
        about: what kind of model it is, or the line that refuses it.
    """

    family: str
    outcome: str
    about: str

    @property
    def kind(self) -> str:
        """The line of the page that lists the family."""
        if self.outcome not in _WORKING:
            return self.outcome
        marks = {"--part": ENCODER_HALF, "text model inside": INSIDE, ": decoder": DECODER}
        return next((kind for mark, kind in marks.items() if mark in self.about), ENCODER)


def families() -> list[str]:
    """Return the families of text models, by name."""
    language = (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES,
    )
    names = {name for names in language for name in names} & set(MODEL_MAPPING_NAMES)
    return sorted(names | set(_OTHERS))


def examine(family: str) -> Row:
    """Run a tiny model of a family through the library.

    Raises:
        Exception: anything that is not the project's own error is a fault, and shows itself.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / family
        try:
            with quiet_transformers():
                save_tiny(family, folder)
        except Exception as error:  # the shrunken configuration is not one that the family takes
            reason = " ".join(str(error).split())[:100]
            return Row(family=family, outcome=NOT_MADE, about=f"{type(error).__name__}: {reason}")
        try:
            return _use(family, folder)
        except ProbekitError as error:
            line = str(error).replace(f"model {str(folder)!r}", "").strip(" :")
            return Row(family=family, outcome=REFUSED, about=line.replace(name, ""))


def _use(family: str, folder: Path) -> Row:
    """Extract a corpus, in the batches that the backbone was proven for, and compare its rows."""
    part = part_to_name(str(folder))
    inspection = inspect_backbone(str(folder), part=part)
    info = inspection.info
    kind = "decoder" if info.causal else "encoder"
    about = f"{info.identity.architecture}: {kind}, {'a' if info.final_norm else 'no'} final norm"
    about += "" if part is None else f"; `--part {part}`"
    about += "" if inspection.whole is inspection.config else "; the text model inside"
    entry = extracted(folder, part)
    if (error := float(row_differences(entry, folder).max())) > TOLERANCE:
        return Row(family=family, outcome=WRONG, about=f"{about}; rows are off by {error:.1e}")
    return Row(family=family, outcome=outcome(entry.manifest.extra["batching"]), about=about)


def outcome(batching: Mapping[str, Any]) -> str:
    """Return in which batches a model works, from what the manifest says of them."""
    if batching["padded_to"] is None:
        return WORKS
    return ALONE if batching["alone"] else ONE_LENGTH


def extracted(folder: Path, part: str | None, **how: Any) -> Entry:
    """Return the entry of a few sentences.

    Args:
        folder: of the model.
        part: of an encoder-decoder, its half.
        how: ``quantize`` and ``device_map`` of `extract`, if any.
    """
    corpus = folder.parent / "corpus.conll"
    corpus.write_text("\n".join("\n".join(f"{w}\tO" for w in s) + "\n" for s in _sentences()))
    options = ExtractOptions(
        dtype="float32", compute_dtype="float32", pooling="first", part=part,
        quantize=how.get("quantize"),
    )  # fmt: skip
    (entry,) = extract(
        str(folder),
        str(corpus),
        options=options,
        device="auto" if "device_map" in how else "cpu",
        device_map=how.get("device_map"),
        cache=folder.parent / "cache",
        kind="tagging",
    )
    return entry


def _sentences() -> list[list[str]]:
    """Return sentences of many lengths."""
    draw = random.Random(0)
    return [draw.choices(WORDS, k=length) for length in (1, 2, 3, 5, 7, 8, 9, 12, 17, 24, 33, 40)]


def row_differences(entry: Entry, folder: Path, **options: Any) -> Float[Tensor, " layers"]:
    """Return by how much stored rows and those of plain transformers differ, layer by layer.

    Args:
        entry: the stored rows.
        folder: of the model.
        options: more arguments of ``from_pretrained``.
    """
    sentences = _sentences()
    array = entry.arrays["words"]
    found = array.read(slice(0, sum(map(len, sentences)))).split([len(s) for s in sentences])
    expected = _plain_rows(folder, sentences, options)
    layers = list(array.layers)
    pairs = zip(found, expected, strict=True)
    differences = torch.cat([_difference(one, two[:, layers]) for one, two in pairs])
    return torch.quantile(differences, _ROWS, dim=0)


def _plain_rows(
    folder: Path, sentences: Iterable[Sequence[str]], options: Mapping[str, Any]
) -> Iterable[Float[Tensor, "words layers dim"]]:
    """Yield what transformers makes of each sentence alone."""
    part = part_to_name(str(folder))
    inspection = inspect_backbone(str(folder), part=part)
    with quiet_transformers():
        model = AutoModel.from_pretrained(folder, dtype=torch.float32, **options).eval()
    model.config.use_cache = False
    for sentence in sentences:
        encoded = inspection.tokenizer(list(sentence), is_split_into_words=True)
        first = [encoded.word_ids().index(word) for word in range(len(sentence))]
        with torch.no_grad():
            ids = torch.tensor([encoded["input_ids"]])
            other = {} if part is None else {"decoder_input_ids": ids}
            output = model(input_ids=ids, output_hidden_states=True, **other)
        states = output.hidden_states if part is None else output.encoder_hidden_states
        yield torch.stack([state[0, first] for state in states], dim=1)


def _difference(
    one: Float[Tensor, "words layers dim"], two: Float[Tensor, "words layers dim"]
) -> Float[Tensor, "words layers"]:
    return (one - two).norm(dim=-1) / two.norm(dim=-1).clamp(min=1e-6)


def _in_process(family: str) -> Row:
    """Examine a family in a process of its own, for at most ``LIMIT`` seconds."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(family, sender))
    process.start()
    sender.close()
    try:
        if not receiver.poll(LIMIT):
            return Row(family=family, outcome=WRONG, about=f"not done in {LIMIT} s")
        return receiver.recv()
    except EOFError:
        return Row(family=family, outcome=WRONG, about="its process died")
    finally:
        process.kill()
        process.join()


def _report(family: str, sender: multiprocessing.connection.Connection) -> None:
    torch.set_num_threads(1)
    try:
        row = examine(family)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        row = Row(family=family, outcome=WRONG, about=f"{type(error).__name__}: {reason}")
    sender.send(row)


def run_all(names: Sequence[str], done: Path | None, workers: int) -> list[Row]:
    """Examine families side by side.

    Args:
        names: the families.
        done: JSON lines of rows that an interrupted run has left, and where this one adds its own.
        workers: how many at a time.
    """
    rows = {row.family: row for row in _read(done)}
    left = [name for name in names if name not in rows]
    with ThreadPoolExecutor(workers) as pool:
        for future in as_completed([pool.submit(_in_process, name) for name in left]):
            row = future.result()
            rows[row.family] = row
            print(row.family, row.outcome, row.about, sep=": ", file=sys.stderr, flush=True)
            if done is not None:
                with done.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
    return [rows[name] for name in names]


def _read(done: Path | None) -> list[Row]:
    if done is None or not done.exists():
        return []
    return [Row(**json.loads(line)) for line in done.read_text().splitlines()]


def listed(rows: Sequence[Row]) -> str:
    """Return how many families of each kind there are, and the best known, as a Markdown table."""
    families: dict[str, list[str]] = {}
    for row in rows:
        families.setdefault(row.kind, []).append(row.family)
    order = [ENCODER, DECODER, ENCODER_HALF, INSIDE, REFUSED]
    kinds = [*order, *sorted(families.keys() - {*order})]
    lines = [
        f"| {kind} | {len(families[kind])} | {', '.join(_named(families[kind]))} |"
        for kind in kinds
        if kind in families
    ]
    total = f"{len(rows)} architectures: {said(row.outcome for row in rows)}."
    return "\n".join([total, "", "| | families | among them |", "|---|---|---|", *lines])


def _named(families: Sequence[str]) -> Sequence[str]:
    """Return the best known ones, or all where none is."""
    return [name for name in families if name in _NAMED] or families


def said(outcomes: Iterable[str]) -> str:
    """Return how often each outcome came, in words."""
    counts = Counter(outcomes)
    order = [*_SAID, *sorted(counts.keys() - _SAID.keys())]
    return ", ".join(f"{counts[name]} {_SAID.get(name, name)}" for name in order if counts[name])


def table_of(page: Path) -> list[Row]:
    """Return the rows of the table beside a page."""
    with page.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        return [Row(**line) for line in csv.DictReader(file)]


def write(rows: Sequence[Row], page: Path) -> None:
    """Write the table beside a page, and the summary in it."""
    write_table(rows, page.with_suffix(".csv"))
    put_between(BEGIN, END, listed(rows), page)


def write_table(rows: Sequence[Any], path: Path) -> None:
    """Write rows, which are dataclasses, as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [one.name for one in fields(rows[0])], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, rows))


def put_between(begin: str, end: str, text: str, page: Path) -> None:
    """Replace what stands between two marks of a page."""
    before, rest = page.read_text("utf-8").split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", "utf-8")


def main() -> None:
    """Examine and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", help="all, if none is named")
    parser.add_argument("--done", type=Path, help="rows so far, to go on from")
    parser.add_argument("--write", type=Path, help="the page, beside which the table lies")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("probekit").setLevel(logging.ERROR)
    rows = run_all(args.families or families(), args.done, args.workers)
    made = [row for row in rows if row.outcome != NOT_MADE]
    print(listed(made))
    for row in rows:
        if row.outcome == NOT_MADE:
            print(f"{row.family}: {row.about}", file=sys.stderr)
    if args.write is not None:
        write(made, args.write)
    sys.exit(any(row.outcome == WRONG for row in rows))


if __name__ == "__main__":
    main()
