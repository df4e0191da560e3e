"""Claims 37 and 38: full fine-tuning beside a plain loop of `transformers.Trainer`.

Slots of ATIS (words) and SST-2 (texts, the first of train), minilm-l6, both sides with the same
sentences, steps, batches, rates, float32 and AdamW without decay, scored once at the end. The plain
side reads the files itself, labels the first subword of a word, or averages subwords, and has a
linear layer behind dropout; words are scored by seqeval, texts by counting.

37: seconds of a step, sides in turn, one pair per seed. 38: the difference of scores over seeds, of
which the interval is to hold 0.

    python benchmarks/finetuning.py --models MODELS --data DATA
"""

import argparse
import csv
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from measure import Claim, Timings, report
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2
from subjects import MINILM, data_path, model_path, parser, work_folder
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from probekit import ExtractOptions, Location, TrainSpec, extract, fit
from probekit.results.summaries.interval import interval

RATE, EPOCHS, BATCH = 2e-4, 1, 32
TEXTS = 1_000
AIM = 1.15
IGNORED = -100


class Averaged(nn.Module):
    """A linear layer over the average of a model's last states."""

    def __init__(self, model: str, n_classes: int) -> None:
        super().__init__()
        self.model = AutoModel.from_pretrained(model, add_pooling_layer=False, dtype=torch.float32)
        self.dropout = nn.Dropout(0.1)
        self.linear = nn.Linear(self.model.config.hidden_size, n_classes)

    def forward(self, attention_mask, labels, **inputs):
        """Return loss and logits; special tokens are outside the average."""
        states = self.model(attention_mask=attention_mask, **inputs).last_hidden_state
        own = attention_mask.clone()
        own[:, 0] = 0
        own[torch.arange(len(own)), attention_mask.sum(1) - 1] = 0
        own = own[..., None].to(states.dtype)
        logits = self.linear(self.dropout((states * own).sum(1) / own.sum(1)))
        return SequenceClassifierOutput(
            loss=nn.functional.cross_entropy(logits, labels), logits=logits
        )


@dataclass(frozen=True)
class Side:
    """What one side has found for one seed: seconds of a step, of everything, and the score."""

    step: float
    whole: float
    score: float


@dataclass(frozen=True)
class Subject:
    """A task on both sides.

    Attributes:
        folder: of its files.
        limit: sentences of train; all if None.
        spec: its run here.
        build: makes the plain model.
        train: encoded sentences of the plain side, and those that are scored.
        scored: the same.
        collate: pads them.
        score: reads a score from logits and labels.
        split: that is scored.
        metric: its name here.
    """

    folder: Path
    limit: int | None
    spec: TrainSpec
    build: Callable[[], nn.Module]
    train: Sequence[dict]
    scored: Sequence[dict]
    collate: Callable
    score: Callable[[np.ndarray, np.ndarray], float]
    split: str
    metric: str


def slots(args: argparse.Namespace, model: str) -> Subject:
    """Read ATIS: words and the tags of their slots."""
    folder, tokenizer = data_path(args, "atis"), AutoTokenizer.from_pretrained(model)
    read = {name: _parallel(folder, name) for name in ("train", "test")}
    # test has tags that train lacks: here they are outputs that are never right in training
    every = sorted({tag for rows in read.values() for _, tags in rows for tag in tags})
    ids = {tag: number for number, tag in enumerate(every)}

    def encode(words: list[str], tags: list[str]) -> dict:
        found = tokenizer(words, is_split_into_words=True)
        owners = found.word_ids()
        first = [owner is not None and owner != owners[at - 1] for at, owner in enumerate(owners)]
        pairs = zip(owners, first, strict=True)
        found["labels"] = [ids[tags[owner]] if begins else IGNORED for owner, begins in pairs]
        return dict(found)

    def score(logits: np.ndarray, labels: np.ndarray) -> float:
        said = logits.argmax(-1)
        gold = [[every[tag] for tag in row if tag != IGNORED] for row in labels]
        pairs = zip(said, labels, strict=True)
        found = [[every[tag] for tag, right in zip(*pair, strict=True) if right != IGNORED]
                 for pair in pairs]  # fmt: skip
        return float(f1_score(gold, found, mode="strict", scheme=IOB2))

    return Subject(
        folder=folder,
        limit=None,
        spec=TrainSpec(model=model, task="atis", label="slots", head="last"),
        build=functools.partial(
            AutoModelForTokenClassification.from_pretrained, model, num_labels=len(every)
        ),
        train=[encode(*one) for one in read["train"]],
        scored=[encode(*one) for one in read["test"]],
        collate=DataCollatorForTokenClassification(tokenizer),
        score=score,
        split="test",
        metric="span-f1",
    )


def texts(args: argparse.Namespace, model: str, limit: int = TEXTS) -> Subject:
    """Read SST-2: sentences, each with one of two labels."""
    folder, tokenizer = data_path(args, "glue") / "SST-2", AutoTokenizer.from_pretrained(model)

    def encode(name: str, most: int | None) -> list[dict]:
        with (folder / f"{name}.tsv").open(encoding="utf-8") as lines:
            rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
        return [{**tokenizer(text), "labels": int(label)} for text, label in rows[:most]]

    return Subject(
        folder=folder,
        limit=limit,
        spec=TrainSpec(model=model, task="glue/sst2", head="last", pooling="mean"),
        build=functools.partial(Averaged, model, 2),
        train=encode("train", limit),
        scored=encode("dev", None),
        collate=DataCollatorWithPadding(tokenizer),
        score=lambda logits, labels: float((logits.argmax(-1) == labels).mean()),
        split="dev",
        metric="accuracy",
    )


