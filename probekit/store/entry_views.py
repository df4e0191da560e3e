"""Entries as a notebook shows them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from probekit.base.markup import Markup, html_pairs, html_table, html_view
from probekit.base.notices import human_bytes
from probekit.store.files import disk_bytes

if TYPE_CHECKING:
    from probekit.store.entry import Entry


def entry_view(entry: "Entry") -> Markup:
    """Return what an entry is, and its arrays."""
    of = entry.manifest
    rows = [
        [one.name, f"{one.rows:,}", _layers_text(one.layers), one.dim, one.dtype]
        for one in of.arrays
    ]
    arrays = html_table(
        ["array", "row slots", "layers", "dim", "dtype"], rows, [True, *[False] * 4]
    )
    pairs = {
        "path": entry.path,
        "key": of.key[:8],
        "kind": of.kind,
        "holds": f"{of.part}: {of.counts['examples']:,} examples",
        "model": f"{of.n_blocks} blocks, {'causal' if of.causal else 'bidirectional'}, "
        f"run in {of.compute_dtype}",
        "states": of.states_from,
        "on disk": f"{human_bytes(disk_bytes(entry.folder))}, {of.backend}",
        "made": of.created,
    }
    return html_view(html_pairs(pairs), arrays, title=f"{of.model}, {of.task} {of.split}")


def _layers_text(layers: Sequence[int]) -> str:
    """Return how many layers there are, and from where to where."""
    ends = f"{layers[0]} to {layers[-1]}" if len(layers) > 1 else layers[0]
    return f"{len(layers)} ({ends})"


def entries_view(entries: "Sequence[Entry]") -> Markup:
    """Return a line for every entry."""
    rows = [
        [
            one.manifest.model,
            one.manifest.task,
            one.manifest.split,
            f"{one.manifest.counts['examples']:,}",
            ", ".join(one.arrays),
            human_bytes(disk_bytes(one.folder)),
            one.path,
        ]
        for one in entries
    ]
    headings = ["model", "task", "split", "examples", "arrays", "on disk", "path"]
    words = [True, True, True, False, True, False, True]
    return html_view(html_table(headings, rows, words))
