"""``python -m probekit``."""

from probekit.cli import main

if __name__ == "__main__":
    main()
