"""How far time is dilated where compute is replayed by waiting: so far that moving the bytes hardly counts."""

from math import floor, log10

from ddlbench.plan import Plan, Point, Run
from ddlbench.workers.common.memory import parameter_bytes

LEAST = 4.0  # waits are right from here on: a thread that wakes may find its core taken for a tick
_SHARE_OF_FP16 = 0.5


def replay_dilation(plan: Plan, run: Run, cores: int) -> float:
    """Choose the time dilation of a run whose compute is replayed by waiting.

    Args:
        plan: for a dilation that the configuration asks for, and for the cost of moving bytes.
        run: of the plan; the fastest step of its points decides.
        cores: of this machine.

    Returns:
        The configured factor; with `auto` at least LEAST, and so large that the work of moving a step's bytes takes no
        more than the configured share of all cores, rounded up to two digits.
    """
    if plan.settings.dilation != "auto":
        return float(plan.settings.dilation)
    replaying = plan.settings.replay
    needed = [
        point.workers * sent_bytes(point) * replaying.cpu_ns_per_byte * 1e-6
        / (cores * replaying.own_work_percent / 100 * point.replay.step_ms)
        for point in run.points
        if point.replay
    ]  # fmt: skip
    return rounded_up(max(LEAST, *needed)) if needed else LEAST


def sent_bytes(point: Point) -> float:
    """Compute how many bytes of gradients each worker of a ring sends in a step.

    Args:
        point: of the plan.

    Returns:
        Bytes; 0 for one worker.
    """
    shape = (point.image_shape[0], point.image_shape[1], point.image_shape[2])
    share = _SHARE_OF_FP16 if point.strategy.endswith("_fp16") else 1.0
    return 2 * (point.workers - 1) / point.workers * share * parameter_bytes(point.model, shape)


def rounded_up(value: float) -> float:
    """Round a number up to two digits, so that a small change of what it was computed from changes nothing.

    Args:
        value: at least 1.

    Returns:
        The smallest number with two significant digits that is not less.
    """
    unit = 10.0 ** (floor(log10(value)) - 1)
    return float(round(unit * -(-value // unit), 1))
