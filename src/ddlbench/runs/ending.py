"""How a call of Snakemake ends by Ctrl-C, SIGTERM or a full disk: one line says what is kept, and nothing is left.

Snakemake itself would wait for its jobs, which print stack traces meanwhile, and would exit with status 1.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import psutil

from ddlbench.errors import CALL, FULL_DISK

IGNORE_INTERRUPTS = (
    "trap '' INT; "  # for the shells of jobs: a terminal's Ctrl-C reaches them too, and we end them
)
_ENDINGS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
_FAILURE = 1
_ROUNDS, _PATIENCE_S = 2, 0.5  # what forks while it is being killed is met in the second round
_TERMINAL = 2  # the descriptor of standard error; a signal may come while Python writes to its own
_SCRIPTS = (".snakemake", "scripts")
_RECORDS = "[0-9a-f][0-9a-f]/*/[0-9]*.json"


def end_quietly(kept: Callable[[], str], leave: Callable[[], str], full: Callable[[], str]) -> None:
    """Have SIGINT and SIGTERM end this process and all that it has started, with status 130 or 143.

    A job that cannot write any more ends this process in the same way, with status 1 (`errors.exit_on_error`). A signal
    that is ignored already, as by `nohup`, stays so.

    Args:
        kept: says in a few words what is kept.
        leave: undoes what the end of the processes does not; it returns a line on what is left all the same, if any.
        full: says which disk is full.
    """

    def end(number: int, frame: FrameType | None) -> None:
        for each in (*_ENDINGS, FULL_DISK):
            signal.signal(each, signal.SIG_IGN)
        try:  # whatever fails, as with a terminal or a `tee` that is gone: nothing can end this process any more
            terminal = _silenced()
            _end_children()
            left = leave()
            os.write(terminal, f"\n{_message(number, kept, full)}\n{left}".encode())
        finally:
            os._exit(_FAILURE if number == FULL_DISK else 128 + number)

    os.environ[CALL] = str(os.getpid())
    signal.signal(FULL_DISK, end)
    for each in _ENDINGS:
        if signal.getsignal(each) != signal.SIG_IGN:
            signal.signal(each, end)


def records_since(store: Path, moment: float) -> str:
    """Say how many repetitions a store has got.

    Args:
        store: its folder.
        moment: since when, in seconds since the epoch.

    Returns:
        A text like `7 new repetitions are kept in results/store`.
    """
    count = sum(file.stat().st_mtime >= moment for file in store.glob(_RECORDS))
    return f"{count} new {'repetition is' if count == 1 else 'repetitions are'} kept in {store}"


def _message(number: int, kept: Callable[[], str], full: Callable[[], str]) -> str:
    if number == FULL_DISK:
        return f"Ended: {full()} {kept().capitalize()}. Make room; the same command goes on from there."
    return f"Ended by {_ENDINGS[signal.Signals(number)]}: {kept()}. The same command goes on from there."


def _silenced() -> int:
    """Have this process print nothing more: its threads report the jobs that end; return where it has printed to."""
    terminal, nowhere = os.dup(_TERMINAL), os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, _TERMINAL):
        os.dup2(nowhere, descriptor)
    return terminal


def _end_children() -> None:
    """Kill all that this process has started, and remove the scripts that Snakemake has written for them."""
    for _ in range(_ROUNDS):
        ending = psutil.Process().children(recursive=True)
        for each in ending:
            try:
                words = each.cmdline()
                each.kill()
            except psutil.Error:  # it has ended by itself
                continue
            for word in words:
                if Path(word).parent.parts[-2:] == _SCRIPTS:
                    Path(word).unlink(missing_ok=True)
        psutil.wait_procs(ending, _PATIENCE_S)
