"""Fresh transformer blocks of a backbone's own kind, built from its configuration alone."""

from probekit.blocks.build import build_blocks
from probekit.blocks.configuration import FAMILIES, essential
from probekit.blocks.stack import BlockStack

__all__ = ["FAMILIES", "BlockStack", "build_blocks", "essential"]
