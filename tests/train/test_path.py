"""Which strengths of L2 are tried, and which are left."""

from dataclasses import dataclass, field

import pytest

from probekit.probe.fitters.linear_problems import weaker_strengths
from probekit.train.solving.path_fit import LOOSER, Path


@dataclass
class Scripted:
    """Problems whose scores are known at every tolerance: those of the last for the rest."""

    strengths: tuple[float, ...]
    scores: dict[float, list[float]]
    still: tuple[float, ...] = ()
    closed: bool = False
    visited: list[list[float]] = field(default_factory=list)
    step: int = 0

    @property
    def descent(self):
        return None if self.closed else self

    def go_on(self, places, looser):
        yield from ()
        self.visited.append([self.strengths[place] for place in places])
        self.step = len(self.visited) - 1
        return [self.strengths[place] not in self.still for place in places]

    def only(self, places):
        return [self.strengths[place] for place in places], self

    def score(self, strength):
        values = self.scores.get(strength, [0.0])
        return values[min(self.step, len(values) - 1)]


def run(scores, *, fixed=None, n_judged=1000, better=float, **options):
    """Return a path and its stretches."""
    stretches = []

    def begin(strengths):
        yield from ()
        stretches.append(Scripted(strengths, scores, **options))
        return stretches[-1]

    def score(some):
        yield from ()
        return [some[1].score(strength) for strength in some[0]]

    path = Path(fixed, better, n_judged)
    assert list(path.solve(begin, score)) == []
    return path, stretches


FIRST = weaker_strengths(())


def test_one_that_is_surely_behind_is_left_and_the_best_goes_to_the_end():
    path, (stretch,) = run({FIRST[2]: [0.8], FIRST[3]: [0.7]})
    assert stretch.visited[:2] == [[*FIRST], [*FIRST]], "after one look nothing is known to rest"
    assert stretch.visited[2:] == [[FIRST[2]]] * (len(LOOSER) - 1)
    assert path.strength == FIRST[2] and path.scores == [0, 0, 0.8, 0.7, 0, 0]
    assert path.edge is None and path.strengths == [*FIRST]


@pytest.mark.parametrize(
    ("scores", "options"),
    [
        ({FIRST[2]: [0.8], FIRST[3]: [0.4, 0.6, 0.7, 0.75, 0.81]}, {}),
        ({FIRST[2]: [0.8], FIRST[3]: [0.7, 0.7, 0.81]}, {"still": (FIRST[3],)}),
        ({FIRST[2]: [0.8], FIRST[3]: [0.79, 0.79, 0.81]}, {"n_judged": 100}),
        ({FIRST[2]: [0.5, 0.8, 0.8, 0.78], FIRST[3]: [0.79]}, {"n_judged": 100}),
        ({FIRST[2]: [-0.8], FIRST[3]: [-0.7]}, {"better": lambda loss: loss}),
    ],
    ids=["still moves", "took no step", "two examples", "the best moves", "a loss"],
)
def test_one_that_may_yet_be_the_best_goes_on(scores, options):
    filled = {strength: [-1.0] for strength in FIRST} | scores
    assert run(filled, **options)[0].strength == FIRST[3]


def test_weaker_ones_are_followed_from_the_start_while_the_weakest_is_best():
    more = weaker_strengths(FIRST)
    path, (first, second) = run({FIRST[-1]: [0.8], more[0]: [0.5, 0.9], more[1]: [0.85]})
    assert second.visited[0] == [*more] and path.strength == more[0]
    assert first.visited[-1] == [FIRST[-1]], "left as soon as a weaker one was better"
    assert path.strengths == [*FIRST, *more]


def test_what_is_given_or_solved_at_once_is_scored_once():
    path, (stretch,) = run({}, fixed=0.3)
    assert stretch.visited == [[0.3]] and path.strength == 0.3
    path, (stretch,) = run({FIRST[1]: [0.8]}, closed=True)
    assert stretch.visited == [[*FIRST]] and path.strength == FIRST[1]
