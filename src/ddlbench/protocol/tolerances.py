"""How far a link may be from what was asked for, and how much others may disturb, as `tolerances` say."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerances:
    """How far a measured link may be from what was asked for, and how busy others may keep the cores.

    Attributes:
        rate_percent: of the rate.
        rtt_percent: of each time, or `rtt_ms` if that is more.
        rtt_ms: of each time, in ms.
        loss_points: of the loss, in percentage points, or what chance alone may do if that is more.
        others_percent: of all cores together, what other processes and the hypervisor may take while we measure.
    """

    rate_percent: float
    rtt_percent: float
    rtt_ms: float
    loss_points: float
    others_percent: float
