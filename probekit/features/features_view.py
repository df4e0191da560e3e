"""The splits of a model and task as a notebook shows them."""

from typing import TYPE_CHECKING

from probekit.base.markup import Markup, html_pairs, html_table, html_view
from probekit.base.notices import human_list

if TYPE_CHECKING:
    from probekit.features.splits import Splits

_SHOWN = 12  # classes that are named


def features_view(splits: "Splits") -> Markup:
    """Return what is predicted, and of every split how much there is."""
    of, names = splits.manifest, splits.label_map.names
    arrays = {
        name: array for entry in splits.entries.values() for name, array in entry.arrays.items()
    }
    layers = sorted({layer for array in arrays.values() for layer in array.layers})
    pairs = {
        "labels": f"{splits.column} ({splits.kind}), scored by {splits.metric}",
        **({"classes": f"{len(names):,}: {human_list(names, _SHOWN)}"} if names else {}),
        "rows": ", ".join(arrays),
        "layers": f"{layers[0]} to {layers[-1]} ({len(layers)}), {of.dim} wide, {of.dtype}",
    }
    if splits.control is not None:
        pairs["control"] = f"random labels by word type, seed {splits.control}"
    if splits.fit_on != "train":
        pairs["train"] = f"is the split {splits.fit_on}"
    rows = [
        [
            split,
            f"{len(entry.examples):,}",
            f"{splits.n_rows(split):,}" if split in splits.labels else "no labels",
            entry.path,
        ]
        for split, entry in splits.entries.items()
    ]
    table = html_table(["split", "examples", "rows", "entry"], rows, [True, False, False, True])
    return html_view(html_pairs(pairs), table, title=f"{of.model} on {splits.task.name}")
