"""How long the phases of a run may last, as the configuration's `timeouts` say."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timeouts:
    """How long a phase may last, and how long a worker may be silent.

    Attributes:
        launch_s: until all members are connected, and again until all are ready.
        prepare_s: to make connections, to take a point, or to test it.
        step_s: of each training step, besides `prepare_s`; so long, together, a worker may make no step.
        heartbeat_s: without any message of a worker.
    """

    launch_s: float
    prepare_s: float
    step_s: float
    heartbeat_s: float
