"""The store: one cache entry on disk, written unit by unit and read through memory maps.

`builder.EntryBuilder` writes an entry, `entry.Entry` reads it, `layout` finds it under the cache
root, `verify` checks it. The format is specified in ``cache/README.md``.
"""
