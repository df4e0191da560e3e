"""Named presets of training options: how the papers train, on frozen features and with the model.

A preset only fills in options that were not given, so any of them can be overridden; a record
holds the options themselves, not the preset's name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from probekit.base.registry import choose
from probekit.base.selection import PUBLISHED


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A preset.

    Attributes:
        name: what it is called; empty of one that only options make.
        summary: what it sets, in a line for people.
        source: paper and section.
        heads: heads that the paper compares; the last one is the paper's own.
        seeds: how many seeds it averages over.
        decoders: decoder by kind of label, where it is not the default.
        options: other fields of ``TrainSpec``.
    """

    name: str = ""
    summary: str
    source: str
    heads: tuple[str, ...]
    seeds: int
    decoders: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tunes(self) -> bool:
        """Whether it trains the model as well."""
        return "method" in self.options


_PUBLISHED: Mapping[str, Any] = {"select": "dev", "as_published": True, "rate_from": PUBLISHED}
"""The papers give all parameters of a head and its decoder one rate, and choose on dev."""

_FUSION: Mapping[str, Any] = {
    **_PUBLISHED,
    "epochs": 20,
    "batch_size": 32,
    "optimizer": "adam",
    "schedule": "constant",
}
"""What both protocols of the attention-fusion paper have in common."""

PROTOCOLS: Mapping[str, Protocol] = {
    "dwatt": Protocol(
        summary="AdamW with linear decay, 5e-5 for every head, batches of 16, best dev score of 50 "
        "epochs, 5 seeds; choose --shots",
        source="DWAtt, sections 5.2 and 9.1, Table 2 (batches of 8 on WikiText-2)",
        heads=("last", "mean", "extra-layers", "concat", "dwatt"),
        seeds=5,
        options={**_PUBLISHED, "lr": 5e-5, "epochs": 50, "batch_size": 16},
    ),
    "attention-fusion": Protocol(
        summary="Adam at a constant 2e-3, two hidden layers of 256 for whole texts and a CRF for "
        "words, batches of 32, 3 seeds",
        source="attention fusion, section 4 (batches of 16 to 64; epochs not given: 20 here; it "
        "leaves open whether the hidden layers are under the CRF too: crf:hidden=256)",
        heads=("last", "scalar-mix", "concat-ffn", "attention-fusion"),
        seeds=3,
        decoders={"sentence": "mlp", "pair": "mlp", "tagging": "crf"},
        options={**_FUSION, "lr": 2e-3},
    ),
    "p32": Protocol(
        summary="P-32 and average pooling against the last layer: AdamW with linear decay, 2e-3, "
        "batches of 16, 20 epochs, 5 seeds",
        source="P-32 compares these heads on GLUE; it fine-tunes, and gives no hyper-parameters, "
        "so these are ours",
        heads=("last", "mean", "p32"),
        seeds=5,
        options={**_PUBLISHED, "lr": 2e-3, "epochs": 20, "batch_size": 16},
    ),
    "sae-probes": Protocol(
        summary="logistic regression on the raw row of the last token; dev picks C among ten from "
        "1e5 to 1e-5 by AUROC, and is then fitted as well",
        source="sae-probes, run_baselines (standard conditions)",
        heads=("last",),
        seeds=1,
        options={"fit": "sae-probes", "pooling": "last"},
    ),
    "dwatt-ft": Protocol(
        summary="the whole model is trained: AdamW with linear decay, 5e-5 for all, batches of 16, "
        "best dev score of 50 epochs, 5 seeds; choose --shots",
        source="DWAtt, Figure 5 and section 9.1 (Table 4 says 1e-5)",
        heads=("extra-layers", "concat", "dwatt"),
        seeds=5,
        options={**_PUBLISHED, "method": "full", "lr": 5e-5, "epochs": 50, "batch_size": 16},
    ),
    "attention-fusion-ft": Protocol(
        summary="the whole model is trained: Adam at a constant 2e-5, two hidden layers of 256 for "
        "whole texts and a CRF for words, batches of 32, 3 seeds",
        source="attention fusion, section 4, the row fine-tune (batches of 16 to 64; epochs and "
        "schedule not given: 20 and constant here; each lighter method at the rate of its paper, "
        "so give --lr with another --method)",
        heads=("last",),
        seeds=3,
        decoders={"sentence": "mlp", "pair": "mlp", "tagging": "crf"},
        options={**_FUSION, "method": "full", "lr": 2e-5},
    ),
    "p32-ft": Protocol(
        summary="the whole model is trained: AdamW with linear decay, 2e-5 for all, batches of 16, "
        "3 epochs, 1 seed",
        source="P-32, section 4 (BERT in full, decoders by QLoRA, which is --method qlora; one run "
        "each; a 'low' rate and 'aggressive' clipping without numbers: the rest is ours)",
        heads=("last", "mean", "p32"),
        seeds=1,
        options={**_PUBLISHED, "method": "full", "lr": 2e-5, "epochs": 3, "batch_size": 16},
    ),
}

PLAIN = Protocol(summary="", source="", heads=("last", "p32", "concat", "dwatt"), seeds=1)
"""What stands in for a preset where none is named."""


def get_protocol(name: str | None) -> Protocol:
    """Return the preset of a name, or the plain defaults for None.

    Raises:
        UnknownNameError: there is none.
    """
    if name is None:
        return PLAIN
    return replace(choose("protocol", name, PROTOCOLS), name=name)
