"""Claim 31: two workers on Ray against two of the local engine, one thread each.

minilm-l6 over the train split of CoNLL-2003, each time into a cache of its own. Ray runs before and
after, as a cluster does, with two cores of this machine; what starting workers takes is told by
calls of two jobs that do nothing, one of which starts its own Ray. Needs the extra ``ray``.

    python benchmarks/ray_engine.py --models MODELS --data DATA
"""

import itertools
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

from measure import alternate, at_least, report, timed
from subjects import MINILM, data_path, model_path, parser, work_folder
from sweeping import two_cores

from probekit.engines import Engine, RayEngine, run_local

WORKERS = 2
AIM = 0.9


def main() -> None:
    """Measure and report."""
    options = parser(__doc__)
    options.add_argument("--sentences", type=int, help="of the split; default: all")
    args = options.parse_args()
    from_text = (model_path(args, MINILM), data_path(args, "conll2003"), args.sentences)
    engine = RayEngine()
    idle = timed(lambda: list(engine([nothing] * WORKERS, workers=WORKERS, report=print)))
    with two_cores(), work_folder(args) as folder:
        alone = idle()
        import ray  # after a call, which has silenced it

        ray.init("local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
        extract = partial(extract_with, *from_text, folder, itertools.count())
        sides = {
            "local": timed(partial(extract, run_local)),
            "ray": timed(partial(extract, engine)),
        }
        timings = alternate(sides, args.rounds)
        started = idle()
        ray.shutdown()
    claim = at_least(
        31,
        f"extraction by {WORKERS} workers on Ray against {WORKERS} of the local engine, {MINILM}",
        timings.ratio("local", "ray"),
        AIM,
        details=f"{timings.median('ray'):.1f} s against {timings.median('local'):.1f} s; starting "
        f"two workers takes {started:.1f} s of it, {alone:.1f} s with a Ray of their own",
    )
    report([claim], args)


def nothing(heard: Callable[[int | str], None]) -> Generator[Any, None, None]:
    """Do nothing, and yield nothing."""
    yield from ()


def extract_with(
    model: str,
    data: Path,
    sentences: int | None,
    folder: Path,
    numbers: "itertools.count[int]",
    engine: Engine,
) -> None:
    """Extract into a fresh cache."""
    from probekit import ExtractOptions, extract

    extract(
        model,
        "conll",
        data=data,
        splits=["train"],
        options=ExtractOptions(limit=sentences),
        device="cpu",
        cache=folder / f"cache{next(numbers)}",
        workers=WORKERS,
        engine=engine,
    )


if __name__ == "__main__":
    main()
