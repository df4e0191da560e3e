"""Truncated depth: one probe at every depth, as the runs of one sweep.

``product(spec, {"depth": depths(n_blocks)})`` are its runs. They share sample, order and every
read, so all depths are trained in one pass over the cache.
"""

from collections.abc import Sequence

from probekit.base.layers import parse_layers
from probekit.errors import OptionError


def depths(n_blocks: int, every: int = 1, layers: str | None = None) -> Sequence[int]:
    """Return 0, ``every``, 2 ``every``, ... up to L, and L itself.

    At depth n the head sees the layers up to n, and depth 0 is the embeddings alone: the analysis
    of "overthinking" in the P-32 paper, there with BERT's first n blocks.

    Args:
        n_blocks: L.
        every: distance between depths.
        layers: the layers that heads read, in the language of ``probekit.base.layers``: depths
            at which a head reads no more than at the one before are left out.

    Raises:
        OptionError: ``every`` is less than 1, a layer does not exist, or no depth is left.
    """
    if every < 1:
        raise OptionError(f"--every must be at least 1; found {every}.")
    found = {*range(0, n_blocks + 1, every), n_blocks}
    if layers is not None:
        found &= set(parse_layers(layers, n_blocks))
        if not found:
            raise OptionError(f"--every {every} leaves none of --layers {layers}.")
    return sorted(found)
