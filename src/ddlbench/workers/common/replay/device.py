"""A device whose time passes without its work: a GPU's by waiting, a CPU's by burning CPU time.

While a GPU computes, its host's processor is free for communication; while a CPU computes, it is not. So time on a GPU
passes on the wall clock, and a thread that communicates changes nothing of it. Time on a CPU is CPU time of the thread
that would compute; it passes more slowly while others have the core.
"""

import time
from hashlib import pbkdf2_hmac
from typing import Protocol

from ddlbench.protocol.messages import Assignment, ReplayedStep
from ddlbench.system.calls import set_timer_slack

_SLACK_NS = 1000
_PIECE_S = 200e-6  # so much is burnt between two looks at the clock


class ReplayedDevice(Protocol):
    """What a step's parts run on."""

    def begin(self) -> None:
        """Note that what comes next has waited for something else than the device: the network, or the host."""

    def run(self, time_ms: float) -> None:
        """Let the device work, and wait until it is done.

        Args:
            time_ms: how long it works, without time dilation.
        """


class WaitingDevice:
    """A GPU: it works off what it is given, beside the host.

    What is given to it before its last work has ended begins when that ends, not when the host has noticed. So a host
    that wakes late delays nothing that comes after.

    Args:
        dilation: of time.
    """

    def __init__(self, dilation: float) -> None:
        self.dilation = dilation
        self._free_s = 0.0
        set_timer_slack(_SLACK_NS)

    def begin(self) -> None:
        """Note that what comes next has waited for something else than the device."""
        self._free_s = max(self._free_s, time.perf_counter())

    def run(self, time_ms: float) -> None:
        """Let the device work, and sleep until it is done.

        Args:
            time_ms: how long it works, without time dilation.
        """
        self._free_s += time_ms * self.dilation / 1000
        while time_ms and (left_s := self._free_s - time.perf_counter()) > 0:
            time.sleep(left_s)


class BurningDevice:
    """A CPU: it works in the thread that waits for it. The host's share of its core dilates time by itself.

    The work is a hash of nothing, in registers and the first cache, during which other Python threads run. What real
    layers do to caches and to the memory's bandwidth is not replayed.

    Args:
        cores: of the host that is emulated; their work is done one after another by the core that stands for them.
    """

    def __init__(self, cores: float) -> None:
        self.cores = cores
        rounds = 2000
        began_s = time.thread_time()
        pbkdf2_hmac("sha256", b"", b"", rounds)
        self._rounds_of_piece = max(1, int(_PIECE_S * rounds / (time.thread_time() - began_s)))

    def begin(self) -> None:
        """Do nothing: a thread's CPU time does not pass while it waits."""

    def run(self, time_ms: float) -> None:
        """Burn CPU time of this thread.

        Args:
            time_ms: how long the device works, without time dilation.
        """
        end_s = time.thread_time() + self.cores * time_ms / 1000
        while (left_s := end_s - time.thread_time()) > 2e-6:
            rounds = self._rounds_of_piece * min(1.0, left_s / _PIECE_S)
            pbkdf2_hmac("sha256", b"", b"", max(1, int(rounds)))


def device_of(assignment: Assignment, step: ReplayedStep) -> ReplayedDevice:
    """Make the device that a worker replays.

    Args:
        assignment: of the worker.
        step: for the kind of device, and the dilation if that was chosen after the worker had started.

    Returns:
        A device without work. On a CPU a core stands for all cores of the host that is emulated: the dilation says how
        many they are, once the host's share of the core is taken from it.
    """
    if step.kind == "gpu":
        return WaitingDevice(step.dilation or assignment.dilation)
    return BurningDevice(assignment.dilation * assignment.core_share)
