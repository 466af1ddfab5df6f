"""Errors for users: what happened, where, and what to do. They are shown without a stack trace."""

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
    """Find the known name that is most similar to a wrong one.

    Args:
        name: what the user wrote.
        known: the names that would have been right.

    Returns:
        A hint like ` (did you mean 'mlp'?)` that can be appended to a message; an empty string if no name is similar.
    """
    matches = get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


@contextmanager
def exit_on_error(log: str | None = None) -> Iterator[None]:
    """End the process with an error's text and exit code instead of a stack trace.

    Args:
        log: a file that gets the text too, in place of its content; None: standard error alone.

    Yields:
        Nothing; the body of the `with` runs.
    """
    try:
        yield
    except DdlbenchError as error:
        text = f"{error}\n"
        if log:
            Path(log).write_text(text)
        sys.stderr.write(text)
        sys.exit(error.exit_code)