def _parallel(folder: Path, name: str) -> list[tuple[list[str], list[str]]]:
    words, tags = (
        (folder / name / file).read_text("utf-8").splitlines() for file in ("seq.in", "seq.out")
    )
    return [(one.split(), other.split()) for one, other in zip(words, tags, strict=True)]


def plain(subject: Subject, seed: int, work: Path, device: str = "cpu") -> Side:
    """Train by transformers' loop."""
    start = time.perf_counter()
    set_seed(seed)
    options = TrainingArguments(
        output_dir=str(work / "trainer"),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=2 * BATCH,
        learning_rate=RATE,
        weight_decay=0.0,
        max_grad_norm=0.0,
        seed=seed,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        use_cpu=device == "cpu",
    )
    trainer = Trainer(
        model=subject.build(),
        args=options,
        train_dataset=subject.train,
        data_collator=subject.collate,
    )
    done = trainer.train()
    found = trainer.predict(subject.scored)
    score = subject.score(found.predictions, found.label_ids)
    seconds = done.metrics["train_runtime"] / done.global_step
    return Side(seconds, time.perf_counter() - start, score)


def own(
    subject: Subject, seed: int, at: Location, method: str = "full", device: str = "cpu"
) -> Side:
    """Train the same here."""
    start = time.perf_counter()
    spec = replace(
        subject.spec,
        method=method,
        seed=seed,
        lr=RATE,
        rates=(("backbone", RATE),),
        weight_decay=0.0,
        epochs=EPOCHS,
        batch_size=BATCH,
        evals=1,
        select="dev",
    )
    found = fit(spec, location=at, device=device)
    whole = time.perf_counter() - start
    score = found.scores[f"{subject.split}/{subject.metric}"]
    return Side(found.train_seconds / found.curve[-1][0], whole, score)


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    model = model_path(args, MINILM)
    with work_folder(args) as work:
        for name, subject in {
            "ATIS slots": slots(args, model),
            "SST-2": texts(args, model),
        }.items():
            at = read(subject, work)
            found: dict[str, list[Side]] = {"plain": [], "own": []}
            for seed in range(args.rounds):
                found["plain"].append(plain(subject, seed, work))
                found["own"].append(own(subject, seed, at))
            report(claims_of(name, found), args)


def read(subject: Subject, work: Path, device: str = "cpu") -> Location:
    """Write the entries that tell which sentences a subject has."""
    at = Location(cache=work / "cache")
    options = ExtractOptions(
        limit=subject.limit, layers="-1", compute_dtype="float32", dtype="float32"
    )
    extract(
        subject.spec.model, subject.spec.task, data=subject.folder, cache=at.cache,
        options=options, device=device,
    )  # fmt: skip
    return at


def steps_of_lora(args: argparse.Namespace, model: str, limit: int, work: Path) -> Iterator[Claim]:
    """Yield claim 45: a step of LoRA on SST-2 against that of a Trainer with peft."""
    subject = texts(args, model, limit)
    subject = replace(subject, build=functools.partial(_thin, subject.build))
    at = read(subject, work, args.device)
    found: dict[str, list[float]] = {"plain": [], "own": []}
    for seed in range(args.rounds):
        found["plain"].append(plain(subject, seed, work, args.device).step)
        found["own"].append(own(subject, seed, at, "lora", args.device).step)
    steps = Timings(found)
    ratio = steps.ratio("own", "plain")
    yield Claim(
        number=45,
        title=f"a step of LoRA against that of a Trainer with peft, SST-2, {Path(model).name}",
        aim=f"<= {AIM:g} x",
        found=f"{ratio} x",
        reached=ratio.median <= AIM,
        details=f"{1e3 * steps.median('own'):.0f} and {1e3 * steps.median('plain'):.0f} ms",
    )


def _thin(build: Callable[[], nn.Module]) -> nn.Module:
    """Return a model that peft trains as ``--method lora`` does, and its linear layer."""
    from peft import LoraConfig, inject_adapter_in_model

    averaged = build()
    averaged.model.requires_grad_(False)
    config = LoraConfig(r=8, lora_alpha=16, target_modules=["query", "value"])
    inject_adapter_in_model(config, averaged.model)
    return averaged


def claims_of(name: str, found: Mapping[str, list[Side]]) -> list[Claim]:
    """Return what was found of one task."""
    steps = Timings({side: [one.step for one in own] for side, own in found.items()})
    whole = Timings({side: [one.whole for one in own] for side, own in found.items()})
    ratio = steps.ratio("own", "plain")
    scores = {side: interval(100 * one.score for one in own) for side, own in found.items()}
    pairs = zip(found["own"], found["plain"], strict=True)
    less = interval(100 * (one.score - other.score) for one, other in pairs)
    half = less.half or 0.0
    return [
        Claim(
            number=37,
            title=f"a step of full fine-tuning against that of a Trainer, {name}",
            aim=f"<= {AIM:g} x",
            found=f"{ratio} x",
            reached=ratio.median <= AIM,
            details=f"{1e3 * steps.median('own'):.0f} and {1e3 * steps.median('plain'):.0f} ms; "
            f"with loading and scoring {whole.median('own'):.0f} and "
            f"{whole.median('plain'):.0f} s",
        ),
        Claim(
            number=38,
            title=f"its score less that of a Trainer, {name}",
            aim="0 in the interval",
            found=f"{less.mean:+.2f} ± {half:.2f} points",
            reached=abs(less.mean) <= half,
            details=f"{scores['own'].mean:.2f} and {scores['plain'].mean:.2f}, "
            f"{len(found['own'])} seeds",
        ),
    ]


if __name__ == "__main__":
    main()
