"""The store: one cache entry on disk, written unit by unit and read through memory maps.

`EntryBuilder` writes an entry, `Entry` reads it, `layout` and `find` locate it under the cache
root, `verify` checks it. The format is specified in ``cache/README.md``. Names load on first use,
so that modules without tensors (`layout`, `manifest`, `backends`) do not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probekit.store.arrays import ArraySpec as ArraySpec
    from probekit.store.builder import EntryBuilder as EntryBuilder
    from probekit.store.entry import Entry as Entry
    from probekit.store.feature_array import FeatureArray as FeatureArray
    from probekit.store.find import find_entries as find_entries
    from probekit.store.manifest import Manifest as Manifest
    from probekit.store.stored_rows import StoredRows as StoredRows
    from probekit.store.tables import ExampleTable as ExampleTable

_HOMES = {
    "ArraySpec": "arrays",
    "Entry": "entry",
    "EntryBuilder": "builder",
    "ExampleTable": "tables",
    "FeatureArray": "feature_array",
    "Manifest": "manifest",
    "StoredRows": "stored_rows",
    "find_entries": "find",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
