"""Fresh transformer blocks of a backbone's own kind, built from its configuration alone."""

from probekit.probe.heads.blocks.block_configuration import FAMILIES, essential
from probekit.probe.heads.blocks.build import build_blocks
from probekit.probe.heads.blocks.stack import BlockStack

__all__ = ["FAMILIES", "BlockStack", "build_blocks", "essential"]
