"""Claim 15: ``probekit --help`` against importing its command-line library.

python benchmarks/startup.py
"""

import subprocess
import sys

from measure import Claim, alternate, report, timed
from subjects import parser

AIM = 3.0


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    timings = alternate(
        {
            "probekit --help": timed(lambda: run("-m", "probekit", "--help")),
            "import typer": timed(lambda: run("-c", "import typer")),
        },
        args.rounds,
    )
    ratio = timings.ratio("probekit --help", "import typer")
    times = ", ".join(f"{name}: {timings.median(name):.2f} s" for name in timings.seconds)
    claim = Claim(
        number=15,
        title="probekit --help against python -c 'import typer'",
        aim=f"<= {AIM:g} x",
        found=f"{ratio} x",
        reached=ratio.median <= AIM,
        details=times,
    )
    report([claim], args)


def run(*words: str) -> None:
    """Run Python and throw its output away."""
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
