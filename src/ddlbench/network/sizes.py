"""How many bytes pass a link as one train, in one burst, and wait in its queue."""

from ddlbench.network.link import Link

BYTES_PER_MS = 125  # of one Mbit/s
FASTEST_MBIT = 2000  # that is made at full speed; a faster link is only ever made slowed down


def train_bytes(link: Link) -> int:
    """How many bytes of TCP segments the kernel may handle as one packet: a quarter millisecond's, within limits."""
    return int(min(65536, max(16384, link.bandwidth_mbit * BYTES_PER_MS * 0.25)))


def burst_bytes(link: Link) -> int:
    """How many bytes tbf lets pass at once: one train of segments, and what a late timer owes.

    With less, the rate is not reached; more would carry part of each gradient for free. If packets are delayed, timers
    come later, because the kernel is busy releasing packets; a tenth of the latency is no great gift.
    """
    late_ms = min(1.5, max(0.25, link.latency_ms / 10))
    return int(train_bytes(link) + link.bandwidth_mbit * BYTES_PER_MS * late_ms)


def queue_bytes(link: Link) -> int:
    """How many bytes a link's queue holds: those of one round trip and 50 ms, so that TCP can fill the link."""
    return int(link.bandwidth_mbit * BYTES_PER_MS * (2 * link.latency_ms + 50)) + burst_bytes(link)


def sizing_link(link: Link, dilation: float) -> Link:
    """The link that bursts, trains and queues of a dilated link are sized by.

    That is the link itself: sizes in bytes do not depend on how fast time runs. A link that is too fast to be made at
    full speed is sized by the rate that is made: bursts for its own rate would carry megabytes for free (3 MB at
    100 Gbit/s), while what a late timer owes depends on the rate that is made.
    """
    return link if link.bandwidth_mbit <= FASTEST_MBIT else link.dilated(dilation)
