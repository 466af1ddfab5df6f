"""What is measured where a machine may be busy with other things: that makes times longer and rates lower.

All of what was measured counts, so that a link that is too fast but once is noticed.
"""

from collections.abc import Callable
from math import inf

ATTEMPTS = 5


def least(measure: Callable[[], float], enough: float) -> float:
    """The least of what `measure` gives, which is asked until that is no more than `enough`, a few times at most."""
    return -most(lambda: -measure(), -enough)


def most(measure: Callable[[], float], enough: float) -> float:
    """The most of what `measure` gives, which is asked until that is `enough`, a few times at most."""
    found = [-inf]
    while len(found) <= ATTEMPTS and max(found) < enough:
        found.append(measure())
    return max(found)
