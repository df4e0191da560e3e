"""What pictures of the probes of every depth say below them."""

import numpy as np
import pytest

from probekit.page.probe_depths import exit_figures, overthinking_figures
from probekit.results.comparison import pairing
from probekit.results.comparison.resampling import Bootstrap
from tests.plots.samples import depth_records
from tests.results.overthinking.held import read_held


@pytest.mark.parametrize("draw", [overthinking_figures, exit_figures])
def test_captions_say_what_intervals_are_over(draw, monkeypatch):
    monkeypatch.setattr(pairing, "read_predicted", read_held)
    documents = np.arange(40) // 2
    for options, over in (({}, "40 sentences"), ({"documents": documents}, "20 documents")):
        records = depth_records(heads=("last",), n_blocks=3, **options)
        (figure,), failed = draw(records, None, Bootstrap(samples=100))
        assert not failed
        caption = " ".join(figure.caption.split())
        assert caption.endswith(f"95 % bootstrap intervals over {over} of test")
