"""The difference of two runs on one split, and how sure it is given its sentences."""

from probekit.results.comparison.bootstrap import bootstrap
from probekit.results.comparison.outcome import Comparison
from probekit.results.comparison.pairing import pair
from probekit.results.comparison.runs import Run, differing, run_names
from probekit.results.summaries.interval import interval


def compare(
    a: Run, b: Run, *, split: str = "test", samples: int = 10_000, seed: int = 0
) -> Comparison:
    """Compare two runs by what they predicted for the same sentences: a paired bootstrap.

    Each sample of sentences is scored with every seed of both runs; the mean over seeds of the
    first minus that of the second is the difference that the interval is about.

    Args:
        a: the first run.
        b: the second run; of the same seeds, or both of one seed.
        split: ``test``, ``dev``, or another that was predicted (``dev-mm`` of MNLI).
        samples: bootstrap samples.
        seed: of the samples.

    Raises:
        OptionError: both are the same run, or too few samples.
        MissingFileError: a side file of predictions does not exist.
        RecordError: the runs cannot be paired, or predicted no such split; the message says why.
    """
    pairing = pair(a, b, split)
    found = bootstrap(pairing.n_sentences, pairing.resampler(), samples=samples, seed=seed)
    one, two = pairing.scores()
    over_seeds = interval(x - y for x, y in zip(one, two, strict=True))
    name_a, name_b = run_names(a, b)
    return Comparison(
        a=name_a,
        b=name_b,
        metric=pairing.metric,
        split=split,
        n_sentences=pairing.n_sentences,
        n_seeds=len(one),
        score_a=interval(one).mean,
        score_b=interval(two).mean,
        difference=over_seeds.mean,
        low=found.low,
        high=found.high,
        p=found.p,
        over_seeds=over_seeds,
        samples=samples,
        seed=seed,
        differing=differing(a, b),
    )
