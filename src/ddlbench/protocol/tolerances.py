"""How far a link may be from what was asked for, and how much others may disturb, as `tolerances` say."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerances:
    """How far a link may be from what was asked for, how busy others may keep the cores, and how well shares hold.

    Attributes:
        rate_percent: of the rate.
        rtt_percent: of each time, or `rtt_ms` if that is more.
        rtt_ms: of each time, in ms.
        loss_points: of the loss, in percentage points, or what chance alone may do if that is more.
        others_percent: of all cores together, what other processes and the hypervisor may take while we measure.
        share_percent: how far the CPU time of an emulated host may be from its share of the cores.
    """

    rate_percent: float
    rtt_percent: float
    rtt_ms: float
    loss_points: float
    others_percent: float
    share_percent: float
