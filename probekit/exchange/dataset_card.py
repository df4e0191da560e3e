"""What goes with pushed entries: the card of their data set, and the same for programs.

The metadata for programs are Croissant 1.0, with its responsible-AI fields.
"""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from probekit.base.kinds import KINDS
from probekit.base.markup import card_table, card_text, is_place, written_card
from probekit.base.notices import human_bytes
from probekit.base.registry import argument
from probekit.results.summaries.wording import layers_text
from probekit.store.layout import EXAMPLES
from probekit.store.manifest import Manifest

_LICENCE = """\
Hidden states are made from a text by a model. probekit does not know the licence of either: \
whoever publishes this repository must check that both allow it, and fill in `license` above. \
{text}"""
_WITH_TEXT = "The words of the text lie in `examples.parquet`, and its labels in `labels/`."
REVEALED = "Hidden states still reveal much of their text; those of layer 0 nearly all of it."
_WITHOUT_TEXT = (
    f"Words and labels were left out of {{which}}: supply your own copy of the text. {REVEALED}"
)
ENTRIES = (
    "Entries of a `probekit` cache: the hidden states of a frozen model, for every row and layer, "
    "to train heads and probes on without running the model."
)
LAYERS = "Layer i is `hidden_states[i]` of transformers: layer 0 is the embeddings."


@dataclass(frozen=True)
class CardEntry:
    """An entry of a repository, as its card shows it.

    Attributes:
        folder: its folder there.
        manifest: what it is.
        text: whether its text is there.
    """

    folder: str
    manifest: Manifest
    text: bool

    @property
    def row(self) -> list[str]:
        """Return its line of the table."""
        manifest = self.manifest
        arrays = (
            f"{spec.name} {spec.rows:,} x {len(spec.layers)} x {spec.dim}"
            for spec in manifest.arrays
        )
        return [
            manifest.task,
            f"{manifest.split}{'' if manifest.limit is None else f' (first {manifest.limit:,})'}",
            f"{manifest.counts['examples']:,}",
            ", ".join(arrays),
            layers_text(sorted({layer for spec in manifest.arrays for layer in spec.layers})),
            manifest.dtype,
            human_bytes(sum(spec.nbytes for spec in manifest.arrays)),
            "yes" if self.text else "no",
            manifest.key[:8],
        ]


HEADINGS = (
    *("task", "split", "examples", "arrays (rows x layers x dim)", "layers", "dtype", "size"),
    *("text", "key"),
)


def write_card(url: str, entries: Sequence[CardEntry], before: str | None = None) -> str:
    """Return the card of a repository.

    Args:
        url: of the repository, as `pull` takes it.
        entries: all that it holds.
        before: the card that it has; what its owner wrote in it stays.
    """
    from huggingface_hub import DatasetCardData

    models = dict.fromkeys(_model_name(entry.manifest) for entry in entries)
    data = DatasetCardData(
        license="unknown",
        pretty_name=f"Hidden states of {', '.join(models)}",
        tags=["probekit", "hidden-states", "probing"],
        viewer=False,  # its rows are states, not a table
    )
    return written_card("\n".join(_section(url, entries)), before, data.to_yaml())


