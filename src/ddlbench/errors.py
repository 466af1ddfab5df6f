"""Errors that are written for people: what happened, where, what to do. None of them deserves a stack trace."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class DdlbenchError(Exception):
    """Something that the user can act on; its text is all that is shown."""

    exit_code = 1


class ConfigError(DdlbenchError):
    """A mistake in the configuration, found before anything starts: file, key, value, what was expected."""

    exit_code = 2


def nearest(name: object, known: Iterable[str]) -> str:
    """` (did you mean 'mlp'?)` for the known name closest to `name`, or an empty string."""
    matches = get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


@contextmanager
def told_in_words(log: str | None = None) -> Iterator[None]:
    """End the process with an error's text and exit code instead of a stack trace; `log` gets the text too."""
    try:
        yield
    except DdlbenchError as error:
        text = f"{error}\n"
        if log:
            Path(log).write_text(text)
        sys.stderr.write(text)
        sys.exit(error.exit_code)
