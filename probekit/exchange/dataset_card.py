"""The card of a repository: what entries it holds, of which model and text, how to load them."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from probekit.base.cards import card_table, card_text, is_place, with_facts, written_card
from probekit.base.kinds import KINDS
from probekit.base.notices import human_bytes
from probekit.base.registry import argument
from probekit.store.manifest import Manifest

_LICENCE = """\
Hidden states are made from a text by a model, and probekit knows the licence of neither: whoever \
publishes this repository has to check that both allow it, and say so in `license` above. {text}"""
_WITH_TEXT = "The words of the text lie in `examples.parquet`, and its labels in `labels/`."
_WITHOUT_TEXT = (
    "Words and labels were left out of {which}: give your own copy of the text. Hidden states "
    "still tell much of the text they are of, those of layer 0 nearly all."
)


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
            _ranges(sorted({layer for spec in manifest.arrays for layer in spec.layers})),
            manifest.dtype,
            human_bytes(sum(spec.nbytes for spec in manifest.arrays)),
            "yes" if self.text else "no",
            manifest.key[:8],
        ]


_HEADINGS = (
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
    from huggingface_hub.utils import yaml_dump  # type: ignore[attr-defined]  # listed as it loads

    models = dict.fromkeys(str(_model(entry.manifest)["name"]) for entry in entries)
    data = DatasetCardData(
        license="unknown",
        pretty_name=f"Hidden states of {', '.join(models)}",
        tags=["probekit", "hidden-states", "probing"],
        viewer=False,  # its rows are states, not a table
    )
    written = written_card("\n".join(_section(url, entries)), before, data.to_yaml())
    facts = {"probekit": [_facts(entry) for entry in entries]}
    return with_facts(written, yaml_dump(facts, sort_keys=False))


def _facts(entry: CardEntry) -> dict[str, object]:
    """Return an entry for programs that search cards."""
    manifest, model = entry.manifest, _model(entry.manifest)
    return {
        "model": model["name"],
        "revision": model["revision"],
        "text": f"{manifest.task} {manifest.split}",
        "layers": sorted({layer for spec in manifest.arrays for layer in spec.layers}),
        "dtype": manifest.dtype,
        "bytes": sum(spec.nbytes for spec in manifest.arrays),
        "key": manifest.key,
    }


def _section(url: str, entries: Sequence[CardEntry]) -> list[str]:
    first = entries[0].manifest
    model, task = _model(first), " ".join(first.task.split())
    names = entries[0].folder.split("/")[0], task
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
        f"# Hidden states of {card_text(str(model['name']))}",
        "",
        "Entries of a cache of `probekit`: what a frozen "
        "model makes of a text, every row of every layer, to train heads and probes on "
        "without the model.",
        "",
        card_table(["", ""], [[k, v] for k, v in _about(first).items()]),
        "",
        card_table(_HEADINGS, [entry.row for entry in entries]),
        "",
        "## Load it",
        "",
        "```sh",
        f"probekit cache pull {url}{data}",
        f"probekit cache pull {url} --split {shlex.quote(first.split)} --layers {some}{data}"
        "   # their bytes alone",
        f"probekit train {words}",
        "```",
        "",
        "Layer i is `hidden_states[i]` of transformers: 0 are the embeddings. Chunks are "
        "checked against their checksums when they are pulled.",
        "",
        "## Licence",
        "",
        _LICENCE.format(text=text),
    ]


def _about(manifest: Manifest) -> dict[str, str]:
    """Return what all entries of a repository share, as a rule: those of the first."""
    model = _model(manifest)
    origin = manifest.origin if manifest.origin.startswith("hub:") else ""
    kind = f" ({manifest.kind})" if manifest.kind in KINDS else ""
    last = "after the final norm" if manifest.final_norm else "as the last block left it"
    return {
        "model": f"{model['name']}" + (f", revision {model['revision']}" * bool(model["revision"])),
        "weights": str(manifest.request["model"].get("weights", "unknown")),
        "text": f"{manifest.task}{kind}" + (f", {origin}" if origin else ""),
        "computed in": manifest.compute_dtype,
        "last layer": last,
    }


def _model(manifest: Manifest) -> Mapping[str, object]:
    """Return name and revision of a model; a name that is a path on a disk is told by its end."""
    info = manifest.model_info
    name = str(info.get("name", manifest.model))
    return {"name": manifest.model if is_place(name) else name, "revision": info.get("revision")}


def _ranges(layers: Sequence[int]) -> str:
    """Return numbers in order, runs of them as ``0-12``."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and runs[-1][-1] == layer - 1:
            runs[-1][1:] = [layer]
        else:
            runs.append([layer])
    return ", ".join("-".join(map(str, run)) for run in runs)
