"""``--compile``: the same rows, a manifest that says so, a forecast that counts the compiling."""

import pytest
import torch

from probekit.extraction import ExtractOptions, forecast, open_session
from tests import tiny
from tests.extraction.corpus import write_corpus


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    """A session with compiled blocks and one without, and the splits."""
    folder = tmp_path_factory.mktemp("compile")
    model, corpus = tiny.build("bert", folder / "bert"), write_corpus(folder / "corpus")
    options = ExtractOptions(dtype="float32", compute_dtype="float32")
    opened = [
        open_session(
            str(model), str(corpus), options=options, device="cpu", cache=folder / str(compiled),
            compile=compiled,
        )
        for compiled in (True, False)
    ]  # fmt: skip
    return [session for session, _ in opened], opened[0][1]


def test_a_compiled_extraction_writes_the_same_rows(sessions):
    both, splits = sessions
    (seconds,) = {session.backbone.compile_seconds for session in both} - {None}
    first, *others = forecast(both[0], splits)
    assert first.seconds > seconds > max([one.seconds for one in others], default=0)
    compiled, plain = (session.extract(splits[0]) for session in both)
    computed = [entry.manifest.extra["computed"] for entry in (compiled, plain)]
    assert [[way["compiled"] for way in ways] for ways in computed] == [[True], [False]]
    assert compiled.manifest.key == plain.manifest.key
    for name, array in plain.arrays.items():
        rows = torch.arange(plain.manifest.counts["examples"])
        torch.testing.assert_close(
            compiled.arrays[name].read(rows), array.read(rows), rtol=1e-4, atol=1e-5
        )
    names = {file.name for file in compiled.path.iterdir()}
    assert names == {file.name for file in plain.path.iterdir()}
