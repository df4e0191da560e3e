"""What the key of an entry hashes: everything that was asked for, nothing about the machine."""

from collections.abc import Collection, Mapping
from typing import Any, cast

from probekit.backbone import BackboneInfo
from probekit.base.layers import parse_layers
from probekit.data.pooling import Pooling
from probekit.extraction.request_options import ExtractOptions
from probekit.store.layout import model_slug
from probekit.store.manifest import FORMAT_VERSION


def word_pooling(options: ExtractOptions, info: BackboneInfo) -> Pooling:
    """Return the pooling of a word's subwords: by default what has seen the whole word."""
    if options.pooling == "auto":
        return "last" if info.causal else "first"
    return cast(Pooling, options.pooling)


def entry_model(info: BackboneInfo) -> str:
    """Return the name under which a model's entries lie; random weights have one of their own."""
    name = model_slug(info.name)
    return name if info.random_init is None else f"{name}-random{info.random_init}"


def make_request(
    options: ExtractOptions,
    info: BackboneInfo,
    keep: Collection[str],
    text_fingerprint: str,
    masking: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the request as JSON values.

    Equal requests name the same numbers, wherever the model came from and whatever computed them:
    layers, arrays and pooling are written out, dtypes stay as requested ("auto" stays auto).

    Args:
        options: what is asked for.
        info: the model.
        keep: what to store.
        text_fingerprint: of the split.
        masking: for language modelling, what is predicted.

    Raises:
        OptionError: a layer does not exist.
    """
    request = {
        "format_version": FORMAT_VERSION,
        "model": info.identity.to_json(),
        "text": text_fingerprint,
        **options.requested(),
        "keep": sorted(keep),
        "layers": list(parse_layers(options.layers, info.n_blocks)),
        "pooling": word_pooling(options, info),
        "masking": None if masking is None else dict(masking),
    }
    return request if options.tie is None else request | {"tie": options.tie}
