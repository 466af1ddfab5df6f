"""How long the phases of a run may last, as the configuration's `timeouts` say."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timeouts:
    """How long a phase may last, in seconds, and how long a worker may be silent."""

    launch_s: float
    prepare_s: float
    step_s: float
    heartbeat_s: float
