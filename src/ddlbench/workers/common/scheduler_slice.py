"""The scheduler slice: how long a thread keeps its core while others want it, dilated where hosts share the core.

Linux lets a thread keep a core that others want until it has used up its slice. The kernel looks at each tick, so the
thread keeps it for one slice and one tick at the most (1.4 and 4 ms with two cores and HZ=250). Within a step this is
as long as a message takes: Gloo's loop spins while the thread that has to take the message waits for the core. Both
are real time, and time dilation must stretch them. Since Linux 6.12 the slice of each thread can be set; on older
kernels nothing changes. A host that has a core to itself, in place of several cores, keeps the kernel's slice: on
several cores no thread would have to wait that long.
"""

import os
import sys
import time

from ddlbench.system.calls import scheduling_attributes, set_scheduling_attributes

_CLOCK_MONOTONIC_COARSE = 6  # advances with the tick
_LONGEST_NS = 100_000_000  # the kernel's limit


def dilate_slice(dilation: float) -> None:
    """Lengthen the slice of this thread, and of those that it starts afterwards, by the time dilation.

    The tick cannot be dilated, so the slice makes up for it: it becomes dilation x (slice + tick) and half a tick more,
    because hosts on one core shorten each other's slices (`docs/networks.md` has the measurements). The kernel allows
    100 ms at most. If the kernel refuses, a line on standard error says so.

    Args:
        dilation: how many times as long a thread is to keep its core.
    """
    attributes = scheduling_attributes()
    if attributes is None or attributes.runtime_ns == 0:
        return
    tick_ns = time.clock_getres(_CLOCK_MONOTONIC_COARSE) * 1e9
    slice_ns = min(int(dilation * (attributes.runtime_ns + tick_ns) + tick_ns / 2), _LONGEST_NS)
    try:
        set_scheduling_attributes(attributes._replace(runtime_ns=slice_ns))
    except OSError as error:
        print(f"the slice stays undilated: {os.strerror(error.errno or 0)}", file=sys.stderr, flush=True)


def slice_ms() -> float | None:
    """Read for how long this thread keeps a core at least, in ms; None if the kernel has no slice for each thread."""
    attributes = scheduling_attributes()
    return attributes.runtime_ns / 1e6 if attributes and attributes.runtime_ns else None
