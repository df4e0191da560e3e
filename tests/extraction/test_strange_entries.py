"""Folders that are no whole entry, or hold more than one: extracted again, or refused."""

from functools import partial

import pytest

from probekit.errors import OptionError
from probekit.extraction import ExtractOptions, extract
from tests.extraction.test_shards import fresh_bytes, run, the_entry


def test_what_has_no_manifest_is_not_complete(bert, corpus, tmp_path):
    run(bert, corpus, tmp_path)
    before = fresh_bytes(tmp_path)
    for name in ("manifest.json", "checksums.parquet"):
        (the_entry(tmp_path) / name).unlink()
    run(bert, corpus, tmp_path)
    assert fresh_bytes(tmp_path) == before


def test_what_is_no_part_of_an_entry_is_not_removed(bert, corpus, tmp_path):
    run(bert, corpus, tmp_path)
    path = the_entry(tmp_path)
    again = partial(
        *(extract, bert, str(corpus)), kind="tagging", label="2", splits=["train"], cache=tmp_path,
        options=ExtractOptions(compute_dtype="float32"), device="cpu", overwrite=True,
    )  # fmt: skip
    for folder in (path, *(path.with_name(path.name + end) for end in (".partial", ".replaced"))):
        folder.mkdir(exist_ok=True)
        (folder / "notes.txt").touch()
        with pytest.raises(OptionError, match=r"holds notes\.txt, which is no part of an entry"):
            again()
        assert (folder / "notes.txt").exists()
        (folder / "notes.txt").unlink()
    for end in (".partial", ".replaced"):
        path.with_name(path.name + end).rmdir()
    again()
