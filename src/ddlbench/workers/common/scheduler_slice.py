"""How long a thread keeps its core while others want it, dilated where hosts share the core.

Linux lets a thread keep a core that others want until it has used up its slice, and looks at each tick: for one slice
and one tick at the most (1.4 and 4 ms with two cores and HZ=250). Within a step that is as long as a message is under
way: Gloo's loop spins while the thread that has to take what has come waits for the core. Both are real time, and
slices can be set for each thread (since Linux 6.12; before, nothing changes). A host that has its core to itself, and
stands for one of several cores, keeps the kernel's turns: on several cores nobody would have to wait that long.
"""

import ctypes
import os
import struct
import sys
import time

# sched_getattr(2) and sched_setattr(2), which Debian's C library has no functions for.
_SYSTEM_CALLS = {"x86_64": (315, 314), "aarch64": (275, 274)}
_ATTRIBUTES = struct.Struct(
    "=IIQiIQQQII"
)  # size, policy, flags, nice, priority, runtime, deadline, period, clamps
_RUNTIME = 5  # of a thread without real-time priority: its slice
_CLOCK_MONOTONIC_COARSE = 6  # advances with the tick
_LONGEST_NS = 100_000_000  # the kernel's limit


def dilate_turns(dilation: float) -> None:
    """Let this thread, and those that it starts from now on, keep a core for `dilation` times as long.

    The tick stays as it is, and the slice makes up for it: it becomes dilation x (slice + tick), and half a tick
    more, since hosts on one core cut each other's turns short (`docs/networks.md` has the measurements).
    The kernel allows 100 ms at most. Where it does not let us, that is said on standard error.
    """
    attributes = _attributes()
    if attributes is None or attributes[_RUNTIME] == 0:
        return
    tick_ns = time.clock_getres(_CLOCK_MONOTONIC_COARSE) * 1e9
    attributes[_RUNTIME] = min(int(dilation * (attributes[_RUNTIME] + tick_ns) + tick_ns / 2), _LONGEST_NS)
    _, setting = _SYSTEM_CALLS[os.uname().machine]
    if error := _call(setting, ctypes.create_string_buffer(_ATTRIBUTES.pack(*attributes)), 0):
        print(f"turns stay undilated: {os.strerror(error)}", file=sys.stderr, flush=True)


def slice_ms() -> float | None:
    """For how long this thread keeps a core at least; None where the kernel does not tell."""
    attributes = _attributes()
    return attributes[_RUNTIME] / 1e6 if attributes and attributes[_RUNTIME] else None


def _attributes() -> list[int] | None:
    """How this thread is scheduled, or None where that cannot be asked."""
    getting, _ = _SYSTEM_CALLS.get(os.uname().machine, (None, None))
    told = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if getting is None or _call(getting, told, _ATTRIBUTES.size, 0):
        return None
    return list(_ATTRIBUTES.unpack(told.raw))


def _call(number: int, attributes: "ctypes.Array[ctypes.c_char]", *arguments: int) -> int:
    """Make a system call on the calling thread; its error number, or 0."""
    libc = ctypes.CDLL(None, use_errno=True)
    return ctypes.get_errno() if libc.syscall(number, 0, attributes, *arguments) else 0
