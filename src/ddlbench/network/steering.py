"""Where packets are taken in: each host's on that host's core, and so in the order in which they were sent.

Otherwise they are taken in on the core of whoever let them pass, a timer or the delay process. Those change cores,
packets overtake each other, and TCP retransmits on a link that loses nothing. (Receive packet steering, the kernel's
Documentation/networking/scaling.rst.)
"""

import ctypes
import os
from pathlib import Path
from tempfile import TemporaryDirectory

_libc = ctypes.CDLL(None, use_errno=True)


def take_in_on(core: int, device: str) -> None:
    """Have what arrives at a device of the current network namespace handled on `core`.

    Raises OSError where the kernel refuses: only root may, and not in containers that hide parts of /sys.
    """
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        # A mounted sysfs shows the devices of the namespace in which it was mounted.
        if _libc.mount(b"sysfs", folder.encode(), b"sysfs", 0, None) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"mounting sysfs: {os.strerror(number)}")
        try:
            Path(f"{folder}/class/net/{device}/queues/rx-0/rps_cpus").write_text(cpu_mask(core))
        finally:
            _libc.umount2(folder.encode(), 0)


def cpu_mask(core: int) -> str:
    """The set of one core as sysfs writes it: words of 32 bits, the highest first."""
    words = [0] * (core // 32) + [1 << core % 32]
    return ",".join(f"{word:08x}" for word in reversed(words))
