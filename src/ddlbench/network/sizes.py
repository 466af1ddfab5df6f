"""How many bytes pass a link as one train, in one burst, and wait in its queue."""

from ddlbench.network.link import Link

BYTES_PER_MS = 125  # of one Mbit/s
LONGEST_TRAIN = 65536
LONGEST_SEGMENTS = 44  # of 1,448 bytes
LONGEST_BURST = LONGEST_TRAIN + 66 * (LONGEST_SEGMENTS + 1)  # tbf counts all headers, and cuts what is longer
_LONGEST_OF_TBF_S = (2**32 - 1) * 64e-9  # it counts steps of 64 ns in 32 bits
FASTEST_MBIT = 2000  # the fastest link that is made without dilation; a faster one is always slowed down


def train_bytes(link: Link) -> int:
    """Compute the longest train: the TCP segments that the kernel may handle as one packet.

    Args:
        link: by which it is sized (`sizing_link`).

    Returns:
        The bytes of a quarter of a millisecond, between 16 KiB and 64 KiB.
    """
    return int(min(LONGEST_TRAIN, max(16384, link.bandwidth_mbit * BYTES_PER_MS * 0.25)))


def burst_bytes(link: Link, *, longest_trains: bool = False) -> int:
    """Compute how much tbf lets pass at once: one train of segments, and what has to be made up for after a late timer.

    With less, the rate is not reached; with more, part of each gradient would not be shaped. If packets are delayed,
    timers come later, because the kernel is busy releasing packets: a tenth of the latency is allowed for that.

    Args:
        link: by which it is sized (`sizing_link`).
        longest_trains: trains are as long as can be, and not the link's own (`train_bytes`).

    Returns:
        Bytes.
    """
    late_ms = min(1.5, max(0.25, link.latency_ms / 10))
    train = LONGEST_BURST if longest_trains else train_bytes(link)
    return int(train + link.bandwidth_mbit * BYTES_PER_MS * late_ms)


def slowest_mbit(link: Link) -> float:
    """Compute the lowest rate at which tbf can count how long a burst takes, be it one of the longest trains.

    Args:
        link: by which it is sized (`sizing_link`).

    Returns:
        Mbit/s, as the link is made.
    """
    return (LONGEST_BURST + burst_bytes(link)) * 8e-6 / _LONGEST_OF_TBF_S


def queue_bytes(link: Link, *, longest_trains: bool = False) -> int:
    """Compute how much a link's queue holds: the bytes of one round trip and 50 ms, so that TCP can fill the link.

    Args:
        link: by which it is sized (`sizing_link`).
        longest_trains: trains are as long as can be.

    Returns:
        Bytes.
    """
    waiting = int(link.bandwidth_mbit * BYTES_PER_MS * (2 * link.latency_ms + 50))
    return waiting + burst_bytes(link, longest_trains=longest_trains)


def drain_ms(link: Link, dilation: float) -> float:
    """Compute how long it takes until a full queue is empty, if nothing is sent any more.

    Args:
        link: what is asked for, not dilated.
        dilation: the time dilation.

    Returns:
        Real time in ms.
    """
    return queue_bytes(sizing_link(link, dilation)) / (link.dilated(dilation).bandwidth_mbit * BYTES_PER_MS)


def sizing_link(link: Link, dilation: float) -> Link:
    """Choose the link by which bursts, trains and queues of a dilated link are sized.

    That is the link itself: sizes in bytes do not depend on how fast time runs. A link that is too fast to be made at
    full speed is sized by the rate that is made: bursts for its own rate would be megabytes that are not shaped (3 MB
    at 100 Gbit/s), and how much a late timer holds back depends on the rate that is made.

    Args:
        link: what is asked for, not dilated.
        dilation: the time dilation.

    Returns:
        The link to size by: the same, or the dilated one if it is faster than FASTEST_MBIT.
    """
    return link if link.bandwidth_mbit <= FASTEST_MBIT else link.dilated(dilation)
