"""An entry whose writer is killed is, once resumed, the same byte for byte."""

from functools import partial

import pytest

from tests.forks import kill_at
from tests.store import synthetic


@pytest.mark.parametrize("backend", ["zarr", "hdf5"])
def test_killed_twice(tmp_path, backend):
    """In the middle of the fourth unit, and when all are written but the last."""
    build = partial(synthetic.build, backend=backend, dtype="int8")
    path = tmp_path / "killed-00000000"
    units = path.with_name(f"{path.name}.partial") / "building" / "units"
    for target, call, marked in (("codec.checksum", 80, 3), ("builder.write_pieces", 2, 4)):
        kill_at(f"probekit.store.{target}", call, partial(build, path))
        assert len(list(units.glob("*.json"))) == marked
    whole = build(tmp_path / "whole-00000000")
    assert synthetic.folder_bytes(build(path).path) == synthetic.folder_bytes(whole.path)
