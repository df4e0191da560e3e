"""``probekit demo``: the whole job on real text with a real model, in under two minutes."""


def demo() -> None:
    """Extract, train, plot."""
