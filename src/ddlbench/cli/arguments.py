"""What several commands share: arguments, which are refused before anything starts if they are wrong, and counts."""

import argparse
import math
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryFile

from ddlbench.errors import ConfigError

DEFAULT_CONFIG = Path("config/config.yaml")
LARGEST_DILATION = 10_000
NOT_FIT = " not fit: "  # in lines of `ddlbench check` about memory, which `summary` repeats


def existing_file(text: str) -> Path:
    """Accept the path of a file that exists.

    Args:
        text: the argument.

    Returns:
        The path.

    Raises:
        ArgumentTypeError: there is no such file.
    """
    if not os.path.isfile(text):  # False too for what can be no path
        raise argparse.ArgumentTypeError(f"{text}: there is no such file")
    return Path(text)


def number(least: float, most: float, what: str) -> Callable[[str], float]:
    """Make a type for numbers in a range.

    Args:
        least: the smallest number allowed.
        most: the largest number allowed.
        what: what the number is, for the error: "a time dilation".

    Returns:
        A function from text to number, which raises ArgumentTypeError for any other text.
    """

    def parsed(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:  # also true for nan
            message = f"{text} is not {what} (expected a number from {least:g} to {most:g})"
            raise argparse.ArgumentTypeError(message)
        return value

    return parsed


def whole_number(least: int, most: int, what: str) -> Callable[[str], int]:
    """Make a type for whole numbers in a range.

    Args:
        least: the smallest number allowed.
        most: the largest number allowed.
        what: what the number is, for the error: "a port".

    Returns:
        A function from text to number, which raises ArgumentTypeError for any other text.
    """

    def parsed(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", text) or not least <= int(text) <= most:
            message = f"{text} is not {what} (expected a whole number from {least} to {most})"
            raise argparse.ArgumentTypeError(message)
        return int(text)

    return parsed


def host_name(text: str) -> str:
    """Accept the name or address of a host, in a form that a resolver accepts.

    Args:
        text: the argument.

    Returns:
        The same text.

    Raises:
        ArgumentTypeError: no resolver could accept it.
    """
    try:
        readable = text.isprintable() and " " not in text and text.encode("idna") != b""
    except UnicodeError:
        readable = False
    if not readable:
        raise argparse.ArgumentTypeError(f"{text!r} is not the name or address of a host")
    return text


def must_be_writable(output: Path, files: Iterable[Path], *, makes_folder: bool = False) -> None:
    """Check, before anything starts, that the files of `--output` can be written.

    Args:
        output: the argument.
        files: that it stands for.
        makes_folder: whether their folder is made where there is none.

    Raises:
        ConfigError: they cannot; with the reason.
    """
    folder = output.parent
    try:
        if makes_folder:
            folder = next((each for each in output.parents if each.exists()), folder)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"--output {output}: cannot write into {folder}/ ({error.strerror})") from None
    for file in files:
        if not output.name or file.is_dir():
            raise ConfigError(f"--output {output}: {file} is not the name of a file")


def add_other_measurements(parser: argparse.ArgumentParser) -> None:
    """Add the option that says what to do while others measure on this machine, for commands without a configuration.

    Args:
        parser: of the command.
    """
    parser.add_argument(
        "--other-measurements",
        choices=("wait", "refuse", "ignore"),
        default="wait",
        help="what to do while something else of ddlbench measures on this machine; default: wait",
    )


def counted(count: int, noun: str) -> str:
    """Write a number with its noun.

    Args:
        count: how many there are.
        noun: the word for one; an `s` makes its plural.

    Returns:
        For instance `1 file` or `3 files`.
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
