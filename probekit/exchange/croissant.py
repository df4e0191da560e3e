"""What the card of a data set says, for programs: Croissant 1.0 with its responsible-AI fields."""

import json
import re
from collections.abc import Sequence
from typing import Any

from probekit.exchange.dataset_card import (
    ENTRIES,
    HEADINGS,
    LAYERS,
    REVEALED,
    CardEntry,
    about,
    model_of,
)
from probekit.store.layout import EXAMPLES

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
        "name": f"Hidden states of {model_of(entries[0].manifest)['name']}",
        "description": f"{ENTRIES} {LAYERS}",
        "url": address,
        **known,
        **_responsible(entries),
        "distribution": [repository, *(part for entry in entries for part in _files(entry))],
        "recordSet": [_records(entry) for entry in entries],
    }
    return json.dumps(metadata, indent=1, ensure_ascii=False) + "\n"


def _responsible(entries: Sequence[CardEntry]) -> dict[str, Any]:
    facts = [f"{name}: {value}" for name, value in about(entries[0].manifest).items()]
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
