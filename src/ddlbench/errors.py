"""Errors for people: what happened, where, what to do. They are shown without a stack trace."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class DdlbenchError(Exception):
    """An error that the user can do something about; only its text is shown."""

    exit_code = 1


class ConfigError(DdlbenchError):
    """A mistake in the configuration: file, key, value, and what was expected. It is found before anything starts."""

    exit_code = 2


def nearest(name: object, known: Iterable[str]) -> str:
    """A hint for a message: ` (did you mean 'mlp'?)`.

    Args:
        name: what the user wrote.
        known: the names that would have been right.

    Returns:
        The hint with the most similar known name; an empty string if none is similar.
    """
    matches = get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


@contextmanager
def exit_on_error(log: str | None = None) -> Iterator[None]:
    """End the process with an error's text and exit code instead of a stack trace.

    Args:
        log: a file that gets the text too, in place of its content; None: standard error alone.
    """
    try:
        yield
    except DdlbenchError as error:
        text = f"{error}\n"
        if log:
            Path(log).write_text(text)
        sys.stderr.write(text)
        sys.exit(error.exit_code)
