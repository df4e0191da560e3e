"""A probe on texts of which a part is removed: the same probe, run again where a text changes."""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from probekit.data.token_choice import TokenChoice
from probekit.errors import RecordError
from probekit.features import FeatureView, Location
from probekit.features.rows import CachedRows
from probekit.tasks.conversations import messages_of
from probekit.train.baselines.guesses import Guesser
from probekit.train.saved.head import TrainedHead
from probekit.train.saved.labelling import predict
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec


def trained_again(spec: TrainSpec, key: str, location: Location, device: str) -> TrainedHead:
    """Train a run of a frozen model as its record says; return its head.

    Args:
        spec: of the run.
        key: of its record.
        location: where entries and labels lie.
        device: what computes.

    Raises:
        RecordError: it would be another run.
    """
    with TemporaryDirectory() as folder:
        out, saved = Path(folder, "runs.jsonl"), Path(folder, "head")
        (record,) = sweep(spec, out=out, location=location, save=saved, device=device)
        if record.key != key:
            raise RecordError(
                "--without trains the probe again, and this one cannot be: it started from a saved "
                "head, or its features or labels have changed. Train it anew, with --predictions."
            )
        return TrainedHead.from_pretrained(saved)


def reads_without(rule: TokenChoice, probe: Callable[[], TrainedHead], device: str) -> Guesser:
    """Return what a probe says of texts without a part, as a reader of an audit.

    Texts that do not change keep their cached rows.

    Args:
        rule: what is removed, see `without`.
        probe: returns the probe; called where it is needed.
        device: what computes.
    """

    def guess(view: FeatureView) -> np.ndarray:
        texts, head = view.texts, probe()
        cut = [without(text, rule) for text in texts]
        again = list(range(len(cut)))
        said: dict[int, Any] = {}
        if head.reads == "rows":
            blocks = CachedRows.of(view, head.layers).blocks(head.layers)
            said = dict(enumerate(label for z in blocks for label in head.predict(z)))
            again = [n for n in again if cut[n] != texts[n]]
        if again:
            said |= zip(again, predict(head, [cut[n] for n in again], device=device), strict=True)
        numbers = {name: number for number, name in enumerate(view.labels.names)}
        return np.array([numbers[said[n]] for n in range(len(cut))], np.int64)

    return lambda train: guess


def n_changed(view: FeatureView, rule: TokenChoice) -> int:
    """Return how many texts of a view lose a part."""
    return sum(without(text, rule) != text for text in view.texts)


def without(text: str | tuple[str, ...], rule: TokenChoice) -> str | tuple[str, ...]:
    """Return a text, or both of a pair, without what a rule matches.

    Of a conversation that is in the content of its messages, or messages of a role. A text of which
    nothing would be left stays whole.
    """
    if not isinstance(text, str):
        return tuple(str(without(part, rule)) for part in text)
    messages = messages_of(text)
    if messages is None:
        left = _cut(text, rule)
        return left if left.strip() else text
    parts = [
        {**message, "content": message["content"] and _cut(message["content"], rule)}
        for message in messages
        if message["role"] != rule.role
    ]
    same = parts == messages or not any((part["content"] or "").strip() for part in parts)
    return text if same else json.dumps(parts, ensure_ascii=False)


def _cut(text: str, rule: TokenChoice) -> str:
    pieces, end = [], 0
    for start, stop in rule.stretches(text):
        pieces.append(text[end:start])
        end = stop
    return "".join([*pieces, text[end:]])
