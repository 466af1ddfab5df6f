"""The scheduler slice: how long a thread keeps its core while other threads of its host want it.

Linux lets a thread keep a core that others want until it has used up its slice. The kernel looks at each tick, and when
a thread wakes up. So a message waits for a slice and a tick at the most (2.8 and 4 ms with two cores and HZ=250) while
another thread of its host computes. Hosts that take turns on a core end each other's slices much earlier: the same wait
would be shorter there, even after it has been divided by the time dilation. With the shortest slice there is hardly any
such wait, with a core to oneself and without. Since Linux 6.12 the slice of each thread can be set; on older kernels
nothing changes.
"""

import os
import sys

from ddlbench.system.calls import scheduling_attributes, set_scheduling_attributes

SHORTEST_NS = 100_000  # the kernel's limit


def shorten_slice() -> None:
    """Give this thread, and those that it starts afterwards, the shortest slice that there is.

    If the kernel refuses, a line on standard error says so.
    """
    attributes = scheduling_attributes()
    if attributes is None or attributes.runtime_ns == 0:
        return
    try:
        set_scheduling_attributes(attributes._replace(runtime_ns=SHORTEST_NS))
    except OSError as error:
        print(f"the slice stays as it is: {os.strerror(error.errno or 0)}", file=sys.stderr, flush=True)


def slice_ms() -> float | None:
    """Read for how long this thread keeps a core at least, in ms; None if the kernel has no slice for each thread."""
    attributes = scheduling_attributes()
    return attributes.runtime_ns / 1e6 if attributes and attributes.runtime_ns else None
