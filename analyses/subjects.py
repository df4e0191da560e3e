"""The models and tasks of the analyses, and how much of each is extracted and fitted."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from probekit import TrainSpec

ENCODERS = ("minilm-l6", "mpnet-base")
DECODER = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODELS = (*ENCODERS, DECODER)
"""Folders, and a GGUF file, in the folder of models."""


@dataclass(frozen=True)
class Subject:
    """A task, as all analyses have it.

    Attributes:
        folder: of its files, in the folder of data.
        splits: that are extracted.
        extract: other options of the extraction.
        fitted: how much of train is fitted, where that is not all that is extracted.
        label: the label column.
    """

    folder: str
    splits: str = "train,dev"
    extract: tuple[str, ...] = ()
    fitted: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None

    def spec(self, model: str, task: str) -> TrainSpec:
        """Return the options of a run with head ``last``."""
        return TrainSpec(model=model, task=task, label=self.label, head="last", **self.fitted)


_ALL = "train,dev,test"
SUBJECTS: Mapping[str, Subject] = {
    "atis": Subject("atis", _ALL, fitted={"fraction": 0.2}, label="slots"),
    "wikiann/en": Subject("wikiann/en", _ALL, ("--limit", "5000"), fitted={"fraction": 0.2}),
    "ud/en_ewt": Subject("ud_english_ewt", _ALL, fitted={"fraction": 0.1}, label="upos"),
    "conll": Subject("conll2003", _ALL, fitted={"fraction": 0.1}, label="ner"),
    "glue/rte": Subject("glue/RTE"),
    "glue/mrpc": Subject("glue/MRPC"),
    "glue/stsb": Subject("glue/STS-B"),
    "glue/cola": Subject("glue/CoLA"),
    "glue/sst2": Subject("glue/SST-2", extract=("--limit", "10000")),
}
"""Nine tasks by the number of sentences that are fitted, smallest first."""


def subject(model: str, task: str, **options: Any) -> TrainSpec:
    """Return the options of a run on one of the tasks, with other options beside."""
    return replace(SUBJECTS[task].spec(model, task), **options)
