"""The strengths of L2 that a solver tries, from strong to weak.

Rows are standardised, so that one path suits every layer: at the strongest end only the shares of
the classes are left, at the weakest the rows of a small sample are told apart by heart. Where the
weakest one is the best, the path goes on.
"""

from collections.abc import Sequence

FIRST, STEP, COUNT = 1.0, -0.75, 6
"""Decade of the strongest strength, decades from one to the next, and how many are tried first:
the weak ones beyond take most of the time, and are seldom the best."""

MORE, WEAKEST = 2, -5.75
"""How many weaker ones are added at a time, and the decade below which none is."""

TRANSITIONS = 1e-3
"""Strength of L2 on a chain's transitions and on the scores of first and last tags."""


def first_strengths() -> tuple[float, ...]:
    """Return the strengths that are always tried, falling."""
    return tuple(10.0 ** (FIRST + STEP * place) for place in range(COUNT))


def weaker_strengths(tried: Sequence[float]) -> tuple[float, ...]:
    """Return the strengths that come after those tried; none at the end of the path."""
    places = range(len(tried), len(tried) + MORE)
    decades = [FIRST + STEP * place for place in places]
    return tuple(10.0**decade for decade in decades if decade >= WEAKEST)
