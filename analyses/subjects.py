"""The models and tasks of the analyses, and how much of each is extracted and fitted."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from probekit import TrainSpec

ENCODERS = ("minilm-l6", "mpnet-base")
DECODER = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODELS = (*ENCODERS, DECODER)
"""Folders, and a GGUF file, in the folder of models."""


def is_decoder(model: str) -> bool:
    """Tell whether a path of a model is that of the causal one."""
    return Path(model).name == DECODER


@dataclass(frozen=True)
class Subject:
    """A task, as all analyses have it.

    Attributes:
        folder: of its files, in the folder of data.
        splits: that are extracted.
        limit: sentences of each split that are extracted; all if None.
        fraction: of train that encoders fit, where words have labels; all if None.
        first: sentences of each split that the decoder extracts, in place of ``limit``, and fits
            all: about as many as encoders fit.
        label: the label column.
        group: what folds keep together.
    """

    folder: str
    splits: str = "train,dev"
    limit: int | None = None
    fraction: float | None = None
    first: int | None = None
    label: str | None = None
    group: str | None = None

    @property
    def of_texts(self) -> bool:
        """Whether whole texts have labels, rather than words."""
        return self.fraction is None

    def extracted(self, model: str) -> tuple[str, ...]:
        """Return the options of the extraction that say how much."""
        limit = self.limit_for(model)
        return ("--limit", str(limit)) if limit else ()

    def limit_for(self, model: str) -> int | None:
        """Return how many sentences of each split a model extracts; None is all."""
        return self.first if self.first and is_decoder(model) else self.limit


_ALL = "train,dev,test"
SUBJECTS: Mapping[str, Subject] = {
    "wikiann/en": Subject("wikiann/en", _ALL, limit=5000, fraction=0.2, first=1000),
    "ud/en_ewt": Subject("ud_english_ewt", _ALL, fraction=0.1, first=1250, label="upos"),
    "conll": Subject("conll2003", _ALL, fraction=0.1, first=1400, label="ner"),
    "glue/rte": Subject("glue/RTE"),
    "glue/mrpc": Subject("glue/MRPC"),
    "atis": Subject("atis", _ALL, label="intent"),
    "glue/stsb": Subject("glue/STS-B"),
    "glue/cola": Subject("glue/CoLA"),
    "glue/sst2": Subject("glue/SST-2", limit=10_000, group="phrases"),
}
"""Nine tasks by the number of sentences that are fitted, smallest first."""


def subject(model: str, task: str, **options: Any) -> TrainSpec:
    """Return the options of a run of head ``last`` on one of the tasks, with others beside."""
    own = SUBJECTS[task]
    fraction = None if is_decoder(model) else own.fraction
    spec = TrainSpec(
        model=model, task=task, label=own.label, head="last", fraction=fraction, group=own.group
    )
    return replace(spec, **options)


def published_subject(model: str, task: str, **options: Any) -> TrainSpec:
    """Return the options of a run of `subject` by steps as published, over the solved one's rows.

    The decoder and the pooling are those of the solved run, which are not the papers' (P-32's
    comparison as far as frozen features allow: AdamW with linear decay).
    """
    decoder = "regression" if task == "glue/stsb" else "linear"
    spec = subject(model, task, fit="adam", as_published=True, decoder=decoder)
    if SUBJECTS[task].of_texts:
        spec = replace(spec, pooling="last" if is_decoder(model) else "mean")
    return replace(spec, **options)
