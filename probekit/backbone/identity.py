"""Identity of weights and tokenizer: the same for a Hub repository and a local copy of it."""

import json
from collections.abc import Sequence

from transformers import PretrainedConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from probekit.backbone.config import plain_config
from probekit.backbone.files import WeightFile
from probekit.configuration import PROVENANCE, without
from probekit.fingerprint import digest


def weights_digest(files: Sequence[WeightFile]) -> str:
    """Return the identity of weights (64 hex digits).

    One file: its sha256. Shards: a digest over their sha256s, in the order of their names.
    """
    hashes = [file.digest() for file in files]
    return hashes[0] if len(hashes) == 1 else digest(hashes)


def random_digest(config: PretrainedConfig, seed: int) -> str:
    """Return the identity of weights that a configuration and a seed draw (64 hex digits)."""
    options = without(plain_config(config), PROVENANCE)
    return digest({"random_init": seed, "config": options})


def tokenizer_digest(tokenizer: PreTrainedTokenizerFast) -> str:
    """Return the identity of a fast tokenizer (64 hex digits).

    It covers vocabulary, rules and the roles of special tokens; not padding and truncation, which
    probekit decides itself, nor the files that the tokenizer was read from.
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    for setting in ("padding", "truncation", "version"):
        state.pop(setting, None)
    return digest({"backend": state, "roles": _special_roles(tokenizer)})


def _special_roles(tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    return {role: str(token) for role, token in tokenizer.special_tokens_map.items()}
