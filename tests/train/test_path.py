"""Which strengths of L2 are tried, and which are left."""

import math
from dataclasses import dataclass, field

import pytest
import torch

from probekit.probe.fitters.linear_problems import LinearObjective, Problems, weaker_strengths
from probekit.probe.fitters.losses import Softmax
from probekit.train.solving.solved_fit import Solved
from probekit.train.solving.strength_path import LARGE, LOOSER, Path
from tests.probe.fitters.cases import basis_of, rows_of


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

    def done(self):
        return self

    def only(self, places):
        return [self.strengths[place] for place in places], self

    def score(self, strength):
        values = self.scores.get(strength, [0.0])
        return values[min(self.step, len(values) - 1)]


def run(scores, *, fixed=None, n_judged=1000, n_products=LARGE, better=float, **options):
    """Return a path and its stretches."""
    stretches = []

    def begin(strengths):
        yield from ()
        stretches.append(Scripted(strengths, scores, **options))
        return stretches[-1]

    def score(some):
        yield from ()
        return [some[1].score(strength) for strength in some[0]]

    path = Path(fixed, better, n_judged, n_products)
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
        ({FIRST[2]: [0.5, 0.8, 0.8, 0.65], FIRST[3]: [0.7]}, {}),
        ({FIRST[2]: [0.2], FIRST[3]: [0.6, 0.4, 0.3, 0.15]}, {"better": lambda loss: -loss}),
    ],
    ids=["still moves", "took no step", "two examples", "the best moves", "a loss"],
)
def test_one_that_may_yet_be_the_best_is_not_left(scores, options):
    bad = {strength: [2.0 if "better" in options else -1.0] for strength in FIRST}
    path, (stretch,) = run(bad | scores, **options)
    assert stretch.visited[2] == [*FIRST[2:4]] and path.strength == FIRST[3]


def test_what_was_left_goes_on_if_the_best_falls_back_at_the_end():
    falling = [*[0.8] * len(LOOSER), 0.6]
    path, (stretch,) = run({FIRST[2]: falling, FIRST[3]: [0.7], FIRST[4]: [0.5]})
    assert stretch.visited[-2:] == [[FIRST[2]], [FIRST[3]]]
    assert path.strength == FIRST[3] and path.score == 0.7


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_scores_that_are_no_numbers_choose_the_first(bad):
    path, _ = run({strength: [bad] for strength in FIRST})
    assert path.strength == FIRST[0]


def test_weaker_ones_join_when_the_weakest_is_best_at_the_end():
    more = weaker_strengths(FIRST)
    passing = [*[0.9] * len(LOOSER), 0.1]
    path, stretches = run({FIRST[-1]: passing, FIRST[0]: [0.8]})
    assert len(stretches) == 1 and path.strength == FIRST[0], "it was not at the end"
    path, (first, second) = run({FIRST[-1]: [0.8], more[0]: [0.5, 0.9], more[1]: [0.85]})
    assert second.visited[0] == [*more] and path.strength == more[0]
    assert first.visited[-1] == [FIRST[-1]] and path.strengths == [*FIRST, *more]


def test_it_is_said_which_strengths_have_taken_a_step():
    x, y = rows_of(80, 5, 3)
    basis, everything = basis_of(x), torch.ones(2, 80)
    objective = LinearObjective(
        Softmax(y, 3), Problems.of((10.0, 1e-4), everything), basis.spectrum
    )
    solved, z = Solved.begun((10.0, 1e-4), objective), basis.apply(x)

    def go_on(looser):
        visits = solved.go_on([0, 1], looser)
        try:
            while True:
                next(visits).take(slice(0, 80), z)
        except StopIteration as end:
            return end.value

    assert go_on(1e12) == [False, False]
    assert go_on(1e6) == [False, True]
    assert go_on(1.0) == [True, True] and solved.minimum.converged.all()


def test_what_is_given_small_or_solved_at_once_is_scored_once():
    path, (stretch,) = run({}, fixed=0.3)
    assert stretch.visited == [[0.3]] and path.strength == 0.3
    for options in ({"closed": True}, {"n_products": LARGE - 1}):
        path, (stretch,) = run({FIRST[1]: [0.8]}, **options)
        assert stretch.visited == [[*FIRST]] and path.strength == FIRST[1]
