"""Records that figures can be made of."""

from matplotlib.collections import QuadMesh

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


def meshes_of(axes):
    return [item for item in axes.collections if isinstance(item, QuadMesh)]
