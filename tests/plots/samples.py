"""Records that figures can be made of."""

import numpy as np
from matplotlib.collections import QuadMesh

from tests.results.overthinking.held import add_depths
from tests.results.samples import HEADS, make_record


def sample_records(heads=HEADS, seeds=3, n_blocks=6, depths=(None,), **options):
    return [
        make_record(head, seed, n_blocks, depth=depth, **options)
        for head in heads
        for seed in range(seeds)
        for depth in depths
    ]


def fewshot_records(**options):
    return [
        r for k in (8, 32, 128) for r in sample_records(shots=k, protocol="few-shot", **options)
    ]


def fraction_records(**options):
    return [r for f in (0.01, 0.05, 0.2, 0.25, 1.0) for r in sample_records(fraction=f, **options)]


def depth_records(heads=("last", "p32"), seeds=3, n_blocks=6, test_score=0.5, **options):
    """Return probes of every depth; the fixture ``held`` reads their side files."""
    rng = np.random.default_rng(0)
    gold, true = rng.integers(0, 2, (2, 40))
    found = []
    for head in heads[:3]:
        size = (seeds, n_blocks + 1, 40)
        probes = np.where(rng.random(size) < 0.5, gold, rng.integers(0, 2, 40))
        tests = None if test_score is None else (probes, true)
        found += add_depths(probes, gold, tests=tests, head=head, **options)
    return found


def meshes_of(axes):
    return [item for item in axes.collections if isinstance(item, QuadMesh)]


def cells_of(axes):
    """What the cells of a heatmap show."""
    (mesh,) = meshes_of(axes)
    return mesh.get_array()


def row_names(axes):
    return [" ".join(text.get_text().split()) for text in axes.get_yticklabels()]


def notes_of(figure):
    """What stands below a heatmap."""
    return " ".join(figure.axes[-1].get_xlabel().split())


def titles_of(figure):
    return [axes.get_title() for axes in figure.axes]


def legend_texts(figure):
    return [" ".join(text.get_text().split()) for text in figure.legends[0].get_texts()]


def legend_title(figure):
    return " ".join(figure.legends[0].get_title().get_text().split())
