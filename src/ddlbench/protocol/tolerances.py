"""How far a link may be from what was asked for, as the configuration's `tolerances` say."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerances:
    """How far a measured link may be from what was asked for.

    Attributes:
        rate_percent: of the rate.
        rtt_percent: of each time, or `rtt_ms` if that is more.
        rtt_ms: of each time, in ms.
        loss_points: of the loss, in percentage points, or what chance alone may do if that is more.
    """

    rate_percent: float
    rtt_percent: float
    rtt_ms: float
    loss_points: float
