"""Token heads: the tokens of a text in, one row for each layer out.

To add one to probekit, write one file with a `TokenHeadSpec` and its `TokenPool`, and one line in
``_OWN``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from probekit.base.plugins import Registry
from probekit.base.registry import LazyRegistry, revive

if TYPE_CHECKING:
    from probekit.probe.token_heads.contract import TokenHeadSpec

_OWN: "Mapping[str, type[TokenHeadSpec]]" = LazyRegistry(
    {
        "mean": f"{__name__}.pools:MeanTokens",
        "max": f"{__name__}.pools:MaxTokens",
        "last": f"{__name__}.pools:LastToken",
        "ends": f"{__name__}.pools:EndTokens",
        "ema": f"{__name__}.pools:EMA",
        "rolling-max": f"{__name__}.pools:RollingMax",
        "softmax": f"{__name__}.pools:SoftmaxTokens",
        "attention": f"{__name__}.pools:AttentionTokens",
        "multimax": f"{__name__}.pools:MultiMax",
    }
)

TOKEN_HEADS: "Registry[type[TokenHeadSpec]]" = Registry(
    "token_head",
    _OWN,
    admit="probekit.testing.row_checks:TOKEN_HEAD.admit",
    contracts=[f"{__name__}.contract:TokenHeadSpec"],
)
"""In the order of tables; torch is not loaded for their names."""


def register_token_head(
    name: str, head: "type[TokenHeadSpec]", *, version: str | None = None
) -> None:
    """Add a token head of your own, for this process and its workers.

    Args:
        name: as ``--token-head`` and `TrainSpec` take it.
        head: a `TokenHeadSpec` of this name.
        version: what tells it from an earlier one in the keys of records; None is its source.

    Raises:
        PluginError: the name is taken, or the token head breaks its contract.
    """
    TOKEN_HEADS.register(name, head, version=version)


def token_head_from_json(value: Mapping[str, Any]) -> "TokenHeadSpec":
    """Return the token head that ``TokenHeadSpec.to_json`` described.

    Raises:
        UnknownNameError: no token head has this name.
        OptionError: an option that it does not have, or a value it refuses.
    """
    return revive("token head", value, TOKEN_HEADS)
