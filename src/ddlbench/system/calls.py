"""System calls and C library functions that Python 3.11 does not offer, each as a typed function.

Workers import this module too: it needs the standard library alone. The C library is loaded with the module, so that a
function may be a `preexec_fn`: between fork and exec nothing is loaded.
"""

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30
# sched_getattr(2) and sched_setattr(2): Debian's C library has no functions for them.
_SCHEDULER_CALLS = {"x86_64": (315, 314), "aarch64": (275, 274)}
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432  # on all architectures
_FSOPEN_CLOEXEC, _FSCONFIG_CMD_CREATE, _FSMOUNT_CLOEXEC = 1, 6, 1
_SIOCGIFFLAGS, _IFF_RUNNING = 0x8913, 0x40
_INTERFACE_FLAGS = struct.Struct("16sh14x")  # struct ifreq
_M_ARENA_MAX = -8  # glibc's malloc.h
_THREAD_ATTRIBUTES_BYTES = 64  # pthread_attr_t has 56
_libc = ctypes.CDLL(None, use_errno=True)


def set_parent_death_signal(signal: int) -> None:
    """Have the kernel send this process a signal when its parent ends.

    Args:
        signal: its number.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0)


def set_child_subreaper(enabled: bool) -> None:
    """Set whether this process becomes the parent of all descendants whose own parent ends later.

    Args:
        enabled: whether it does.
    """
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, int(enabled), 0, 0, 0)


def set_process_name(name: str) -> None:
    """Set the name that `ps` and `top` show for this process.

    Args:
        name: the kernel keeps its first 15 bytes.
    """
    _libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def set_timer_slack(slack_ns: int) -> None:
    """Set how late the kernel may wake this thread.

    Args:
        slack_ns: the longest delay, in ns; the kernel's default is 50,000 ns.
    """
    _libc.prctl(_PR_SET_TIMERSLACK, slack_ns, 0, 0, 0)


@contextmanager
def timer_slack_of_new_threads(slack_ns: int) -> Iterator[None]:
    """Let the kernel wake the threads that this one starts meanwhile later than they ask for.

    A thread inherits the slack of the one that starts it.

    Args:
        slack_ns: the longest delay, in ns.

    Yields:
        Nothing; meanwhile this thread has that slack too.
    """
    own_ns = _libc.prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0)
    set_timer_slack(slack_ns)
    try:
        yield
    finally:
        set_timer_slack(own_ns)


def unshare_network() -> None:
    """Move the calling thread into a new, empty network namespace.

    Raises:
        OSError: the kernel refused.
    """
    _check(_libc.unshare(_CLONE_NEWNET), "making a network namespace")


def set_network_namespace(namespace: int) -> None:
    """Move the calling thread into a network namespace.

    Args:
        namespace: a file descriptor of it.

    Raises:
        OSError: the kernel refused.
    """
    _check(_libc.setns(namespace, _CLONE_NEWNET), "entering a network namespace")


def open_sysfs() -> int:
    """Open the sysfs of the calling thread's network namespace; it is mounted nowhere.

    Returns:
        A file descriptor of its root, which the caller closes.

    Raises:
        OSError: the kernel refused.
    """
    system = _opened(_libc.syscall(_FSOPEN, b"sysfs", _FSOPEN_CLOEXEC), "opening sysfs")
    try:
        _check(_libc.syscall(_FSCONFIG, system, _FSCONFIG_CMD_CREATE, None, None, 0), "making a sysfs")
        return _opened(_libc.syscall(_FSMOUNT, system, _FSMOUNT_CLOEXEC, 0), "opening sysfs")
    finally:
        os.close(system)


def interface_runs(interface: str) -> bool:
    """Ask the kernel whether a network interface carries packets, which netdevice(7) calls running.

    Args:
        interface: its name, in the calling thread's network namespace.

    Returns:
        The flag; the kernel sets it up to a second after the interface begins to.

    Raises:
        OSError: there is no such interface.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = _INTERFACE_FLAGS.pack(interface.encode(), 0)
        _, flags = _INTERFACE_FLAGS.unpack(fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked))
    return bool(flags & _IFF_RUNNING)


class SchedulingAttributes(NamedTuple):
    """The kernel's `struct sched_attr`: how a thread is scheduled (sched_setattr(2)).

    runtime_ns: of a thread without real-time priority, the slice that it may keep a core for.
    """

    size: int
    policy: int
    flags: int
    nice: int
    priority: int
    runtime_ns: int
    deadline_ns: int
    period_ns: int
    utilization_min: int
    utilization_max: int


_ATTRIBUTES = struct.Struct("=IIQiIQQQII")


def scheduling_attributes() -> SchedulingAttributes | None:
    """Return how the calling thread is scheduled; None if the kernel does not report it."""
    getattr_number, _ = _SCHEDULER_CALLS.get(os.uname().machine, (None, None))
    answer = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if getattr_number is None or _libc.syscall(getattr_number, 0, answer, _ATTRIBUTES.size, 0) != 0:
        return None
    return SchedulingAttributes(*_ATTRIBUTES.unpack(answer.raw))


def set_scheduling_attributes(attributes: SchedulingAttributes) -> None:
    """Change how the calling thread, and each thread that it starts later, is scheduled.

    Args:
        attributes: what `scheduling_attributes` returned, with changes.

    Raises:
        OSError: the kernel refused.
    """
    _, setattr_number = _SCHEDULER_CALLS[os.uname().machine]
    packed = ctypes.create_string_buffer(_ATTRIBUTES.pack(*attributes))
    _check(_libc.syscall(setattr_number, 0, packed, 0), "changing how a thread is scheduled")


def process_cpu_clock(pid: int) -> int | None:
    """Find the clock that counts the CPU time of a process and its threads, for `time.clock_gettime_ns`.

    Args:
        pid: the id of the process.

    Returns:
        The clock's id; None if the process has ended.
    """
    clock = ctypes.c_int()
    return clock.value if _libc.clock_getcpuclockid(pid, ctypes.byref(clock)) == 0 else None


def set_thread_stack_size(size_bytes: int) -> None:
    """Set the stack size of each thread that this process starts later.

    Args:
        size_bytes: of each stack.
    """
    attributes = ctypes.create_string_buffer(_THREAD_ATTRIBUTES_BYTES)
    _libc.pthread_attr_init(attributes)
    _libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(size_bytes))
    _libc.pthread_setattr_default_np(attributes)


def release_free_memory() -> None:
    """Give the kernel back what this process has freed, and the C library keeps between what is in use."""
    _libc.malloc_trim(0)


def set_malloc_arenas(count: int) -> None:
    """Limit the heaps of glibc's malloc.

    Args:
        count: how many; by default there is one for each thread, up to 8 times the cores.
    """
    _libc.mallopt(_M_ARENA_MAX, count)


def _opened(descriptor: int, action: str) -> int:
    _check(min(descriptor, 0), action)
    return descriptor


def _check(result: int, action: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")
