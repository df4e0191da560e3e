"""Plans for texts of equal length and a model of any size, neither of which is there."""

from types import SimpleNamespace

import numpy as np

from probekit.backbone import BackboneInfo
from probekit.backbone.facts import Identity
from probekit.data.encoded import EncodedSplit
from probekit.extraction import ExtractOptions
from probekit.extraction.plan import make_plan
from probekit.extraction.request import Request

IDENTITY = Identity(
    architecture="Large", weights="0" * 64, adapter=None, configuration={}, word_tokenizer="0" * 64,
    text_tokenizer="0" * 64, token_types=False, max_length=8192, random_init=None,
)  # fmt: skip


def texts(count, length):
    """Texts of equal length, without memory for their subwords."""
    tokens = np.broadcast_to(np.int32(1), (count * length,))
    return EncodedSplit(
        ids=tuple(map(str, range(count))), subwords=tokens, word_map=tokens,
        window_lengths=np.full(count, length, np.int32), example_windows=np.arange(count + 1),
        example_words=np.zeros(count + 1, np.int64),
    )  # fmt: skip


def plan_of(count, length, dim, n_blocks, keep, **options):
    info = BackboneInfo(
        name="large", source="folder", revision=None, n_blocks=n_blocks, dim=dim, causal=True,
        final_norm=True, vocab_size=100, identity=IDENTITY,
    )  # fmt: skip
    task, asked = SimpleNamespace(kind="sentence"), ExtractOptions(**options)
    request = Request(info=info, task=task, options=asked, keep=tuple(keep), pooling="last")
    return make_plan(texts(count, length), request)