def _section(url: str, entries: Sequence[CardEntry]) -> list[str]:
    first = entries[0].manifest
    names = entries[0].folder.split("/")[0], " ".join(first.task.split())
    words = shlex.join(map(argument, names))  # for a shell, of a stranger's
    array = first.arrays[0]
    some = ",".join(map(str, sorted({array.layers[len(array.layers) // 2], array.layers[-1]})))
    left_out = [e.manifest.split for e in entries if not e.text]
    text = "" if len(left_out) == len(entries) else _WITH_TEXT
    if left_out:
        which = card_text(", ".join(sorted(set(left_out))))
        text = f"{text} {_WITHOUT_TEXT.format(which=which)}".strip()
    data = " --data PATH" if left_out else ""
    return [
        f"# Hidden states of {card_text(_model_name(first))}",
        "",
        ENTRIES,
        "",
        card_table(["", ""], [[k, v] for k, v in _about(first).items()]),
        "",
        card_table(HEADINGS, [entry.row for entry in entries]),
        "",
        "## Load it",
        "",
        "```sh",
        f"probekit cache pull {url}{data}",
        f"probekit cache pull {url} --split {shlex.quote(first.split)} --layers {some}{data}   # "
        "downloads only these",
        f"probekit train {words}",
        "```",
        "",
        f"{LAYERS} Chunks are checked against their checksums when they are pulled.",
        "",
        "## Licence",
        "",
        _LICENCE.format(text=text),
    ]


def _about(manifest: Manifest) -> dict[str, str]:
    """Return what all entries of a repository share, as a rule: those of the first."""
    revision = manifest.model_info.get("revision")
    origin = manifest.origin if manifest.origin.startswith("hub:") else ""
    kind = f" ({manifest.kind})" if manifest.kind in KINDS else ""
    last = "after the final norm" if manifest.final_norm else "as the last block left it"
    return {
        "model": _model_name(manifest) + (f", revision {revision}" if revision else ""),
        "weights": str(manifest.request["model"].get("weights", "unknown")),
        "text": f"{manifest.task}{kind}" + (f", {origin}" if origin else ""),
        "computed in": manifest.compute_dtype,
        "last layer": last,
    }


def _model_name(manifest: Manifest) -> str:
    """Return the name of a model; one that is a path on a disk is told by its end."""
    name = str(manifest.model_info.get("name", manifest.model))
    return manifest.model if is_place(name) else name


CROISSANT = "croissant.json"
_SPEC = "http://mlcommons.org/croissant/"
_TERMS = (
    *("citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty"),
    *("fileSet", "format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField"),
    *("path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate"),
    *("separator", "source", "subField", "transform"),
)
_CONTEXT = {
    **{"@language": "en", "@vocab": "https://schema.org/", "sc": "https://schema.org/"},
    **{"cr": _SPEC, "rai": f"{_SPEC}RAI/", "dct": "http://purl.org/dc/terms/"},
    **{name: f"cr:{name}" for name in _TERMS},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{name: {"@id": f"cr:{name}", "@type": "@json"} for name in ("data", "examples")},
    "conformsTo": "dct:conformsTo",
}
_STATES = {"zarr": "features.zarr/**", "hdf5": "features.h5"}


def write_croissant(url: str, entries: Sequence[CardEntry], card: str) -> str:
    """Return the metadata of a repository of the Hub as JSON.

    Args:
        url: of the repository, as `pull` takes it.
        entries: all that it holds.
        card: its card, in whose head its owner names the licence.
    """
    address = url.replace("hf://", "https://huggingface.co/").replace("@", "/tree/")
    licence = re.match(r"---\n(?:(?!---).*\n)*?license: *(.+)\n", card)
    repository = {
        **_node("cr:FileObject", "repository", "The repository of the data set"),
        **{"contentUrl": address, "encodingFormat": "git+https"},
        "sha256": "https://github.com/mlcommons/croissant/issues/80",  # the Hub's own has that too
    }
    known = {} if licence is None or licence[1] == "unknown" else {"license": licence[1]}
    metadata = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": [f"{_SPEC}1.0", f"{_SPEC}RAI/1.0"],
        "name": f"Hidden states of {_model_name(entries[0].manifest)}",
        "description": f"{ENTRIES} {LAYERS}",
        "url": address,
        **known,
        **_responsible(entries),
        "distribution": [repository, *(part for entry in entries for part in _files(entry))],
        "recordSet": [_records(entry) for entry in entries],
    }
    return json.dumps(metadata, indent=1, ensure_ascii=False) + "\n"


def _responsible(entries: Sequence[CardEntry]) -> dict[str, Any]:
    facts = [f"{name}: {value}" for name, value in _about(entries[0].manifest).items()]
    withheld = sorted({entry.manifest.split for entry in entries if not entry.text})
    kinds = dict.fromkeys(f"{entry.manifest.task} ({entry.manifest.kind})" for entry in entries)
    left_out = f" They were left out of {', '.join(withheld)}." if withheld else ""
    return {
        "rai:dataCollection": f"A frozen model was run over a text. {'; '.join(facts)}",
        "rai:dataCollectionType": "Secondary data analysis",
        "rai:dataPreprocessingProtocol": f"{LAYERS} Rows are stored in the dtype of each entry.",
        "rai:dataAnnotationProtocol": "Labels are those that the text came with: "
        f"{', '.join(kinds)}.{left_out}",
        "rai:dataLimitations": "States tell of this model and this text alone; dtypes round them.",
        "rai:personalSensitiveInformation": REVEALED,
        "rai:dataUseCases": "Training and comparing fusion heads and probes.",
    }


def _files(entry: CardEntry) -> list[dict[str, Any]]:
    backend = entry.manifest.backend
    shape = "; ".join(f"{name}: {cell}" for name, cell in zip(HEADINGS, entry.row, strict=True))
    table = EXAMPLES if entry.text else "withheld-*.parquet"
    each = (
        ("states", f"Hidden states. {shape}", _STATES[backend], backend),
        ("table", "Where the rows of each example lie", table, "parquet"),
    )
    return [
        {
            **_node("cr:FileSet", f"{entry.folder}/{name}", text),
            **{"containedIn": {"@id": "repository"}, "encodingFormat": f"application/x-{form}"},
            "includes": f"{entry.folder}/{pattern}",
        }
        for name, text, pattern, form in each
    ]


def _records(entry: CardEntry) -> dict[str, Any]:
    columns = [("row_start", "sc:Integer"), ("n_rows", "sc:Integer")]
    columns += [("id", "sc:Text"), ("words", "sc:Text")] if entry.text else []
    table = {"fileSet": {"@id": f"{entry.folder}/table"}}
    name = f"{entry.folder}/examples"
    fields = [
        {
            **_node("cr:Field", f"{name}/{column}", f"{column} of an example"),
            **{"dataType": kind, "source": {**table, "extract": {"column": column}}},
            **({"repeated": True} if column == "words" else {}),
        }
        for column, kind in columns
    ]
    return {**_node("cr:RecordSet", name, "The examples of an entry"), "field": fields}


def _node(kind: str, name: str, description: str) -> dict[str, Any]:
    return {"@type": kind, "@id": name, "name": name, "description": description}
