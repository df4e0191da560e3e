"""Safetensors files whose bytes depend on their content alone."""

import json
from collections.abc import Mapping

from safetensors.torch import save
from torch import Tensor


def tensor_file(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return the content of a safetensors file, its metadata in the order of their names.

    The library writes them in another order in each call, and an entry that is made again, or
    resumed after a kill, has the same bytes.
    """
    data = save(dict(tensors), metadata=dict(metadata))
    # 8 bytes: the length n of the header; n bytes: the header as JSON, blanks behind it; tensors
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length]) | {"__metadata__": dict(sorted(metadata.items()))}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return b"".join((data[:8], text.ljust(length), memoryview(data)[8 + length :]))
