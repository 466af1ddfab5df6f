"""How many training steps this process has made. Heartbeats say so, and the supervisor sees when none is made any more.

A process is one member of a worker group, so there is one count in it.
"""

from collections.abc import Iterator

_made: list[int] = []  # empty: this process has begun no step that it counts, as a server


def counted(steps: int) -> Iterator[int]:
    """Iterate over training steps, and count each that is made.

    Args:
        steps: how many will be made.

    Yields:
        The number of each step, from 0. It counts as made when the next one, or the end, is asked for.
    """
    _made[:] = [sum(_made)]
    for number in range(steps):
        yield number
        _made[0] += 1


def made_steps() -> int | None:
    """Say how many steps were made since this process began; None: it counts none."""
    return _made[0] if _made else None
